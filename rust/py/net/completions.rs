//! Results of Rust threads on their way to Python.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::io;

/// What a Rust thread hands to Python: made into an object, or an exception, on the loop's thread. The thread itself never touches Python.
pub type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// The queue that Rust threads push into, and that `Hub.next` empties.
#[pyclass(frozen, module = "ottla._core")]
pub struct Completions {
    queue: Arc<io::Completions<Outcome>>,
}

impl Completions {
    pub fn new(queue: Arc<io::Completions<Outcome>>) -> Self {
        Self { queue }
    }

    #[allow(dead_code)] // until the first room starts work on a thread
    /// For glue that starts work on a thread: `queue.push(token, Box::new(move |py| ...))`.
    pub fn queue(&self) -> Arc<io::Completions<Outcome>> {
        Arc::clone(&self.queue)
    }
}

#[pymethods]
impl Completions {
    fn push(&self, token: u64, value: Py<PyAny>) {
        self.queue.push(token, Box::new(move |_| Ok(value)));
    }
}

/// Work on a Rust thread that ended; or memory for an answer that is there now.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct Completion {
    token: u64,
    value: Option<Py<PyAny>>,
    error: Option<Py<PyAny>>,
}

impl Completion {
    pub fn new(py: Python<'_>, completion: io::Completion<Outcome>) -> Self {
        let (value, error) = match (completion.value)(py) {
            Ok(value) => (Some(value), None),
            Err(error) => (None, Some(error.into_value(py).into_any())),
        };
        Self {
            token: completion.token,
            value,
            error,
        }
    }

    pub fn reserved(py: Python<'_>, token: u64, is_granted: bool) -> Self {
        let value = PyBool::new(py, is_granted).to_owned();
        Self {
            token,
            value: Some(value.into_any().unbind()),
            error: None,
        }
    }
}
