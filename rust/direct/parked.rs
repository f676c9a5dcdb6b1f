//! Plain Fetches that wait: for records, for the end of their lease, or until their time is over.
//!
//! Nothing of their frames is kept. All of a lease's are looked at when its high watermark moves. The deadlines of all
//! leases are in one heap; those of Fetches that were answered leave it when they are met, or when they have become
//! the most of it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::fetch::reply;
use super::{Direct, Lease};
use crate::net::hub::{Hubs, Ticket};

/// How many deadlines of answered Fetches there may be before the heap is looked through.
const DONE_MAX: usize = 64;

/// A Fetch of one partition.
pub(super) struct Parked {
    pub ticket: Ticket,
    pub offset: i64,
    /// How many bytes it may have.
    pub bytes_max: u64,
    /// How many bytes it waits for.
    pub wanted: u64,
    /// Its number, in the order of arrival.
    pub id: u64,
}

/// The Fetches that wait under one lease.
#[derive(Default)]
pub(super) struct Line(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// In the order of their numbers.
    fetches: Vec<Parked>,
    /// The lease has ended: nobody would look at another one.
    is_closed: bool,
}

impl Line {
    fn has(&self, id: u64) -> bool {
        let waiting = self.0.lock();
        let place = waiting.fetches.binary_search_by_key(&id, |one| one.id);
        place.is_ok()
    }

    pub(super) fn take(&self, id: u64) -> Option<Parked> {
        let fetches = &mut self.0.lock().fetches;
        let place = fetches.binary_search_by_key(&id, |one| one.id).ok()?;
        Some(fetches.remove(place))
    }
}

/// The outcome for a Fetch that found too little.
pub(super) enum Parking {
    Waits,
    /// The high watermark is another one by now.
    LooksAgain,
    /// Nobody may wait, or no longer under this lease.
    HandedOn,
}

struct Deadline<O> {
    at: Instant,
    id: u64,
    line: Arc<Line>,
    lease: Weak<Lease<O>>,
}

impl<O> PartialEq for Deadline<O> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<O> Eq for Deadline<O> {}

impl<O> PartialOrd for Deadline<O> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<O> Ord for Deadline<O> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.id).cmp(&(other.at, other.id))
    }
}

pub(super) struct Due<O> {
    /// Deadlines are looked at: Fetches may wait.
    pub may_park: bool,
    heap: BinaryHeap<Reverse<Deadline<O>>>,
    last_id: u64,
    /// How many Fetches wait, under all leases.
    waiting: usize,
}

impl<O> Default for Due<O> {
    fn default() -> Self {
        Self {
            may_park: false,
            heap: BinaryHeap::new(),
            last_id: 0,
            waiting: 0,
        }
    }
}

impl<O> Direct<O> {
    /// Lets a Fetch wait under a lease.
    pub(super) fn park(
        &self,
        lease: &Arc<Lease<O>>,
        mut fetch: Parked,
        wait: Duration,
        high_watermark: i64,
    ) -> Parking {
        let mut due = self.due.lock();
        if !due.may_park {
            return Parking::HandedOn;
        }
        if due.heap.len() > DONE_MAX + 4 * due.waiting {
            due.heap.retain(|Reverse(one)| one.line.has(one.id));
        }
        // A thread that moves the high watermark looks into the line afterwards: it finds this Fetch, or is seen here.
        let mut waiting = lease.line.0.lock();
        if waiting.is_closed {
            return Parking::HandedOn;
        }
        if lease.log.high_watermark() != high_watermark {
            return Parking::LooksAgain;
        }
        due.last_id += 1;
        fetch.id = due.last_id;
        due.heap.push(Reverse(Deadline {
            at: Instant::now() + wait,
            id: fetch.id,
            line: Arc::clone(&lease.line),
            lease: Arc::downgrade(lease),
        }));
        due.waiting += 1;
        waiting.fetches.push(fetch);
        Parking::Waits
    }

    /// How many Fetches wait.
    pub fn waiting(&self) -> usize {
        self.due.lock().waiting
    }

    /// Answers the Fetches that waited for a high watermark that moved.
    pub fn advanced<T>(&self, hubs: &Hubs<T>, lease: &Lease<O>) {
        let mut waiting = lease.line.0.lock();
        let before = waiting.fetches.len();
        waiting.fetches.retain(|one| {
            let Some((found, goes_on)) = lease.read(one.offset, one.bytes_max, true) else {
                // An error, which the next Fetch is told.
                reply(hubs, one.ticket, vec![lease.nothing()]);
                return false;
            };
            let is_enough = found.records.length() >= one.wanted || goes_on;
            if is_enough {
                reply(hubs, one.ticket, vec![found]);
            }
            !is_enough
        });
        let answered = before - waiting.fetches.len();
        drop(waiting);
        if answered > 0 {
            self.due.lock().waiting -= answered;
        }
    }

    /// Ends a lease that is not found any more.
    pub(super) fn over<T>(&self, hubs: &Hubs<T>, lease: &Lease<O>) {
        lease.gate.end();
        lease.line.0.lock().is_closed = true;
        self.release(hubs, lease);
    }

    /// Answers all Fetches that wait under a lease, with nothing.
    pub(super) fn release<T>(&self, hubs: &Hubs<T>, lease: &Lease<O>) {
        let fetches = mem::take(&mut lease.line.0.lock().fetches);
        if fetches.is_empty() {
            return;
        }
        self.due.lock().waiting -= fetches.len();
        for one in fetches {
            reply(hubs, one.ticket, vec![lease.nothing()]);
        }
    }

    /// Answers the Fetches whose time is over, with what there is. Returns the next deadline.
    pub(super) fn expire<T>(&self, hubs: &Hubs<T>) -> Option<Instant> {
        loop {
            let (lease, one) = {
                let mut due = self.due.lock();
                let Reverse(first) = due.heap.peek()?;
                if first.at > Instant::now() && first.line.has(first.id) {
                    return Some(first.at);
                }
                let Reverse(first) = due.heap.pop()?;
                let Some(one) = first.line.take(first.id) else {
                    continue;
                };
                due.waiting -= 1;
                (first.lease.upgrade(), one)
            };
            if let Some(lease) = lease {
                let found = lease.read(one.offset, one.bytes_max, true);
                let found = found.map_or_else(|| lease.nothing(), |(found, _)| found);
                reply(hubs, one.ticket, vec![found]);
            }
        }
    }
}
