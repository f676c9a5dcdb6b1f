//! Batches from Python's records.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyBytes;

use super::{codec, exclusive, record_error};
use crate::py::buffer::Input;
use crate::records::{self, BatchOptions, Header, RecordError};

#[pyclass(frozen, module = "ottla._core")]
pub struct BatchBuilder(Mutex<records::BatchBuilder>);

/// The name of a header: text, or bytes as they are.
#[derive(FromPyObject)]
enum Name {
    Text(PyBackedStr),
    Bytes(Input),
}

type RawHeader = (Name, Option<Input>);
type RawRecord = (i64, Option<Input>, Option<Input>, Vec<RawHeader>);

fn append(
    py: Python<'_>,
    builder: &mut records::BatchBuilder,
    timestamp_ms: i64,
    key: Option<&Input>,
    value: Option<&Input>,
    headers: &[RawHeader],
) -> Result<i32, RecordError> {
    let headers: Vec<Header<'_>> = headers
        .iter()
        .map(|(name, value)| {
            let name = match name {
                Name::Text(name) => name.as_bytes(),
                Name::Bytes(name) => name.bytes(py),
            };
            (name, value.as_ref().map(|value| value.bytes(py)))
        })
        .collect();
    builder.append(
        timestamp_ms,
        key.map(|key| key.bytes(py)),
        value.map(|value| value.bytes(py)),
        &headers,
    )
}

#[pymethods]
impl BatchBuilder {
    #[new]
    #[pyo3(signature = (*, compression = "none", level = None, base_offset = 0, leader_epoch = -1, producer_id = -1, producer_epoch = -1,
        base_sequence = -1, transactional = false, control = false, append_time_ms = None))]
    #[expect(clippy::too_many_arguments, reason = "the fields of a batch, by name")]
    fn new(
        compression: &str,
        level: Option<i32>,
        base_offset: i64,
        leader_epoch: i32,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        transactional: bool,
        control: bool,
        append_time_ms: Option<i64>,
    ) -> PyResult<Self> {
        let options = BatchOptions {
            codec: codec(compression)?,
            level,
            base_offset,
            leader_epoch,
            producer_id,
            producer_epoch,
            base_sequence,
            transactional,
            control,
            append_time_ms,
        };
        Ok(BatchBuilder(Mutex::new(records::BatchBuilder::new(
            options,
        ))))
    }

    #[pyo3(signature = (timestamp_ms, key, value, headers = Vec::new()))]
    fn append(
        &self,
        py: Python<'_>,
        timestamp_ms: i64,
        key: Option<Input>,
        value: Option<Input>,
        headers: Vec<RawHeader>,
    ) -> PyResult<i32> {
        let appended = append(
            py,
            &mut *exclusive(&self.0)?,
            timestamp_ms,
            key.as_ref(),
            value.as_ref(),
            &headers,
        );
        appended.map_err(|error| record_error(&error))
    }

    #[getter]
    fn record_count(&self) -> PyResult<i32> {
        Ok(exclusive(&self.0)?.record_count())
    }

    #[getter]
    fn size_bytes(&self) -> PyResult<usize> {
        Ok(exclusive(&self.0)?.size_bytes())
    }

    #[pyo3(signature = (*, base_offset = None, base_sequence = None))]
    fn finish<'py>(
        &self,
        py: Python<'py>,
        base_offset: Option<i64>,
        base_sequence: Option<i32>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut builder = exclusive(&self.0)?;
        builder.options.base_offset = base_offset.unwrap_or(builder.options.base_offset);
        builder.options.base_sequence = base_sequence.unwrap_or(builder.options.base_sequence);
        builder
            .finish()
            .map(|batch| PyBytes::new(py, &batch))
            .map_err(|error| record_error(&error))
    }

    fn clear(&self) -> PyResult<()> {
        exclusive(&self.0)?.clear();
        Ok(())
    }
}

#[pyfunction]
#[pyo3(signature = (records, *, compression = "none", level = None, base_offset = 0))]
pub fn encode_batch<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyAny>,
    compression: &str,
    level: Option<i32>,
    base_offset: i64,
) -> PyResult<Bound<'py, PyBytes>> {
    let options = BatchOptions {
        codec: codec(compression)?,
        level,
        base_offset,
        ..BatchOptions::default()
    };
    let mut builder = records::BatchBuilder::new(options);
    for record in records.try_iter()? {
        let (timestamp_ms, key, value, headers): RawRecord = record?.extract()?;
        append(
            py,
            &mut builder,
            timestamp_ms,
            key.as_ref(),
            value.as_ref(),
            &headers,
        )
        .map_err(|error| record_error(&error))?;
    }
    builder
        .finish()
        .map(|batch| PyBytes::new(py, &batch))
        .map_err(|error| record_error(&error))
}
