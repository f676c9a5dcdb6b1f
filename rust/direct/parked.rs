//! Plain Fetches that wait: for records, for the end of a lease, or until their time is over.
//!
//! Nothing of their frames is kept. A Fetch stands in the line of each of its leases. All in a lease's line are looked
//! at when its high watermark moves, and with it the last stable offset, for which readers of committed records wait;
//! and when the start of the log overtakes that of an open transaction. All deadlines are in one heap; those of Fetches
//! that were answered leave it when they are met, or when they have become the most of it. The Produces of a lease that
//! wait ([`others`](super::others)) have one deadline there together.
//!
//! A Fetch is answered by whoever takes its parts, while they are locked, and leaves the lines afterwards. Nothing else
//! is locked meanwhile but the hub, and the session of a Fetch that is in one: that is locked before its parts.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::mem;
use std::ptr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::fetch::{Answer, Part, answer, read_all};
use super::others::{Others, undecided};
use super::produce::Appended;
use super::session::{Session, State};
use super::{Direct, Lease};
use crate::net::hub::{Hubs, Ticket};

/// How many deadlines of answered Fetches there may be before the heap is looked through.
const DONE_MAX: usize = 64;

/// A Fetch that found too little.
pub(super) struct Parked<O> {
    pub ticket: Ticket,
    /// How many bytes it waits for: of several partitions, any.
    pub wanted: u64,
    /// How many bytes it may have.
    pub bytes_max: u64,
    /// Its number, in the order of arrival.
    pub id: u64,
    /// Its session knows it as long as it waits.
    pub session: Option<Arc<Session<O>>>,
    /// It waits for the end of logs, and not for high watermarks.
    pub follows: bool,
    /// In the order of the request, or of the session; none once it is answered.
    pub parts: Mutex<Vec<Part<O>>>,
}

impl<O> Parked<O> {
    pub(super) fn take(&self) -> Vec<Part<O>> {
        mem::take(&mut self.parts.lock())
    }

    fn is_answered(&self) -> bool {
        self.parts.lock().is_empty()
    }

    /// The state of its session, if it is in one.
    fn lock_session(&self) -> Option<MutexGuard<'_, State<O>>> {
        self.session.as_ref().map(|session| session.lock())
    }

    /// Answers it, and its session knows nothing of it any more.
    fn answer<T>(&self, hubs: &Hubs<T>, state: Option<&mut State<O>>, answers: Vec<Answer<'_>>) {
        let session = match (&self.session, state) {
            (Some(session), Some(state)) => {
                state.waiting = None;
                Some((&**session, state))
            }
            _ => None,
        };
        answer(hubs, self.ticket, session, answers);
    }
}

/// The Fetches that wait under one lease.
pub(super) struct Line<O>(Mutex<Waiting<O>>);

struct Waiting<O> {
    /// In the order of their numbers.
    fetches: Vec<Arc<Parked<O>>>,
    /// The lease has ended: nobody would look at another one.
    is_closed: bool,
}

impl<O> Default for Line<O> {
    fn default() -> Self {
        Self(Mutex::new(Waiting {
            fetches: Vec::new(),
            is_closed: false,
        }))
    }
}

impl<O> Line<O> {
    /// False if nobody would look at it.
    fn add(&self, fetch: &Arc<Parked<O>>) -> bool {
        let mut waiting = self.0.lock();
        if !waiting.is_closed {
            waiting.fetches.push(Arc::clone(fetch));
        }
        !waiting.is_closed
    }

    pub(super) fn remove(&self, id: u64) -> Option<Arc<Parked<O>>> {
        let fetches = &mut self.0.lock().fetches;
        let place = fetches.binary_search_by_key(&id, |one| one.id).ok()?;
        Some(fetches.remove(place))
    }
}

/// Who has a deadline.
pub(super) enum Whose<O> {
    Fetch(Arc<Parked<O>>),
    /// One of the Produces that wait under it. It is not owned here, and those who wait are looked at without it.
    Lease(Weak<Lease<O>>, Arc<Others>),
}

struct Deadline<O> {
    at: Instant,
    /// A number of its own.
    id: u64,
    whose: Whose<O>,
}

