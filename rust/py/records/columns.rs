//! Columns for Python: memory that pyarrow and numpy use where it is, and the decoder that fills it.

use std::ffi::{CStr, c_int, c_void};

use parking_lot::Mutex;
use pyo3::exceptions::{PyBufferError, PyKeyError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use super::{exclusive, record_error};
use crate::py::buffer::Input;
use crate::records::chunk::{BinaryColumn, Bitmap};
use crate::records::{
    self, AbortedTransaction, Chunk, ColumnOptions, Limits, Pause, Selection, TimestampUnit,
};

/// Memory of one kind that is never changed again.
enum Memory {
    Bytes(Vec<u8>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Memory {
    /// Where it starts, its items, the size of one, and what one is in struct's notation.
    fn parts(&self) -> (*const c_void, usize, usize, &'static CStr) {
        match self {
            Memory::Bytes(items) => (items.as_ptr().cast(), items.len(), 1, c"B"),
            Memory::I32(items) => (items.as_ptr().cast(), items.len(), 4, c"i"),
            Memory::I64(items) => (items.as_ptr().cast(), items.len(), 8, c"q"),
        }
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct ColumnBuffer {
    memory: Memory,
    /// The number of items, where the buffer protocol wants a pointer to it.
    shape: [ffi::Py_ssize_t; 1],
}

impl ColumnBuffer {
    fn new(py: Python<'_>, memory: Memory) -> PyResult<Py<Self>> {
        let shape = [memory.parts().1 as ffi::Py_ssize_t];
        Py::new(py, ColumnBuffer { memory, shape })
    }
}

#[pymethods]
impl ColumnBuffer {
    fn __len__(&self) -> usize {
        self.memory.parts().1
    }

    /// # Safety
    /// As for every implementation of the buffer protocol: `view` is a Py_buffer of the caller, to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let this = slf.get();
        let (start, items, item_bytes, format) = this.memory.parts();
        let readonly = 1;
        // SAFETY: `view` is not null and the caller's; the memory is `items * item_bytes` long, is never changed or moved while the
        // object lives, and FillInfo keeps the object alive for the view. It refuses writable views itself.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                start.cast_mut(),
                (items * item_bytes) as ffi::Py_ssize_t,
                readonly,
                flags,
            )
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        // SAFETY: FillInfo has made `view` a valid view of single bytes. Each change keeps it valid: the format is static, `shape` lives
        // as long as the object, and its stride is the item size that is set here (FillInfo points strides at it).
        unsafe {
            (*view).itemsize = item_bytes as ffi::Py_ssize_t;
            if !(*view).format.is_null() {
                (*view).format = format.as_ptr().cast_mut();
            }
            if !(*view).shape.is_null() {
                (*view).shape = this.shape.as_ptr().cast_mut();
            }
        }
        Ok(())
    }
}

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
    fn new(py: Python<'_>, chunk: Chunk) -> PyResult<Self> {
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
    fn new(py: Python<'_>, column: records::chunk::HeaderColumn) -> PyResult<Self> {
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
        fixed
            .as_ref()
            .map(|buffer| vec![None, Some(buffer.clone_ref(py))])
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
            "offset" | "timestamp" | "timestamp_type" => Ok(0),
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

/// Buffers in, columns out.
#[pyclass(frozen, module = "ottla._core")]
pub struct ColumnDecoder(Mutex<State>);

struct State {
    decoder: records::ColumnDecoder,
    buffer: Option<Input>,
}

impl State {
    /// The next full chunk; none when the buffer has no more for one. Rows before damage come before its error.
    ///
    /// Other Python threads run meanwhile, unless the buffer could be written by them.
    fn next_chunk(&mut self, py: Python<'_>) -> PyResult<Option<Chunk>> {
        let (decoder, Some(buffer)) = (&mut self.decoder, &self.buffer) else {
            return Ok(None);
        };
        let pause = match buffer.bytes_detached() {
            Some(bytes) => py.detach(|| decoder.decode(bytes)),
            None => decoder.decode(buffer.bytes(py)),
        };
        match pause {
            Ok(Pause::ChunkFull) => Ok(Some(self.decoder.take_chunk())),
            Ok(Pause::BufferDone | Pause::End) => {
                self.buffer = None;
                Ok(None)
            }
            Err(_) if self.decoder.rows() > 0 => Ok(Some(self.decoder.take_chunk())),
            Err(error) => Err(record_error(&error)),
        }
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "the options of a decoder, by name"
)]
fn options(
    start_offset: i64,
    end_offset: i64,
    columns: Option<Vec<String>>,
    rows_max: usize,
    bytes_max: usize,
    timestamp_unit: &str,
    check_crc: bool,
    decompressed_bytes_max: usize,
) -> PyResult<ColumnOptions> {
    let selection = match columns {
        None => Selection::ALL,
        Some(names) => {
            let mut selection = Selection::NONE;
            if let Some(unknown) = names.iter().find(|name| !selection.add(name)) {
                let known = Selection::NAMES.join(", ");
                return Err(PyValueError::new_err(format!(
                    "there is no column '{unknown}'; there are {known}"
                )));
            }
            selection
        }
    };
    let timestamp_unit = match timestamp_unit {
        "ms" => TimestampUnit::Milliseconds,
        "us" => TimestampUnit::Microseconds,
        _ => {
            return Err(PyValueError::new_err(format!(
                "the unit of timestamps is ms or us, not '{timestamp_unit}'"
            )));
        }
    };
    let limits = Limits {
        decompressed_bytes_max,
        ..Limits::default()
    };
    Ok(ColumnOptions {
        selection,
        timestamp_unit,
        start_offset,
        end_offset,
        rows_max,
        bytes_max,
        check_crc,
        limits,
    })
}

fn transactions(aborted: Option<Vec<(i64, i64)>>) -> Option<Vec<AbortedTransaction>> {
    let transaction = |(producer_id, first_offset)| AbortedTransaction {
        producer_id,
        first_offset,
    };
    aborted.map(|aborted| aborted.into_iter().map(transaction).collect())
}

#[pymethods]
impl ColumnDecoder {
    #[new]
    #[pyo3(signature = (*, start_offset = 0, end_offset = i64::MAX, columns = None, rows_max = 50_000, bytes_max = 8 << 20,
        timestamp_unit = "us", check_crc = true, decompressed_bytes_max = Limits::default().decompressed_bytes_max))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the options of a decoder, by name"
    )]
    fn new(
        start_offset: i64,
        end_offset: i64,
        columns: Option<Vec<String>>,
        rows_max: usize,
        bytes_max: usize,
        timestamp_unit: &str,
        check_crc: bool,
        decompressed_bytes_max: usize,
    ) -> PyResult<Self> {
        let options = options(
            start_offset,
            end_offset,
            columns,
            rows_max,
            bytes_max,
            timestamp_unit,
            check_crc,
            decompressed_bytes_max,
        )?;
        Ok(ColumnDecoder(Mutex::new(State {
            decoder: records::ColumnDecoder::new(options),
            buffer: None,
        })))
    }

    #[pyo3(signature = (data, aborted = None))]
    fn feed(&self, data: Input, aborted: Option<Vec<(i64, i64)>>) -> PyResult<()> {
        let mut state = exclusive(&self.0)?;
        if state.buffer.is_some() {
            return Err(PyValueError::new_err(
                "the last buffer has more: call next until it gives None",
            ));
        }
        state.decoder.start_buffer(transactions(aborted).as_deref());
        state.buffer = Some(data);
        Ok(())
    }

    fn next(&self, py: Python<'_>) -> PyResult<Option<Columns>> {
        let chunk = exclusive(&self.0)?.next_chunk(py)?;
        chunk.map(|chunk| Columns::new(py, chunk)).transpose()
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Option<Columns>> {
        let chunk = {
            let decoder = &mut exclusive(&self.0)?.decoder;
            (decoder.rows() > 0).then(|| decoder.take_chunk())
        };
        chunk.map(|chunk| Columns::new(py, chunk)).transpose()
    }

    fn seek(&self, offset: i64) -> PyResult<()> {
        let mut state = exclusive(&self.0)?;
        state.buffer = None;
        state.decoder.seek(offset);
        Ok(())
    }

    #[getter]
    fn next_offset(&self) -> PyResult<i64> {
        Ok(exclusive(&self.0)?.decoder.next_offset())
    }

    #[getter]
    fn position(&self) -> PyResult<usize> {
        Ok(exclusive(&self.0)?.decoder.position())
    }

    #[getter]
    fn done(&self) -> PyResult<bool> {
        Ok(exclusive(&self.0)?.decoder.is_done())
    }
}

#[pyfunction]
#[pyo3(signature = (data, *, aborted = None, start_offset = 0, end_offset = i64::MAX, columns = None, rows_max = 50_000,
    bytes_max = 8 << 20, timestamp_unit = "us", check_crc = true,
    decompressed_bytes_max = Limits::default().decompressed_bytes_max))]
#[expect(
    clippy::too_many_arguments,
    reason = "the options of a decoder, by name"
)]
pub fn decode_columns(
    py: Python<'_>,
    data: Input,
    aborted: Option<Vec<(i64, i64)>>,
    start_offset: i64,
    end_offset: i64,
    columns: Option<Vec<String>>,
    rows_max: usize,
    bytes_max: usize,
    timestamp_unit: &str,
    check_crc: bool,
    decompressed_bytes_max: usize,
) -> PyResult<Vec<Columns>> {
    let decoder = ColumnDecoder::new(
        start_offset,
        end_offset,
        columns,
        rows_max,
        bytes_max,
        timestamp_unit,
        check_crc,
        decompressed_bytes_max,
    )?;
    decoder.feed(data, aborted)?;
    let mut all = Vec::new();
    while let Some(chunk) = decoder.next(py)? {
        all.push(chunk);
    }
    all.extend(decoder.finish(py)?);
    Ok(all)
}
