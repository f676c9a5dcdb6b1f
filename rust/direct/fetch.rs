//! Plain Fetches: a consumer's, outside of sessions, that reads everything and not only what is committed.
//!
//! A Fetch of several partitions that has to wait is handed on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::parked::{Parked, Parking};
use super::{Direct, Lease};
use crate::log::leader_epochs::NO_EPOCH;
use crate::net::hub::{Hubs, Incoming, Ticket};
use crate::traffic::Count;
use crate::wire::fetch::{
    self, CONSUMER, FetchPartition, PartitionResponse, READ_UNCOMMITTED, RecordData, ResponseHead,
    ZSTD_SINCE,
};
use crate::wire::keys::FETCH;
use crate::wire::piece::Piece;

/// Python answers for more partitions, in pieces, between which others are served.
const PARTITIONS_MAX: usize = 1000;
const NO_SESSION: i32 = 0;
const WITHOUT_SESSION: i32 = -1;

pub(super) type Answer<'a> = PartitionResponse<&'a [u8], RecordData>;

/// A Fetch that is plain in itself.
struct Plain<O> {
    /// Each partition once, with its lease.
    partitions: Vec<(FetchPartition, Arc<Lease<O>>)>,
    bytes_max: u64,
    /// How many bytes it waits for.
    wanted: u64,
    wait: Duration,
}

/// What becomes of a plain Fetch.
enum Found<'a> {
    Answers(Vec<Answer<'a>>),
    /// There is too little below this high watermark of its only partition.
    Waits(i64),
}

/// Answers a Fetch. False if what was found cannot be told.
pub(super) fn reply<T>(hubs: &Hubs<T>, ticket: Ticket, partitions: Vec<Answer<'_>>) -> bool {
    let is_measured = ticket.started_us != 0;
    let count = partitions.len();
    if is_measured && let Some(meter) = &hubs.of(ticket.connection).meter {
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
    let mut hub = hubs.of(ticket.connection);
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

impl<O> Plain<O> {
    /// What there is, or that the Fetch waits. None if only Python can answer it.
    fn find(&self) -> Option<Found<'_>> {
        let (mut left, mut length) = (self.bytes_max, 0);
        let mut is_due = self.wait.is_zero();
        let mut answers = Vec::with_capacity(self.partitions.len());
        for (asked, lease) in &self.partitions {
            let bytes_max = u64::try_from(asked.bytes_max).ok()?.min(left);
            // The first records may exceed every limit, or a consumer could never pass a large batch (KIP-74).
            let (found, goes_on) = lease.read(asked.fetch_offset, bytes_max, length == 0)?;
            is_due |= goes_on;
            let size = found.records.length();
            length += size;
            left = left.saturating_sub(size);
            answers.push(found);
        }
        if length >= self.wanted || is_due || left == 0 {
            return Some(Found::Answers(answers));
        }
        let [only] = answers.as_slice() else {
            return None;
        };
        Some(Found::Waits(only.high_watermark))
    }
}

impl<O> Direct<O> {
    pub(super) fn serve_fetch<T>(&self, hubs: &Hubs<T>, incoming: Incoming) -> Option<Incoming> {
        let body = &incoming.frame[incoming.header.body_start..];
        match self.try_fetch(hubs, body, incoming.ticket) {
            Some(()) => None,
            None => Some(incoming),
        }
    }

    /// Answers a plain Fetch, or lets it wait. None if it is not plain, or only Python can answer it.
    fn try_fetch<T>(&self, hubs: &Hubs<T>, body: &[u8], ticket: Ticket) -> Option<()> {
        if ticket.api_version < ZSTD_SINCE || self.leases.is_empty() {
            return None;
        }
        let fetch = self.plain(body, ticket.api_version)?;
        loop {
            let high_watermark = match fetch.find()? {
                Found::Answers(answers) => return reply(hubs, ticket, answers).then_some(()),
                Found::Waits(high_watermark) => high_watermark,
            };
            let (asked, lease) = fetch.partitions.first()?;
            let parked = Parked {
                ticket,
                offset: asked.fetch_offset,
                bytes_max: u64::try_from(asked.bytes_max).ok()?.min(fetch.bytes_max),
                wanted: fetch.wanted,
                id: 0,
            };
            match self.park(lease, parked, fetch.wait, high_watermark) {
                Parking::Waits => return Some(()),
                Parking::HandedOn => return None,
                Parking::LooksAgain => {}
            }
        }
    }

    fn plain(&self, body: &[u8], api_version: i16) -> Option<Plain<O>> {
        let mut request = fetch::decode_request(body, api_version).ok()?;
        let is_plain = request.replica_id == CONSUMER
            && request.isolation_level == READ_UNCOMMITTED
            && (request.session_id, request.session_epoch) == (NO_SESSION, WITHOUT_SESSION)
            && (request.rack_id.is_empty() || self.serves_racks.load(Ordering::Acquire));
        if !is_plain || !(1..=PARTITIONS_MAX).contains(&request.partitions.len()) {
            return None;
        }
        request.name_each_once(body);
        let bytes_max = u64::try_from(request.max_bytes).ok()?;
        let bytes_max = bytes_max.min(self.fetch_bytes_max.load(Ordering::Acquire));
        let mut partitions = Vec::with_capacity(request.partitions.len());
        for asked in request.partitions {
            let lease = self
                .leases
                .get(&body[asked.topic.clone()], asked.partition)?;
            let epoch = asked.current_leader_epoch;
            let is_other_epoch = epoch != NO_EPOCH && epoch != lease.terms.leader_epoch;
            if !lease.terms.everyone_may_read || is_other_epoch || asked.last_fetched_epoch >= 0 {
                return None;
            }
            partitions.push((asked, lease));
        }
        Some(Plain {
            partitions,
            bytes_max,
            // Nobody waits for more than an answer may have.
            wanted: u64::try_from(request.min_bytes).unwrap_or(0).min(bytes_max),
            wait: Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)),
        })
    }
}
