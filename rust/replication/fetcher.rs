//! The thread that fetches from one leader.
//!
//! One request is in flight. A round is: look at the partitions, send a Fetch for them, read the answer, and for each partition in it append the
//! records, then move the high watermark, then the log start offset (which may not pass the high watermark). The disk is waited for here, so a
//! slow disk slows the fetching down and nothing piles up.
//!
//! **Memory.** A fetcher holds one answer: at most `response_bytes_max` plus `batch_bytes_max` (a leader answers with one whole batch even if
//! that is larger than what was asked for) plus [`ROW_BYTES_MAX`] for each partition. It takes the memory as the bytes come in, and a frame that
//! announces more ends the connection. A larger answer than was asked for takes a place first: all fetchers of a broker share a few
//! ([`LargeAnswers`]). Records are appended from there, without a copy.
//!
//! **What is late.** A partition may be removed, or added in another epoch, while its answer is on the way. Each entry has a number of its own
//! that its requests remember. So an answer to an earlier entry is dropped, as is one for an offset that is not the log's end any more.
//!
//! **What is throttled.** While more was fetched for throttled partitions than the broker's quota allows, those of them that lag behind are left out of
//! requests (KIP-73); the others of the same leader are fetched.
//!
//! **What goes wrong.** What the control plane must decide pauses the partition. What says "not yet" delays it. Both let the others of the same
//! leader go on. What is wrong with a connection or an answer as a whole starts the connection and the session anew after a back-off.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::connection::{Answer, Broken, Leader, Room, SIZE_BYTES};
use super::greeting::{Greeting, Kept};
use super::large::LargeAnswers;
use super::quota::Quota;
use super::replica::Replica;
use super::session::{Named, Refused, Row, Session};
use super::table::{
    Append, Begun, Event, Figures, Kind, Outcome, PartitionKey, Problem, Table, Terms,
};
use crate::io::panics::catching;
use crate::log::LogError;
use crate::net::transport::Transport;
use crate::records::Batches;
use crate::wire::fetch::{
    FLEXIBLE_SINCE, PartitionResponse, PartitionToFetch, READ_UNCOMMITTED, RequestToSend,
    decode_response_of, encode_request,
};
use crate::wire::headers::{parse_response_header, request_frame};
use crate::wire::{WireError, keys};

/// The most bytes that an answer has for one partition besides records: its topic's name, which has
/// at most 249 bytes, and fields of less than 100.
const ROW_BYTES_MAX: usize = 512;
/// The most bytes that an answer has besides partitions.
const HEAD_BYTES_MAX: usize = 64;
/// An answer with more partitions that were not asked for is not decoded.
const UNKNOWN_ROWS_MAX: usize = 8;

const NONE: i16 = 0;
const OFFSET_OUT_OF_RANGE: i16 = 1;
const CORRUPT_MESSAGE: i16 = 2;
const STORAGE_ERROR: i16 = 56;
const FENCED_LEADER_EPOCH: i16 = 74;
const UNKNOWN_SERVER_ERROR: i16 = -1;

/// Whom to fetch from, and how; times and sizes are those of Kafka's settings `replica.fetch.*` and `replica.socket.*`.
#[derive(Clone, Debug)]
pub struct FetcherSettings {
    pub host: String,
    pub port: u16,
    /// This broker.
    pub replica_id: i32,
    pub client_id: String,
    /// 12, or 11 for leaders that cannot tell where logs diverge.
    pub fetch_version: i16,
    pub wait_max_ms: i32,
    pub bytes_min: i32,
    pub response_bytes_max: i32,
    pub partition_bytes_max: i32,
    /// The largest batch that a leader may have.
    pub batch_bytes_max: i32,
    pub backoff: Duration,
    pub socket_timeout: Duration,
    /// 0: what the system gives.
    pub receive_buffer_bytes: usize,
    /// How the bytes of its connections move.
    pub transport: fn(OwnedFd) -> Transport,
    /// The first words on each connection; None: leaders serve everybody.
    pub greeting: Option<Arc<dyn Greeting>>,
}

