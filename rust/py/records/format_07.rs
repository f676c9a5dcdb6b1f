//! Kafka 0.7's messages for Python.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::py::buffer::Input;
use crate::records::format_07::Reader;

#[pyfunction]
#[pyo3(signature = (data, *, message_bytes_max))]
#[allow(clippy::type_complexity)]
fn decode_07<'py>(
    py: Python<'py>,
    data: Input,
    message_bytes_max: usize,
) -> PyResult<(Bound<'py, PyList>, usize, Option<(bool, usize, String)>)> {
    let mut payloads = Vec::new();
    let mut reader = Reader::new(message_bytes_max);
    let take = &mut |payload: &[u8]| payloads.push(PyBytes::new(py, payload));
    let (end, error) = reader.messages(data.bytes(py), take);
    let error = error.map(|error| (error.is_incomplete(), error.position, error.to_string()));
    Ok((PyList::new(py, payloads)?, end, error))
}

#[pyfunction]
#[pyo3(signature = (data, start, *, message_bytes_max))]
fn find_07(py: Python<'_>, data: Input, start: usize, message_bytes_max: usize) -> Option<usize> {
    Reader::new(message_bytes_max).find(data.bytes(py), start)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decode_07, module)?)?;
    module.add_function(wrap_pyfunction!(find_07, module)?)
}
