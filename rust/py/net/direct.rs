//! `Lease`, and what the end of a turn tells Python: the glue of `crate::direct`.

use std::sync::Arc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

use super::hub::Shared;
use crate::direct::{self, Terms};
use crate::py::log::Log;

/// Python knows a partition by an object of its own.
pub type Direct = direct::Direct<Py<PyAny>>;

/// A partition that was appended to, whether a flush is due, and from which offset on it could not be written, and why.
pub type Written = (Py<PyAny>, bool, Option<(i64, Py<PyBaseException>)>);

#[pyclass(frozen, module = "ottla._core")]
pub struct Lease {
    direct: Arc<Direct>,
    hub: Shared,
    lease: Arc<direct::Lease<Py<PyAny>>>,
}

impl Lease {
    pub fn grant(
        (direct, hub): (&Arc<Direct>, &Shared),
        (topic, partition): (&str, i32),
        log: &Log,
        terms: Terms,
        owner: Py<PyAny>,
    ) -> Self {
        let lease = direct::Lease::new(topic, partition, Arc::clone(&log.log), terms, owner);
        Self {
            lease: direct.grant(hub, lease),
            direct: Arc::clone(direct),
            hub: Arc::clone(hub),
        }
    }
}

#[pymethods]
impl Lease {
    fn end(&self) {
        self.direct.end(&self.hub, &self.lease);
    }

    fn advanced(&self) {
        self.direct.advanced(&self.hub, &self.lease);
    }

    fn watch(&self, is_watched: bool) {
        self.lease.watch(is_watched);
    }
}

pub fn written(py: Python<'_>, direct: &Direct) -> Vec<Written> {
    let written = direct.written().into_iter().map(|one| {
        let lost = one
            .lost
            .map(|(from, error)| (from, PyErr::from(error).into_value(py)));
        (one.lease.owner.clone_ref(py), one.flush_due, lost)
    });
    written.collect()
}
