//! The state that a fetcher's thread and the control plane share: partitions, events and figures.
//!
//! One lock, held for moments only: an append runs without it, and `append_of` says for which partition. So adding partitions, taking events and
//! looking at figures never wait for a disk; [`Table::remove`] does, if the append is for a partition that it removes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::quota::Quota;
use super::replica::Replica;
use super::session::Row;
use crate::io::Wake;
use crate::log::leader_epochs::NO_EPOCH;

/// A partition's name; cheap to copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionKey {
    pub topic: Arc<str>,
    pub partition: i32,
}

impl PartitionKey {
    pub fn new(topic: &str, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

const UNKNOWN_LEADER_EPOCH: i16 = 75;
/// A follower may hear of a leader epoch before its leader does, which takes a moment; writes with acks=all wait for both.
const LEADER_LEARNS: Duration = Duration::from_millis(50);
/// Between two looks whether the quota has room for throttled partitions again. What was not used meanwhile is used then, so a shorter time makes only
/// more requests; a longer one would miss that the quota is another one now.
const LOOKS_AT_QUOTA: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(1);

/// The cause of an event. All but `Delayed`, `Connection` and a `Panic` of the thread have paused
/// the partition until it is added again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The leader's log parts from ours: `epoch` and `offset` are the end of the leader's largest epoch that is not above ours.
    Diverged,
    /// The leader has no record at `offset`, which is our log's end.
    OutOfRange,
    /// The partition is in another leader epoch than the fetcher was told: at the leader (code 74), or in our log (code 6, `epoch`).
    Fenced,
    /// Our log cannot be written to.
    Storage,
    /// The leader sent a batch of a newer leader epoch, `epoch`, than its own.
    NewerEpoch,
    /// Our log takes no such records: the checksum is wrong, they do not continue the log, or they are too large for a segment.
    Corrupt,
    /// The leader cannot serve the partition yet. The fetcher asks again by itself, after its back-off.
    Delayed,
    /// The leader is not reached, or what it says is not understood. The fetcher tries again by itself, after its back-off.
    Connection,
    /// A mistake of ours, told by `message`. With a partition: it came while that one's records were appended.
    Panic,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Diverged => "diverged",
            Self::OutOfRange => "out_of_range",
            Self::Fenced => "fenced",
            Self::Storage => "storage",
            Self::NewerEpoch => "newer_epoch",
            Self::Corrupt => "corrupt",
            Self::Delayed => "delayed",
            Self::Connection => "connection",
            Self::Panic => "panic",
        }
    }
}

/// Something that the control plane decides about, or wants to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// None where it is about the whole fetcher.
    pub partition: Option<PartitionKey>,
    /// The epoch that the partition was added with; -1 if the event is about the whole fetcher.
    pub leader_epoch: i32,
    pub kind: Kind,
    /// Kafka's error code; 0 if there is none, -1 for what Kafka has no code for.
    pub code: i16,
    /// -1 where the kind has none.
    pub epoch: i32,
    /// -1 where the kind has none.
    pub offset: i64,
    pub message: String,
}

/// The outcome of one partition's part of an answer.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Everything is appended and noted.
    Taken { leader_high_watermark: i64 },
    /// The partition is paused, and somebody decides.
    Stopped(Problem),
    /// The partition is left out until the back-off is over.
    Delayed { code: i16, message: String },
}

/// An event before it is known whose it is.
#[derive(Debug)]
pub(super) struct Problem {
    pub kind: Kind,
    pub code: i16,
    pub epoch: i32,
    pub offset: i64,
    pub message: String,
}

impl Problem {
    pub fn new(kind: Kind, code: i16, message: String) -> Self {
        Self {
            kind,
            code,
            epoch: -1,
            offset: -1,
            message,
        }
    }

    fn event(self, partition: Option<PartitionKey>, leader_epoch: i32) -> Event {
        Event {
            partition,
            leader_epoch,
            kind: self.kind,
            code: self.code,
            epoch: self.epoch,
            offset: self.offset,
            message: self.message,
        }
    }
}

/// For metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes of memory that wait for an answer, or hold one.
    pub buffer_bytes: usize,
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of all answers.
    pub bytes: u64,
    /// Partitions that are fetched, or wait for a back-off.
    pub active: usize,
    /// The leader's high watermark minus our log's end, at least 0; -1 before the first answer.
    pub lags: Vec<(PartitionKey, i64)>,
}

enum Phase {
    Fetching,
    Delayed(Instant),
    Paused,
}

/// How partitions are fetched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// A reassignment adds these replicas.
    pub is_move: bool,
    /// The logs are known to agree up to the end of ours, though their epochs do not tell: the leader is not asked to compare epochs, and batches may be of newer
    /// ones than the leader's.
    pub is_agreed: bool,
}

