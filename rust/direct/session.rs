//! One fetch session (KIP-227) that is lent: what its client asks for, and what it was told.
//!
//! A session is Python's, with its number, its slot and its eviction (`broker/fetch/session.py`). After an answer
//! Python may lend it, and takes it back before it decides anything about it. So one side has it at any moment, and the
//! session's lock says which: a thread that finds it over hands the request on.
//!
//! An answer out of a session cannot be out of date. A session knows names, requests and answers: the client's side of
//! the matter. The truth about a partition is in its log, which is found by its lease, and each request looks for the
//! leases anew. So a partition that is deleted, made anew, truncated or led by another broker is found without a lease,
//! or with that of today. Rights, leader epochs and formats are asked about for each partition at each request, by the
//! same code as outside of sessions: nothing is remembered of the connection on which the session began.
//!
//! | event | the session |
//! |---|---|
//! | a plain request of its epoch | stays lent, one epoch further |
//! | the same while a Fetch of it waits, and any other request | is taken back, and Python decides |
//! | it is taken back while a Fetch waits | that Fetch is answered with what there is |
//! | a lease ends while a Fetch waits | that Fetch is answered with no partition; Python serves the next one |
//! | the connection ends while a Fetch waits | the answer is given, and nobody hears it, as in Python |
//! | two connections send the same epoch | one is served, and the other is told of a wrong epoch |
//! | it gives way to another session, or ends | is taken back |
//!
//! A partition that the client knows all of is read at each request. Python has it rest instead, which is better for a
//! session of many: such a one is not lent.
//!
//! The lock is taken before every other one of this room, and held until a request is answered or waits. It is given
//! back before the last reference to a lease may go.

use std::mem;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use super::fetch::Answer;
use super::parked::Parked;
use crate::log::Reader;
use crate::replication::Quota;
use crate::wire::fetch::FetchRequest;

/// The highest epoch; the next one is 1.
const EPOCH_MAX: i32 = i32::MAX;

/// The client's request for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub leader_epoch: i32,
    pub offset: i64,
    pub log_start_offset: i64,
    pub bytes_max: i32,
    /// The epoch of a follower's last record; negative: it does not say.
    pub last_epoch: i32,
}

/// The last answer to the client about a partition, beside records; -1: it is to be told whatever there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub high_watermark: i64,
    pub log_start_offset: i64,
}

/// The knowledge of a client that was told nothing.
const NOTHING: Told = Told {
    high_watermark: -1,
    log_start_offset: -1,
};

/// One partition of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub topic: Arc<str>,
    pub partition: i32,
    pub asked: Asked,
    pub told: Told,
}

/// A session as Python lends it, and gets it back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loan {
    /// The epoch of the next request.
    pub epoch: i32,
    /// In the order in which they are read.
    pub entries: Vec<Entry>,
}

/// The broker that follows in a session. Python has seen its last request, on this connection.
pub struct Following {
    pub broker: i32,
    pub connection: u64,
    /// While something is throttled, Python decides what is left out.
    pub quota: Arc<Quota>,
}

impl Following {
    /// True if a request is one of its.
    pub(super) fn asks(&self, broker: i32, connection: u64) -> bool {
        (self.broker, self.connection) == (broker, connection) && !self.quota.is_used()
    }
}

pub struct Session<O> {
    pub(super) id: i32,
    pub(super) reader: Reader,
    /// None: a consumer reads in it.
    pub(super) following: Option<Following>,
    /// A session that would get more is handed on.
    pub(super) partitions_max: usize,
    state: Mutex<State<O>>,
}

/// The part that changes from one request to the next.
pub(super) struct State<O> {
    pub epoch: i32,
    /// In Kafka's order of reading: that in which they were named first, but who is named in an answer goes to the end,
    /// so that the limit of an answer's bytes starves nobody.
    pub entries: Vec<Entry>,
    pub waiting: Option<Weak<Parked<O>>>,
    used: Instant,
    /// Python has it.
    is_over: bool,
}

