//! Plain Produces: appended at once, answered at the end of their turn.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Direct, Lease, State};
use crate::log::verification::NO_GUARD;
use crate::log::{self, AppendInfo, Origin, When, home};
use crate::net::hub::{Hub, Incoming, Ticket};
use crate::records::batch::is_transactional;
use crate::traffic::Count;
use crate::wire::keys::PRODUCE;
use crate::wire::produce::{self, ACKS_ALL, BATCHES_SINCE, PartitionResult};

/// An append that waits for the end of its turn.
pub(super) struct Appended<O> {
    ticket: Ticket,
    lease: Arc<Lease<O>>,
    acks: i16,
    info: AppendInfo,
}

/// A partition that was appended to in a turn.
pub struct Written<O> {
    pub lease: Arc<Lease<O>>,
    pub turn: log::Turn,
}

/// What waits for the end of a thread's turn, which goes from one [`Served`](crate::net::hub::Event::Served) to the next.
pub(super) struct Turn<O> {
    /// Appended to in this turn and not written yet, each once.
    touched: Vec<Arc<Lease<O>>>,
    /// Not answered yet.
    appended: Vec<Appended<O>>,
    /// What was written at the end of the turn, for somebody else who has to hear of it.
    written: Vec<Written<O>>,
    /// Somebody else has a part in the turn, and ends it.
    is_shared: bool,
    /// It was given a request, and waits for the turn's end.
    is_awaited: bool,
}

impl<O> Default for Turn<O> {
    fn default() -> Self {
        Self {
            touched: Vec::new(),
            appended: Vec::new(),
            written: Vec::new(),
            is_shared: false,
            is_awaited: false,
        }
    }
}

impl<O> Turn<O> {
    pub fn is_idle(&self) -> bool {
        self.touched.is_empty()
            && self.appended.is_empty()
            && self.written.is_empty()
            && !self.is_awaited
    }

    /// Somebody else was given an event.
    pub fn awaits(&mut self, is_request: bool) {
        self.is_shared = true;
        self.is_awaited |= is_request;
    }
}

/// Who ended a turn.
pub(super) enum Ended {
    /// There was nothing to end.
    Before,
    Here,
    /// Nobody yet: somebody else has to hear of it and end it.
    ByOthers,
}

impl<O> Written<O> {
    /// Writes what was appended under a lease.
    fn of(lease: &Arc<Lease<O>>) -> Self {
        Self {
            lease: Arc::clone(lease),
            turn: lease.log.write_staged(),
        }
    }

    /// Nobody else has to hear of it.
    fn is_quiet(&self) -> bool {
        let lease = &self.lease;
        let is_usual = !self.turn.flush_due && self.turn.lost.is_none();
        lease.terms.is_alone && is_usual && !lease.is_watched()
    }
}

impl<O> State<O> {
    /// Appends the records of a plain Produce. None, with `body` as it came, for every other one and every error.
    fn try_append(
        &self,
        body: &mut [u8],
        api_version: i16,
    ) -> Option<(Arc<Lease<O>>, i16, AppendInfo)> {
        let request = produce::decode_request(body, api_version).ok()?;
        let [data] = request.partitions.as_slice() else {
            return None;
        };
        if !(ACKS_ALL..=1).contains(&request.acks) || request.transactional_id.is_some() {
            return None;
        }
        let lease = self.get(&body[data.topic.clone()], data.partition)?;
        let terms = &lease.terms;
        if !terms.everyone_may_write || request.acks == ACKS_ALL && !terms.acknowledges_all {
            return None;
        }
        let records = &mut body[data.records.clone()?];
        if produce::format_problem(api_version, records).is_some() || is_transactional(records) {
            return None;
        }
        let appended = lease.log.append_at_once(
            When::InTurn,
            records,
            terms.leader_epoch,
            Origin::Client,
            NO_GUARD,
            home::now_ms(),
        );
        // The log leaves refused records as they came, and Python finds the same error.
        let info = appended.ok().flatten()?;
        Some((Arc::clone(lease), request.acks, info))
    }
}

impl<O> Direct<O> {
    pub(super) fn serve_produce<T>(
        &self,
        hub: &Mutex<Hub<T>>,
        mut incoming: Incoming,
    ) -> Option<Incoming> {
        let ticket = incoming.ticket;
        let mut state = self.state.lock();
        if ticket.api_version < BATCHES_SINCE || state.by_topic.is_empty() {
            return Some(incoming);
        }
        let body = &mut incoming.frame[incoming.header.body_start..];
        let Some((lease, acks, info)) = state.try_append(body, ticket.api_version) else {
            return Some(incoming);
        };
        let turn = state.turn();
        if !turn.touched.iter().any(|one| Arc::ptr_eq(one, &lease)) {
            turn.touched.push(Arc::clone(&lease));
        }
        turn.appended.push(Appended {
            ticket,
            lease,
            acks,
            info,
        });
        drop(state);
        // The next Produce of this connection may start: it is appended behind this one.
        hub.lock().appended(ticket);
        None
    }

    /// Ends the turn of this thread if nobody else has a part in it. `is_over`: the hub has nothing more for it.
    pub(super) fn end_turn<T>(&self, hub: &Mutex<Hub<T>>, is_over: bool) -> Ended {
        let mut state = self.state.lock();
        let turn = state.turn();
        let is_shared = turn.is_shared && (!is_over || turn.is_awaited);
        if is_shared {
            (turn.is_shared, turn.is_awaited) = (false, false);
            return Ended::ByOthers;
        }
        let touched = mem::take(&mut turn.touched);
        drop(state);
        if touched.is_empty() {
            return Ended::Before;
        }
        let written: Vec<Written<O>> = touched.iter().map(Written::of).collect();
        if !written.iter().all(Written::is_quiet) {
            self.state.lock().turn().written = written;
            return Ended::ByOthers;
        }
        for lease in &touched {
            if lease.log.advance_high_watermark() {
                self.advanced(hub, lease);
            }
        }
        self.answer(hub);
        Ended::Here
    }

    /// Writes what this thread appended since its turn began. Returns each partition that was appended to once.
    pub fn written(&self) -> Vec<Written<O>> {
        let mut state = self.state.lock();
        let turn = state.turn();
        let (mut written, touched) = (mem::take(&mut turn.written), mem::take(&mut turn.touched));
        drop(state);
        written.extend(touched.iter().map(Written::of));
        written
    }

    /// Answers what this thread appended, now that it has been [`written`](Self::written).
    pub fn answer<T>(&self, hub: &Mutex<Hub<T>>) {
        let appended = mem::take(&mut self.state.lock().turn().appended);
        // The log is not asked under the hub's lock.
        let codes = appended.iter().map(Appended::error_code);
        let codes: Vec<i16> = codes.collect();
        let mut hub = hub.lock();
        for (one, code) in appended.iter().zip(codes) {
            one.answer(&mut hub, code);
        }
    }
}

impl<O> Appended<O> {
    /// Zero if the batch is in the log.
    fn error_code(&self) -> i16 {
        let lost = self.lease.log.lost(&self.info);
        lost.map_or(0, |error| error.code())
    }

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
