//! Memory for large answers before they are made. `budget::reservations` has the rules.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::net::budget::{Lack, Reservations, Unsent, Wanted};

/// Those of all hubs. Any hub grants what another one's connection waits for.
#[derive(Default)]
pub(super) struct Answers {
    made: Mutex<Reservations>,
    has_waiting: AtomicBool,
}

impl Answers {
    fn change<R>(&self, change: impl FnOnce(&mut Reservations) -> R) -> R {
        let mut made = self.made.lock();
        let result = change(&mut made);
        let has_waiting = made.has_waiting();
        self.has_waiting.store(has_waiting, Ordering::Release);
        result
    }

    pub fn has_waiting(&self) -> bool {
        self.has_waiting.load(Ordering::Acquire)
    }

    /// The bytes of all answers that are being made.
    pub fn bytes(&self) -> usize {
        self.made.lock().bytes()
    }

    /// By how much unsent answers must become less before any answer is made on.
    pub fn lacks(&self, unsent: Unsent) -> usize {
        match self.has_waiting() {
            true => self.made.lock().lacks(unsent),
            false => 0,
        }
    }
}

/// Whether an answer may take what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    Now,
    /// `Event::Reserved` tells, once.
    Later,
    /// Nobody waits for the answer any more.
    Never,
}

impl<T> Hub<T> {
    /// Asks for memory for the answer to `ticket`, of which `bytes` will be there next; it keeps what it has until `release`. Not to be asked
    /// again before the last time is decided.
    pub fn reserve(&mut self, ticket: Ticket, bytes: usize, token: u64) -> Reserved {
        if !self.is_waiting(ticket) {
            return Reserved::Never;
        }
        let Some(connection) = self.connections.get(ticket.connection) else {
            return Reserved::Never;
        };
        let wanted = Wanted {
            answer: (ticket.connection, ticket.sequence),
            bytes,
            address: connection.origin.peer.ip().to_canonical(),
            token,
        };
        let unsent = self.unsent();
        if self.shared.answers.change(|made| made.ask(wanted, unsent)) {
            return Reserved::Now;
        }
        self.begin_ticks(Lack::Answers);
        self.shared.budget.want();
        self.set_timer();
        Reserved::Later
    }

    /// The answer is given, or never will be.
    pub fn release(&mut self, ticket: Ticket) {
        // An answer that was given counts as unsent from now on.
        if let Some(mut connection) = self.connections.take(ticket.connection) {
            self.account(&mut connection);
            self.connections.put(connection);
        }
        let answer = (ticket.connection, ticket.sequence);
        self.shared.answers.change(|made| made.release(answer));
        self.grant();
    }

    /// Tells those who wait that they have what they want, as far as there is room.
    pub(super) fn grant(&mut self) {
        let unsent = self.unsent();
        while self.shared.answers.has_waiting()
            && let Some(Wanted { token, .. }) = self.shared.answers.change(|made| made.next(unsent))
        {
            self.tell(token, true);
        }
    }

    /// A connection is no more: nobody waits for its answers.
    pub(super) fn forget_reservations(&mut self, connection: u64) {
        if !self.shared.answers.has_waiting() {
            return;
        }
        let forgotten = self.shared.answers.change(|made| made.forget(connection));
        for Wanted { token, .. } in forgotten {
            self.tell(token, false);
        }
    }

    fn tell(&mut self, token: u64, is_granted: bool) {
        self.events.push_back(Event::Reserved { token, is_granted });
        if !self.in_turn {
            self.wake.signal();
        }
    }

    pub(super) fn unsent(&self) -> Unsent {
        Unsent {
            bytes: self.shared.budget.answers(),
            bound: self.shared.budget.bounds().answers.max(1),
        }
    }
}
