//! Plain Fetches: a consumer's, outside of sessions and, with [`sessions`](super::sessions), in them. It reads
//! everything, or only what is committed.
//!
//! A Fetch of several partitions that waits for more than any record is handed on: what each of them has more would
//! have to be added up.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;

use super::parked::Parked;
use super::rights::{FOLLOW, READ};
use super::session::{Session, State};
use super::turn::Turn;
use super::{Direct, Lease};
use crate::log::leader_epochs::NO_EPOCH;
use crate::log::{FetchRange, Head, Reader};
use crate::net::hub::{Hubs, Incoming, Ticket};
use crate::traffic::Count;
use crate::wire::fetch::{
    self, BATCHES_SINCE, CONSUMER, FetchRequest, PartitionResponse, READ_COMMITTED,
    READ_UNCOMMITTED, RecordData, ResponseHead, ZSTD_SINCE,
};
use crate::wire::keys::FETCH;
use crate::wire::piece::Piece;

/// Python answers for more partitions, in pieces, between which others are served.
const PARTITIONS_MAX: usize = 1000;
const NO_SESSION: i32 = 0;
const WITHOUT_SESSION: i32 = -1;

pub(super) type Answer<'a> = PartitionResponse<&'a [u8], RecordData>;

/// The range of one partition that a Fetch asks for.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub offset: i64,
    /// How many bytes it may have.
    pub bytes_max: u64,
    pub reader: Reader,
}

/// One partition of a Fetch.
pub(super) struct Part<O> {
    pub range: Range,
    pub lease: Arc<Lease<O>>,
}

impl<O> Part<O> {
    /// True if its reader gets something, or an error.
    pub fn has_news(&self) -> bool {
        let read = self.lease.read(&self.range, true);
        read.is_none_or(|(answer, _)| answer.records.length() > 0)
    }

    /// The answer without records.
    pub fn nothing(&self) -> Answer<'_> {
        self.lease.nothing(self.range.reader)
    }
}

/// All partitions of a Fetch, as they were read.
pub(super) struct Found<'a> {
    pub answers: Vec<Answer<'a>>,
    pub length: u64,
    /// Waiting adds nothing.
    pub is_due: bool,
    /// Only Python can tell why one of them has no records, or have them read from the disk.
    pub is_unreadable: bool,
}

pub(super) fn read_all<O>(parts: &[Part<O>], bytes_max: u64) -> Found<'_> {
    let mut left = bytes_max;
    let mut found = Found {
        answers: Vec::with_capacity(parts.len()),
        length: 0,
        is_due: false,
        is_unreadable: false,
    };
    for part in parts {
        let range = Range {
            bytes_max: part.range.bytes_max.min(left),
            ..part.range
        };
        // The first records may exceed every limit, or a consumer could never pass a large batch (KIP-74).
        let Some((answer, goes_on)) = part.lease.read(&range, found.length == 0) else {
            found.is_unreadable = true;
            found.answers.push(part.nothing());
            continue;
        };
        let size = answer.records.length();
        found.is_due |= goes_on;
        found.length += size;
        left = left.saturating_sub(size);
        found.answers.push(answer);
    }
    // Nobody waits for more than an answer may have.
    found.is_due |= left == 0;
    found
}

/// A request, without its partitions.
pub(super) struct Asking {
    pub ticket: Ticket,
    /// The broker that follows; None: a consumer reads.
    pub follower: Option<i32>,
    /// The number of the client ([`rights`](super::rights)).
    pub client: u64,
    pub reader: Reader,
    pub bytes_max: u64,
    /// How many bytes it waits for.
    pub wanted: u64,
    pub wait: Duration,
}

