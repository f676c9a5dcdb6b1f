//! Fetches in sessions that are lent ([`session`](super::session)): which sessions there are, and how a request in one
//! is served. They are one for all threads and connections.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::fetch::{Asking, Part, Range, answer, read_all};
use super::followers::{Follower, now_ms};
use super::parked::{End, Parked};
use super::session::{Asked, Loan, Session, State};
use super::turn::{Turn, Written};
use super::{Direct, Lease};
use crate::net::hub::Hubs;
use crate::wire::fetch::FetchRequest;

/// The sessions that are lent.
pub(super) struct Sessions<O>(RwLock<HashMap<i32, Arc<Session<O>>>>);

impl<O> Default for Sessions<O> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<O> Sessions<O> {
    fn get(&self, id: i32) -> Option<Arc<Session<O>>> {
        self.0.read().get(&id).map(Arc::clone)
    }

    /// Removes a session, unless another one has its number by now.
    fn remove(&self, session: &Arc<Session<O>>) {
        let mut sessions = self.0.write();
        let found = sessions.get(&session.id);
        if found.is_some_and(|found| Arc::ptr_eq(found, session)) {
            sessions.remove(&session.id);
        }
    }
}

/// A follower's log, as its Fetch tells of it.
struct Fetched<O> {
    lease: Arc<Lease<O>>,
    follower: Arc<Follower>,
    end_offset: i64,
    start_offset: i64,
    leader_end_offset: i64,
}

impl<O> Fetched<O> {
    /// None if Python has to hear of it: it is not in sync, its log begins elsewhere than before, or parts from the
    /// leader's.
    fn of(lease: &Arc<Lease<O>>, broker: i32, asked: &Asked) -> Option<Self> {
        let follower = lease.follower(broker)?;
        let leader_end_offset = lease.log.end_offset();
        if follower.known().start_offset != asked.log_start_offset {
            return None;
        }
        if asked.last_epoch >= 0 {
            let (epoch, end_offset) = lease.log.epoch_end_offset(asked.last_epoch)?;
            if epoch < asked.last_epoch || end_offset < asked.offset {
                return None;
            }
        }
        Some(Self {
            lease: Arc::clone(lease),
            follower: Arc::clone(follower),
            end_offset: asked.offset,
            start_offset: asked.log_start_offset,
            leader_end_offset,
        })
    }

    fn note(&self, now_ms: i64) {
        let mut known = self.follower.known();
        let (start_offset, leader_end_offset) = (self.start_offset, self.leader_end_offset);
        known.fetched(self.end_offset, start_offset, leader_end_offset, now_ms);
    }
}

impl<O> Direct<O> {
    /// A follower has fetched what a lease is for. Only if it has more than is committed, the high watermark may move.
    fn followed<T>(&self, hubs: &Hubs<T>, turn: &mut Turn<O>, one: &Fetched<O>) {
        let lease = &one.lease;
        if one.end_offset <= lease.log.high_watermark() {
            return;
        }
        match lease.raise() {
            Some(true) => self.advanced(hubs, lease),
            Some(false) => {}
            None => turn.written.push(Written::of(Arc::clone(lease))),
        }
    }

    /// Serves a session from now on, until it is [taken back](Self::take_back).
    pub fn lend(&self, session: Session<O>) -> Arc<Session<O>> {
        let session = Arc::new(session);
        let sessions = &mut self.sessions.0.write();
        sessions.insert(session.id, Arc::clone(&session));
        session
    }

    /// Ends a loan: when this returns, no request is served in the session, and none waits. One that waited is answered
    /// with what there is. The second time there is nothing to give back.
    pub fn take_back<T>(&self, hubs: &Hubs<T>, session: &Arc<Session<O>>) -> Loan {
        self.sessions.remove(session);
        let _parts;
        let mut state = session.lock();
        if let Some(fetch) = state.waiting.take().and_then(|fetch| fetch.upgrade()) {
            _parts = self.end_wait_in(hubs, &fetch, End::Time, Some(&mut state));
        }
        state.give_back()
    }