/// A thread that fetches from one leader, until it is closed or dropped. All methods may be called from any thread.
pub struct Fetcher {
    table: Arc<Table>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Fetcher {
    /// Starts the thread. All fetchers of a broker share its `quota` and its places for `large` answers. `notify` is called on the thread when there are events and were none before; it must not wait for anything.
    pub fn start(
        settings: FetcherSettings,
        quota: Arc<Quota>,
        large: Arc<LargeAnswers>,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let table = Table::new(settings.backoff, quota, Box::new(notify))?;
        let shared = Arc::clone(&table);
        let thread = std::thread::Builder::new()
            .name("ottla-fetcher".to_owned())
            .spawn(move || Worker::new(settings, shared, large).run())?;
        Ok(Self {
            table,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Fetches these partitions in these leader epochs, each from its log's end on. One that is there already, or is paused, starts anew.
    pub fn add(&self, partitions: Vec<(PartitionKey, Arc<dyn Replica>, i32)>) {
        self.add_under(partitions, Terms::default());
    }

    /// The same under other terms than the common ones.
    pub fn add_under(&self, partitions: Vec<(PartitionKey, Arc<dyn Replica>, i32)>, terms: Terms) {
        self.table.add(partitions, terms);
    }

    /// Fetches these partitions no more. When it returns nothing is appended to them, and nothing will be.
    pub fn remove(&self, partitions: &[PartitionKey]) {
        self.table.remove(partitions);
    }

    /// The events since the last call, the newest of each partition.
    pub fn take_events(&self) -> Vec<Event> {
        self.table.take_events()
    }

    pub fn figures(&self) -> Figures {
        self.table.figures()
    }

    /// Requests that were answered; a look at it costs nothing.
    pub fn requests(&self) -> u64 {
        self.table.requests.load(Ordering::Relaxed)
    }

    /// The greatest lag of a partition; 0 if none is known.
    pub fn lag_max(&self) -> i64 {
        self.table.lag_max()
    }

    /// Ends the thread and waits for its end.
    pub fn close(&self) {
        self.table.close();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why a round has no use.
enum Failed {
    Closing,
    /// A connection must be made anew.
    Lost(String),
    /// The leader answered, but not what was asked for.
    Refused(String),
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Closing => Self::Closing,
            Broken::Lost(reason) => Self::Lost(reason),
        }
    }
}

impl From<WireError> for Failed {
    fn from(error: WireError) -> Self {
        match error.is_local() {
            true => Self::Lost(format!("the request cannot be written: {error}")),
            false => Self::Lost(format!("the answer is not one to a Fetch: {error}")),
        }
    }
}

fn leader(settings: &FetcherSettings) -> Leader<'_> {
    Leader {
        host: &settings.host,
        port: settings.port,
        timeout: settings.socket_timeout,
        receive_buffer_bytes: settings.receive_buffer_bytes,
        transport: settings.transport,
        greeting: settings.greeting.as_deref(),
    }
}

struct Worker {
    settings: FetcherSettings,
    table: Arc<Table>,
    large: Arc<LargeAnswers>,
    session: Session,
    connection: Kept,
    answer: Answer,
    correlation_id: i32,
    /// The message that was told last about the connection; empty after a good answer.
    told: String,
}

impl Worker {
    fn new(settings: FetcherSettings, table: Arc<Table>, large: Arc<LargeAnswers>) -> Self {
        Self {
            settings,
            table,
            large,
            session: Session::new(),
            connection: Kept::default(),
            answer: Answer::default(),
            correlation_id: 0,
            told: String::new(),
        }
    }

    fn run(mut self) {
        while let Err(panicked) = catching(|| self.rounds()) {
            self.start_anew();
            let problem = Problem::new(Kind::Panic, UNKNOWN_SERVER_ERROR, panicked.to_string());
            self.table.tell(problem);
            self.table.back_off(self.settings.backoff);
        }
    }

    /// Fetches until the fetcher is closed.
    fn rounds(&mut self) {
        loop {
            let reason = match self.round() {
                Ok(()) => {
                    self.told.clear();
                    continue;
                }
                Err(Failed::Closing) => return,
                Err(Failed::Refused(reason)) => reason,
                Err(Failed::Lost(reason)) => {
                    self.start_anew();
                    reason
                }
            };
            if self.told != reason {
                self.told.clone_from(&reason);
                self.table
                    .tell(Problem::new(Kind::Connection, UNKNOWN_SERVER_ERROR, reason));
            }
            self.table.back_off(self.settings.backoff);
        }
    }

    fn start_anew(&mut self) {
        self.connection.end();
        self.session.begin_anew();
    }

    fn round(&mut self) -> Result<(), Failed> {
        let (rows, wait) = self.table.wait_for_rows().ok_or(Failed::Closing)?;
        let partitions = rows.len();
        let named = self.session.request(rows);
        let frame = self.request_frame(&named, wait)?;
        let closing = &self.table.closing;
        let timeout = self.settings.socket_timeout;
        let leader = leader(&self.settings);
        let mut connection = self.connection.take(&leader, &self.large, closing)?;
        connection.send(&frame, timeout, closing)?;
        // What the answer is read into is put aside while the rest changes, and put back with memory of this fetcher's own, whatever comes of it.
        let mut answer = std::mem::take(&mut self.answer);
        let room = self.room(partitions);
        let own_bytes = room.own_bytes;
        let received = connection.receive(&mut answer, &room, timeout, closing);
        let taken = match received {
            Ok(()) => {
                self.connection.keep(connection);
                self.take_frame(answer.frame(), answer.bytes.len())
            }
            Err(broken) => Err(broken.into()),
        };
        answer.leave_place(own_bytes);
        let capacity = answer.bytes.capacity();
        self.table.buffer_bytes.store(capacity, Ordering::Relaxed);
        self.answer = answer;
        taken
    }

    fn take_frame(&mut self, frame: &[u8], bytes: usize) -> Result<(), Failed> {
        let figures = &self.table;
        figures.requests.fetch_add(1, Ordering::Relaxed);
        figures.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.take_answer(frame)
    }

    fn room(&self, partitions: usize) -> Room<'_> {
        let bytes = |bytes: i32| usize::try_from(bytes).unwrap_or(0);
        let asked_for = bytes(self.settings.response_bytes_max)
            .saturating_add(partitions.saturating_mul(ROW_BYTES_MAX))
            .saturating_add(HEAD_BYTES_MAX);
        Room {
            frame_bytes_max: asked_for.saturating_add(bytes(self.settings.batch_bytes_max)),
            own_bytes: asked_for.saturating_add(SIZE_BYTES),
            large: &self.large,
        }
    }

    fn request_frame(&mut self, named: &Named, wait: Duration) -> Result<Vec<u8>, Failed> {
        let settings = &self.settings;
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let wait_ms = wait_ms.saturating_add(1);
        let request = RequestToSend {
            cluster_id: None,
            replica_id: settings.replica_id,
            max_wait_ms: settings.wait_max_ms.min(wait_ms),
            min_bytes: settings.bytes_min,
            max_bytes: settings.response_bytes_max,
            isolation_level: READ_UNCOMMITTED,
            session_id: self.session.id(),
            session_epoch: self.session.epoch(),
            rack_id: "",
        };
        let rows = self.session.rows();
        let named_rows = named.rows.iter().filter_map(|index| rows.get(*index));
        let partitions: Vec<_> = named_rows
            .map(|(key, row)| PartitionToFetch {
                topic: &key.topic,
                partition: key.partition,
                current_leader_epoch: row.leader_epoch,
                fetch_offset: row.offset,
                last_fetched_epoch: row.last_epoch,
                log_start_offset: row.start_offset,
                bytes_max: settings.partition_bytes_max,
            })
            .collect();
        let forgotten = named.forgotten.iter();
        let forgotten: Vec<_> = forgotten.map(|key| (&*key.topic, key.partition)).collect();
        let version = settings.fetch_version;
        let body = encode_request(version, &request, &partitions, &forgotten)?;
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let client_id = Some(settings.client_id.as_str());
        Ok(request_frame(
            keys::FETCH,
            version,
            version >= FLEXIBLE_SINCE,
            self.correlation_id,
            client_id,
            &body,
        )?)
    }

    fn take_answer(&mut self, frame: &[u8]) -> Result<(), Failed> {
        let version = self.settings.fetch_version;
        let is_flexible = version >= FLEXIBLE_SINCE;
        let (correlation_id, start) = parse_response_header(keys::FETCH, is_flexible, frame)?;
        if correlation_id != self.correlation_id {
            return Err(Failed::Lost("the answer is to another request".to_owned()));
        }
        let body = frame.get(start..).unwrap_or_default();
        // Each partition once, in a topic of its own at worst; a few more, so that one that was not asked for can be named.
        let items_max = 2 * (self.session.rows().len() + UNKNOWN_ROWS_MAX);
        let response = decode_response_of(body, version, items_max)?;
        let mut found = Vec::with_capacity(response.partitions.len());
        let mut unknown = None;
        for row in &response.partitions {
            let topic = body.get(row.topic.clone()).unwrap_or_default();
            let topic = std::str::from_utf8(topic).unwrap_or_default();
            match self.session.find(topic, row.partition) {
                Some(known) => found.push((known.clone(), row)),
                None => unknown = Some(format!("{topic}-{}", row.partition)),
            }
        }
        let mut distinct: Vec<_> = found.iter().map(|((key, _), _)| key).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let answered = self
            .session
            .answered(response.head, distinct.len(), unknown.as_deref());
        let throttle_time = u64::try_from(response.head.throttle_time_ms).unwrap_or(0);
        let throttle_time = Duration::from_millis(throttle_time).min(self.settings.socket_timeout);
        match answered {
            Ok(()) => {}
            Err(Refused::SessionOver) => return Ok(()),
            Err(Refused::Throttled) => {
                self.table.back_off(throttle_time);
                return Ok(());
            }
            Err(Refused::Invalid(reason)) => return Err(Failed::Refused(reason)),
        }
        let mut is_late = false;
        for ((key, asked), row) in &found {
            if self.table.is_closed() {
                return Err(Failed::Closing);
            }
            is_late |= !self.take_row(key, asked, row, body);
        }
        if is_late {
            // The leader does not tell again what these rows said.
            self.session.begin_anew();
        }
        if !throttle_time.is_zero() {
            self.table.back_off(throttle_time);
        }
        Ok(())
    }

    /// Takes one partition's part of an answer; false if it came too late.
    fn take_row(
        &mut self,
        key: &PartitionKey,
        asked: &Row,
        row: &PartitionResponse<Range<usize>, Option<Range<usize>>>,
        body: &[u8],
    ) -> bool {
        let append = match self.table.begin(key, asked.generation) {
            Begun::Unwanted => return true,
            Begun::Late => return false,
            Begun::Append(append) => append,
        };
        let records = row.records.clone();
        let records = records
            .and_then(|range| body.get(range))
            .unwrap_or_default();
        let Some(outcome) = outcome(&append, asked, row, records) else {
            return false;
        };
        if !records.is_empty() {
            self.session.begin_after(key);
            if matches!(outcome, Outcome::Taken { .. }) {
                append
                    .replica
                    .note_appended(records.len(), append.terms.is_move);
            }
            // Those of in-sync replicas count too: the quota is for all that goes for throttled partitions.
            if self.table.is_throttled(key) {
                self.table.quota.record(records.len() as u64);
            }
        }
        append.finish(outcome);
        true
    }
}

/// The outcome of one partition's part of an answer; None if its log does not end any more where
/// that begins.
fn outcome<Name, Data>(
    append: &Append<'_>,
    asked: &Row,
    row: &PartitionResponse<Name, Data>,
    records: &[u8],
) -> Option<Outcome> {
    match catching(|| take(append, asked, row, records)) {
        Ok(outcome) => outcome,
        Err(panicked) => Some(Outcome::Stopped(Problem::new(
            Kind::Panic,
            UNKNOWN_SERVER_ERROR,
            panicked.to_string(),
        ))),
    }
}

fn take<Name, Data>(
    append: &Append<'_>,
    asked: &Row,
    row: &PartitionResponse<Name, Data>,
    records: &[u8],
) -> Option<Outcome> {
    let replica = &*append.replica;
    if replica.end_offset() != asked.offset {
        return None;
    }
    let code = row.error_code;
    let message = || format!("the leader answered with error {code}");
    match code {
        NONE => {}
        OFFSET_OUT_OF_RANGE => {
            return Some(Outcome::Stopped(Problem {
                offset: asked.offset,
                ..Problem::new(Kind::OutOfRange, code, message())
            }));
        }
        FENCED_LEADER_EPOCH => {
            let problem = Problem::new(Kind::Fenced, code, message());
            return Some(Outcome::Stopped(problem));
        }
        _ => {
            let message = message();
            return Some(Outcome::Delayed { code, message });
        }
    }
    if let Some((epoch, offset)) = row.diverging_epoch {
        let message = format!("the leader's log ends epoch {epoch} at offset {offset}");
        return Some(Outcome::Stopped(Problem {
            epoch,
            offset,
            ..Problem::new(Kind::Diverged, NONE, message)
        }));
    }
    let taken = append_records(append, records, asked.offset).and_then(|()| {
        if row.high_watermark >= 0 {
            replica.set_high_watermark(row.high_watermark);
        }
        Ok(replica.move_start_offset(row.log_start_offset)?)
    });
    Some(match taken {
        Ok(()) => Outcome::Taken {
            leader_high_watermark: row.high_watermark,
        },
        Err(untaken) => Outcome::Stopped(problem_of(&untaken)),
    })
}

/// Why a partition's records could not be taken.
enum Untaken {
    Log(LogError),
    /// There is not one whole batch, so that the next answer would be the same.
    NoBatch(usize),
}

impl From<LogError> for Untaken {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

fn append_records(append: &Append<'_>, records: &[u8], from: i64) -> Result<(), Untaken> {
    let replica = &*append.replica;
    for piece in pieces(records, replica.append_bytes_max()) {
        match append.terms.is_agreed {
            true => replica.append_of_any_epoch(piece, append.leader_epoch)?,
            false => replica.append(piece, append.leader_epoch)?,
        }
    }
    if !records.is_empty() && replica.end_offset() == from {
        return Err(Untaken::NoBatch(records.len()));
    }
    Ok(())
}

/// Whole batches in pieces of at most `bytes_max` (a larger batch is a piece of its own): a leader's segments may be larger than ours.
fn pieces(records: &[u8], bytes_max: usize) -> Vec<&[u8]> {
    if records.is_empty() {
        return Vec::new();
    }
    if records.len() <= bytes_max {
        return vec![records];
    }
    let mut pieces = Vec::new();
    let (mut start, mut end) = (0, 0);
    for batch in Batches::new(records) {
        let next = match batch {
            Ok(batch) => batch.position + batch.bytes.len(),
            Err(error) if error.is_incomplete() => break,
            // Bytes that are no batch: the log says what is wrong with them.
            Err(_) => records.len(),
        };
        if next - start > bytes_max && end > start {
            pieces.extend(records.get(start..end));
            start = end;
        }
        end = next;
    }
    if end > start {
        pieces.extend(records.get(start..end));
    }
    pieces
}

fn problem_of(error: &Untaken) -> Problem {
    let error = match error {
        Untaken::Log(error) => error,
        Untaken::NoBatch(bytes) => {
            let message = format!("the leader sent {bytes} bytes of records without a whole batch");
            return Problem::new(Kind::Corrupt, CORRUPT_MESSAGE, message);
        }
    };
    let message = error.to_string();
    match error {
        LogError::OtherEpoch { current, .. } => Problem {
            epoch: *current,
            ..Problem::new(Kind::Fenced, error.code(), message)
        },
        LogError::NewerEpoch { given, .. } => Problem {
            epoch: *given,
            ..Problem::new(Kind::NewerEpoch, error.code(), message)
        },
        LogError::Panicked(_) => Problem::new(Kind::Storage, STORAGE_ERROR, message),
        _ if error.code() == STORAGE_ERROR => Problem::new(Kind::Storage, STORAGE_ERROR, message),
        _ => Problem::new(Kind::Corrupt, error.code(), message),
    }
}
