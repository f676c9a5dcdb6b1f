//! Listeners, and the bounds on connections over all threads.

use super::*;

/// Where a connection that comes finds a place.
pub(super) enum Place {
    Free,
    /// Only where an idle one is closed: files need the descriptors that are left.
    OfAnIdleOne,
    /// It waits until another one leaves.
    Nowhere,
}

/// The outcome of one accept.
pub(super) enum Came {
    /// `is_last`: the listener rests behind it.
    Connection {
        transport: Transport,
        origin: Origin,
        is_last: bool,
    },
    Nobody,
    /// No descriptor is left: all listeners rest.
    Exhausted,
}

/// A connection's rights by the listener that it came to.
pub(super) struct Entry {
    /// Its place in the order in which connections came.
    pub came: u64,
    /// It has a reserve of memory.
    pub is_reserved: bool,
    /// It has so long to say who is on it. None: it may speak.
    pub greeting_ms: Option<u64>,
}

pub(super) struct Acceptor {
    epoll: Arc<OwnedFd>,
    listeners: Vec<Listener>,
    limits: ConnectionLimits,
    /// Connections that came and have not left.
    open: usize,
    per_ip: PerIp,
    pub accepted_total: u64,
    /// Listeners that clients do not use.
    reserved: Vec<String>,
    /// Rights tell brokers from clients, not what they say.
    pub brokers_have_rights: bool,
    /// How many connections may come in a second to all listeners.
    rate: Option<Rate>,
    /// The listener for brokers, which the bounds of all listeners together do not stop.
    protected: Option<String>,
    /// When listeners that found no descriptor left are watched again.
    rest_until_ms: Option<u64>,
}

impl Acceptor {
    pub fn new(epoll: Arc<OwnedFd>, limits: ConnectionLimits) -> Self {
        Self {
            epoll,
            listeners: Vec::new(),
            limits,
            open: 0,
            per_ip: PerIp::default(),
            accepted_total: 0,
            reserved: Vec::new(),
            brokers_have_rights: false,
            rate: None,
            protected: None,
            rest_until_ms: None,
        }
    }

    // --- listeners ---

    /// Listens on `host` and `port` (0: any free one), and returns the port.
    pub fn listen(&mut self, host: &str, port: u16, name: &str) -> io::Result<u16> {
        self.listeners.push(Listener::bind(host, port, name)?);
        self.watch();
        self.listeners.last().map_or(Ok(0), Listener::port)
    }

    pub fn named(&mut self, name: &str) -> impl Iterator<Item = &mut Listener> {
        let listeners = self.listeners.iter_mut();
        listeners.filter(move |one| &*one.name == name)
    }

    /// Closes the listeners of a name.
    pub fn close(&mut self, name: &str) {
        for listener in self.listeners.iter_mut().filter(|one| one.watched) {
            // The others get new places, by which epoll knows them.
            let _ = epoll::delete(&self.epoll, listener.fd());
            listener.watched = false;
        }
        self.listeners.retain(|listener| &*listener.name != name);
        self.watch();
    }

    pub fn close_all(&mut self) {
        self.listeners.clear();
    }

    /// Connections that are open, by the listener that they came to.
    pub fn connections(&self) -> Vec<(String, usize)> {
        let listeners = self.listeners.iter();
        listeners
            .map(|one| (one.name.to_string(), one.connections))
            .collect()
    }

    /// Watches listeners unless there are as many connections as allowed, or listeners rest.
    pub fn watch(&mut self) {
        let has_room = self.open < self.limits.connections_max;
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

    // --- connections that come and go ---

    /// Another connection would take a descriptor that files need.
    pub fn is_short(&self) -> bool {
        self.open >= self.limits.descriptors_max
    }

    pub fn is_protected(&self, index: usize) -> bool {
        let listener = self.listeners.get(index);
        listener.is_some_and(|one| self.protected.as_deref() == Some(&*one.name))
    }

    pub fn place(&mut self, index: usize) -> Place {
        let Some(listener) = self.listeners.get(index) else {
            return Place::Nowhere;
        };
        let is_full = self.open >= self.limits.connections_max && !self.is_protected(index);
        if is_full || listener.connections >= listener.connections_max {
            self.watch();
            return Place::Nowhere;
        }
        match self.is_short() {
            true => Place::OfAnIdleOne,
            false => Place::Free,
        }
    }

    /// A listener rests for a moment, or until a connection leaves.
    pub fn rest(&mut self, index: usize, now_ms: u64) {
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.rest_until_ms = Some(now_ms + ACCEPT_REST_MS);
            listener.awaits_place = true;
        }
        self.watch();
    }