    /// Serves a request in a session. None if it is not plain, or only Python can answer it: then the session is as it
    /// was.
    pub(super) fn fetch_in_session<T>(
        &self,
        hubs: &Hubs<T>,
        turn: &mut Turn<O>,
        body: &[u8],
        request: &FetchRequest,
        asking: &Asking,
    ) -> Option<()> {
        let session = self.sessions.get(request.session_id)?;
        let named = request.partitions.len().max(request.forgotten.len());
        let is_its_clients = match (&session.following, asking.follower) {
            (None, None) => true,
            (Some(one), Some(broker)) => one.asks(broker, asking.ticket.connection),
            _ => false,
        };
        if named > session.partitions_max || !is_its_clients {
            return None;
        }
        // So that nothing below drops the last reference to a lease under the session's lock.
        let mut held: Vec<Arc<Lease<O>>> = Vec::new();
        let followed = self.serve_in(hubs, &session, (body, request), asking, &mut held)?;
        // Others who wait are looked at under no session's lock.
        followed
            .iter()
            .for_each(|one| self.followed(hubs, turn, one));
        Some(())
    }

    /// The same with the leases that it takes, in `held`. Returns what a follower said.
    fn serve_in<T>(
        &self,
        hubs: &Hubs<T>,
        session: &Arc<Session<O>>,
        (body, request): (&[u8], &FetchRequest),
        asking: &Asking,
        held: &mut Vec<Arc<Lease<O>>>,
    ) -> Option<Vec<Fetched<O>>> {
        let mut state = session.lock();
        if !state.awaits(request.session_epoch) || session.reader != asking.reader {
            return None;
        }
        let entries = state.with(body, request)?;
        if !(1..=session.partitions_max).contains(&entries.len()) {
            return None;
        }
        let mut parts = Vec::with_capacity(entries.len());
        let mut fetched = Vec::new();
        for entry in &entries {
            let key = (entry.topic.as_bytes(), entry.partition);
            let epoch = entry.asked.leader_epoch;
            let lease = self.readable(key, epoch, asking)?;
            held.push(Arc::clone(&lease));
            match asking.follower {
                Some(broker) => fetched.push(Fetched::of(&lease, broker, &entry.asked)?),
                // Only Python knows what to say about the epoch of a consumer's last record.
                None if entry.asked.last_epoch >= 0 => return None,
                None => {}
            }
            let range = Range {
                offset: entry.asked.offset,
                bytes_max: u64::try_from(entry.asked.bytes_max).ok()?,
                reader: asking.reader,
            };
            parts.push(Part { range, lease });
        }
        let found = read_all(&parts, asking.bytes_max);
        if found.is_unreadable {
            return None;
        }
        // The answer tells the high watermarks from before.
        let now_ms = now_ms();
        fetched.iter().for_each(|one| one.note(now_ms));
        let before = (state.epoch, state.take(entries));
        let served = if asking.is_met(&found) {
            let to = Some((&**session, &mut *state));
            answer(hubs, asking.ticket, to, found.answers)
        } else {
            drop(found);
            self.park_in_session(hubs, session, &mut state, asking, parts)
        };
        if !served {
            (state.epoch, state.entries) = before;
        }
        served.then_some(fetched)
    }

    /// Lets a request wait, of which too little was found. False if it may not.
    fn park_in_session<T>(
        &self,
        hubs: &Hubs<T>,
        session: &Arc<Session<O>>,
        state: &mut State<O>,
        asking: &Asking,
        parts: Vec<Part<O>>,
    ) -> bool {
        if !asking.may_wait(parts.len()) {
            return false;
        }
        let parked = Parked {
            ticket: asking.ticket,
            wanted: asking.wanted,
            bytes_max: asking.bytes_max,
            id: 0,
            session: Some(Arc::clone(session)),
            follows: asking.follower.is_some(),
            parts: Mutex::new(parts),
        };
        self.park(hubs, parked, asking.wait, Some(state))
    }
}
