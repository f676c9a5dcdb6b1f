//! Messages of formats 0 and 1 for Python: building them, and making them of batches.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{codec, record_error};
use crate::py::buffer::Input;
use crate::records::{self, Compressor, Limits, MessageBuilder, Scratch, Wanted};

fn format(magic: i8) -> PyResult<i8> {
    if (0..=1).contains(&magic) {
        return Ok(magic);
    }
    Err(PyValueError::new_err(format!("magic {magic}: 0 or 1")))
}

#[pyfunction]
#[pyo3(signature = (records, *, magic, compression = "none", base_offset = 0, append_time_ms = None))]
fn encode_messages<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyAny>,
    magic: i8,
    compression: &str,
    base_offset: i64,
    append_time_ms: Option<i64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let failed = |error: records::RecordError| record_error(&error);
    let codec = codec(compression)?;
    let mut builder = MessageBuilder::new(format(magic)?, codec, append_time_ms).map_err(failed)?;
    for (offset, record) in (base_offset..).zip(records.try_iter()?) {
        let (timestamp_ms, key, value): (i64, Option<Input>, Option<Input>) = record?.extract()?;
        let (key, value) = (
            key.as_ref().map(|key| key.bytes(py)),
            value.as_ref().map(|value| value.bytes(py)),
        );
        builder
            .append(offset, timestamp_ms, key, value)
            .map_err(failed)?;
    }
    Ok(PyBytes::new(
        py,
        &builder.finish(&mut Compressor::default()),
    ))
}

#[pyfunction]
#[pyo3(signature = (data, *, magic, first_offset = 0, bytes_max = usize::MAX))]
fn down_convert(
    py: Python<'_>,
    data: Input,
    magic: i8,
    first_offset: i64,
    bytes_max: usize,
) -> PyResult<Bound<'_, PyBytes>> {
    let wanted = Wanted {
        magic: format(magic)?,
        first_offset,
        bytes_max,
    };
    let mut scratch = Scratch::default();
    let messages = records::down_convert(data.bytes(py), &wanted, &Limits::default(), &mut scratch);
    messages
        .map(|messages| PyBytes::new(py, &messages.bytes))
        .map_err(|error| record_error(&error))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_messages, module)?)?;
    module.add_function(wrap_pyfunction!(down_convert, module)?)
}
