//! A chunk of columns as Python sees it: buffers by the names of columns.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use super::memory::{ColumnBuffer, Memory};
use crate::records::chunk::{BinaryColumn, Bitmap, HeaderColumn};
use crate::records::{Chunk, Selection};

type Shared = Option<Py<ColumnBuffer>>;

/// A binary column: validity, positions, data, and the number of nulls.
struct Binary {
    buffers: [Shared; 3],
    null_count: usize,
}

impl Binary {
    fn new(py: Python<'_>, column: BinaryColumn) -> PyResult<Self> {
        let null_count = column.validity.null_count;
        let positions = ColumnBuffer::new(py, Memory::I32(column.positions))?;
        let data = ColumnBuffer::new(py, Memory::Bytes(column.data))?;
        Ok(Binary {
            buffers: [validity(py, column.validity)?, Some(positions), Some(data)],
            null_count,
        })
    }
}

/// No bitmap where nothing is null, as Arrow allows.
fn validity(py: Python<'_>, bitmap: Bitmap) -> PyResult<Shared> {
    if bitmap.null_count == 0 {
        return Ok(None);
    }
    ColumnBuffer::new(py, Memory::Bytes(bitmap.bits)).map(Some)
}

/// Some consecutive records of a partition as columns.
#[pyclass(frozen, module = "ottla._core")]
pub struct Columns {
    #[pyo3(get)]
    rows: usize,
    #[pyo3(get)]
    offset: Shared,
    #[pyo3(get)]
    timestamp: Shared,
    timestamp_validity: Shared,
    timestamp_nulls: usize,
    #[pyo3(get)]
    timestamp_type: Shared,
    key: Option<Binary>,
    value: Option<Binary>,
    headers: Option<Headers>,
}

struct Headers {
    buffers: [Shared; 2],
    null_count: usize,
    names: Binary,
    values: Binary,
    count: usize,
}

impl Columns {
    pub fn new(py: Python<'_>, chunk: Chunk) -> PyResult<Self> {
        let Selection {
            offset,
            timestamp,
            timestamp_type,
            key,
            value,
            headers,
        } = chunk.selection;
        let fixed = |selected: bool, memory: Memory| {
            selected.then(|| ColumnBuffer::new(py, memory)).transpose()
        };
        Ok(Columns {
            rows: chunk.rows,
            offset: fixed(offset, Memory::I64(chunk.offsets))?,
            timestamp: fixed(timestamp, Memory::I64(chunk.timestamps))?,
            timestamp_nulls: chunk.timestamp_validity.null_count,
            timestamp_validity: validity(py, chunk.timestamp_validity)?,
            timestamp_type: fixed(timestamp_type, Memory::I32(chunk.timestamp_types))?,
            key: key.then(|| Binary::new(py, chunk.keys)).transpose()?,
            value: value.then(|| Binary::new(py, chunk.values)).transpose()?,
            headers: headers
                .then(|| Headers::new(py, chunk.headers))
                .transpose()?,
        })
    }

    fn binary(&self, name: &str) -> Option<&Binary> {
        match name {
            "key" => self.key.as_ref(),
            "value" => self.value.as_ref(),
            "headers.name" => self.headers.as_ref().map(|headers| &headers.names),
            "headers.value" => self.headers.as_ref().map(|headers| &headers.values),
            _ => None,
        }
    }
}

impl Headers {
    fn new(py: Python<'_>, column: HeaderColumn) -> PyResult<Self> {
        let (null_count, count) = (column.validity.null_count, column.names.positions.len() - 1);
        let positions = ColumnBuffer::new(py, Memory::I32(column.positions))?;
        Ok(Headers {
            buffers: [validity(py, column.validity)?, Some(positions)],
            null_count,
            names: Binary::new(py, column.names)?,
            values: Binary::new(py, column.values)?,
            count,
        })
    }
}

#[pymethods]
impl Columns {
    fn __len__(&self) -> usize {
        self.rows
    }

    /// How many headers the records have together: the length of the columns `headers.name` and `headers.value`.
    #[getter]
    fn header_count(&self) -> usize {
        self.headers.as_ref().map_or(0, |headers| headers.count)
    }

    fn buffers(&self, py: Python<'_>, name: &str) -> PyResult<Vec<Shared>> {
        let shared = |buffers: &[Shared]| {
            buffers
                .iter()
                .map(|buffer| buffer.as_ref().map(|one| one.clone_ref(py)))
                .collect()
        };
        if let Some(binary) = self.binary(name) {
            return Ok(shared(&binary.buffers));
        }
        let fixed = match name {
            "offset" => &self.offset,
            "timestamp" => &self.timestamp,
            "timestamp_type" => &self.timestamp_type,
            "headers" => {
                return self
                    .headers
                    .as_ref()
                    .map(|headers| shared(&headers.buffers))
                    .ok_or_else(|| absent(name));
            }
            _ => &None,
        };
        let validity = self
            .timestamp_validity
            .as_ref()
            .filter(|_| name == "timestamp");
        fixed
            .as_ref()
            .map(|buffer| {
                vec![
                    validity.map(|bits| bits.clone_ref(py)),
                    Some(buffer.clone_ref(py)),
                ]
            })
            .ok_or_else(|| absent(name))
    }

    fn null_count(&self, name: &str) -> PyResult<usize> {
        if let Some(binary) = self.binary(name) {
            return Ok(binary.null_count);
        }
        match name {
            "headers" => self
                .headers
                .as_ref()
                .map(|headers| headers.null_count)
                .ok_or_else(|| absent(name)),
            "timestamp" => Ok(self.timestamp_nulls),
            "offset" | "timestamp_type" => Ok(0),
            _ => Err(absent(name)),
        }
    }

    fn __repr__(&self) -> String {
        format!("Columns({} rows)", self.rows)
    }
}

#[cold]
fn absent(name: &str) -> PyErr {
    PyKeyError::new_err(format!("the column '{name}' was not decoded"))
}
