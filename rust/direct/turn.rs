//! The turn of one thread, which goes from one [`Served`](crate::net::hub::Event::Served) to the next: what is begun
//! and not ended. Nobody else sees it.

use std::sync::Arc;

use super::Lease;
use super::produce::Appended;
use crate::log;

/// A partition that was appended to in a turn.
pub struct Written<O> {
    pub lease: Arc<Lease<O>>,
    pub end: log::TurnEnd,
}

pub struct Turn<O> {
    /// Appended to in this turn and not written yet, each once.
    pub(super) touched: Vec<Arc<Lease<O>>>,
    /// Not answered yet.
    pub(super) appended: Vec<Appended<O>>,
    /// Written at the end of the turn, for somebody else who has to hear of it.
    pub(super) written: Vec<Written<O>>,
    /// Somebody else has a part in the turn, and ends it.
    pub(super) is_shared: bool,
    /// It was given a request, and waits for the turn's end.
    pub(super) is_awaited: bool,
}

impl<O> Default for Turn<O> {
    fn default() -> Self {
        Self {
            touched: Vec::new(),
            appended: Vec::new(),
            written: Vec::new(),
            is_shared: false,
            is_awaited: false,
        }
    }
}

impl<O> Turn<O> {
    /// Somebody else was given an event.
    pub(super) fn awaits(&mut self, is_request: bool) {
        self.is_shared = true;
        self.is_awaited |= is_request;
    }

    /// Takes what is appended under a lease into the turn.
    pub(super) fn note(&mut self, appended: Appended<O>) {
        let lease = &appended.lease;
        if !self.touched.iter().any(|one| Arc::ptr_eq(one, lease)) {
            self.touched.push(Arc::clone(lease));
        }
        self.appended.push(appended);
    }
}

/// Who ended a turn.
pub(super) enum Ended {
    /// There was nothing to end.
    Before,
    Here,
    /// Nobody yet: somebody else has to hear of it and end it.
    ByOthers,
}

impl<O> Written<O> {
    /// Writes what was appended under a lease.
    pub(super) fn of(lease: Arc<Lease<O>>) -> Self {
        let end = lease.log.write_staged();
        Self { lease, end }
    }

    /// Nothing failed, and nobody waits for a flush that is due.
    pub(super) fn is_usual(&self) -> bool {
        let is_settled = self.lease.log.settled_offset() == i64::MAX;
        !self.end.flush_due && self.end.lost.is_none() && is_settled
    }
}
