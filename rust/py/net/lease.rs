//! Leases: partitions to which the hub appends without asking Python.
//!
//! Python decides who may append. What it decides about a plain Produce is the same from one to the next until something happens to the
//! partition: so it grants a lease, and whatever happens ends the lease first. While it stands, a Produce for that one partition with acks=0
//! or 1, in the current format and outside of transactions, is appended as it comes, in the turn's staged batches like any other; everything
//! else, every error and every doubt goes to Python as if there were no lease, with the request unchanged. With acks=all too where this
//! broker has the only replica and no answer waits for the disk. A Fetch of leased partitions is served if it is a consumer's that reads
//! everything, outside of sessions (`leased_fetch.rs`).
//!
//! At the end of the turn the batches are written. Where nobody but the hub has to hear of that (the high watermark is the log's end, no
//! Fetch waits in Python, no flush is due, nothing failed), the turn ends without Python; else Python ends it, and has the answers given.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::hub::Shared;
use super::leased_fetch;
use super::parked::{Due, Parked};
use crate::log::traffic::{self, Count};
use crate::log::verification::NO_GUARD;
use crate::log::{AppendInfo, Log, Origin, When, home};
use crate::net::hub::{Incoming, Ticket};
use crate::records::batch::is_transactional;
use crate::wire::produce::{self, PartitionResult};

const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
/// The first version that carries nothing but record batches.
const BATCHES_SINCE: i16 = 3;
const ALL: i16 = -1;

pub struct Lease {
    pub topic: Box<str>,
    pub partition: i32,
    pub log: Arc<Log>,
    pub leader_epoch: i32,
    /// What Python calls the partition.
    pub owner: Py<PyAny>,
    /// Who waits in Python for its high watermark: the keys.
    pub fetches: Py<PyDict>,
    /// The only replica in sync: the high watermark is the end of its log.
    pub is_alone: bool,
    /// What is written is acknowledged, with acks=all too.
    pub acknowledges_all: bool,
    /// Who waits here, in the order of their numbers.
    pub(super) parked: Mutex<Vec<Parked>>,
}

/// An append that waits for the end of its turn.
struct Appended {
    ticket: Ticket,
    lease: Arc<Lease>,
    acks: i16,
    info: AppendInfo,
}

#[derive(Default)]
pub(super) struct State {
    by_topic: HashMap<Box<[u8]>, HashMap<i32, Arc<Lease>>>,
    /// Appended to in this turn, each once.
    touched: Vec<Arc<Lease>>,
    appended: Vec<Appended>,
    /// What was written at the end of this turn, for Python.
    written: Vec<Written>,
    /// `fetch.max.bytes`
    pub fetch_bytes_max: u64,
    /// Somebody looks at the deadlines.
    pub may_park: bool,
    pub(super) due: Due,
}

/// The leases of one hub. For threads that are attached to Python; the lock is not held while objects of Python are dropped.
#[derive(Default)]
pub struct Leases(pub(super) Mutex<State>);

/// Topic, partition, from which offset on, and the error: what the end of a turn could not write.
pub type Lost = (String, i32, i64, i16);

/// A partition that was appended to, whether a flush is due, and from which offset on it could not be written, and why.
pub type Written = (Py<PyAny>, bool, Option<(i64, Py<PyBaseException>)>);

impl Leases {
    pub fn grant(&self, hub: &Shared, lease: Lease) {
        let lease = Arc::new(lease);
        let mut state = self.0.lock();
        let topic = lease.topic.as_bytes().into();
        let of_topic = state.by_topic.entry(topic).or_default();
        let before = of_topic.insert(lease.partition, lease);
        drop(state);
        if let Some(before) = before {
            self.release(hub, &before);
        }
    }

    /// What one Fetch gets at most.
    pub fn limit_fetches(&self, bytes_max: u64) {
        self.0.lock().fetch_bytes_max = bytes_max;
    }

    /// Who waits for records is answered: whatever happened, the next Fetch is told.
    pub fn end(&self, hub: &Shared, topic: &str, partition: i32) {
        let mut state = self.0.lock();
        let Some(of_topic) = state.by_topic.get_mut(topic.as_bytes()) else {
            return;
        };
        let ended = of_topic.remove(&partition);
        if of_topic.is_empty() {
            state.by_topic.remove(topic.as_bytes());
        }
        drop(state);
        if let Some(ended) = ended {
            self.release(hub, &ended);
        }
    }

    /// Serves a request, if leases allow; else gives it back as it was.
    pub fn serve(&self, hub: &Shared, incoming: Incoming) -> Option<Incoming> {
        match incoming.ticket.api_key {
            PRODUCE => self.append(hub, incoming),
            FETCH => leased_fetch::serve(self, hub, incoming),
            _ => Some(incoming),
        }
    }

