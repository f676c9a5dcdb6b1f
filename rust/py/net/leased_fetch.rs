//! Fetches that leases allow to answer without Python: a consumer's, outside of sessions, that reads everything (not only what is
//! committed), and finds what it wants at once. Who has to wait, and every error, goes to Python.

use parking_lot::Mutex;

use super::hub::Shared;
use super::lease::State;
use crate::log::traffic::{self, Count};
use crate::net::hub::Incoming;
use crate::wire::fetch::{self, PartitionResponse, RecordData, ResponseHead};
use crate::wire::piece::Piece;

const FETCH: i16 = 1;
/// The first version whose consumers can read everything that is stored (zstd).
const ANYTHING_SINCE: i16 = 10;
const CONSUMER: i32 = -1;
const NO_SESSION: i32 = 0;
const WITHOUT_SESSION: i32 = -1;

pub(super) fn serve(leases: &Mutex<State>, hub: &Shared, incoming: Incoming) -> Option<Incoming> {
    let ticket = incoming.ticket;
    let state = leases.lock();
    if ticket.api_version < ANYTHING_SINCE || state.is_empty() {
        return Some(incoming);
    }
    let body = &incoming.frame[incoming.header.body_start..];
    let Some(partitions) = read(&state, body, ticket.api_version) else {
        return Some(incoming);
    };
    drop(state);
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
        return Some(incoming);
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
    drop(hub);
    None
}

type Answer<'a> = PartitionResponse<&'a [u8], RecordData>;

/// What is asked for, if it may be had without Python.
fn read<'a>(state: &State, body: &'a [u8], version: i16) -> Option<Vec<Answer<'a>>> {
    let request = fetch::decode_request(body, version).ok()?;
    let is_plain = request.replica_id == CONSUMER
        && request.isolation_level == 0
        && (request.session_id, request.session_epoch) == (NO_SESSION, WITHOUT_SESSION);
    if !is_plain || request.partitions.is_empty() {
        return None;
    }
    let bytes_max = u64::try_from(request.max_bytes)
        .ok()?
        .min(state.fetch_bytes_max);
    let may_wait = request.max_wait_ms > 0;
    let wanted = u64::try_from(request.min_bytes).unwrap_or(0);
    let (mut left, mut length) = (bytes_max, 0);
    let mut answers = Vec::with_capacity(request.partitions.len());
    for asked in &request.partitions {
        let topic = &body[asked.topic.clone()];
        let lease = state.get(topic, asked.partition)?;
        let epoch = asked.current_leader_epoch;
        if epoch != -1 && epoch != lease.leader_epoch || asked.last_fetched_epoch >= 0 {
            return None;
        }
        let high_watermark = lease.log.high_watermark();
        if may_wait
            && wanted > 0
            && request.partitions.len() == 1
            && asked.fetch_offset >= high_watermark
        {
            return None; // it waits
        }
        let bytes_max = u64::try_from(asked.bytes_max).ok()?.min(left);
        // The first records may exceed every limit, or a consumer could never pass a large batch (KIP-74).
        let found = lease
            .log
            .read(asked.fetch_offset, bytes_max, high_watermark, length == 0);
        let slice = found.ok()?.slice;
        let size = slice.as_ref().map_or(0, |slice| slice.length);
        length += size;
        left = left.saturating_sub(size);
        let records = slice.map_or(RecordData::Empty, |slice| RecordData::File(slice.into()));
        answers.push(PartitionResponse {
            high_watermark,
            last_stable_offset: lease.log.last_stable_offset(),
            log_start_offset: lease.log.start_offset(),
            ..PartitionResponse::empty(topic, asked.partition, 0, records)
        });
    }
    (length >= wanted || !may_wait || left == 0).then_some(answers)
}