impl<O> Deadline<O> {
    /// Nobody has it any more.
    fn is_done(&self) -> bool {
        match &self.whose {
            Whose::Fetch(fetch) => fetch.is_answered(),
            Whose::Lease(_, others) => !others.are_looked_at(self.at),
        }
    }
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
    /// When it has so many deadlines, it is looked through for those that nobody has any more.
    full_at: usize,
    last_id: u64,
    /// How many Fetches wait, under all leases.
    waiting: usize,
}

impl<O> Due<O> {
    fn push(&mut self, id: u64, at: Instant, whose: Whose<O>) {
        if self.heap.len() >= self.full_at {
            self.heap.retain(|Reverse(one)| !one.is_done());
            self.full_at = DONE_MAX + 4 * self.heap.len();
        }
        self.heap.push(Reverse(Deadline { at, id, whose }));
    }
}

impl<O> Default for Due<O> {
    fn default() -> Self {
        Self {
            may_park: false,
            heap: BinaryHeap::new(),
            full_at: DONE_MAX,
            last_id: 0,
            waiting: 0,
        }
    }
}

/// The ends of a wait without enough records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With what there is.
    Time,
    /// With nothing: the next Fetch is told what happened.
    Lease,
}

impl<O> Direct<O> {
    /// Lets a Fetch wait under its leases. False if nobody may wait, or no longer under one of them. `state`: that of
    /// its session, if it is in one.
    pub(super) fn park<T>(
        &self,
        hubs: &Hubs<T>,
        mut fetch: Parked<O>,
        wait: Duration,
        mut state: Option<&mut State<O>>,
    ) -> bool {
        let leases: Vec<_> = {
            let parts = fetch.parts.get_mut();
            parts.iter().map(|part| Arc::clone(&part.lease)).collect()
        };
        let mut due = self.due.lock();
        if !due.may_park {
            return false;
        }
        due.last_id += 1;
        fetch.id = due.last_id;
        let fetch = Arc::new(fetch);
        let whose = Whose::Fetch(Arc::clone(&fetch));
        due.push(fetch.id, Instant::now() + wait, whose);
        due.waiting += 1;
        let is_in_line = leases.iter().all(|lease| lease.line.add(&fetch));
        drop(due);
        if !is_in_line && self.leave(&fetch, &fetch.take()) {
            return false;
        }
        if let Some(state) = &mut state {
            state.waiting = Some(Arc::downgrade(&fetch));
        }
        // A thread that moves a high watermark looks into the line afterwards: it finds this Fetch, or is seen here.
        self.look_in(hubs, &fetch, None, state);
        if fetch.is_answered() {
            // Perhaps before it stood in all lines.
            leases
                .iter()
                .for_each(|lease| drop(lease.line.remove(fetch.id)));
        }
        true
    }

    /// Has somebody look at a lease at this time.
    pub(super) fn look_at(&self, at: Instant, lease: &Arc<Lease<O>>) {
        let mut due = self.due.lock();
        due.last_id += 1;
        let id = due.last_id;
        let whose = Whose::Lease(Arc::downgrade(lease), Arc::clone(&lease.others));
        due.push(id, at, whose);
    }

    /// How many deadlines are kept.
    #[cfg(test)]
    pub(super) fn deadlines(&self) -> usize {
        self.due.lock().heap.len()
    }

    /// How many Fetches wait.
    pub fn waiting(&self) -> usize {
        self.due.lock().waiting
    }

    /// Answers the requests that waited for a high watermark, or a last stable offset, that moved: Produces first, as
    /// their producers may be about to send more.
    pub fn advanced<T>(&self, hubs: &Hubs<T>, lease: &Arc<Lease<O>>) {
        self.acknowledge(hubs, lease);
        self.look_at_all(hubs, lease, false);
    }

    /// Answers the Fetches of followers that waited for a log to grow.
    pub fn grown<T>(&self, hubs: &Hubs<T>, lease: &Arc<Lease<O>>) {
        if lease.has_followers() {
            self.look_at_all(hubs, lease, true);
        }
    }

    /// Looks at the Fetches that wait under a lease: those of followers, or all others.
    fn look_at_all<T>(&self, hubs: &Hubs<T>, lease: &Arc<Lease<O>>, follow: bool) {
        let waiting: Vec<_> = {
            let line = lease.line.0.lock();
            let fetches = line.fetches.iter();
            fetches
                .filter(|one| one.follows == follow)
                .map(Arc::clone)
                .collect()
        };
        for fetch in waiting {
            self.look(hubs, &fetch, Some(lease));
        }
    }