    fn append(&self, hub: &Shared, mut incoming: Incoming) -> Option<Incoming> {
        let ticket = incoming.ticket;
        let mut state = self.0.lock();
        if ticket.api_version < BATCHES_SINCE || state.by_topic.is_empty() {
            return Some(incoming);
        }
        let body = &mut incoming.frame[incoming.header.body_start..];
        let Some((lease, acks, info)) = state.try_append(body, ticket.api_version) else {
            return Some(incoming);
        };
        if !state
            .touched
            .iter()
            .any(|touched| Arc::ptr_eq(touched, &lease))
        {
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

    /// Ends a turn of which Python has seen nothing. False: Python has to, `written` says why.
    pub fn end_turn(&self, py: Python<'_>, hub: &Shared) -> bool {
        let touched = mem::take(&mut self.0.lock().touched);
        if touched.is_empty() {
            return true;
        }
        let written: Vec<Written> = touched.iter().map(|lease| lease.write(py)).collect();
        let is_quiet = |(lease, (_, flush_due, lost)): (&Arc<Lease>, &Written)| {
            lease.is_alone && !flush_due && lost.is_none() && lease.fetches.bind(py).is_empty()
        };
        if !touched.iter().zip(&written).all(is_quiet) {
            self.0.lock().written = written;
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

    /// Writes what was appended since the turn began: what there is to say of each partition, once.
    pub fn written(&self, py: Python<'_>) -> Vec<Written> {
        let mut state = self.0.lock();
        let (mut written, touched) = (mem::take(&mut state.written), mem::take(&mut state.touched));
        drop(state);
        written.extend(touched.iter().map(|lease| lease.write(py)));
        written
    }

    /// Answers what was appended, now that it is written but for what is `lost`.
    pub fn answer(&self, hub: &Shared, lost: &[Lost]) {
        let appended = mem::take(&mut self.0.lock().appended);
        let mut hub = hub.lock();
        for Appended {
            ticket,
            lease,
            acks,
            info,
        } in &appended
        {
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
            if is_measured {
                traffic::note([lease.topic.as_bytes()].into_iter(), |_, row| {
                    row.add(Count::ProduceRequests, 1);
                    if error_code != 0 && !super::produce::EXPECTED.contains(&error_code) {
                        row.add(Count::FailedProduceRequests, 1);
                    }
                });
            }
            if *acks == 0 {
                if error_code == 0 {
                    hub.skip(*ticket);
                } else {
                    let reason = format!("a Produce with acks=0 failed with error {error_code}");
                    hub.close_after(*ticket, Some(&reason));
                }
                continue;
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
            let write = |to: &mut Vec<u8>| {
                produce::encode_response(to, ticket.api_version, &[result], 0);
            };
            hub.reply(*ticket, write, Vec::new());
            if is_measured && let Some(meter) = &mut hub.meter {
                meter.throttled(PRODUCE, 0);
            }
        }
        drop(hub);
        drop(appended);
    }
}

impl Lease {
    fn write(&self, py: Python<'_>) -> Written {
        let turn = self.log.write_staged();
        let lost = turn
            .lost
            .map(|(from, error)| (from, PyErr::from(error).into_value(py)));
        (self.owner.clone_ref(py), turn.flush_due, lost)
    }
}

impl State {
    pub fn leases(&self) -> impl Iterator<Item = &Arc<Lease>> {
        self.by_topic.values().flat_map(HashMap::values)
    }

    pub fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }

    pub fn get(&self, topic: &[u8], partition: i32) -> Option<&Arc<Lease>> {
        self.by_topic.get(topic)?.get(&partition)
    }

    fn try_append(
        &self,
        body: &mut [u8],
        api_version: i16,
    ) -> Option<(Arc<Lease>, i16, AppendInfo)> {
        let request = produce::decode_request(body, api_version).ok()?;
        let [data] = request.partitions.as_slice() else {
            return None;
        };
        if !(ALL..=1).contains(&request.acks) || request.transactional_id.is_some() {
            return None;
        }
        let lease = self.get(&body[data.topic.clone()], data.partition)?;
        if request.acks == ALL && !lease.acknowledges_all {
            return None;
        }
        let records = &mut body[data.records.clone()?];
        if produce::format_problem(api_version, records).is_some() || is_transactional(records) {
            return None;
        }
        let appended = lease.log.append_at_once(
            When::InTurn,
            records,
            lease.leader_epoch,
            Origin::Client,
            NO_GUARD,
            home::now_ms(),
        );
        // What is refused is unchanged, and Python finds the same error.
        let info = appended.ok().flatten()?;
        Some((Arc::clone(lease), request.acks, info))
    }
}
