//! Connections that come, and those that were idle for too long; the one timer.

use super::acceptor::{Came, Place};
use super::search::Idleness;
use super::*;

impl<T> Hub<T> {
    pub(super) fn accept(&mut self, index: usize) -> io::Result<()> {
        for _ in 0..TURN_ACCEPTS_MAX {
            let place = self.acceptor.lock().place(index);
            match place {
                Place::Free => {}
                Place::Nowhere => return Ok(()),
                Place::OfAnIdleOne => {
                    if !self.close_idlest() && !self.acceptor.lock().is_protected(index) {
                        let handshakes = self.handshakes.as_ref();
                        if !handshakes.is_some_and(Handshakes::make_room) {
                            self.joint.ask_for_room(self.now_ms);
                        }
                        self.acceptor.lock().rest(index, self.now_ms);
                        self.set_timer();
                        return Ok(());
                    }
                }
            }
            let came = self.acceptor.lock().accept(index, self.now_ms)?;
            match came {
                Came::Nobody => return Ok(()),
                Came::Exhausted => {
                    self.set_timer();
                    return Ok(());
                }
                Came::Connection {
                    transport,
                    origin,
                    is_last,
                } => {
                    self.admit(transport, origin);
                    if is_last {
                        self.acceptor.lock().watch();
                        self.set_timer();
                        return Ok(());
                    }
                    if self.acceptor.lock().is_short() {
                        // The next turn tells whether anybody else wants the place of an idle one.
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Of the connections that are idle, the one that goes first, and its id.
    pub(super) fn idlest(&self) -> Option<(Idleness, u64)> {
        let idle = self.connections.iter().filter(|one| one.is_idle());
        let acceptor = self.acceptor.lock();
        let keys = idle.map(|one| {
            let held = acceptor.held_by(&one.origin);
            ((held, Reverse((one.last_active_ms, one.came))), one.id)
        });
        keys.max()
    }

    /// Closes an idle connection for one that comes. False if none is idle.
    pub(super) fn close_idlest(&mut self) -> bool {
        let Some((_, connection)) = self.idlest() else {
            return false;
        };
        let Some(connection) = self.connections.take(connection) else {
            return false;
        };
        let reason = "RLIMIT_NOFILE leaves no descriptor for a new connection, and this one was idle for longest";
        self.end(connection, Some(reason.to_owned()));
        true
    }

    pub(super) fn admit(&mut self, transport: Transport, origin: Origin) {
        let entered = self.acceptor.lock().enter(&origin);
        let entry = match entered {
            Ok(entry) => entry,
            Err(reason) => {
                self.events.push_back(Event::Disconnected(Disconnected {
                    connection: 0,
                    reason: Some(reason),
                    origin: Arc::new(origin),
                    client_id: None,
                }));
                return;
            }
        };
        let arrival = Arrival {
            transport,
            origin,
            entry,
        };
        let number = self.joint.place();
        if let (Transport::Tls(_), Some(handshakes)) = (&arrival.transport, &self.handshakes) {
            handshakes.begin(number, arrival);
        } else if number == self.number {
            self.take_in(arrival);
        } else {
            self.joint.send(number, arrival);
        }
    }

    /// Takes in a connection that has found its place here.
    pub(super) fn take_in(&mut self, arrival: Arrival) {
        let Arrival {
            transport,
            origin,
            entry,
        } = arrival;
        let origin = Arc::new(origin);
        for id in self.joint.elsewhere.ended_of(self.number) {
            self.connections.ended_elsewhere(id);
        }
        let id = self.connections.reserve(&origin);
        let mut connection = Box::new(Connection::new(id, transport, origin, self.now_ms));
        connection.is_reserved = entry.is_reserved;
        connection.came = entry.came;
        let added = epoll::add(
            &self.epoll,
            &connection.transport,
            EventData::new_u64(id),
            READING,
        );
        if let Err(error) = added {
            self.end(connection, Some(error.to_string()));
            return;
        }
        if self.draining {
            self.end(connection, None);
            return;
        }
        if let Some(greeting_ms) = entry.greeting_ms {
            connection.session = Session::unknown(self.now_ms + greeting_ms);
        }
        self.watch_idleness(&mut connection);
        // What came behind a handshake is here already.
        let holds = connection.transport.holds();
        self.connections.put(connection);
        if holds {
            self.became_ready(id, EventFlags::IN);
        }
        self.set_timer();
    }

    /// Hears connections again whose time is over.
    fn unmute(&mut self) {
        while let Some(&Reverse((until_ms, id))) = self.mutes.peek()
            && until_ms <= self.now_ms
        {
            self.mutes.pop();
            // A later mute of the same connection has an entry of its own.
            if let Some(connection) = self.connections.get(id)
                && connection.muted_until_ms == Some(until_ms)
            {
                connection.muted_until_ms = None;
                connection.last_active_ms = self.now_ms;
                self.mark_dirty(id);
            }
        }
    }

    /// Closes connections that were idle for too long. Each is looked at once in an idle period, not at every sign of life.
    pub(super) fn sweep(&mut self) {
        let mut expirations = [0u8; 8];
        let _ = rustix::io::read(&self.timer, &mut expirations);
        self.timer_at_ms = None;
        if self.number == 0 {
            self.acceptor.lock().go_on(self.now_ms);
        }
        self.unmute();
        self.relieve();
        self.look_who_serves();
        while let Some(&Reverse((deadline, id))) = self.deadlines.peek()
            && deadline <= self.now_ms
        {
            self.deadlines.pop();
            let Some(mut connection) = self.connections.take(id) else {
                continue;
            };
            if connection.looked_at_ms != Some(deadline) {
                // Of another stay here.
                self.connections.put(connection);
            } else if connection.session.is_late(self.now_ms) {
                let reason = "the client did not say in time who it is";
                self.end(connection, Some(reason.to_owned()));
            } else if self
                .idle_at(&connection)
                .is_some_and(|at| at <= self.now_ms)
            {
                self.end(connection, None);
            } else {
                self.watch_idleness(&mut connection);
                self.connections.put(connection);
            }
        }
        self.set_timer();
    }

    /// When a connection has been idle for too long, if nothing happens meanwhile.
    fn idle_at(&self, connection: &Connection) -> Option<u64> {
        let since_ms = if connection.is_owed() {
            self.now_ms
        } else {
            connection.last_active_ms
        };
        Some(since_ms + self.shared.limits.idle_ms?)
    }

    /// Looks at a connection again when it can be idle for too long, or has had its time to say who it is.
    pub(super) fn watch_idleness(&mut self, connection: &mut Connection) {
        let at = [connection.session.late_at(), self.idle_at(connection)];
        connection.looked_at_ms = at.into_iter().flatten().min();
        if let Some(at_ms) = connection.looked_at_ms {
            self.deadlines.push(Reverse((at_ms, connection.id)));
        }
    }

    pub(super) fn set_timer(&mut self) {
        let idle = self
            .deadlines
            .peek()
            .map(|Reverse((deadline, _))| *deadline);
        let tick = self.tick_at_ms();
        let muted = self.mutes.peek().map(|Reverse((until_ms, _))| *until_ms);
        let rests_until = || self.acceptor.lock().rests_until();
        let resting = (self.number == 0).then(rests_until).flatten();
        let times = [idle, tick, muted, resting, self.leaves_at_ms()];
        let Some(at_ms) = times.into_iter().flatten().min() else {
            return;
        };
        if self.timer_at_ms.is_some_and(|set| set <= at_ms) {
            return;
        }
        self.timer_at_ms = Some(at_ms);
        // One millisecond more, so that the clock's rounding does not wake the hub just before.
        let wait_ms = (at_ms + 1)
            .saturating_sub(self.started.elapsed().as_millis() as u64)
            .max(1);
        let value = Timespec {
            tv_sec: (wait_ms / 1000) as i64,
            tv_nsec: (wait_ms % 1000 * 1_000_000) as _,
        };
        let spec = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: value,
        };
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec);
    }
}
