//! Fetches under a lease that wait: for records, for the end of their lease, or until their time is over.
//!
//! Nothing of their frames is kept. All are looked at when the high watermark of their partition moves; the deadlines are in one heap, from
//! which those that were answered are dropped when they are met, or when they have become the most of it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::mem;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::hub::Shared;
use super::lease::{Lease, Leases};
use super::leased_fetch::{answer, reply};
use crate::net::hub::Ticket;

/// Of which nobody waits any more, before the heap is looked through.
const DONE_MAX: usize = 64;

/// A Fetch of one partition.
pub(super) struct Parked {
    pub ticket: Ticket,
    pub offset: i64,
    /// Bytes that it may have, and those for which it waits.
    pub bytes_max: u64,
    pub wanted: u64,
    /// Its number, in the order of arrival.
    id: u64,
}

impl Parked {
    pub fn new(ticket: Ticket, offset: i64, bytes_max: u64, wanted: u64) -> Self {
        Self {
            ticket,
            offset,
            bytes_max,
            wanted,
            id: 0,
        }
    }
}

struct Deadline {
    at: Instant,
    id: u64,
    lease: Weak<Lease>,
}

impl Deadline {
    /// Where among those who wait under the lease its Fetch is.
    fn find(&self, lease: &Lease) -> Option<usize> {
        let parked = lease.parked.lock();
        parked.binary_search_by_key(&self.id, |one| one.id).ok()
    }
}

impl PartialEq for Deadline {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Deadline {}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.id).cmp(&(other.at, other.id))
    }
}

#[derive(Default)]
pub(super) struct Due {
    heap: BinaryHeap<Reverse<Deadline>>,
    last_id: u64,
    /// Who waits, under all leases.
    pub waiting: usize,
}

impl Leases {
    /// Lets a Fetch wait under a lease.
    pub(super) fn park(&self, lease: &Arc<Lease>, mut fetch: Parked, wait: Duration) {
        let due = &mut self.0.lock().due;
        due.last_id += 1;
        fetch.id = due.last_id;
        if due.heap.len() > DONE_MAX + 4 * due.waiting {
            due.heap.retain(|Reverse(one)| {
                let lease = one.lease.upgrade();
                lease.is_some_and(|lease| one.find(&lease).is_some())
            });
        }
        due.heap.push(Reverse(Deadline {
            at: Instant::now() + wait,
            id: fetch.id,
            lease: Arc::downgrade(lease),
        }));
        due.waiting += 1;
        lease.parked.lock().push(fetch);
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.0.lock().due.waiting
    }

    /// The high watermark of a partition moved: whoever has waited for that is answered.
    pub fn advanced(&self, hub: &Shared, lease: &Lease) {
        let mut parked = lease.parked.lock();
        let before = parked.len();
        parked.retain(|one| {
            let Some(found) = answer(lease, one.offset, one.bytes_max, true) else {
                // An error, which the next Fetch is told.
                reply(hub, one.ticket, vec![lease.nothing()]);
                return false;
            };
            let is_enough = found.records.length() >= one.wanted;
            if is_enough {
                reply(hub, one.ticket, vec![found]);
            }
            !is_enough
        });
        let answered = before - parked.len();
        drop(parked);
        if answered > 0 {
            self.0.lock().due.waiting -= answered;
        }
    }

    /// As `advanced`, for a caller who has no lease in hand.
    pub fn advanced_at(&self, hub: &Shared, topic: &str, partition: i32) {
        let lease = self.0.lock().get(topic.as_bytes(), partition).cloned();
        if let Some(lease) = lease {
            self.advanced(hub, &lease);
        }
    }

    /// Answers everybody who waits under a lease, with nothing.
    pub fn release(&self, hub: &Shared, lease: &Lease) {
        let parked = mem::take(&mut *lease.parked.lock());
        self.0.lock().due.waiting -= parked.len();
        for one in parked {
            reply(hub, one.ticket, vec![lease.nothing()]);
        }
    }

    /// From now on deadlines are looked at, or not: then nobody may wait.
    pub fn let_wait(&self, hub: &Shared, may: bool) {
        let mut state = self.0.lock();
        state.may_park = may;
        let all: Vec<Arc<Lease>> = if may {
            Vec::new()
        } else {
            state.leases().cloned().collect()
        };
        drop(state);
        for lease in all {
            self.release(hub, &lease);
        }
    }

    /// Answers those whose time is over; when the next one's is.
    pub fn expire(&self, hub: &Shared) -> Option<Instant> {
        loop {
            let mut state = self.0.lock();
            let Reverse(first) = state.due.heap.peek()?;
            let lease = first.lease.upgrade();
            let found = lease.and_then(|lease| Some((first.find(&lease)?, lease)));
            if found.is_some() && first.at > Instant::now() {
                return Some(first.at);
            }
            state.due.heap.pop();
            if let Some((place, lease)) = found {
                state.due.waiting -= 1;
                drop(state);
                let one = lease.parked.lock().remove(place);
                let found = answer(&lease, one.offset, one.bytes_max, true);
                reply(
                    hub,
                    one.ticket,
                    vec![found.unwrap_or_else(|| lease.nothing())],
                );
            }
        }
    }
}
