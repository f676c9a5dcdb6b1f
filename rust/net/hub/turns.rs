//! Turns and visits: who is read, served and sent to, and what each connection waits for afterwards.

use super::search::Task;
use super::*;

impl<T> Hub<T> {
    /// The next thing for the loop to handle; None ends the turn.
    pub fn next_event(&mut self) -> io::Result<Option<Event<T>>> {
        if let Some(meter) = &mut self.meter {
            // What was handed out is done.
            meter.stale();
            if let Some((id, sequence)) = meter.handling.take()
                && let Some(connection) = self.connections.get(id)
            {
                connection.times.handled(sequence, meter.read());
            }
        }
        if !self.in_turn {
            self.begin_turn();
            self.look_round()?;
        }
        self.go_on()
    }

    /// As `next_event` at the beginning of a turn, for one who asked epoll already.
    pub(super) fn first_event(
        &mut self,
        readiness: &[epoll::Event],
    ) -> io::Result<Option<Event<T>>> {
        self.begin_turn();
        self.begin_round();
        self.take_up(readiness)?;
        self.go_on()
    }

    fn go_on(&mut self) -> io::Result<Option<Event<T>>> {
        loop {
            if let Some(visit) = self.visit.take() {
                if let Some(incoming) = self.next_frame(visit) {
                    self.serving = true;
                    return Ok(Some(Event::Request(incoming)));
                }
            } else if let Some(event) = self.events.pop_front() {
                // One of another thread's.
                self.serving |= matches!(event, Event::Request(_));
                return Ok(Some(event));
            } else if self.frames_left > 0
                && let Some(id) = self.ready.pop_front()
            {
                self.begin_visit(id);
            } else if mem::take(&mut self.serving) {
                return Ok(Some(Event::Served));
            } else if let Some(id) = self.dirty.pop_front() {
                if let Some(mut connection) = self.connections.take(id) {
                    connection.in_dirty = false;
                    self.finish(connection);
                }
            } else if self.has_unfinished() && self.rounds_left > 0 {
                self.resume();
                // Who gets much may keep a turn long; work that comes later in it does not wait.
                self.completions.sent();
                self.rounds_left -= 1;
                self.look_round()?;
            } else {
                break;
            }
        }
        self.end_turn();
        if let Some(meter) = &mut self.meter {
            meter.turn_ended();
        }
        if !self.ready.is_empty() || self.has_unfinished() {
            self.wake.signal();
        }
        Ok(None)
    }

    fn has_unfinished(&self) -> bool {
        !self.resumed.is_empty() || !self.unfinished.is_empty()
    }

    /// Goes on sending to one that gets much, or to several that get little.
    fn resume(&mut self) {
        let enough = self.sent_bytes + SENT_BYTES_MAX as u64;
        while self.sent_bytes < enough
            && let Some(id) = self.resumed.pop_front()
        {
            if let Some(mut connection) = self.connections.take(id) {
                connection.in_unfinished = false;
                self.finish(connection);
            }
        }
    }

    pub(super) fn end_turn(&mut self) {
        self.in_turn = false;
        if self.number > 0 {
            let now_us = self.joint.works(self.number, false);
            self.look_at_others(now_us);
            self.beside_ready |= self.is_left();
        }
        self.completions.sent();
    }

    fn begin_turn(&mut self) {
        self.in_turn = true;
        if self.number > 0 {
            self.joint.works(self.number, true);
        }
        self.completions.will_send();
        self.beside_ready = false;
        if let Some(meter) = &mut self.meter {
            meter.turn_began();
        }
        self.turn += 1;
        self.frames_left = TURN_FRAMES_MAX;
        self.rounds_left = TURN_ROUNDS_MAX;
        self.now_ms = self.started.elapsed().as_millis() as u64;
    }

    fn begin_round(&mut self) {
        self.round += 1;
        if let Some(meter) = &mut self.meter {
            meter.fresh_us();
        }
        self.resumed.extend(self.unfinished.drain(..));
    }

    /// Takes up what is ready now, and the connections that have more to send.
    fn look_round(&mut self) -> io::Result<()> {
        self.begin_round();
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let now = Timespec::default();
        match epoll::wait(&self.epoll, &mut space, Some(&now)) {
            Ok((readiness, _)) => self.take_up(readiness),
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => {
                self.end_turn();
                Err(error.into())
            }
        }
    }

    fn take_up(&mut self, readiness: &[epoll::Event]) -> io::Result<()> {
        for event in readiness {
            let flags = event.flags;
            match event.data.u64() {
                WAKE => self.woken(),
                TIMER => self.sweep(),
                BESIDE => self.beside_ready = true,
                token if token > LISTENERS => {
                    self.accept((token - LISTENERS - 1) as usize)?;
                    if let Some(meter) = &mut self.meter {
                        meter.stale();
                    }
                }
                id => self.became_ready(id, flags),
            }
        }
        Ok(())
    }