impl<O> Session<O> {
    pub fn new(id: i32, reader: Reader, loan: Loan, partitions_max: usize) -> Self {
        let state = State {
            epoch: loan.epoch,
            entries: loan.entries,
            waiting: None,
            used: Instant::now(),
            is_over: false,
        };
        Self {
            id,
            reader,
            following: None,
            partitions_max,
            state: Mutex::new(state),
        }
    }

    /// That of a broker that follows.
    #[must_use]
    pub fn of_follower(self, following: Following) -> Self {
        Self {
            following: Some(following),
            ..self
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<O>> {
        self.state.lock()
    }

    /// When a request was served in it last, and how many partitions it has.
    pub fn used(&self) -> (Instant, usize) {
        let state = self.lock();
        (state.used, state.entries.len())
    }
}

impl<O> State<O> {
    /// True if a request of this epoch may be served now.
    pub fn awaits(&self, epoch: i32) -> bool {
        !self.is_over && self.epoch == epoch && self.waiting.is_none()
    }

    /// The partitions once a request is taken: it names some, and others leave. None if a name is none.
    pub fn with(&self, body: &[u8], request: &FetchRequest) -> Option<Vec<Entry>> {
        let mut entries = self.entries.clone();
        let mut next = 0;
        for row in &request.partitions {
            let asked = Asked {
                leader_epoch: row.current_leader_epoch,
                offset: row.fetch_offset,
                log_start_offset: row.log_start_offset,
                bytes_max: row.bytes_max,
                last_epoch: row.last_fetched_epoch,
            };
            let topic = &body[row.topic.clone()];
            match find(&entries, next, topic, row.partition) {
                Some(place) => {
                    entries[place].asked = asked;
                    next = place + 1;
                }
                None => entries.push(Entry {
                    topic: std::str::from_utf8(topic).ok()?.into(),
                    partition: row.partition,
                    asked,
                    told: NOTHING,
                }),
            }
        }
        for (topic, partition) in &request.forgotten {
            if let Some(place) = find(&entries, 0, &body[topic.clone()], *partition) {
                entries.remove(place);
            }
        }
        Some(entries)
    }

    /// A request is taken. Returns the session's partitions as they were.
    pub fn take(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        self.epoch = next_epoch(self.epoch);
        self.used = Instant::now();
        mem::replace(&mut self.entries, entries)
    }

    /// Keeps those answers that the client has to be told, by Kafka's rule (FetchSession.scala): those with records, or
    /// with a high watermark or log start offset that it does not know. `answers`: those of all partitions in the order
    /// of reading, or none. The client is told then, and who is named comes last from now on.
    pub fn news<'a>(&mut self, answers: Vec<Answer<'a>>) -> Vec<Answer<'a>> {
        let count = self.entries.len();
        let mut kept = Vec::new();
        let mut named = Vec::new();
        let mut quiet = Vec::with_capacity(count);
        let mut answers = answers.into_iter();
        for mut entry in mem::take(&mut self.entries) {
            let Some(answer) = answers.next() else {
                quiet.push(entry);
                continue;
            };
            let told = Told {
                high_watermark: answer.high_watermark,
                log_start_offset: answer.log_start_offset,
            };
            if answer.records.length() > 0 || told != entry.told {
                entry.told = told;
                named.push(entry);
                kept.push(answer);
            } else {
                quiet.push(entry);
            }
        }
        quiet.append(&mut named);
        self.entries = quiet;
        kept
    }

    /// Ends the loan.
    pub fn give_back(&mut self) -> Loan {
        self.is_over = true;
        Loan {
            epoch: self.epoch,
            entries: mem::take(&mut self.entries),
        }
    }
}

fn next_epoch(epoch: i32) -> i32 {
    if epoch == EPOCH_MAX { 1 } else { epoch + 1 }
}

/// The place of a partition among `entries`, of which it is mostly the one at `first`.
fn find(entries: &[Entry], first: usize, topic: &[u8], partition: i32) -> Option<usize> {
    let is_it = |entry: &Entry| entry.partition == partition && entry.topic.as_bytes() == topic;
    match entries.get(first) {
        Some(entry) if is_it(entry) => Some(first),
        _ => entries.iter().position(is_it),
    }
}
