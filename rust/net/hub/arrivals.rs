//! Connections that come, and those that were idle for too long; the one timer.

use super::*;

impl<T> Hub<T> {
    /// Watches listeners unless there are as many connections as allowed, or listeners rest.
    pub(super) fn watch_listeners(&mut self) {
        let has_room = self.connections.len() < self.limits.connections_max;
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            let is_protected = self.protected.as_deref() == Some(&*listener.name);
            let wanted = self.rest_until_ms.is_none()
                && listener.rest_until_ms.is_none()
                && (has_room || is_protected)
                && listener.connections < listener.connections_max;
            if listener.watched == wanted {
                continue;
            }
            let data = EventData::new_u64(LISTENERS + 1 + index as u64);
            let done = if wanted {
                epoll::add(&self.epoll, listener.fd(), data, EventFlags::IN)
            } else {
                epoll::delete(&self.epoll, listener.fd())
            };
            if done.is_ok() {
                listener.watched = wanted;
            }
        }
    }

    pub(super) fn accept(&mut self, index: usize) -> io::Result<()> {
        for _ in 0..TURN_ACCEPTS_MAX {
            let is_full = self.connections.len() >= self.limits.connections_max;
            let Some(listener) = self.listeners.get(index) else {
                return Ok(());
            };
            let is_protected = self.protected.as_deref() == Some(&*listener.name);
            if is_full && !is_protected || listener.connections >= listener.connections_max {
                self.watch_listeners();
                return Ok(());
            }
            let has_room = !self.is_short() || self.close_idlest() || is_protected;
            let Some(listener) = self.listeners.get_mut(index) else {
                return Ok(());
            };
            if !has_room {
                listener.rest_until_ms = Some(self.now_ms + ACCEPT_REST_MS);
                self.watch_listeners();
                self.set_timer();
                return Ok(());
            }
            match listener.accept(&self.limits)? {
                Accepted::Nobody => return Ok(()),
                Accepted::Exhausted => {
                    self.rest_until_ms = Some(self.now_ms + ACCEPT_REST_MS);
                    self.watch_listeners();
                    self.set_timer();
                    return Ok(());
                }
                Accepted::Connection(transport, origin) => {
                    listener.connections += 1;
                    let own = listener.rate.as_mut();
                    let own_ms = own.map_or(0, |rate| rate.record(self.now_ms));
                    let all = self.rate.as_mut().filter(|_| !is_protected);
                    let wait_ms = all.map_or(0, |rate| rate.record(self.now_ms)).max(own_ms);
                    listener.rest_until_ms = (wait_ms > 0).then_some(self.now_ms + wait_ms);
                    self.admit(transport, origin);
                    if wait_ms > 0 {
                        self.watch_listeners();
                        self.set_timer();
                        return Ok(());
                    }
                    if self.is_short() {
                        // The next turn tells whether anybody else wants the place of an idle one.
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether another connection would take a descriptor that files need.
    fn is_short(&self) -> bool {
        self.connections.len() >= self.limits.descriptors_max
    }

    /// Closes an idle connection for one that comes: of the addresses with idle ones, that with the most connections loses the one that was
    /// idle for longest. False if none is idle.
    fn close_idlest(&mut self) -> bool {
        let idle = self.connections.iter().filter(|one| one.is_idle());
        let dearest = idle.max_by_key(|one| {
            let held = self.per_ip.count(one.origin.peer.ip());
            (held, Reverse((one.last_active_ms, one.id)))
        });
        let Some(connection) = dearest.map(|one| one.id) else {
            return false;
        };
        let Some(connection) = self.connections.take(connection) else {
            return false;
        };
        let reason = "RLIMIT_NOFILE leaves no descriptor for a new connection, and this one was idle for longest";
        self.end(connection, Some(reason.to_owned()));
        true
    }

    /// Bounds for all listeners together, which do not hold for the `protected` one (KIP-612).
    pub fn limit_connection_rate(
        &mut self,
        window: Window,
        per_second_max: Option<u32>,
        protected: Option<String>,
    ) {
        limit(&mut self.rate, window, per_second_max);
        self.protected = protected;
        self.watch_listeners();
    }

    /// Bounds for the listeners of one name.
    pub fn limit_listener(
        &mut self,
        name: &str,
        connections_max: usize,
        window: Window,
        per_second_max: Option<u32>,
    ) {
        for listener in self.listeners.iter_mut().filter(|one| &*one.name == name) {
            listener.connections_max = connections_max;
            limit(&mut listener.rate, window, per_second_max);
        }
        self.watch_listeners();
    }

    /// A connection that was accepted is no more.
    pub(super) fn left(&mut self, origin: &Origin) {
        if let Some(listener) = self
            .listeners
            .iter_mut()
            .find(|listener| Arc::ptr_eq(&listener.name, &origin.listener))
        {
            listener.connections -= 1;
        }
        // A new one may come in its place.
        self.watch_listeners();
    }

    pub(super) fn admit(&mut self, transport: Transport, origin: Origin) {
        self.figures.accepted_total += 1;
        if let Err(reason) = self.per_ip.enter(origin.peer.ip(), &self.limits) {
            self.left(&origin);
            self.events.push_back(Event::Disconnected(Disconnected {
                connection: 0,
                reason: Some(reason),
                origin: Arc::new(origin),
                client_id: None,
            }));
            return;
        }
        let id = self.connections.reserve();
        let mut connection = Box::new(Connection::new(id, transport, origin, self.now_ms));
        connection.is_reserved = self
            .reserved
            .iter()
            .any(|name| **name == *connection.origin.listener);
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
        let mut listeners = self.listeners.iter();
        let listener = listeners.find(|one| Arc::ptr_eq(&one.name, &connection.origin.listener));
        if let Some(greeting_ms) = listener.and_then(|listener| listener.greeting_ms) {
            connection.session = Session::Greeting {
                until_ms: self.now_ms + greeting_ms,
            };
        }
        self.watch_idleness(&connection);
        self.connections.put(connection);
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
        if self.rest_until_ms.is_some_and(|until| until <= self.now_ms) {
            self.rest_until_ms = None;
            self.watch_listeners();
        }
        let now_ms = self.now_ms;
        for listener in &mut self.listeners {
            listener.rest_until_ms = listener.rest_until_ms.filter(|until| *until > now_ms);
        }
        self.watch_listeners();
        self.unmute();
        self.relieve();
        while let Some(&Reverse((deadline, id))) = self.deadlines.peek()
            && deadline <= self.now_ms
        {
            self.deadlines.pop();
            let Some(connection) = self.connections.take(id) else {
                continue;
            };
            if connection.session.is_late(self.now_ms) {
                let reason = "the client did not say in time who it is";
                self.end(connection, Some(reason.to_owned()));
            } else if self
                .idle_at(&connection)
                .is_some_and(|at| at <= self.now_ms)
            {
                self.end(connection, None);
            } else {
                self.watch_idleness(&connection);
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
        Some(since_ms + self.limits.idle_ms?)
    }

    /// Looks at a connection again when it can be idle for too long, or has had its time to say who it is.
    fn watch_idleness(&mut self, connection: &Connection) {
        let late_at = match connection.session {
            Session::Greeting { until_ms } => Some(until_ms),
            Session::Open => None,
        };
        let at = [late_at, self.idle_at(connection)];
        if let Some(at_ms) = at.into_iter().flatten().min() {
            self.deadlines.push(Reverse((at_ms, connection.id)));
        }
    }

    pub(super) fn set_timer(&mut self) {
        let idle = self
            .deadlines
            .peek()
            .map(|Reverse((deadline, _))| *deadline);
        let tick = self.short.has_waiters().then_some(self.short.tick_ms);
        let muted = self.mutes.peek().map(|Reverse((until_ms, _))| *until_ms);
        let resting = self
            .listeners
            .iter()
            .filter_map(|listener| listener.rest_until_ms)
            .min();
        let Some(at_ms) = [idle, self.rest_until_ms, tick, muted, resting]
            .into_iter()
            .flatten()
            .min()
        else {
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

/// Keeps what was counted when only the bound changes.
fn limit(rate: &mut Option<Rate>, window: Window, per_second_max: Option<u32>) {
    match (rate.as_mut(), per_second_max) {
        (Some(rate), Some(bound)) => rate.limit(bound),
        (_, bound) => *rate = bound.map(|bound| Rate::new(window, bound)),
    }
}