    pub(super) fn woken(&mut self) {
        self.events
            .extend(self.completions.drain().into_iter().map(Event::Completion));
        if self.number == 0 {
            self.events.extend(self.joint.handed());
        }
        for arrival in self.joint.arrived(self.number) {
            self.take_in(arrival);
        }
        self.welcome_those_who_came();
        self.look_who_serves();
        match self.joint.task(self.number) {
            Task::Nothing => {}
            Task::Name => {
                let idlest = self.idlest().map(|(idleness, _)| idleness);
                self.joint.name(self.number, idlest);
            }
            Task::Close => {
                self.close_idlest();
                self.joint.made_room(self.number);
            }
        }
        if self.has_waiters() {
            self.feed();
        } else if self.tick_at_ms().is_some() {
            self.set_timer();
        }
        for warmed in self.cold.drain() {
            if let Some(connection) = self.connections.get(warmed.connection) {
                connection.cold = false;
                connection.output.warmed(warmed.bytes);
                if !mem::replace(&mut connection.in_unfinished, true) {
                    self.resumed.push_back(warmed.connection);
                }
            }
        }
    }

    pub(super) fn became_ready(&mut self, id: u64, flags: EventFlags) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP | EventFlags::RDHUP);
        if broken || flags.contains(EventFlags::IN) {
            connection.readable = true;
            if broken && !connection.interest.contains(EventFlags::IN) {
                // Its client left while it was not read: it ends, unless a frame that is not read yet came whole.
                let is_over = flags.intersects(EventFlags::ERR | EventFlags::HUP)
                    || connection.muted_until_ms.is_some()
                    || !connection.may_complete_a_frame();
                connection.gone |= is_over;
                connection.half_closed = true;
            }
            if !mem::replace(&mut connection.in_ready, true) {
                connection.ready_us = self.meter.as_ref().map_or(0, |meter| meter.last_us());
                self.ready.push_back(id);
            }
        }
        if flags.contains(EventFlags::OUT) && !mem::replace(&mut connection.in_unfinished, true) {
            self.resumed.push_back(id);
        }
    }

    pub(super) fn begin_visit(&mut self, id: u64) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        connection.in_ready = false;
        let readable = mem::take(&mut connection.readable);
        let reads = readable && !self.draining && connection.may_read(&self.shared.limits);
        let permit = if reads { self.permit(id) } else { 0 };
        let mut visit = Visit {
            connection: id,
            start: 0,
            end: 0,
            frames: 0,
        };
        if let Some(connection) = self.connections.get(id)
            && reads
            && !connection.starved
            && connection.state == State::Open
        {
            match connection.receive(&mut self.brought[..permit], self.now_ms) {
                Ok(Received::Bytes { shared, total }) => {
                    visit.end = shared;
                    if let Some(meter) = &mut self.meter
                        && total > LIGHT_READ_BYTES
                    {
                        meter.stale();
                    }
                    if total > 0 {
                        connection.last_active_ms = self.now_ms;
                        if self.moving.role == Role::Shares {
                            connection.load.add(self.now_ms, total);
                            self.moving.load.add(self.now_ms, total);
                        }
                    }
                }
                // A reset is how many clients say good-bye. The end tells whether TLS has failed.
                Ok(Received::End) | Err(_) => connection.gone = true,
            }
        }
        self.visit = Some(visit);
    }

    /// Sends what may be sent, and decides what the connection waits for.
    pub(super) fn finish(&mut self, mut connection: Box<Connection>) {
        connection.settle();
        if let Some(meter) = &self.meter {
            connection.times.sending(meter.last_us());
        }
        let mut blocked = false;
        if connection.gone {
            connection.output.clear();
        }
        if !connection.output.is_empty() && !connection.cold {
            let before = connection.output.bytes();
            match connection.flush(self.round, self.now_ms, &mut is_warm) {
                Ok(Sent::All) => {}
                Ok(Sent::Blocked) => blocked = true,
                Ok(Sent::Budget) => {
                    if !mem::replace(&mut connection.in_unfinished, true) {
                        self.unfinished.push(connection.id);
                    }
                }
                Ok(Sent::Cold) => {
                    if let Some(part) = connection.output.cold_part(COLD_BYTES_MAX) {
                        connection.cold = true;
                        self.figures.cold_reads_total += 1;
                        self.cold.bring(connection.id, part);
                    }
                }
                Err(error) if is_about_the_client(&error) => {
                    connection.output.clear();
                    connection.gone = true;
                }
                Err(error) => {
                    self.end(connection, Some(error.to_string()));
                    return;
                }
            }
            let sent = before.saturating_sub(connection.output.bytes());
            connection.sending = if connection.output.is_empty() {
                None
            } else {
                let mut moves = connection.sending.unwrap_or(Moves::begin(self.now_ms));
                moves.add(sent, self.now_ms);
                Some(moves)
            };
            if sent > 0 {
                connection.last_active_ms = self.now_ms;
                self.sent_bytes += sent;
                self.costs(&mut connection, sent as usize);
            }
        }
        self.time(&mut connection);
        self.account(&mut connection);
        if connection.output.is_empty()
            && let State::Ending(reason) = &mut connection.state
        {
            let reason = reason.take();
            self.end(connection, reason);
            return;
        }
        let nothing_left = !connection.input.has_parked() || connection.state != State::Open;
        if connection.gone && nothing_left
            || (self.draining || connection.leaving)
                && nothing_left
                && connection.slots.is_empty()
                && connection.output.is_empty()
        {
            let reason = match &mut connection.state {
                State::Ending(reason) => reason.take(),
                State::Open | State::Closing => connection.transport.failure(),
            };
            self.end(connection, reason);
            return;
        }
        // Epoll says nothing of what the transport holds.
        let holds = connection.transport.holds()
            && !self.draining
            && connection.may_read(&self.shared.limits);
        connection.readable |= holds;
        let has_work = holds || connection.has_startable(&self.shared.limits);
        if has_work && !mem::replace(&mut connection.in_ready, true) {
            connection.ready_us = self.meter.as_ref().map_or(0, |meter| meter.last_us());
            self.ready.push_back(connection.id);
        }
        let reads = if connection.in_ready {
            // It is visited soon whatever epoll says; leave that as it is.
            connection.interest.contains(EventFlags::IN)
        } else {
            !self.draining && connection.may_read(&self.shared.limits)
        };
        if let Some(moves) = connection.input.moves() {
            if reads {
                moves.go_on(self.now_ms);
            } else {
                moves.stop(self.now_ms);
            }
        }
        self.set_interest(&mut connection, reads, blocked);
        if let Some(connection) = self.send_on(connection) {
            self.connections.put(connection);
        }
    }

    /// Counts the times of the requests whose answers are sent by now.
    fn time(&mut self, connection: &mut Connection) {
        let (sent, _) = connection.output.extent();
        if let Some(meter) = &mut self.meter
            && connection.times.has_sent(sent)
        {
            let now_us = meter.read();
            while let Some(request) = connection.times.sent(sent, now_us) {
                meter.sent(request.api_key, connection.is_broker, &request.stamps);
            }
        }
    }

    fn set_interest(&mut self, connection: &mut Connection, reads: bool, blocked: bool) {
        if connection.gone && connection.watched {
            // A broken connection would be reported for ever.
            let _ = epoll::delete(&self.epoll, &connection.transport);
            connection.watched = false;
        }
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, reads);
        flags.set(EventFlags::OUT, blocked);
        // What is known of a connection would be reported for ever.
        flags.set(EventFlags::RDHUP, !connection.half_closed);
        if connection.interest == flags || !connection.watched {
            return;
        }
        // Fails only for a descriptor that is not registered, and all of ours are.
        let _ = epoll::modify(
            &self.epoll,
            &connection.transport,
            EventData::new_u64(connection.id),
            flags,
        );
        connection.interest = flags;
    }

    /// Brings the budget up to date with the connection's unsent answers.
    pub(super) fn account(&mut self, connection: &mut Connection) {
        let bytes = connection.output.memory_bytes()
            + connection.slot_bytes
            + connection.transport.memory_bytes();
        if bytes != connection.charged {
            self.shared
                .budget
                .answers_changed(connection.charged, bytes);
            self.charged = self.charged + bytes - connection.charged;
            if bytes < connection.charged && self.has_waiters() {
                self.wake.signal();
            }
            connection.charged = bytes;
        }
    }

    /// Closes a connection that was taken from the table.
    pub(super) fn end(&mut self, mut connection: Box<Connection>, reason: Option<String>) {
        connection.output.clear();
        connection.transport.close();
        self.time(&mut connection);
        self.shared.budget.answers_changed(connection.charged, 0);
        self.charged -= connection.charged;
        let Connection {
            id,
            origin,
            client_id,
            ..
        } = *connection;
        self.is_gone(id, origin, client_id, reason);
    }

    /// A connection is no more, and is told so.
    pub(super) fn is_gone(
        &mut self,
        connection: u64,
        origin: Arc<Origin>,
        client_id: Option<Arc<str>>,
        reason: Option<String>,
    ) {
        self.connections.remove(connection);
        if hub_of(connection) != self.number {
            self.joint.elsewhere.ended(connection);
        }
        self.forget_reservations(connection);
        self.acceptor.lock().left(&origin);
        self.joint.left(self.number);
        self.events.push_back(Event::Disconnected(Disconnected {
            connection,
            reason,
            origin,
            client_id,
        }));
    }
}

/// Errors of a socket, as opposed to those of a file that is sent.
fn is_about_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, HostUnreachable, NetworkDown,
        NetworkUnreachable, NotConnected, TimedOut,
    };
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
            | NotConnected
            | TimedOut
    )
}
