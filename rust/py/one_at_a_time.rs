//! `OneAtATime`: an iterator that threads do not share by mistake. In Rust, since it stands before each record.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

#[pyclass(frozen, module = "ottla._core")]
pub struct OneAtATime {
    inner: Py<PyIterator>,
    what: String,
    /// A thread waits for the next item.
    is_taken: AtomicBool,
}

#[pymethods]
impl OneAtATime {
    #[new]
    fn new(inner: Py<PyIterator>, what: String) -> Self {
        Self {
            inner,
            what,
            is_taken: AtomicBool::new(false),
        }
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.is_taken.swap(true, Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err(format!(
                "{}: two threads use one iterator at once; give each thread an iterator of its own",
                self.what
            )));
        }
        let next = self.inner.bind(py).clone().next().transpose();
        self.is_taken.store(false, Ordering::Relaxed);
        next
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.bind(py).call_method0("close").map(|_| ())
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<OneAtATime>()
}