impl Asking {
    /// None if it is neither a consumer's nor a follower's, or is wrong in itself.
    fn of(request: &FetchRequest, (ticket, client): (Ticket, u64), bytes_max: u64) -> Option<Self> {
        let (follower, reader) = match (request.replica_id, request.isolation_level) {
            (CONSUMER, READ_UNCOMMITTED) => (None, Reader::Consumer),
            (CONSUMER, READ_COMMITTED) => (None, Reader::Committed),
            (broker @ 0.., _) => (Some(broker), Reader::Replica),
            _ => return None,
        };
        Some(Self {
            ticket,
            follower,
            client,
            reader,
            bytes_max: u64::try_from(request.max_bytes).ok()?.min(bytes_max),
            wanted: u64::try_from(request.min_bytes).unwrap_or(0),
            wait: Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)),
        })
    }

    /// True if what was found is to be answered at once.
    pub fn is_met(&self, found: &Found<'_>) -> bool {
        found.length >= self.wanted || found.is_due || self.wait.is_zero()
    }

    /// True if it may wait here for so many partitions: nobody adds up what several have.
    pub fn may_wait(&self, partitions: usize) -> bool {
        partitions <= 1 || self.wanted <= 1
    }
}

/// Answers a Fetch: in a session, with what is news to its client. False if what was found cannot be told.
pub(super) fn answer<O, T>(
    hubs: &Hubs<T>,
    ticket: Ticket,
    session: Option<(&Session<O>, &mut State<O>)>,
    answers: Vec<Answer<'_>>,
) -> bool {
    let Some((session, state)) = session else {
        return reply(hubs, ticket, (NO_SESSION, Count::BytesOut), answers);
    };
    let answers = state.news(answers);
    let bytes_out = match session.following {
        Some(_) => Count::ReplicationBytesOut,
        None => Count::BytesOut,
    };
    reply(hubs, ticket, (session.id, bytes_out), answers)
}

/// Sends an answer. False if it cannot be written.
fn reply<T>(
    hubs: &Hubs<T>,
    ticket: Ticket,
    (session_id, bytes_out): (i32, Count),
    partitions: Vec<Answer<'_>>,
) -> bool {
    let is_measured = ticket.started_us != 0;
    let count = partitions.len();
    if is_measured && let Some(meter) = &hubs.of(ticket.connection).meter {
        let topics = partitions.iter().map(|one| one.topic);
        meter.topics.note(topics, |index, row| {
            row.add(Count::FetchRequests, 1);
            row.add(bytes_out, partitions[index].records.length());
        });
    }
    let head = ResponseHead {
        session_id,
        ..ResponseHead::default()
    };
    let Ok(pieces) = fetch::encode_response(ticket.api_version, head, partitions) else {
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
    /// The partition's answer, and whether [waiting adds nothing](crate::log::ReadInfo::goes_on) to it. None for what
    /// only Python can tell, or have read from the disk.
    fn read(&self, range: &Range, at_least_one: bool) -> Option<(Answer<'_>, bool)> {
        let head = self.log.head();
        let fetched = self.log.fetch_cached(&FetchRange {
            offset: range.offset,
            bytes_max: range.bytes_max,
            upper_bound: head.bound(range.reader),
            at_least_one,
            committed: range.reader == Reader::Committed,
        });
        let fetched = fetched.ok()??;
        let aborted_transactions = fetched.aborted_transactions();
        let slice = fetched.slice;
        let records = slice.map_or(RecordData::Empty, |slice| RecordData::File(slice.into()));
        let answer = Answer {
            aborted_transactions,
            records,
            ..self.answer(head)
        };
        Some((answer, fetched.goes_on))
    }

    /// The partition's answer without records.
    fn nothing(&self, reader: Reader) -> Answer<'_> {
        Answer {
            aborted_transactions: (reader == Reader::Committed).then(Vec::new),
            ..self.answer(self.log.head())
        }
    }

    fn answer(&self, head: Head) -> Answer<'_> {
        PartitionResponse {
            high_watermark: head.high_watermark,
            last_stable_offset: head.last_stable_offset,
            log_start_offset: head.log_start_offset,
            ..PartitionResponse::empty(self.topic.as_bytes(), self.partition, 0, RecordData::Empty)
        }
    }
}

impl<O> Direct<O> {
    pub(super) fn serve_fetch<T>(
        &self,
        hubs: &Hubs<T>,
        turn: &mut Turn<O>,
        incoming: Incoming,
    ) -> Option<Incoming> {
        let body = &incoming.frame[incoming.header.body_start..];
        let from = (incoming.ticket, incoming.origin.client());
        match self.try_fetch(hubs, turn, body, from) {
            Some(()) => None,
            None => Some(incoming),
        }
    }

