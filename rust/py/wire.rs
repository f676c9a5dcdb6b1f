//! Messages and headers for Python.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::buffer::Input;
use super::errors::wire_error;
use super::messages::{Decoding, Encoding, Schema};
use crate::wire::headers;

#[pyfunction]
fn request_frame<'py>(
    py: Python<'py>,
    api_key: i16,
    api_version: i16,
    is_flexible: bool,
    correlation_id: i32,
    client_id: Option<&str>,
    body: Input,
) -> PyResult<Bound<'py, PyBytes>> {
    headers::request_frame(
        api_key,
        api_version,
        is_flexible,
        correlation_id,
        client_id,
        body.bytes(py),
    )
    .map(|frame| PyBytes::new(py, &frame))
    .map_err(|error| wire_error(&error))
}

#[pyfunction]
fn parse_response_header(
    api_key: i16,
    is_flexible: bool,
    py: Python<'_>,
    frame: Input,
) -> PyResult<(i32, usize)> {
    headers::parse_response_header(api_key, is_flexible, frame.bytes(py))
        .map_err(|error| wire_error(&error))
}

#[pyfunction]
fn request_header_version(api_key: i16, api_version: i16, is_flexible: bool) -> i16 {
    headers::request_header_version(api_key, api_version, is_flexible)
}

#[pyfunction]
fn response_header_version(api_key: i16, is_flexible: bool) -> i16 {
    headers::response_header_version(api_key, is_flexible)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    super::produce_fetch::register(module)?;
    module.add_class::<Schema>()?;
    module.add_class::<Decoding>()?;
    module.add_class::<Encoding>()?;
    module.add_function(wrap_pyfunction!(request_frame, module)?)?;
    module.add_function(wrap_pyfunction!(parse_response_header, module)?)?;
    module.add_function(wrap_pyfunction!(request_header_version, module)?)?;
    module.add_function(wrap_pyfunction!(response_header_version, module)?)
}
