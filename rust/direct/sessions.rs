//! Fetches in sessions that are lent ([`session`](super::session)): which sessions there are, and how a request in one
//! is served. They are one for all threads and connections.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::fetch::{Asking, Part, Range, answer, read_all};
use super::parked::{End, Parked};
use super::session::{Loan, Session, State};
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

impl<O> Direct<O> {
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
        body: &[u8],
        request: &FetchRequest,
        asking: &Asking,
    ) -> Option<()> {
        let session = self.sessions.get(request.session_id)?;
        let named = request.partitions.len().max(request.forgotten.len());
        if named > session.partitions_max {
            return None;
        }
        // So that nothing below drops the last reference to a lease under the session's lock.
        let mut held: Vec<Arc<Lease<O>>> = Vec::new();
        let mut state = session.lock();
        if !state.awaits(request.session_epoch) || session.reader != asking.reader {
            return None;
        }
        let entries = state.with(body, request)?;
        if !(1..=session.partitions_max).contains(&entries.len()) {
            return None;
        }
        let mut parts = Vec::with_capacity(entries.len());
        for entry in &entries {
            let key = (entry.topic.as_bytes(), entry.partition);
            let epoch = entry.asked.leader_epoch;
            let lease = self.readable(key, epoch, asking)?;
            held.push(Arc::clone(&lease));
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
        let before = (state.epoch, state.take(entries));
        let served = if asking.is_met(&found) {
            let to = Some((&*session, &mut *state));
            answer(hubs, asking.ticket, to, found.answers)
        } else {
            drop(found);
            self.park_in_session(hubs, &session, &mut state, asking, parts)
        };
        if !served {
            (state.epoch, state.entries) = before;
        }
        served.then_some(())
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
            parts: Mutex::new(parts),
        };
        self.park(hubs, parked, asking.wait, Some(state))
    }
}