    pub fn accept(&mut self, index: usize, now_ms: u64) -> io::Result<Came> {
        let is_protected = self.is_protected(index);
        let Some(listener) = self.listeners.get_mut(index) else {
            return Ok(Came::Nobody);
        };
        let (transport, origin) = match listener.accept(&self.limits)? {
            Accepted::Nobody => return Ok(Came::Nobody),
            Accepted::Exhausted => {
                self.rest_until_ms = Some(now_ms + ACCEPT_REST_MS);
                self.watch();
                return Ok(Came::Exhausted);
            }
            Accepted::Connection(transport, origin) => (transport, origin),
        };
        self.open += 1;
        self.accepted_total += 1;
        listener.connections += 1;
        let own = listener.rate.as_mut();
        let own_ms = own.map_or(0, |rate| rate.record(now_ms));
        let all = self.rate.as_mut().filter(|_| !is_protected);
        let wait_ms = all.map_or(0, |rate| rate.record(now_ms)).max(own_ms);
        let is_last = wait_ms > 0;
        listener.rest_until_ms = is_last.then_some(now_ms + wait_ms);
        Ok(Came::Connection {
            transport,
            origin,
            is_last,
        })
    }

    /// Lets a connection in that was accepted. The error says why it is closed instead; it has left then.
    pub fn enter(&mut self, origin: &Origin) -> Result<Entry, String> {
        if let Err(reason) = self.per_ip.enter(origin.peer.ip(), &self.limits) {
            self.gone(origin);
            return Err(reason);
        }
        let came = self.accepted_total;
        let listener = self.listener(origin);
        Ok(Entry {
            came,
            greeting_ms: listener.and_then(|listener| listener.greeting_ms),
            is_reserved: self.reserved.iter().any(|name| **name == *origin.listener),
        })
    }

    /// A connection that was let in is no more.
    pub fn left(&mut self, origin: &Origin) {
        self.per_ip.leave(origin.peer.ip());
        self.gone(origin);
    }

    fn gone(&mut self, origin: &Origin) {
        self.open -= 1;
        if let Some(listener) = self.listener(origin) {
            listener.connections -= 1;
        }
        for listener in &mut self.listeners {
            if mem::take(&mut listener.awaits_place) {
                listener.rest_until_ms = None;
            }
        }
        // A new one may come in its place.
        self.watch();
    }

    fn listener(&mut self, origin: &Origin) -> Option<&mut Listener> {
        let mut listeners = self.listeners.iter_mut();
        listeners.find(|one| Arc::ptr_eq(&one.name, &origin.listener))
    }

    /// Counts a TLS handshake. False if the listener that the connection came to is not open any more.
    pub fn shook_hands(&mut self, origin: &Origin, has_succeeded: bool) -> bool {
        let Some(listener) = self.listener(origin) else {
            return false;
        };
        match has_succeeded {
            true => listener.handshakes.succeeded += 1,
            false => listener.handshakes.failed += 1,
        }
        true
    }

    /// The TLS handshakes that are over, by the listener; of those without TLS there are none.
    pub fn handshakes(&self) -> Vec<(String, Handshaken)> {
        let listeners = self.listeners.iter();
        listeners
            .map(|one| (one.name.to_string(), one.handshakes))
            .collect()
    }

    /// How many connections come from the address.
    pub fn held_by(&self, origin: &Origin) -> usize {
        self.per_ip.count(origin.peer.ip())
    }

    // --- rests ---

    /// When a listener goes on next.
    pub fn rests_until(&self) -> Option<u64> {
        let listeners = self.listeners.iter();
        let resting = listeners.filter_map(|listener| listener.rest_until_ms);
        resting.chain(self.rest_until_ms).min()
    }

    /// Watches the listeners again that have rested.
    pub fn go_on(&mut self, now_ms: u64) {
        self.rest_until_ms = self.rest_until_ms.filter(|until| *until > now_ms);
        for listener in &mut self.listeners {
            listener.rest_until_ms = listener.rest_until_ms.filter(|until| *until > now_ms);
        }
        self.watch();
    }

    // --- bounds ---

    /// Other limits for connections, from the next one on. The buffers of sockets stay.
    pub fn limit(&mut self, limits: ConnectionLimits) {
        self.limits = ConnectionLimits {
            send_buffer_bytes: self.limits.send_buffer_bytes,
            receive_buffer_bytes: self.limits.receive_buffer_bytes,
            ..limits
        };
        self.watch();
    }

    /// Bounds for all listeners together, which do not hold for the `protected` one (KIP-612).
    pub fn limit_rate(
        &mut self,
        window: Window,
        per_second_max: Option<u32>,
        protected: Option<String>,
    ) {
        limit(&mut self.rate, window, per_second_max);
        self.protected = protected;
        self.watch();
    }

    /// Bounds for the listeners of one name.
    pub fn limit_listener(
        &mut self,
        name: &str,
        connections_max: usize,
        window: Window,
        per_second_max: Option<u32>,
    ) {
        for listener in self.named(name) {
            listener.connections_max = connections_max;
            limit(&mut listener.rate, window, per_second_max);
        }
        self.watch();
    }

    pub fn reserve_for(&mut self, listeners: Vec<String>) {
        self.reserved = listeners;
    }

    /// No listener is for brokers alone.
    pub fn reserves_none(&self) -> bool {
        self.reserved.is_empty()
    }
}

/// Keeps what was counted when only the bound changes.
fn limit(rate: &mut Option<Rate>, window: Window, per_second_max: Option<u32>) {
    match (rate.as_mut(), per_second_max) {
        (Some(rate), Some(bound)) => rate.limit(bound),
        (_, bound) => *rate = bound.map(|bound| Rate::new(window, bound)),
    }
}