struct Entry {
    replica: Arc<dyn Replica>,
    leader_epoch: i32,
    /// A number that no other entry had: answers to what an earlier entry asked are late.
    generation: u64,
    phase: Phase,
    /// The code of the delay that was told last; 0 after a good answer.
    told: i16,
    leader_high_watermark: i64,
    terms: Terms,
}

impl Entry {
    /// As [`Figures::lags`] tells it.
    fn lag(&self) -> i64 {
        match self.leader_high_watermark {
            ..0 => -1,
            high_watermark => high_watermark
                .saturating_sub(self.replica.end_offset())
                .max(0),
        }
    }

    /// True if the replica may have to wait for the quota. Not a replica that has all that is
    /// committed: it is in sync, and is to stay so. One that was not answered yet may be in sync
    /// too, and is asked for once.
    fn lags(&self) -> bool {
        self.leader_high_watermark > self.replica.end_offset()
    }
}

#[derive(Default)]
struct State {
    entries: BTreeMap<PartitionKey, Entry>,
    generation: u64,
    append_of: Option<PartitionKey>,
    /// The newest of each partition: what an older one said is no longer true.
    of_partitions: BTreeMap<PartitionKey, Event>,
    /// The newest of each kind.
    of_fetcher: Vec<Event>,
    is_closed: bool,
}

impl State {
    fn has_events(&self) -> bool {
        !self.of_partitions.is_empty() || !self.of_fetcher.is_empty()
    }

    fn note(&mut self, event: Event) {
        match &event.partition {
            Some(key) => {
                self.of_partitions.insert(key.clone(), event);
            }
            None => {
                self.of_fetcher.retain(|other| other.kind != event.kind);
                self.of_fetcher.push(event);
            }
        }
    }
}

pub(super) struct Table {
    state: Mutex<State>,
    /// For the thread: partitions came, or it shall end.
    changed: Condvar,
    /// For whoever removes partitions: an append is over.
    appended: Condvar,
    /// Interrupts the thread's waiting for the leader; signalled once, by `close`.
    pub closing: Wake,
    /// Called when there are events, and were none.
    notify: Box<dyn Fn() + Send + Sync>,
    backoff: Duration,
    /// For all fetchers of the broker.
    pub quota: Arc<Quota>,
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
    pub buffer_bytes: AtomicUsize,
}

/// The answer of the table to a partition's part of a Fetch answer.
pub(super) enum Begun<'a> {
    /// Nobody wants it: the partition was removed, paused or delayed.
    Unwanted,
    /// It was asked by an earlier entry of the partition.
    Late,
    Append(Append<'a>),
}

/// The right to append to one partition. Until it is dropped, [`Table::remove`] of the partition waits.
pub(super) struct Append<'a> {
    table: &'a Table,
    key: PartitionKey,
    generation: u64,
    pub replica: Arc<dyn Replica>,
    pub leader_epoch: i32,
    pub terms: Terms,
}

