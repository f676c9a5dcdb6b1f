//! What clients need of Rust.

use pyo3::prelude::*;

use super::buffer::Input;

#[pyfunction]
fn murmur2(py: Python<'_>, data: Input) -> i32 {
    crate::murmur2::murmur2(data.bytes(py))
}

/// Java's `String.hashCode()` of a text in UTF-16, big-endian: by it brokers of both kinds agree on who coordinates.
#[pyfunction]
fn java_hash(py: Python<'_>, utf_16: Input) -> i32 {
    utf_16.bytes(py).chunks_exact(2).fold(0i32, |hash, unit| {
        let unit = i32::from(u16::from_be_bytes([unit[0], unit[1]]));
        hash.wrapping_mul(31).wrapping_add(unit)
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(java_hash, module)?)?;
    module.add_function(wrap_pyfunction!(murmur2, module)?)
}
