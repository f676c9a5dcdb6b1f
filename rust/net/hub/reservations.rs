//! Memory for large answers before they are made. `budget::reservations` has the rules.

use super::*;
use crate::net::budget::{Unsent, Wanted};

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
        if self.short.reservations.ask(wanted, unsent) {
            return Reserved::Now;
        }
        self.begin_ticks();
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
        self.short.reservations.release(answer);
        self.grant();
    }

    /// Tells those who wait that they have what they want, as far as there is room.
    pub(super) fn grant(&mut self) {
        if !self.short.reservations.has_waiting() {
            return;
        }
        let unsent = self.unsent();
        while let Some(Wanted { token, .. }) = self.short.reservations.next(unsent) {
            self.tell(token, true);
        }
    }

    /// A connection is no more: nobody waits for its answers.
    pub(super) fn forget_reservations(&mut self, connection: u64) {
        for Wanted { token, .. } in self.short.reservations.forget(connection) {
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