    /// Answers a plain Fetch, or lets it wait. None if it is not plain, or only Python can answer it.
    fn try_fetch<T>(
        &self,
        hubs: &Hubs<T>,
        turn: &mut Turn<O>,
        body: &[u8],
        from: (Ticket, u64),
    ) -> Option<()> {
        let (ticket, _) = from;
        if ticket.api_version < BATCHES_SINCE || self.leases.is_empty() {
            return None;
        }
        let mut request = fetch::decode_request(body, ticket.api_version).ok()?;
        let asking = Asking::of(&request, from, self.fetch_bytes_max.load(Ordering::Acquire))?;
        if !request.rack_id.is_empty() && !self.serves_racks.load(Ordering::Acquire) {
            return None;
        }
        if request.partitions.len() > PARTITIONS_MAX {
            return None;
        }
        request.name_each_once(body);
        match (request.session_id, request.session_epoch) {
            (NO_SESSION, WITHOUT_SESSION) if asking.follower.is_none() => {
                self.fetch_all(hubs, body, &request, &asking)
            }
            (NO_SESSION, _) | (_, ..=0) => None,
            _ => self.fetch_in_session(hubs, turn, body, &request, &asking),
        }
    }

    /// Serves a request that names all that it asks for.
    fn fetch_all<T>(
        &self,
        hubs: &Hubs<T>,
        body: &[u8],
        request: &FetchRequest,
        asking: &Asking,
    ) -> Option<()> {
        let parts = self.plain(body, request, asking)?;
        let found = read_all(&parts, asking.bytes_max);
        if found.is_unreadable {
            return None;
        }
        if asking.is_met(&found) {
            return answer::<O, T>(hubs, asking.ticket, None, found.answers).then_some(());
        }
        if !asking.may_wait(parts.len()) {
            return None;
        }
        let parked = Parked {
            ticket: asking.ticket,
            wanted: asking.wanted,
            bytes_max: asking.bytes_max,
            id: 0,
            session: None,
            follows: false,
            parts: Mutex::new(parts),
        };
        self.park(hubs, parked, asking.wait, None).then_some(())
    }

    /// The partitions of a request that names all that it asks for. None if only Python can serve it.
    fn plain(&self, body: &[u8], request: &FetchRequest, asking: &Asking) -> Option<Vec<Part<O>>> {
        if request.partitions.is_empty() {
            return None;
        }
        let mut parts = Vec::with_capacity(request.partitions.len());
        for asked in &request.partitions {
            let key = (&body[asked.topic.clone()], asked.partition);
            let epoch = asked.current_leader_epoch;
            let lease = self.readable(key, epoch, asking)?;
            if asked.last_fetched_epoch >= 0 {
                return None;
            }
            let range = Range {
                offset: asked.fetch_offset,
                bytes_max: u64::try_from(asked.bytes_max).ok()?,
                reader: asking.reader,
            };
            parts.push(Part { range, lease });
        }
        Some(parts)
    }

    /// The lease under which a partition may be read by a client that believes in a leader epoch. None if there is
    /// none, or only Python knows what to say. Every request asks so for each of its partitions, in a session or not.
    pub(super) fn readable(
        &self,
        (topic, partition): (&[u8], i32),
        epoch: i32,
        asking: &Asking,
    ) -> Option<Arc<Lease<O>>> {
        let lease = self.leases.get(topic, partition)?;
        let is_other_epoch = epoch != NO_EPOCH && epoch != lease.terms.leader_epoch;
        let is_too_old = lease.terms.is_zstd && asking.ticket.api_version < ZSTD_SINCE;
        let (needed, is_served) = match asking.follower {
            None => (READ, !lease.terms.is_internal),
            Some(broker) => (FOLLOW, lease.follower(broker).is_some()),
        };
        if !is_served || !lease.allows(asking.client, needed) || is_other_epoch || is_too_old {
            return None;
        }
        Some(lease)
    }
}
