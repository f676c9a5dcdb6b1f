//! Plain Produces: appended at once, answered at the end of their turn.

use std::mem;
use std::sync::Arc;

use super::rights::{WRITE, WRITE_IDEMPOTENTLY};
use super::turn::{Ended, Turn, Written};
use super::{Direct, Lease};
use crate::log::AppendInfo;
use crate::net::hub::{Hub, Hubs, Incoming, Ticket};
use crate::records::batch::{has_producer_id, is_transactional};
use crate::traffic::Count;
use crate::wire::keys::PRODUCE;
use crate::wire::produce::{self, ACKS_ALL, BATCHES_SINCE, PartitionResult};

/// An append that waits for the end of its turn, or for what its acknowledgement takes.
pub struct Appended<O> {
    pub(super) ticket: Ticket,
    pub lease: Arc<Lease<O>>,
    pub acks: i16,
    pub timeout_ms: i32,
    pub info: AppendInfo,
}

impl<O> Direct<O> {
    pub(super) fn serve_produce<T>(
        &self,
        hubs: &Hubs<T>,
        turn: &mut Turn<O>,
        mut incoming: Incoming,
    ) -> Option<Incoming> {
        let ticket = incoming.ticket;
        let client = incoming.origin.client();
        let body = &mut incoming.frame[incoming.header.body_start..];
        let Some(appended) = self.try_produce(body, ticket, client) else {
            return Some(incoming);
        };
        turn.note(appended);
        // The next Produce of this connection may start: it is appended behind this one.
        hubs.of(ticket.connection).appended(ticket);
        None
    }

    /// Appends the records of a plain Produce. None, with `body` as it came, for every other one and every error.
    fn try_produce(&self, body: &mut [u8], ticket: Ticket, client: u64) -> Option<Appended<O>> {
        if ticket.api_version < BATCHES_SINCE || self.leases.is_empty() {
            return None;
        }
        let request = produce::decode_request(body, ticket.api_version).ok()?;
        let [data] = request.partitions.as_slice() else {
            return None;
        };
        if !(ACKS_ALL..=1).contains(&request.acks) || request.transactional_id.is_some() {
            return None;
        }
        let lease = self.leases.get(&body[data.topic.clone()], data.partition)?;
        let terms = &lease.terms;
        if terms.is_internal || (request.acks == ACKS_ALL && !terms.accepts_all) {
            return None;
        }
        let records = &mut body[data.records.clone()?];
        if !lease.allows(client, needed(records)) {
            return None;
        }
        if produce::format_problem(ticket.api_version, records).is_some()
            || is_transactional(records)
        {
            return None;
        }
        let info = lease.append(records)?;
        Some(Appended {
            ticket,
            lease,
            acks: request.acks,
            timeout_ms: request.timeout_ms,
            info,
        })
    }

    /// Ends the turn if nobody else has a part in it. `is_over`: the hub has nothing more for this thread.
    pub(super) fn end_turn<T>(&self, hubs: &Hubs<T>, turn: &mut Turn<O>, is_over: bool) -> Ended {
        if turn.is_shared && (!is_over || turn.is_awaited) {
            (turn.is_shared, turn.is_awaited) = (false, false);
            return Ended::ByOthers;
        }
        if turn.touched.is_empty() && turn.written.is_empty() {
            return Ended::Before;
        }
        let written: Vec<Written<O>> = turn.touched.drain(..).map(Written::of).collect();
        for one in written {
            let moved = one.is_usual().then(|| one.lease.advance()).flatten();
            self.grown(hubs, &one.lease);
            match moved {
                Some(true) => self.advanced(hubs, &one.lease),
                Some(false) => {}
                None => turn.written.push(one),
            }
        }
        if !turn.written.is_empty() {
            return Ended::ByOthers;
        }
        if turn.appended.iter().all(Appended::is_safe) {
            answer_all(hubs, &coded(mem::take(&mut turn.appended)));
            return Ended::Here;
        }
        turn.appended = self.answer(hubs, turn);
        if turn.appended.is_empty() {
            return Ended::Here;
        }
        // A lease has ended, or nobody may wait here.
        for one in &turn.appended {
            let is_it = |other: &Written<O>| Arc::ptr_eq(&other.lease, &one.lease);
            if !turn.written.iter().any(is_it) {
                turn.written.push(Written::of(Arc::clone(&one.lease)));
            }
        }
        Ended::ByOthers
    }

