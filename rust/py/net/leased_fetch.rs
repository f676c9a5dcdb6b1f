//! Fetches that leases allow to serve without Python: a consumer's, outside of sessions, that reads everything (not only what is committed).
//! One of several partitions that has to wait, and every error, goes to Python.

use std::sync::Arc;
use std::time::Duration;

use super::hub::Shared;
use super::lease::{Lease, Leases, State};
use super::parked::Parked;
use crate::log::traffic::{self, Count};
use crate::net::hub::{Incoming, Ticket};
use crate::wire::fetch::{self, PartitionResponse, RecordData, ResponseHead};
use crate::wire::piece::Piece;

const FETCH: i16 = 1;
/// The first version whose consumers can read everything that is stored (zstd).
const ANYTHING_SINCE: i16 = 10;
const CONSUMER: i32 = -1;
/// Of more partitions Python answers, in pieces, between which others are served.
const PARTITIONS_MAX: usize = 1000;
const NO_SESSION: i32 = 0;
const WITHOUT_SESSION: i32 = -1;

pub(super) type Answer<'a> = PartitionResponse<&'a [u8], RecordData>;

/// What becomes of a Fetch.
enum Found<'a> {
    Answers(Vec<Answer<'a>>),
    Waits(Arc<Lease>, Parked, Duration),
}

pub(super) fn serve(leases: &Leases, hub: &Shared, incoming: Incoming) -> Option<Incoming> {
    let ticket = incoming.ticket;
    let state = leases.0.lock();
    if ticket.api_version < ANYTHING_SINCE || state.is_empty() {
        return Some(incoming);
    }
    let body = &incoming.frame[incoming.header.body_start..];
    match read(&state, body, ticket) {
        Some(Found::Answers(answers)) => {
            let is_sent = reply(hub, ticket, answers);
            drop(state);
            (!is_sent).then_some(incoming)
        }
        Some(Found::Waits(lease, fetch, wait)) => {
            drop(state);
            leases.park(&lease, fetch, wait);
            None
        }
        None => {
            drop(state);
            Some(incoming)
        }
    }
}

/// Answers a Fetch. False if what was found cannot be told.
pub(super) fn reply(hub: &Shared, ticket: Ticket, partitions: Vec<Answer<'_>>) -> bool {
    let is_measured = ticket.started_us != 0;
    let count = partitions.len();
    if is_measured {
        traffic::note(partitions.iter().map(|one| one.topic), |index, row| {
            row.add(Count::FetchRequests, 1);
            row.add(Count::BytesOut, partitions[index].records.length());
        });
    }
    let Ok(pieces) =
        fetch::encode_response(ticket.api_version, ResponseHead::default(), partitions)
    else {
        return false;
    };
    let mut pieces = pieces.into_iter().peekable();
    let first = match pieces.next_if(|piece| matches!(piece, Piece::Bytes(_))) {
        Some(Piece::Bytes(bytes)) => bytes,
        _ => Vec::new(),
    };
    let mut hub = hub.lock();
    if is_measured && let Some(meter) = &mut hub.meter {
        // Of the answer, and of each partition.
        meter.noted(FETCH, std::iter::repeat_n(0, 1 + count));
    }
    hub.reply(ticket, |to| to.extend_from_slice(&first), pieces.collect());
    if is_measured && let Some(meter) = &mut hub.meter {
        meter.throttled(FETCH, 0);
    }
    true
}

/// What is there from an offset on; None for what only Python can tell, or have read from the disk.
pub(super) fn answer(
    lease: &Lease,
    offset: i64,
    bytes_max: u64,
    at_least_one: bool,
) -> Option<Answer<'_>> {
    let high_watermark = lease.log.high_watermark();
    let found = lease
        .log
        .read_cached(offset, bytes_max, high_watermark, at_least_one);
    let slice = found.ok()??.slice;
    let records = slice.map_or(RecordData::Empty, |slice| RecordData::File(slice.into()));
    Some(Answer {
        high_watermark,
        records,
        ..lease.nothing()
    })
}

impl Lease {
    /// A partition's answer without records.
    pub(super) fn nothing(&self) -> Answer<'_> {
        PartitionResponse {
            high_watermark: self.log.high_watermark(),
            last_stable_offset: self.log.last_stable_offset(),
            log_start_offset: self.log.start_offset(),
            ..PartitionResponse::empty(self.topic.as_bytes(), self.partition, 0, RecordData::Empty)
        }
    }
}

/// What is asked for, or that it is to be waited for; None if that needs Python.
fn read<'a>(state: &'a State, body: &[u8], ticket: Ticket) -> Option<Found<'a>> {
    let mut request = fetch::decode_request(body, ticket.api_version).ok()?;
    let is_plain = request.replica_id == CONSUMER
        && request.isolation_level == 0
        && (request.session_id, request.session_epoch) == (NO_SESSION, WITHOUT_SESSION);
    if !is_plain || request.partitions.is_empty() || request.partitions.len() > PARTITIONS_MAX {
        return None;
    }
    request.name_each_once(body);
    let bytes_max = u64::try_from(request.max_bytes)
        .ok()?
        .min(state.fetch_bytes_max);
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    // Nobody waits for more than an answer may have.
    let wanted = u64::try_from(request.min_bytes).unwrap_or(0).min(bytes_max);
    let (mut left, mut length) = (bytes_max, 0);
    let mut answers = Vec::with_capacity(request.partitions.len());
    for asked in &request.partitions {
        let topic = &body[asked.topic.clone()];
        let lease = state.get(topic, asked.partition)?;
        let epoch = asked.current_leader_epoch;
        if epoch != -1 && epoch != lease.leader_epoch || asked.last_fetched_epoch >= 0 {
            return None;
        }
        let bytes_max = u64::try_from(asked.bytes_max).ok()?.min(left);
        // The first records may exceed every limit, or a consumer could never pass a large batch (KIP-74).
        let found = answer(lease, asked.fetch_offset, bytes_max, length == 0)?;
        let size = found.records.length();
        length += size;
        left = left.saturating_sub(size);
        answers.push(found);
    }
    if length >= wanted || wait.is_zero() || left == 0 {
        return Some(Found::Answers(answers));
    }
    let [asked] = request.partitions.as_slice() else {
        return None;
    };
    let lease = state.get(&body[asked.topic.clone()], asked.partition)?;
    let bytes_max = u64::try_from(asked.bytes_max).ok()?.min(bytes_max);
    let fetch = Parked::new(ticket, asked.fetch_offset, bytes_max, wanted);
    state
        .may_park
        .then(|| Found::Waits(Arc::clone(lease), fetch, wait))
}