    /// Answers a Fetch that has as much as it waits for. `moved`: the only lease under which there may be more.
    fn look<T>(&self, hubs: &Hubs<T>, fetch: &Parked<O>, moved: Option<&Lease<O>>) {
        let _parts;
        let mut state = fetch.lock_session();
        _parts = self.look_in(hubs, fetch, moved, state.as_deref_mut());
    }

    /// The same with the `state` of its session. The caller drops the parts that are returned when nothing is locked.
    fn look_in<T>(
        &self,
        hubs: &Hubs<T>,
        fetch: &Parked<O>,
        moved: Option<&Lease<O>>,
        state: Option<&mut State<O>>,
    ) -> Vec<Part<O>> {
        let mut parts = fetch.parts.lock();
        if parts.len() != 1
            && !parts.iter().any(|part| {
                moved.is_none_or(|lease| ptr::eq(Arc::as_ptr(&part.lease), lease))
                    && part.has_news()
            })
        {
            return Vec::new();
        }
        let found = read_all(&parts, fetch.bytes_max);
        // An error, too, is answered: the next Fetch is told of it.
        if found.length < fetch.wanted && !found.is_due && !found.is_unreadable {
            return Vec::new();
        }
        fetch.answer(hubs, state, found.answers);
        let taken = mem::take(&mut *parts);
        drop(parts);
        self.leave(fetch, &taken);
        taken
    }

    /// Ends a wait, unless it has ended.
    fn end_wait<T>(&self, hubs: &Hubs<T>, fetch: &Parked<O>, end: End) {
        let _parts;
        let mut state = fetch.lock_session();
        _parts = self.end_wait_in(hubs, fetch, end, state.as_deref_mut());
    }

    /// The same with the `state` of its session. The caller drops the parts that are returned when nothing is locked.
    pub(super) fn end_wait_in<T>(
        &self,
        hubs: &Hubs<T>,
        fetch: &Parked<O>,
        end: End,
        state: Option<&mut State<O>>,
    ) -> Vec<Part<O>> {
        let parts = fetch.take();
        if !parts.is_empty() {
            let answers = match end {
                End::Time => read_all(&parts, fetch.bytes_max).answers,
                // In a session a partition that is not named is as it was.
                End::Lease if fetch.session.is_some() => Vec::new(),
                End::Lease => parts.iter().map(Part::nothing).collect(),
            };
            fetch.answer(hubs, state, answers);
            self.leave(fetch, &parts);
        }
        parts
    }

    /// A Fetch whose parts were taken leaves the lines. False if there were none: somebody else has taken them.
    fn leave(&self, fetch: &Parked<O>, parts: &[Part<O>]) -> bool {
        if parts.is_empty() {
            return false;
        }
        for part in parts {
            part.lease.line.remove(fetch.id);
        }
        self.due.lock().waiting -= 1;
        true
    }

    /// Ends a lease that is not found any more. Returns the Produces that waited under it.
    pub(super) fn over<T>(&self, hubs: &Hubs<T>, lease: &Arc<Lease<O>>) -> Vec<Appended<O>> {
        lease.gate.end();
        lease.line.0.lock().is_closed = true;
        self.release(hubs, lease);
        undecided(lease)
    }

    /// Answers all Fetches that wait under a lease, with nothing.
    pub(super) fn release<T>(&self, hubs: &Hubs<T>, lease: &Lease<O>) {
        let fetches = mem::take(&mut lease.line.0.lock().fetches);
        for fetch in fetches {
            self.end_wait(hubs, &fetch, End::Lease);
        }
    }

    /// Answers the Fetches whose time is over, with what there is, and the Produces. Returns the next deadline.
    pub(super) fn expire<T>(&self, hubs: &Hubs<T>) -> Option<Instant> {
        loop {
            let first = {
                let mut due = self.due.lock();
                let Reverse(first) = due.heap.peek()?;
                if first.at > Instant::now() && !first.is_done() {
                    return Some(first.at);
                }
                due.heap.pop()?
            };
            match first.0.whose {
                Whose::Fetch(fetch) => self.end_wait(hubs, &fetch, End::Time),
                Whose::Lease(lease, _) => {
                    if let Some(lease) = lease.upgrade() {
                        self.expire_others(hubs, &lease);
                    }
                }
            }
        }
    }
}
