//! Plain Fetches: a consumer's, outside of sessions, that reads everything and not only what is committed.
//!
//! A Fetch of several partitions that has to wait is handed on.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::parked::Parked;
use super::{Direct, Lease, State};
use crate::log::leader_epochs::NO_EPOCH;
use crate::net::hub::{Hub, Incoming, Ticket};
use crate::traffic::Count;
use crate::wire::fetch::{
    self, CONSUMER, PartitionResponse, READ_UNCOMMITTED, RecordData, ResponseHead, ZSTD_SINCE,
};
use crate::wire::keys::FETCH;
use crate::wire::piece::Piece;

/// Python answers for more partitions, in pieces, between which others are served.
const PARTITIONS_MAX: usize = 1000;
const NO_SESSION: i32 = 0;
const WITHOUT_SESSION: i32 = -1;

pub(super) type Answer<'a> = PartitionResponse<&'a [u8], RecordData>;

/// What becomes of a plain Fetch.
enum Found<'a, O> {
    Answers(Vec<Answer<'a>>),
    Waits(&'a Arc<Lease<O>>, Waiting),
}

/// A Fetch that found too little below `high_watermark`.
struct Waiting {
    parked: Parked,
    wait: Duration,
    high_watermark: i64,
}

/// Answers a Fetch. False if what was found cannot be told.
pub(super) fn reply<T>(hub: &Mutex<Hub<T>>, ticket: Ticket, partitions: Vec<Answer<'_>>) -> bool {
    let is_measured = ticket.started_us != 0;
    let count = partitions.len();
    if is_measured && let Some(meter) = &hub.lock().meter {
        let topics = partitions.iter().map(|one| one.topic);
        meter.topics.note(topics, |index, row| {
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
        // One code for the answer, and one for each partition.
        meter.noted(FETCH, std::iter::repeat_n(0, 1 + count));
    }
    hub.reply(ticket, |to| to.extend_from_slice(&first), pieces.collect());
    if is_measured && let Some(meter) = &mut hub.meter {
        meter.throttled(FETCH, 0);
    }
    true
}

impl<O> Lease<O> {
    /// The partition's answer from an offset on, and whether [waiting adds nothing](crate::log::ReadInfo::goes_on) to it. None for what only
    /// Python can tell, or have read from the disk.
    pub(super) fn read(
        &self,
        offset: i64,
        bytes_max: u64,
        at_least_one: bool,
    ) -> Option<(Answer<'_>, bool)> {
        let high_watermark = self.log.high_watermark();
        let found = self
            .log
            .read_cached(offset, bytes_max, high_watermark, at_least_one);
        let found = found.ok()??;
        let slice = found.slice;
        let records = slice.map_or(RecordData::Empty, |slice| RecordData::File(slice.into()));
        let answer = Answer {
            high_watermark,
            records,
            ..self.nothing()
        };
        Some((answer, found.goes_on))
    }

    /// The partition's answer without records.
    pub(super) fn nothing(&self) -> Answer<'_> {
        PartitionResponse {
            high_watermark: self.log.high_watermark(),
            last_stable_offset: self.log.last_stable_offset(),
            log_start_offset: self.log.start_offset(),
            ..PartitionResponse::empty(self.topic.as_bytes(), self.partition, 0, RecordData::Empty)
        }
    }
}

impl<O> State<O> {
    /// What a plain Fetch gets, or that it waits. None if it is not plain, or only Python can answer it.
    fn find(&self, body: &[u8], ticket: Ticket) -> Option<Found<'_, O>> {
        let mut request = fetch::decode_request(body, ticket.api_version).ok()?;
        let is_plain = request.replica_id == CONSUMER
            && request.isolation_level == READ_UNCOMMITTED
            && (request.session_id, request.session_epoch) == (NO_SESSION, WITHOUT_SESSION)
            && (request.rack_id.is_empty() || self.serves_racks);
        if !is_plain || !(1..=PARTITIONS_MAX).contains(&request.partitions.len()) {
            return None;
        }
        request.name_each_once(body);
        let bytes_max = u64::try_from(request.max_bytes)
            .ok()?
            .min(self.fetch_bytes_max);
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        // Nobody waits for more than an answer may have.
        let wanted = u64::try_from(request.min_bytes).unwrap_or(0).min(bytes_max);
        let (mut left, mut length) = (bytes_max, 0);
        let mut is_due = wait.is_zero();
        let mut answers = Vec::with_capacity(request.partitions.len());
        for asked in &request.partitions {
            let lease = self.get(&body[asked.topic.clone()], asked.partition)?;
            let epoch = asked.current_leader_epoch;
            let is_other_epoch = epoch != NO_EPOCH && epoch != lease.terms.leader_epoch;
            if !lease.terms.everyone_may_read || is_other_epoch || asked.last_fetched_epoch >= 0 {
                return None;
            }
            let bytes_max = u64::try_from(asked.bytes_max).ok()?.min(left);
            // The first records may exceed every limit, or a consumer could never pass a large batch (KIP-74).
            let (found, goes_on) = lease.read(asked.fetch_offset, bytes_max, length == 0)?;
            is_due |= goes_on;
            let size = found.records.length();
            length += size;
            left = left.saturating_sub(size);
            answers.push(found);
        }
        if length >= wanted || is_due || left == 0 {
            return Some(Found::Answers(answers));
        }
        let ([asked], [found]) = (request.partitions.as_slice(), answers.as_slice()) else {
            return None;
        };
        let lease = self.get(&body[asked.topic.clone()], asked.partition)?;
        let waiting = Waiting {
            parked: Parked {
                ticket,
                offset: asked.fetch_offset,
                bytes_max: u64::try_from(asked.bytes_max).ok()?.min(bytes_max),
                wanted,
                id: 0,
            },
            wait,
            high_watermark: found.high_watermark,
        };
        self.may_park.then_some(Found::Waits(lease, waiting))
    }
}

impl<O> Direct<O> {
    pub(super) fn serve_fetch<T>(
        &self,
        hub: &Mutex<Hub<T>>,
        incoming: Incoming,
    ) -> Option<Incoming> {
        let ticket = incoming.ticket;
        let mut state = self.state.lock();
        if ticket.api_version < ZSTD_SINCE || state.by_topic.is_empty() {
            return Some(incoming);
        }
        let body = &incoming.frame[incoming.header.body_start..];
        loop {
            match state.find(body, ticket) {
                None => break,
                Some(Found::Answers(answers)) => {
                    if !reply(hub, ticket, answers) {
                        break;
                    }
                    return None;
                }
                Some(Found::Waits(lease, waiting)) => {
                    let lease = Arc::clone(lease);
                    let Waiting {
                        parked,
                        wait,
                        high_watermark,
                    } = waiting;
                    if state.park(&lease, parked, wait, high_watermark) {
                        return None;
                    }
                    // Another thread moved the high watermark in between.
                }
            }
        }
        drop(state);
        Some(incoming)
    }
}
