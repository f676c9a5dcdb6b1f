//! `Lease`, and what the end of a turn tells Python: the glue of `crate::direct`.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;

use super::hub::Shared;
use super::request::Request;
use crate::direct;
use crate::direct::rights::{FOLLOW, READ, WRITE, WRITE_IDEMPOTENTLY};
use crate::py::log::{AppendInfo, Log, Unwritten, Written};

/// Python knows a partition by an object of its own.
pub type Direct = direct::Direct<Py<PyAny>>;
pub type Turn = direct::Turn<Py<PyAny>>;

/// What was decided about a partition.
#[pyclass(frozen, module = "ottla._core")]
pub struct Terms(direct::Terms);

#[pymethods]
impl Terms {
    #[new]
    #[pyo3(signature = (*, leader_epoch, is_alone, accepts_all, everyone_may, is_zstd, is_internal))]
    fn new(
        leader_epoch: i32,
        is_alone: bool,
        accepts_all: bool,
        everyone_may: bool,
        is_zstd: bool,
        is_internal: bool,
    ) -> Self {
        Self(direct::Terms {
            leader_epoch,
            is_alone,
            accepts_all,
            everyone_may,
            is_zstd,
            is_internal,
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
        (terms, followers): (&Terms, direct::Followers),
        owner: Py<PyAny>,
    ) -> Self {
        let lease = direct::Lease::new(topic, partition, Arc::clone(&log.log), terms.0, owner)
            .with_followers(followers);
        Self {
            lease: direct.grant(hub, lease),
            direct: Arc::clone(direct),
            hub: Arc::clone(hub),
        }
    }
}

#[pymethods]
impl Lease {
    #[pyo3(signature = (
        request, client, *, reads = false, writes = false, writes_idempotently = false, follows = false
    ))]
    fn allow(
        &self,
        request: &Request,
        client: u64,
        reads: bool,
        writes: bool,
        writes_idempotently: bool,
        follows: bool,
    ) {
        let all = [
            (reads, READ),
            (writes, WRITE),
            (writes_idempotently, WRITE_IDEMPOTENTLY),
            (follows, FOLLOW),
        ];
        let has = all.iter().filter(|(has, _)| *has);
        request.origin().number(client);
        self.lease
            .allow(client, has.fold(0, |rights, (_, one)| rights | one));
    }

    fn end(&self, py: Python<'_>) -> PyResult<Vec<Unacknowledged>> {
        unacknowledged(py, &self.hub, self.direct.end(&self.hub, &self.lease))
    }

    fn grown(&self) {
        self.direct.grown(&self.hub, &self.lease);
    }

    fn advanced(&self) {
        self.direct.advanced(&self.hub, &self.lease);
    }

    fn watch(&self, is_watched: bool) {
        self.lease.watch(is_watched);
    }
}

/// An append under a lease that is in the log, and waits for what its acknowledgement takes.
#[pyclass(frozen, module = "ottla._core")]
pub struct Unacknowledged {
    hub: Shared,
    /// Until it is answered.
    appended: Mutex<Option<direct::Appended<Py<PyAny>>>>,
    #[pyo3(get)]
    owner: Py<PyAny>,
    #[pyo3(get)]
    acks: i16,
    #[pyo3(get)]
    timeout_ms: i32,
    #[pyo3(get)]
    info: Py<AppendInfo>,
}

#[pymethods]
impl Unacknowledged {
    fn answer(&self, error_code: i16) {
        let appended = self.appended.lock().take();
        if let Some(appended) = appended {
            appended.answer_at(&self.hub, error_code);
        }
    }
}

pub fn answer(
    py: Python<'_>,
    direct: &Direct,
    hub: &Shared,
    turn: &mut Turn,
) -> PyResult<Vec<Unacknowledged>> {
    unacknowledged(py, hub, direct.answer(hub, turn))
}

fn unacknowledged(
    py: Python<'_>,
    hub: &Shared,
    waiting: Vec<direct::Appended<Py<PyAny>>>,
) -> PyResult<Vec<Unacknowledged>> {
    let waiting = waiting.into_iter().map(|one| {
        Ok(Unacknowledged {
            hub: Arc::clone(hub),
            owner: one.lease.owner.clone_ref(py),
            acks: one.acks,
            timeout_ms: one.timeout_ms,
            info: Py::new(py, AppendInfo::from(one.info))?,
            appended: Mutex::new(Some(one)),
        })
    });
    waiting.collect()
}

pub fn written(py: Python<'_>, direct: &Direct, turn: &mut Turn) -> PyResult<Vec<Written>> {
    let written = direct.written(turn).into_iter().map(|one| {
        Ok(Written {
            owner: Some(one.lease.owner.clone_ref(py)),
            flush_due: one.end.flush_due,
            unwritten: Unwritten::of(py, one.end)?,
        })
    });
    written.collect()
}
