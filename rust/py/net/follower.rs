//! `Follower`: what a leader knows of a follower. The glue of `crate::direct::followers`.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::direct::followers;

#[pyclass(frozen, module = "ottla._core")]
pub struct Follower(pub Arc<followers::Follower>);

#[pymethods]
impl Follower {
    #[new]
    #[pyo3(signature = (caught_up_ms))]
    fn new(caught_up_ms: Option<i64>) -> Self {
        Self(Arc::new(followers::Follower::new(caught_up_ms)))
    }

    /// Where the slowest one's log ends that is waited for, and whether one of them is a member.
    #[staticmethod]
    fn end_of_all(followers: Vec<PyRef<'_, Self>>) -> (i64, bool) {
        followers::end_of_all(followers.iter().map(|one| &*one.0))
    }

    fn fetched(&self, end_offset: i64, start_offset: i64, leader_end_offset: i64, now_ms: i64) {
        let mut known = self.0.known();
        known.fetched(end_offset, start_offset, leader_end_offset, now_ms);
    }

    fn caught_up(&self, at_ms: i64) {
        self.0.known().caught_up(at_ms);
    }

    fn went_away(&self) {
        self.0.known().went_away();
    }

    fn look(&self, now_ms: i64, lag_max_ms: i64) -> bool {
        self.0.known().look(now_ms, lag_max_ms)
    }

    fn has(&self, offset: i64) -> bool {
        self.0.known().has(offset)
    }

    #[getter]
    fn end_offset(&self) -> i64 {
        self.0.known().end_offset
    }

    #[getter]
    fn start_offset(&self) -> i64 {
        self.0.known().start_offset
    }

    #[getter]
    fn caught_up_ms(&self) -> Option<i64> {
        self.0.known().caught_up_ms
    }

    #[getter]
    fn is_member(&self) -> bool {
        self.0.known().is_member
    }

    #[setter]
    fn set_is_member(&self, is_member: bool) {
        self.0.known().is_member = is_member;
    }

    #[getter]
    fn is_near(&self) -> bool {
        self.0.known().is_near
    }

    #[getter]
    fn is_refused(&self) -> bool {
        self.0.known().is_refused
    }

    #[setter]
    fn set_is_refused(&self, is_refused: bool) {
        self.0.known().is_refused = is_refused;
    }
}
