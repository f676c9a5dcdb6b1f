//! Produces with acks=all that wait for other replicas, under the lease of their append.
//!
//! Nothing is kept of a request but its ticket and what was appended. Python moves the high watermark when followers
//! fetch, and tells the lease ([`Direct::advanced`]): the Produces below it are answered. Enough replicas are in sync
//! as long as the lease holds, so the answer is no error. Those that still wait when the lease ends go to Python, which
//! knows what has changed: this broker leads no more, or too few are in sync.
//!
//! They have one deadline a lease, for the first of them whose time is over. The time at which it is met is never later
//! than that; if it is earlier, the lease is looked at again.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::produce::{Appended, answer_all};
use super::{Direct, Lease};
use crate::log::AppendInfo;
use crate::net::hub::{Hubs, Ticket};
use crate::wire::produce::ACKS_ALL;

const REQUEST_TIMED_OUT: i16 = 7;

/// The Produces that wait under one lease.
#[derive(Default)]
pub(super) struct Others(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// In the order in which they began to wait. That is the order of their offsets, but for duplicates: one waits for
    /// the last offset of its original, so it can stand behind a younger append, and never waits for longer than that.
    produces: VecDeque<Produce>,
    /// When somebody looks for those whose time is over; None: nobody does.
    looked_at: Option<Instant>,
    /// The lease has ended: nobody would look at another one.
    is_closed: bool,
}

struct Produce {
    ticket: Ticket,
    info: AppendInfo,
    until: Instant,
}

impl Produce {
    fn of<O>(self, lease: &Arc<Lease<O>>, now: Instant) -> Appended<O> {
        let left = self.until.saturating_duration_since(now).as_millis();
        Appended {
            ticket: self.ticket,
            lease: Arc::clone(lease),
            acks: ACKS_ALL,
            timeout_ms: i32::try_from(left).unwrap_or(i32::MAX),
            info: self.info,
        }
    }
}

impl Others {
    /// Returns when somebody has to look for the first time, or earlier than before; or `produce`, if its lease has
    /// ended.
    fn add(&self, produce: Produce) -> Result<Option<Instant>, Produce> {
        let mut waiting = self.0.lock();
        if waiting.is_closed {
            return Err(produce);
        }
        let until = produce.until;
        waiting.produces.push_back(produce);
        let is_first = waiting.looked_at.is_none_or(|before| until < before);
        if is_first {
            waiting.looked_at = Some(until);
        }
        Ok(is_first.then_some(until))
    }

    /// True if this is the time at which somebody looks.
    pub(super) fn are_looked_at(&self, at: Instant) -> bool {
        self.0.lock().looked_at == Some(at)
    }

    /// Takes those whose last offset is below `end`.
    fn below(&self, end: i64) -> Vec<Produce> {
        let produces = &mut self.0.lock().produces;
        let is_below = |one: &&Produce| one.info.last_offset < end;
        let count = produces.iter().take_while(is_below).count();
        produces.drain(..count).collect()
    }

    /// Takes those whose time is over. Returns when to look again, too, if `now` is the time to look.
    fn late(&self, now: Instant) -> (Vec<Produce>, Option<Instant>) {
        let mut waiting = self.0.lock();
        if waiting.looked_at.is_none_or(|at| at > now) {
            return (Vec::new(), None);
        }
        let all = mem::take(&mut waiting.produces).into_iter();
        let (late, others): (Vec<_>, Vec<_>) = all.partition(|one| one.until <= now);
        waiting.looked_at = others.iter().map(|one| one.until).min();
        waiting.produces = others.into();
        (late, waiting.looked_at)
    }

    /// From now on no Produce waits. Returns those that did.
    fn close(&self) -> VecDeque<Produce> {
        let mut waiting = self.0.lock();
        waiting.is_closed = true;
        waiting.looked_at = None;
        mem::take(&mut waiting.produces)
    }
}

impl<O> Direct<O> {
    /// Lets appends of a turn that has ended wait for other replicas. Returns those that may not wait here.
    pub(super) fn await_others<T>(
        &self,
        hubs: &Hubs<T>,
        appended: impl Iterator<Item = Appended<O>>,
    ) -> Vec<Appended<O>> {
        let (now, may_wait) = (Instant::now(), self.due.lock().may_park);
        let mut rest = Vec::new();
        for one in appended {
            let waits_for_others = one.acks == ACKS_ALL && !one.lease.terms.is_alone;
            // A flush that is due is Python's to wait for.
            let is_settled = one.info.last_offset < one.lease.log.settled_offset();
            if !(may_wait && waits_for_others && is_settled) {
                rest.push(one);
                continue;
            }
            let wait = Duration::from_millis(one.timeout_ms.max(0) as u64);
            let produce = Produce {
                ticket: one.ticket,
                info: one.info,
                until: now + wait,
            };
            match one.lease.others.add(produce) {
                Ok(None) => {}
                Ok(Some(at)) => self.look_at(at, &one.lease),
                Err(produce) => {
                    rest.push(produce.of(&one.lease, now));
                    continue;
                }
            }
            if one.info.last_offset < one.lease.log.high_watermark() {
                // Another thread moved it, perhaps before this Produce stood in the line.
                self.acknowledge(hubs, &one.lease);
            }
        }
        rest
    }

    /// Answers the Produces that are below the high watermark by now.
    pub(super) fn acknowledge<T>(&self, hubs: &Hubs<T>, lease: &Arc<Lease<O>>) {
        let log = &lease.log;
        let safe_end = log.high_watermark().min(log.settled_offset());
        let safe = lease.others.below(safe_end);
        answer(hubs, lease, safe, 0);
    }

    /// Answers the Produces whose time is over.
    pub(super) fn expire_others<T>(&self, hubs: &Hubs<T>, lease: &Arc<Lease<O>>) {
        let (late, next) = lease.others.late(Instant::now());
        if let Some(at) = next {
            self.look_at(at, lease);
        }
        answer(hubs, lease, late, REQUEST_TIMED_OUT);
    }

    /// How many Produces wait.
    pub fn waiting_produces(&self) -> usize {
        let leases = self.leases.all();
        leases
            .iter()
            .map(|one| one.others.0.lock().produces.len())
            .sum()
    }
}

/// A lease has ended. Returns the Produces that waited under it.
pub(super) fn undecided<O>(lease: &Arc<Lease<O>>) -> Vec<Appended<O>> {
    let waiting = lease.others.close();
    let now = Instant::now();
    let waiting = waiting.into_iter();
    waiting.map(|one| one.of(lease, now)).collect()
}

fn answer<O, T>(hubs: &Hubs<T>, lease: &Arc<Lease<O>>, produces: Vec<Produce>, code: i16) {
    if produces.is_empty() {
        return;
    }
    let now = Instant::now();
    let produces = produces.into_iter().map(|one| (code, one.of(lease, now)));
    answer_all(hubs, &produces.collect::<Vec<_>>());
}
