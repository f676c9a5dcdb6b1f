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
    correlation_id: i32,
    client_id: Option<&str>,
    body: Input,
) -> PyResult<Bound<'py, PyBytes>> {
    headers::request_frame(
        api_key,
        api_version,
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
    api_version: i16,
    py: Python<'_>,
    frame: Input,
) -> PyResult<(i32, usize)> {
    headers::parse_response_header(api_key, api_version, frame.bytes(py))
        .map_err(|error| wire_error(&error))
}

#[pyfunction]
fn request_header_version(api_key: i16, api_version: i16) -> i16 {
    headers::request_header_version(api_key, api_version)
}

#[pyfunction]
fn response_header_version(api_key: i16, api_version: i16) -> i16 {
    headers::response_header_version(api_key, api_version)
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
