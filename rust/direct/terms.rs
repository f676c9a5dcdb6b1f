//! What a lease knows of its partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::followers::{Follower, end_of_all};
use super::gate::Gate;
use super::others::Others;
use super::parked::Line;
use super::rights::Rights;
use crate::log::{AppendInfo, Log, home};

/// An append of another thread takes a few microseconds, the write of its turn about twenty, and a request that is
/// handed on to Python about a hundred. Longer than this a log is not waited for: its disk may stand still.
const PATIENCE: Duration = Duration::from_micros(100);

/// What was decided about a partition. Another value is another lease: Python ends the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub leader_epoch: i32,
    /// This is the only replica in sync: the high watermark is the end of its log.
    pub is_alone: bool,
    /// Produces with acks=all are appended here: enough replicas are in sync, and no flush is waited for.
    pub accepts_all: bool,
    /// Requests are served without asking who sends them. Else a client needs rights that are [known](super::rights).
    pub everyone_may: bool,
    /// The topic's batches are to be compressed with zstd: consumers that cannot read that are told so.
    pub is_zstd: bool,
    /// Python alone serves clients: followers may fetch.
    pub is_internal: bool,
}

/// The followers of a partition, by their brokers' ids.
pub type Followers = Box<[(i32, Arc<Follower>)]>;

pub struct Lease<O> {
    pub topic: Box<str>,
    pub partition: i32,
    pub log: Arc<Log>,
    pub terms: Terms,
    /// What the grantor knows the partition by.
    pub owner: O,
    /// Those whose Fetches are served here, as long as they are in sync. None, if Python serves them.
    followers: Followers,
    /// Who may do what, unless everyone may.
    pub(super) rights: Rights,
    /// Somebody else waits for the high watermark, and has to hear of each append.
    is_watched: AtomicBool,
    pub(super) gate: Gate,
    /// The Fetches that wait here.
    pub(super) line: Line<O>,
    /// The Produces that wait for other replicas.
    pub(super) others: Arc<Others>,
}

impl<O> Lease<O> {
    pub fn new(topic: &str, partition: i32, log: Arc<Log>, terms: Terms, owner: O) -> Self {
        Self {
            topic: topic.into(),
            partition,
            log,
            terms,
            owner,
            followers: Followers::default(),
            rights: Rights::default(),
            is_watched: AtomicBool::new(false),
            gate: Gate::default(),
            line: Line::default(),
            others: Arc::default(),
        }
    }

    /// With followers whose Fetches are served here.
    #[must_use]
    pub fn with_followers(self, followers: Followers) -> Self {
        Self { followers, ..self }
    }

    /// Says whether somebody else waits for the high watermark. True when nobody does costs a turn of Python; false
    /// when somebody does would leave them waiting. When this returns, no high watermark is moved unseen: a look at it
    /// from then on sees what was moved before.
    pub fn watch(&self, is_watched: bool) {
        let watch = || self.is_watched.store(is_watched, Ordering::Release);
        self.gate.exclude(watch);
    }

    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Acquire)
    }

    /// A client may do this for as long as the lease lasts. Caller has decided so after the lease was granted.
    pub fn allow(&self, client: u64, rights: u8) {
        self.rights.add(client, rights);
    }

    /// True if it is known that a client may do this.
    pub(super) fn allows(&self, client: u64, rights: u8) -> bool {
        self.terms.everyone_may || self.rights.has(client, rights)
    }

    /// Appends a batch. None, with `records` as they came, if Python is to see to it: an error, a lease that has ended,
    /// a log that is busy.
    pub(super) fn append(&self, records: &mut [u8]) -> Option<AppendInfo> {
        let is_over = || self.gate.is_over();
        let (epoch, now_ms) = (self.terms.leader_epoch, home::now_ms());
        let appended = self
            .log
            .append_unless(is_over, PATIENCE, records, epoch, now_ms);
        // The log leaves refused records as they came, and Python finds the same error.
        appended.ok().flatten()
    }

    /// The log has grown: moves the high watermark. Returns whether it moved; None if that is Python's to decide.
    pub(super) fn advance(&self) -> Option<bool> {
        self.move_by(|| {
            if self.terms.is_alone {
                return Some(self.log.advance_high_watermark());
            }
            // It moves when followers fetch what has come.
            self.end_of_members().is_some().then_some(false)
        })
    }

    /// A follower has fetched: moves the high watermark. Returns whether it moved; None if that is Python's to decide.
    pub(super) fn raise(&self) -> Option<bool> {
        self.move_by(|| {
            let end_offset = self.end_of_members()?;
            Some(self.log.raise_high_watermark(end_offset))
        })
    }

    /// Moves the high watermark, unless the lease has ended or Python has to see that.
    fn move_by(&self, step: impl FnOnce() -> Option<bool>) -> Option<bool> {
        let unwatched = || if self.is_watched() { None } else { step() };
        self.gate.decide(unwatched).flatten()
    }

    /// The end of what all followers have that count. None if no other replica is in sync, or Python knows them.
    fn end_of_members(&self) -> Option<i64> {
        let followers = self.followers.iter().map(|(_, one)| &**one);
        let (end_offset, has_members) = end_of_all(followers);
        has_members.then_some(end_offset)
    }

    /// The follower that a broker is, if its Fetches may be served here.
    pub(super) fn follower(&self, broker: i32) -> Option<&Arc<Follower>> {
        let of_broker = |(id, one): &&(i32, Arc<Follower>)| *id == broker && one.known().is_member;
        self.followers.iter().find(of_broker).map(|(_, one)| one)
    }

    pub(super) fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }
}
