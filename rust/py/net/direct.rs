//! `Lease`, and what the end of a turn tells Python: the glue of `crate::direct`.

use std::sync::Arc;

use pyo3::prelude::*;

use super::hub::Shared;
use crate::direct;
use crate::py::log::{Log, Unwritten, Written};

/// Python knows a partition by an object of its own.
pub type Direct = direct::Direct<Py<PyAny>>;

/// What was decided about a partition.
#[pyclass(frozen, module = "ottla._core")]
pub struct Terms(direct::Terms);

#[pymethods]
impl Terms {
    #[new]
    #[pyo3(signature = (*, leader_epoch, is_alone, acknowledges_all, everyone_may_read, everyone_may_write))]
    fn new(
        leader_epoch: i32,
        is_alone: bool,
        acknowledges_all: bool,
        everyone_may_read: bool,
        everyone_may_write: bool,
    ) -> Self {
        Self(direct::Terms {
            leader_epoch,
            is_alone,
            acknowledges_all,
            everyone_may_read,
            everyone_may_write,
        })
    }
}

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
        terms: &Terms,
        owner: Py<PyAny>,
    ) -> Self {
        let lease = direct::Lease::new(topic, partition, Arc::clone(&log.log), terms.0, owner);
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

pub fn written(py: Python<'_>, direct: &Direct) -> PyResult<Vec<Written>> {
    let written = direct.written().into_iter().map(|one| {
        Ok(Written {
            owner: Some(one.lease.owner.clone_ref(py)),
            flush_due: one.turn.flush_due,
            unwritten: Unwritten::of(py, one.turn)?,
        })
    });
    written.collect()
}
