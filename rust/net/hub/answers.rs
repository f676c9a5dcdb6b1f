//! Filling slots: what handlers say about their requests.

use super::*;

impl<T> Hub<T> {
    /// Whether an answer to this request would still be sent.
    pub fn is_waiting(&mut self, ticket: Ticket) -> bool {
        self.connections
            .get(ticket.connection)
            .is_some_and(|connection| connection.slots.is_waiting(ticket.sequence))
    }

    /// Fills a slot with an answer: a body that `write` appends, followed by `rest`. Without effect if the slot is filled or the client gone.
    /// An answer that is too large to be sent closes the connection.
    pub fn reply(&mut self, ticket: Ticket, write: impl FnOnce(&mut Vec<u8>), rest: Vec<Piece>) {
        let Some(connection) = self.connections.get(ticket.connection) else {
            return;
        };
        if connection.slots.is_next(ticket.sequence)
            && !matches!(connection.state, State::Ending(_))
        {
            // The usual case: what is written goes where it is sent from.
            let mut written = Ok(());
            connection
                .output
                .append(|to| written = write_answer(to, ticket, write, &rest));
            if let Err(reason) = written {
                return self.close_after(ticket, Some(&reason));
            }
            for piece in rest {
                connection.output.push(piece);
            }
            let filled = connection.slots.fill(ticket.sequence, Value::Skip);
            // Now, not when the visit ends: the next answer of the visit is then the next to leave, and counts as output.
            connection.settle();
            self.filled(ticket, filled);
        } else if connection.slots.is_waiting(ticket.sequence) {
            let mut bytes = Vec::new();
            if let Err(reason) = write_answer(&mut bytes, ticket, write, &rest) {
                return self.close_after(ticket, Some(&reason));
            }
            let reply = Reply { bytes, rest };
            connection.slot_bytes += reply.memory_bytes();
            let answer = Value::Answer(reply);
            let filled = connection.slots.fill(ticket.sequence, answer);
            self.filled(ticket, filled);
        }
        self.mark_dirty(ticket.connection);
    }

    /// The slot closes empty: acks=0.
    pub fn skip(&mut self, ticket: Ticket) {
        if let Some(connection) = self.connections.get(ticket.connection) {
            let filled = connection.slots.fill(ticket.sequence, Value::Skip);
            self.filled(ticket, filled);
            self.mark_dirty(ticket.connection);
        }
    }

    /// The connection is closed when all earlier answers have left. With a reason, `Disconnected` will tell it.
    pub fn close_after(&mut self, ticket: Ticket, reason: Option<&str>) {
        if let Some(connection) = self.connections.get(ticket.connection) {
            let reason = reason.map(|reason| describe(ticket.api_key, ticket.api_version, reason));
            let filled = connection.slots.fill(ticket.sequence, Value::Close(reason));
            if filled.is_some() && connection.state == State::Open {
                connection.state = State::Closing;
            }
            self.filled(ticket, filled);
            self.mark_dirty(ticket.connection);
        }
    }

    /// A slot got its value, if it had none: `bytes` is what the request's frame holds.
    fn filled(&mut self, ticket: Ticket, bytes: Option<usize>) {
        if let Some(connection) = self.connections.get(ticket.connection)
            && connection.starved
        {
            // It holds less now, and may need no more than a reserve.
            connection.starved = false;
        }
        if ticket.started_us != 0
            && let (Some(bytes), Some(meter)) = (bytes, &mut self.meter)
            && let Some(connection) = self.connections.get(ticket.connection)
        {
            let (key, version) = (ticket.api_key, ticket.api_version);
            meter.answered(key, version, connection.is_broker, bytes);
            connection.times.answered(ticket.sequence, meter.last_us());
            // Its handler told already.
            meter
                .handling
                .take_if(|handled| *handled == (ticket.connection, ticket.sequence));
        }
    }

    /// All appends of this Produce are done; later Produces of its connection may start.
    pub fn appended(&mut self, ticket: Ticket) {
        if let Some(connection) = self.connections.get(ticket.connection) {
            connection.slots.appended(ticket.sequence);
            if connection.input.has_parked() {
                self.mark_dirty(ticket.connection);
            }
        }
    }

    /// Takes no more requests from this request's connection for `ms` milliseconds; what is answered still leaves.
    pub fn mute(&mut self, ticket: Ticket, ms: u32) {
        let until_ms = self.started.elapsed().as_millis() as u64 + u64::from(ms);
        if let Some(connection) = self.connections.get(ticket.connection)
            && !self.draining
            && connection.muted_until_ms.is_none_or(|set| set < until_ms)
        {
            connection.muted_until_ms = Some(until_ms);
            self.mutes.push(Reverse((until_ms, ticket.connection)));
            self.mark_dirty(ticket.connection);
            self.set_timer();
        }
    }

    pub(super) fn mark_dirty(&mut self, id: u64) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        // What is being visited is looked at when the visit ends.
        let visited = self
            .visit
            .as_ref()
            .is_some_and(|visit| visit.connection == id);
        if !visited && !mem::replace(&mut connection.in_dirty, true) {
            self.dirty.push_back(id);
            if !self.in_turn {
                self.wake.signal();
            }
        }
    }
}

/// Appends size, response header and body; or nothing, if the size is more than the protocol can say.
fn write_answer(
    to: &mut Vec<u8>,
    ticket: Ticket,
    write: impl FnOnce(&mut Vec<u8>),
    rest: &[Piece],
) -> Result<(), String> {
    let start = to.len();
    to.extend_from_slice(&[0; 4]);
    if !ticket.is_token() {
        to.extend_from_slice(&ticket.correlation_id.to_be_bytes());
    }
    if response_header_version(ticket.api_key, ticket.is_flexible) >= 1 {
        to.push(0);
    }
    write(to);
    let rest: u64 = rest.iter().map(Piece::length).sum();
    let length = (to.len() - start - 4) as u64 + rest;
    let Ok(size) = i32::try_from(length) else {
        to.truncate(start);
        return Err(format!(
            "an answer of {length} bytes, at most {} can be sent",
            i32::MAX
        ));
    };
    to[start..start + 4].copy_from_slice(&size.to_be_bytes());
    Ok(())
}
