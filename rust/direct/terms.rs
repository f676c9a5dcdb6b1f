//! What a lease knows of its partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::parked::Line;
use crate::log::Log;

/// What was decided about a partition. Another value is another lease: Python ends the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub leader_epoch: i32,
    /// This is the only replica in sync: the high watermark is the end of its log.
    pub is_alone: bool,
    /// An append is acknowledged when it is written, with acks=all too.
    pub acknowledges_all: bool,
    /// Fetches are served without asking who sends them.
    pub everyone_may_read: bool,
    /// Produces are served without asking who sends them.
    pub everyone_may_write: bool,
}

pub struct Lease<O> {
    pub topic: Box<str>,
    pub partition: i32,
    pub log: Arc<Log>,
    pub terms: Terms,
    /// What the grantor knows the partition by.
    pub owner: O,
    /// Somebody else waits for the high watermark, and has to hear of each append.
    is_watched: AtomicBool,
    /// The Fetches that wait here.
    pub(super) line: Arc<Line>,
}

impl<O> Lease<O> {
    pub fn new(topic: &str, partition: i32, log: Arc<Log>, terms: Terms, owner: O) -> Self {
        Self {
            topic: topic.into(),
            partition,
            log,
            terms,
            owner,
            is_watched: AtomicBool::new(false),
            line: Arc::default(),
        }
    }

    /// Says whether somebody else waits for the high watermark. True when nobody does costs a turn of Python; false
    /// when somebody does would leave them waiting.
    pub fn watch(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Ordering::Release);
    }

    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Acquire)
    }
}