    /// Writes what was appended since the turn began. Returns each partition that somebody else has to hear of, once.
    pub fn written(&self, turn: &mut Turn<O>) -> Vec<Written<O>> {
        let mut written = mem::take(&mut turn.written);
        written.extend(mem::take(&mut turn.touched).into_iter().map(Written::of));
        written
    }

    /// Answers what was appended in the turn, now that it has been [`written`](Self::written). Returns what is in the
    /// log and waits for what Python knows: a flush of it is due, or its lease has ended, before other replicas had it
    /// or the high watermark was behind it. What other replicas are waited for under a lease is answered here.
    #[must_use]
    pub fn answer<T>(&self, hubs: &Hubs<T>, turn: &mut Turn<O>) -> Vec<Appended<O>> {
        let appended = coded(mem::take(&mut turn.appended)).into_iter();
        let (waiting, settled): (Vec<_>, Vec<_>) =
            appended.partition(|(code, one)| *code == 0 && !one.is_safe());
        answer_all(hubs, &settled);
        self.await_others(hubs, waiting.into_iter().map(|(_, one)| one))
    }
}

/// The rights that a client needs to append these records.
fn needed(records: &[u8]) -> u8 {
    match has_producer_id(records) {
        true => WRITE | WRITE_IDEMPOTENTLY,
        false => WRITE,
    }
}

/// With the error code of each. The log is not asked under the hub's lock.
fn coded<O>(appended: Vec<Appended<O>>) -> Vec<(i16, Appended<O>)> {
    let appended = appended.into_iter();
    appended.map(|one| (one.error_code(), one)).collect()
}

pub(super) fn answer_all<O, T>(hubs: &Hubs<T>, appended: &[(i16, Appended<O>)]) {
    // Mostly they are all of one hub.
    let number = |one: &Appended<O>| hubs.number_of(one.ticket.connection);
    for answers in appended.chunk_by(|(_, one), (_, next)| number(one) == number(next)) {
        let Some((_, first)) = answers.first() else {
            continue;
        };
        let mut hub = hubs.of(first.ticket.connection);
        for (code, one) in answers {
            one.answer(&mut hub, *code);
        }
    }
}

impl<O> Appended<O> {
    /// Zero if the batch is in the log.
    fn error_code(&self) -> i16 {
        let lost = self.lease.log.lost(&self.info);
        lost.map_or(0, |error| error.code())
    }

    /// True if it may be acknowledged. It is in the log.
    fn is_safe(&self) -> bool {
        let (log, last) = (&self.lease.log, self.info.last_offset);
        match self.acks {
            0 => true,
            ACKS_ALL => last < log.settled_offset() && last < log.high_watermark(),
            _ => last < log.settled_offset(),
        }
    }

    /// Answers the request, once.
    pub fn answer_at<T>(&self, hubs: &Hubs<T>, error_code: i16) {
        self.answer(&mut hubs.of(self.ticket.connection), error_code);
    }

    /// Answers the request at its hub.
    fn answer<T>(&self, hub: &mut Hub<T>, error_code: i16) {
        let (ticket, lease, info) = (self.ticket, &self.lease, &self.info);
        let is_measured = ticket.started_us != 0;
        if is_measured && let Some(meter) = &hub.meter {
            let topic = [lease.topic.as_bytes()];
            meter.topics.note(topic.into_iter(), |_, row| {
                row.add(Count::ProduceRequests, 1);
                if produce::is_failure(error_code) {
                    row.add(Count::FailedProduceRequests, 1);
                }
            });
        }
        if self.acks == 0 {
            if error_code == 0 {
                hub.skip(ticket);
            } else {
                let reason = format!("a Produce with acks=0 failed with error {error_code}");
                hub.close_after(ticket, Some(&reason));
            }
            return;
        }
        let is_lost = error_code != 0;
        let result = PartitionResult {
            topic: lease.topic.as_bytes(),
            partition: lease.partition,
            error_code,
            base_offset: if is_lost { -1 } else { info.base_offset },
            log_append_time_ms: if is_lost { -1 } else { info.append_time_ms },
            log_start_offset: if is_lost { -1 } else { info.log_start_offset },
            record_errors: &[],
            error_message: None,
        };
        if is_measured && let Some(meter) = &mut hub.meter {
            meter.noted(PRODUCE, [error_code].into_iter());
        }
        let write =
            |to: &mut Vec<u8>| produce::encode_response(to, ticket.api_version, &[result], 0);
        hub.reply(ticket, write, Vec::new());
        if is_measured && let Some(meter) = &mut hub.meter {
            meter.throttled(PRODUCE, 0);
        }
    }
}