impl Table {
    pub fn new(
        backoff: Duration,
        quota: Arc<Quota>,
        notify: Box<dyn Fn() + Send + Sync>,
    ) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            appended: Condvar::new(),
            closing: Wake::new()?,
            notify,
            backoff,
            quota,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            buffer_bytes: AtomicUsize::new(0),
        }))
    }

    pub fn add(&self, partitions: Vec<(PartitionKey, Arc<dyn Replica>, i32)>, terms: Terms) {
        let mut state = self.state.lock();
        for (key, replica, leader_epoch) in partitions {
            state.generation += 1;
            state.of_partitions.remove(&key);
            let entry = Entry {
                replica,
                leader_epoch,
                generation: state.generation,
                phase: Phase::Fetching,
                told: 0,
                leader_high_watermark: -1,
                terms,
            };
            state.entries.insert(key, entry);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns when nothing is appended to these partitions any more.
    pub fn remove(&self, keys: &[PartitionKey]) {
        let mut state = self.state.lock();
        for key in keys {
            state.entries.remove(key);
            state.of_partitions.remove(key);
        }
        while state.append_of.as_ref().is_some_and(|of| keys.contains(of)) {
            self.appended.wait(&mut state);
        }
    }

    pub fn take_events(&self) -> Vec<Event> {
        let mut state = self.state.lock();
        let mut events = std::mem::take(&mut state.of_fetcher);
        events.extend(std::mem::take(&mut state.of_partitions).into_values());
        events
    }

    /// The thread ends soon; whatever it waits for.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.closing.signal();
        self.changed.notify_all();
    }

    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// The greatest lag, without a copy of all of them; 0 if none is known.
    pub fn lag_max(&self) -> i64 {
        let state = self.state.lock();
        let lags = state.entries.values().map(Entry::lag);
        lags.max().map_or(0, |lag| lag.max(0))
    }

    pub fn figures(&self) -> Figures {
        let state = self.state.lock();
        let is_active = |entry: &&Entry| !matches!(entry.phase, Phase::Paused);
        Figures {
            buffer_bytes: self.buffer_bytes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            active: state.entries.values().filter(is_active).count(),
            lags: state
                .entries
                .iter()
                .map(|(key, entry)| (key.clone(), entry.lag()))
                .collect(),
        }
    }

    /// Waits until there is something to fetch, and returns what is asked of each partition, and how long the leader may keep the request at
    /// most: until another partition's delay is over, or those that wait for the quota are looked at again. None: the thread shall end.
    pub fn wait_for_rows(&self) -> Option<(Vec<(PartitionKey, Row)>, Duration)> {
        let mut state = self.state.lock();
        while !state.is_closed {
            let now = Instant::now();
            let mut rows = Vec::with_capacity(state.entries.len());
            let mut due: Option<Instant> = None;
            let until_room = self.quota.until_room();
            for (key, entry) in &mut state.entries {
                match entry.phase {
                    Phase::Paused => continue,
                    Phase::Delayed(until) if until > now => {
                        due = Some(due.map_or(until, |due| due.min(until)));
                        continue;
                    }
                    Phase::Delayed(_) | Phase::Fetching => entry.phase = Phase::Fetching,
                }
                if !until_room.is_zero() && entry.lags() && self.is_throttled(key) {
                    let look = until_room.clamp(*LOOKS_AT_QUOTA.start(), *LOOKS_AT_QUOTA.end());
                    due = Some(due.map_or(now + look, |due| due.min(now + look)));
                    continue;
                }
                let row = Row {
                    offset: entry.replica.end_offset(),
                    start_offset: entry.replica.start_offset(),
                    leader_epoch: entry.leader_epoch,
                    last_epoch: match entry.terms.is_agreed {
                        true => NO_EPOCH,
                        false => entry.replica.last_epoch(),
                    },
                    generation: entry.generation,
                };
                rows.push((key.clone(), row));
            }
            if !rows.is_empty() {
                let wait = due.map_or(Duration::MAX, |due| due.saturating_duration_since(now));
                return Some((rows, wait));
            }
            match due {
                None => self.changed.wait(&mut state),
                Some(due) => drop(self.changed.wait_until(&mut state, due)),
            }
        }
        None
    }

    pub fn is_throttled(&self, key: &PartitionKey) -> bool {
        self.quota.is_throttled(&key.topic, key.partition)
    }

    /// Waits for the time of a back-off, or until the thread shall end.
    pub fn back_off(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.is_closed && !self.changed.wait_until(&mut state, until).timed_out() {}
    }

    /// Takes the right to append what the entry of this `generation` asked for.
    pub fn begin(&self, key: &PartitionKey, generation: u64) -> Begun<'_> {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get(key) else {
            return Begun::Unwanted;
        };
        if entry.generation != generation {
            return Begun::Late;
        }
        if !matches!(entry.phase, Phase::Fetching) {
            return Begun::Unwanted;
        }
        let append = Append {
            table: self,
            key: key.clone(),
            generation,
            replica: Arc::clone(&entry.replica),
            leader_epoch: entry.leader_epoch,
            terms: entry.terms,
        };
        state.append_of = Some(key.clone());
        Begun::Append(append)
    }

    /// Tells of something that is about the whole fetcher.
    pub fn tell(&self, problem: Problem) {
        self.change(|state| state.note(problem.event(None, -1)));
    }

    /// Changes the state, and calls `notify` if it has events then and had none before.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        let had_events = state.has_events();
        change(&mut state);
        let is_news = state.has_events() && !had_events;
        drop(state);
        if is_news {
            (self.notify)();
        }
    }

    fn finish(&self, key: &PartitionKey, generation: u64, outcome: Outcome) {
        let backoff = self.backoff;
        self.change(|state| {
            let Some(entry) = state.entries.get_mut(key) else {
                return;
            };
            if entry.generation != generation {
                return;
            }
            let problem = match outcome {
                Outcome::Taken {
                    leader_high_watermark,
                } => {
                    entry.told = 0;
                    entry.leader_high_watermark = leader_high_watermark;
                    return;
                }
                Outcome::Stopped(problem) => {
                    entry.phase = Phase::Paused;
                    problem
                }
                Outcome::Delayed { code, message } => {
                    let delay = if code == UNKNOWN_LEADER_EPOCH {
                        backoff.min(LEADER_LEARNS)
                    } else {
                        backoff
                    };
                    entry.phase = Phase::Delayed(Instant::now() + delay);
                    if std::mem::replace(&mut entry.told, code) == code {
                        return;
                    }
                    Problem::new(Kind::Delayed, code, message)
                }
            };
            let leader_epoch = entry.leader_epoch;
            state.note(problem.event(Some(key.clone()), leader_epoch));
        });
    }
}

impl Append<'_> {
    pub fn finish(self, outcome: Outcome) {
        self.table.finish(&self.key, self.generation, outcome);
    }
}

impl Drop for Append<'_> {
    fn drop(&mut self) {
        self.table.state.lock().append_of = None;
        self.table.appended.notify_all();
    }
}
