//! Plain Produces: appended at once, answered at the end of their turn.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Direct, Lease, PRODUCE, State};
use crate::log::verification::NO_GUARD;
use crate::log::{AppendInfo, LogError, Origin, When, home};
use crate::net::hub::{Hub, Incoming, Ticket};
use crate::records::batch::is_transactional;
use crate::traffic::Count;
use crate::wire::produce::{self, BATCHES_SINCE, PartitionResult};

const ALL: i16 = -1;

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
    pub flush_due: bool,
    /// From which offset on it could not be written, and why.
    pub lost: Option<(i64, LogError)>,
}

/// What could not be written: topic, partition, from which offset on, and the error code.
pub type Lost = (String, i32, i64, i16);

impl<O> Written<O> {
    /// Writes what was appended under a lease.
    fn of(lease: &Arc<Lease<O>>) -> Self {
        let turn = lease.log.write_staged();
        Self {
            lease: Arc::clone(lease),
            flush_due: turn.flush_due,
            lost: turn.lost,
        }
    }

    /// Nobody else has to hear of it.
    fn is_quiet(&self) -> bool {
        let lease = &self.lease;
        lease.terms.is_alone && !self.flush_due && self.lost.is_none() && !lease.is_watched()
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
        if !(ALL..=1).contains(&request.acks) || request.transactional_id.is_some() {
            return None;
        }
        let lease = self.get(&body[data.topic.clone()], data.partition)?;
        let terms = &lease.terms;
        if !terms.everyone_may_write || request.acks == ALL && !terms.acknowledges_all {
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
        if !state.touched.iter().any(|one| Arc::ptr_eq(one, &lease)) {
            state.touched.push(Arc::clone(&lease));
        }
        state.appended.push(Appended {
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

    /// Ends a turn in which nobody else has a part. False: somebody else has to hear of it and end it.
    pub(super) fn end_turn<T>(&self, hub: &Mutex<Hub<T>>) -> bool {
        let touched = mem::take(&mut self.state.lock().touched);
        if touched.is_empty() {
            return true;
        }
        let written: Vec<Written<O>> = touched.iter().map(Written::of).collect();
        if !written.iter().all(Written::is_quiet) {
            self.state.lock().written = written;
            return false;
        }
        for lease in &touched {
            if lease.log.advance_high_watermark() {
                self.advanced(hub, lease);
            }
        }
        self.answer(hub, &[]);
        true
    }

    /// Writes what was appended since the turn began. Returns each partition that was appended to once.
    pub fn written(&self) -> Vec<Written<O>> {
        let mut state = self.state.lock();
        let (mut written, touched) = (mem::take(&mut state.written), mem::take(&mut state.touched));
        drop(state);
        written.extend(touched.iter().map(Written::of));
        written
    }

    /// Answers what was appended, now that it is written but for what is `lost`.
    pub fn answer<T>(&self, hub: &Mutex<Hub<T>>, lost: &[Lost]) {
        let appended = mem::take(&mut self.state.lock().appended);
        let mut hub = hub.lock();
        for one in &appended {
            one.answer(&mut hub, lost);
        }
    }
}

impl<O> Appended<O> {
    fn answer<T>(&self, hub: &mut Hub<T>, lost: &[Lost]) {
        let (ticket, lease, info) = (self.ticket, &self.lease, &self.info);
        let error_code = lost
            .iter()
            .find(|(topic, partition, from, _)| {
                // A duplicate was written by an earlier turn, so its offset is lower.
                **topic == *lease.topic
                    && *partition == lease.partition
                    && info.base_offset >= *from
            })
            .map_or(0, |(.., code)| *code);
        let is_measured = ticket.started_us != 0;
        if is_measured && let Some(meter) = &hub.meter {
            let topic = [lease.topic.as_bytes()];
            meter.topics.note(topic.into_iter(), |_, row| {
                row.add(Count::ProduceRequests, 1);
                if error_code != 0 && !produce::EXPECTED.contains(&error_code) {
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
