//! What clients need of Rust.

use pyo3::prelude::*;

use super::buffer::Input;

#[pyfunction]
fn murmur2(py: Python<'_>, data: Input) -> i32 {
    crate::murmur2::murmur2(data.bytes(py))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(murmur2, module)?)
}
