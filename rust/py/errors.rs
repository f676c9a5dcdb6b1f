//! From error codes to Python's exceptions: the one mapping, onto the tree of `ottla.errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::wire::WireError;

/// The exception of `ottla.errors` for a Kafka error code.
///
/// Rooms keep their own error enum with `fn code(&self) -> i16`; their glue calls `kafka_error(error.code(), error.to_string())`.
pub fn kafka_error(code: i16, message: String) -> PyErr {
    static ERROR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Python::attach(|py| {
        let function = ERROR.get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("ottla.errors")?.getattr("error")?.unbind())
        });
        match function.and_then(|function| function.bind(py).call1((code, message))) {
            Ok(exception) => PyErr::from_value(exception),
            Err(problem) => problem,
        }
    })
}

/// `RemoteProtocolError`, or `LocalProtocolError` where the fault is ours.
pub fn wire_error(error: &WireError) -> PyErr {
    static REMOTE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static LOCAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Python::attach(|py| {
        let class = if error.is_local() {
            LOCAL.import(py, "ottla.errors", "LocalProtocolError")
        } else {
            REMOTE.import(py, "ottla.errors", "RemoteProtocolError")
        };
        match class {
            Ok(class) => PyErr::from_type(class.clone(), error.to_string()),
            Err(problem) => problem,
        }
    })
}
