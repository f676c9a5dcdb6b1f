//! Readiness and turns.
//!
//! One epoll set, level-triggered, watches everything: listeners, connections, a timer, and the descriptor by which other threads wake the
//! hub. Its own descriptor is what the one trio task waits on, so a wake-up costs one pass of trio's scheduler however many sockets are
//! ready. The task then calls `next_event` until it returns None; those calls are one *turn*.
//!
//! A turn takes the ready connections one after the other. A *visit* reads a connection once, hands out its frames one by one (so that an
//! answer given to one decides whether the next may start), and sends its answers in one system call while everything is still in the
//! processor's cache. Bounds keep a turn short: frames in all and for each visit, bytes for each connection. What a bound leaves over is found by
//! the next turn: in the socket or its send buffer, which the level-triggered set reports again (with an edge-triggered one it would be
//! stranded), or in the ready queue, for which the hub wakes itself.
//!
//! All calls come from the loop's thread. Other threads only push completions, drop frames, and bring in cold slices; each signals `Wake`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::admission::{Admission, Supported, client_id, describe};
use super::cold::{COLD_BYTES_MAX, Cold, is_warm};
use super::connection::{Connection, Received, Reply, State};
use super::frames::{Buffer, Pool};
use super::input::{Fresh, Next};
use super::limits::{
    ACCEPT_REST_MS, Budget, Limits, PRIVILEGE_MS, SHARED_READ_BYTES, SMALL_FRAME_BYTES,
    TURN_ACCEPTS_MAX, TURN_FRAMES_MAX, VISIT_FRAMES_MAX,
};
use super::listeners::{Accepted, Listener, Origin, PerIp};
use super::reply::Sent;
use super::slots::Value;
use super::table::Table;
use crate::io::{Completion, Completions, Wake};
use crate::wire::headers::{RequestHeader, response_header_version};
use crate::wire::piece::Piece;

const PRODUCE: i16 = 0;
/// LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown: nobody but a broker sends them.
const BETWEEN_BROKERS: std::ops::RangeInclusive<i16> = 4..=7;
/// What epoll reports for descriptors that are not connections; listeners count down from below these.
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const LISTENERS: u64 = u64::MAX - 1000;
const EVENTS_MAX: usize = 256;

/// Where an answer belongs.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub connection: u64,
    pub sequence: u64,
    pub api_key: i16,
    pub api_version: i16,
    pub correlation_id: i32,
}

/// A request that starts.
pub struct Incoming {
    pub ticket: Ticket,
    pub header: RequestHeader,
    /// The frame: header and body.
    pub frame: Buffer,
    pub client_id: Option<Arc<str>>,
    pub origin: Arc<Origin>,
}

/// A connection that is no more.
#[derive(Debug)]
pub struct Disconnected {
    pub connection: u64,
    /// Why the hub or a handler closed it; None if the client went away, or was closed for being idle.
    pub reason: Option<String>,
    pub origin: Arc<Origin>,
    pub client_id: Option<Arc<str>>,
}

/// What `next_event` hands out.
pub enum Event<T> {
    Request(Incoming),
    Completion(Completion<T>),
    Disconnected(Disconnected),
}

struct Visit {
    connection: u64,
    /// What of the shared buffer is its.
    start: usize,
    end: usize,
    frames: usize,
}

/// Figures for metrics and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub connections: usize,
    pub queued_bytes: usize,
    pub pooled_bytes: usize,
    pub accepted_total: u64,
    pub turns_total: u64,
    pub cold_reads_total: u64,
}

pub struct Hub<T> {
    epoll: OwnedFd,
    timer: OwnedFd,
    completions: Arc<Completions<T>>,
    wake: Arc<Wake>,
    budget: Arc<Budget>,
    pool: Arc<Pool>,
    limits: Limits,
    supported: Supported,
    listeners: Vec<Listener>,
    connections: Table,
    per_ip: PerIp,
    shared: Box<[u8]>,
    /// Handed out before any frame.
    events: VecDeque<Event<T>>,
    /// Connections to visit: readable, or with a frame that may start.
    ready: VecDeque<u64>,
    /// Connections whose slots were filled outside their visit.
    dirty: Vec<u64>,
    starved: Vec<u64>,
    /// Bytes of the frames of requests that were started and are not answered, over all connections.
    waiting_bytes: usize,
    /// The connection that may go on receiving a frame although memory is short, and when it last did.
    privileged: Option<(u64, u64)>,
    visit: Option<Visit>,
    in_turn: bool,
    turn: u64,
    frames_left: usize,
    /// Each connection once, by the earliest time at which it can be idle.
    deadlines: BinaryHeap<Reverse<(u64, u64)>>,
    /// When listeners that found no descriptor left are watched again.
    rest_until_ms: Option<u64>,
    timer_at_ms: Option<u64>,
    cold: Cold,
    started: Instant,
    now_ms: u64,
    draining: bool,
    figures: Figures,
}

impl<T> Hub<T> {
    pub fn new(limits: Limits, versions: &HashMap<i16, (i16, i16)>) -> io::Result<Self> {
        let wake = Arc::new(Wake::new()?);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(&epoll, wake.fd(), EventData::new_u64(WAKE), EventFlags::IN)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let budget = Arc::new(Budget::new(limits.queued_bytes_max, Arc::clone(&wake)));
        Ok(Self {
            epoll,
            timer,
            completions: Arc::new(Completions::with_wake(Arc::clone(&wake))),
            budget: Arc::clone(&budget),
            pool: Arc::new(Pool::new(budget)),
            limits,
            supported: Supported::new(versions),
            listeners: Vec::new(),
            connections: Table::default(),
            per_ip: PerIp::default(),
            // Room for the bytes of an incomplete length in front of what a read brings.
            shared: vec![0; SHARED_READ_BYTES + 4].into_boxed_slice(),
            events: VecDeque::new(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            starved: Vec::new(),
            waiting_bytes: 0,
            privileged: None,
            visit: None,
            in_turn: false,
            turn: 0,
            frames_left: 0,
            deadlines: BinaryHeap::new(),
            rest_until_ms: None,
            timer_at_ms: None,
            cold: Cold::new(Arc::clone(&wake))?,
            wake,
            started: Instant::now(),
            now_ms: 0,
            draining: false,
            figures: Figures::default(),
        })
    }

    /// Readable when `next_event` has something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Where other threads put results for the loop.
    pub fn completions(&self) -> &Arc<Completions<T>> {
        &self.completions
    }

    pub fn figures(&self) -> Figures {
        Figures {
            connections: self.connections.len(),
            queued_bytes: self.budget.used(),
            pooled_bytes: self.pool.kept_bytes(),
            turns_total: self.turn,
            ..self.figures
        }
    }

    /// Listens on `host` and `port` (0: any free one), and returns the port.
    pub fn listen(&mut self, host: &str, port: u16, name: &str) -> io::Result<u16> {
        self.listeners.push(Listener::bind(host, port, name)?);
        self.watch_listeners();
        self.listeners.last().map_or(Ok(0), Listener::port)
    }

    /// Closes all listeners; connections live on.
    pub fn stop_accepting(&mut self) {
        self.listeners.clear();
    }

    /// Reads no more. What was read is still handed out and answered; a connection that is owed nothing is closed.
    pub fn drain(&mut self) {
        self.stop_accepting();
        self.draining = true;
        // Whoever waits for the last connection to end looks again, even if there is none.
        self.wake.signal();
        for id in self.connections.ids() {
            self.mark_dirty(id);
        }
    }

    /// Closes everything at once.
    pub fn close(&mut self) {
        self.drain();
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.take(id) {
                self.end(connection, None);
            }
        }
        self.ready.clear();
        self.dirty.clear();
        self.visit = None;
    }

    /// A connection of another broker: it may use the reserve of the memory budget.
    pub fn mark_broker(&mut self, connection: u64) {
        if let Some(connection) = self.connections.get(connection) {
            connection.is_broker = true;
        }
    }

    // ---- answers ----

    /// Whether an answer to this request would still be sent.
    pub fn is_waiting(&mut self, ticket: Ticket) -> bool {
        self.connections
            .get(ticket.connection)
            .is_some_and(|connection| connection.slots.is_waiting(ticket.sequence))
    }

    /// Fills a slot with an answer: a body that `write` appends, followed by `rest`. Without effect if the slot is filled or the client gone.
    pub fn reply(&mut self, ticket: Ticket, write: impl FnOnce(&mut Vec<u8>), rest: Vec<Piece>) {
        let Some(connection) = self.connections.get(ticket.connection) else {
            return;
        };
        if connection.slots.is_next(ticket.sequence)
            && !matches!(connection.state, State::Ending(_))
        {
            // The usual case: what is written goes where it is sent from.
            connection
                .output
                .append(|to| write_answer(to, ticket, write, &rest));
            for piece in rest {
                connection.output.push(piece);
            }
            let filled = connection.slots.fill(ticket.sequence, Value::Skip);
            self.waiting_bytes -= filled.unwrap_or(0);
        } else if connection.slots.is_waiting(ticket.sequence) {
            let mut bytes = Vec::new();
            write_answer(&mut bytes, ticket, write, &rest);
            connection.slot_bytes += bytes.len();
            let answer = Value::Answer(Reply { bytes, rest });
            let filled = connection.slots.fill(ticket.sequence, answer);
            self.waiting_bytes -= filled.unwrap_or(0);
        }
        self.mark_dirty(ticket.connection);
    }

    /// The slot closes empty: acks=0.
    pub fn skip(&mut self, ticket: Ticket) {
        if let Some(connection) = self.connections.get(ticket.connection) {
            let filled = connection.slots.fill(ticket.sequence, Value::Skip);
            self.waiting_bytes -= filled.unwrap_or(0);
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
            self.waiting_bytes -= filled.unwrap_or(0);
            self.mark_dirty(ticket.connection);
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

    fn mark_dirty(&mut self, id: u64) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        // What is being visited is looked at when the visit ends.
        let visited = self
            .visit
            .as_ref()
            .is_some_and(|visit| visit.connection == id);
        if !visited && !mem::replace(&mut connection.in_dirty, true) {
            self.dirty.push(id);
            if !self.in_turn {
                self.wake.signal();
            }
        }
    }

    // ---- turns ----

    /// The next thing for the loop to handle; None ends the turn.
    pub fn next_event(&mut self) -> io::Result<Option<Event<T>>> {
        if !self.in_turn {
            self.begin_turn()?;
        }
        loop {
            if let Some(visit) = self.visit.take() {
                if let Some(incoming) = self.next_frame(visit) {
                    return Ok(Some(Event::Request(incoming)));
                }
            } else if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            } else if self.frames_left > 0
                && let Some(id) = self.ready.pop_front()
            {
                self.begin_visit(id);
            } else if let Some(id) = self.dirty.pop() {
                if let Some(mut connection) = self.connections.take(id) {
                    connection.in_dirty = false;
                    self.finish(connection);
                }
            } else {
                break;
            }
        }
        self.in_turn = false;
        if !self.ready.is_empty() {
            self.wake.signal();
        }
        Ok(None)
    }

    fn begin_turn(&mut self) -> io::Result<()> {
        self.in_turn = true;
        self.turn += 1;
        self.frames_left = TURN_FRAMES_MAX;
        self.now_ms = self.started.elapsed().as_millis() as u64;
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut space = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let readiness: &[epoll::Event] = match epoll::wait(&self.epoll, &mut space, Some(&now)) {
            Ok((readiness, _)) => readiness,
            Err(rustix::io::Errno::INTR) => &[],
            Err(error) => {
                self.in_turn = false;
                return Err(error.into());
            }
        };
        for event in readiness {
            let flags = event.flags;
            match event.data.u64() {
                WAKE => self.woken(),
                TIMER => self.sweep(),
                token if token > LISTENERS => self.accept((token - LISTENERS - 1) as usize)?,
                id => self.became_ready(id, flags),
            }
        }
        if !self.starved.is_empty() {
            self.feed_starved();
        }
        Ok(())
    }

    /// Lets connections be read again that were stopped for want of memory, if it is worth a try.
    fn feed_starved(&mut self) {
        if let Some((id, active_ms)) = self.privileged {
            let receives = self
                .connections
                .get(id)
                .is_some_and(|connection| connection.input.receiving().is_some());
            if !receives || active_ms + PRIVILEGE_MS <= self.now_ms {
                self.privileged = None;
            }
        }
        let another =
            self.privileged.is_none() && self.budget.is_mostly_unhandled(self.waiting_bytes);
        if self.budget.has_room() || another {
            for id in mem::take(&mut self.starved) {
                if let Some(connection) = self.connections.get(id) {
                    connection.starved = false;
                    self.mark_dirty(id);
                }
            }
        } else {
            self.set_timer();
        }
    }

    fn woken(&mut self) {
        self.events
            .extend(self.completions.drain().into_iter().map(Event::Completion));
        for warmed in self.cold.drain() {
            if let Some(connection) = self.connections.get(warmed.connection) {
                connection.cold = false;
                connection.output.warmed(warmed.bytes);
                self.mark_dirty(warmed.connection);
            }
        }
    }

    fn became_ready(&mut self, id: u64, flags: EventFlags) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        if broken || flags.contains(EventFlags::IN) {
            connection.readable = true;
            // Reported whatever the interest is: a connection that may not be read now is looked at all the same, and found gone.
            connection.gone |= broken && !connection.interest.0;
            if !mem::replace(&mut connection.in_ready, true) {
                self.ready.push_back(id);
            }
        }
        if flags.contains(EventFlags::OUT) {
            self.mark_dirty(id);
        }
    }

    /// Whether a connection is read although memory is short.
    fn may_read_all_the_same(&mut self, id: u64) -> bool {
        let has_reserve = self.budget.has_reserve();
        let Some(connection) = self.connections.get(id) else {
            return false;
        };
        let Some(length) = connection.input.receiving() else {
            return has_reserve
                && (connection.is_broker
                    || (connection.holds_nothing() && connection.next_is_small()));
        };
        if has_reserve || connection.is_broker || length < SMALL_FRAME_BYTES {
            return true;
        }
        // Half received frames must not all wait for each other: one goes on even at the limit.
        if self.privileged.is_none() && self.budget.is_mostly_unhandled(self.waiting_bytes) {
            self.privileged = Some((id, self.now_ms));
        }
        match &mut self.privileged {
            Some((privileged, active_ms)) if *privileged == id => {
                *active_ms = self.now_ms;
                true
            }
            _ => false,
        }
    }

    fn begin_visit(&mut self, id: u64) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        connection.in_ready = false;
        let readable = mem::take(&mut connection.readable);
        let reads = readable && !self.draining && connection.may_read(&self.limits);
        let room = !reads || self.budget.has_room() || self.may_read_all_the_same(id);
        let mut visit = Visit {
            connection: id,
            start: 0,
            end: 0,
            frames: 0,
        };
        if let Some(connection) = self.connections.get(id)
            && reads
        {
            if !room {
                connection.starved = true;
                self.starved.push(id);
                self.budget.want();
            } else {
                match connection.receive(&mut self.shared) {
                    Ok(Received::Bytes { shared, total }) => {
                        visit.end = shared;
                        if total > 0 {
                            connection.last_active_ms = self.now_ms;
                        }
                    }
                    // A reset is how many clients say good-bye.
                    Ok(Received::End) | Err(_) => connection.gone = true,
                }
            }
        }
        self.visit = Some(visit);
    }

    /// Cuts the next frame of the visit and starts its request; ends the visit if there is none that may start.
    fn next_frame(&mut self, mut visit: Visit) -> Option<Incoming> {
        let mut connection = self.connections.take(visit.connection)?;
        let mut fresh = Fresh {
            bytes: &self.shared[..visit.end],
            start: &mut visit.start,
        };
        while connection.may_serve(&self.limits)
            && self.frames_left > 0
            && visit.frames < VISIT_FRAMES_MAX
        {
            let length = match connection.input.peek(&fresh, self.limits.frame_bytes_max) {
                Next::Nothing => break,
                Next::Bad(length) => {
                    let reason = format!(
                        "a frame of {length} bytes announced, at most {} are allowed",
                        self.limits.frame_bytes_max
                    );
                    connection.refuse(reason);
                    break;
                }
                Next::Frame { api_key, length } => {
                    if !connection.slots.may_start(api_key == PRODUCE) {
                        break;
                    }
                    length
                }
            };
            let frame = connection.input.take(length, &mut fresh, &self.pool);
            visit.frames += 1;
            self.frames_left -= 1;
            match self.supported.admit(frame) {
                Admission::Start(header, frame) => {
                    self.waiting_bytes += frame.len();
                    let incoming = connection.start(header, frame);
                    self.connections.put(connection);
                    self.visit = Some(visit);
                    return Some(incoming);
                }
                Admission::Answer {
                    correlation_id,
                    body,
                } => connection.answer(correlation_id, &body),
                Admission::Refuse { reason, client_id } => {
                    if let Some(client_id) = client_id {
                        connection.client_id = Some(client_id.into());
                    }
                    connection.refuse(reason);
                }
            }
        }
        if connection.state == State::Open {
            connection
                .input
                .keep(&mut fresh, self.limits.frame_bytes_max, &self.pool);
        } else {
            connection.input = Default::default();
        }
        self.finish(connection);
        None
    }

    /// Sends what may be sent, and decides what the connection waits for.
    fn finish(&mut self, mut connection: Box<Connection>) {
        connection.settle();
        let mut blocked = false;
        if connection.gone {
            connection.output.clear();
        }
        if !connection.output.is_empty() && !connection.cold {
            let before = connection.output.bytes();
            match connection.flush(self.turn, &mut is_warm) {
                Ok(Sent::All) => {}
                Ok(Sent::Budget | Sent::Blocked) => blocked = true,
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
            if connection.output.bytes() < before {
                connection.last_active_ms = self.now_ms;
            }
        }
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
            || self.draining
                && nothing_left
                && connection.slots.is_empty()
                && connection.output.is_empty()
        {
            let reason = match &mut connection.state {
                State::Ending(reason) => reason.take(),
                State::Open | State::Closing => None,
            };
            self.end(connection, reason);
            return;
        }
        if connection.has_startable(&self.limits) && !mem::replace(&mut connection.in_ready, true) {
            self.ready.push_back(connection.id);
        }
        let reads = if connection.in_ready {
            // It is visited soon whatever epoll says; leave that as it is.
            connection.interest.0
        } else {
            !self.draining && connection.may_read(&self.limits)
        };
        let interest = (reads, blocked);
        self.set_interest(&mut connection, interest);
        self.connections.put(connection);
    }

    fn set_interest(&mut self, connection: &mut Connection, interest: (bool, bool)) {
        if connection.gone && connection.watched {
            // A broken connection would be reported for ever.
            let _ = epoll::delete(&self.epoll, &connection.socket);
            connection.watched = false;
        }
        if connection.interest == interest || !connection.watched {
            return;
        }
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, interest.0);
        flags.set(EventFlags::OUT, interest.1);
        // Fails only for a descriptor that is not registered, and all of ours are.
        let _ = epoll::modify(
            &self.epoll,
            &connection.socket,
            EventData::new_u64(connection.id),
            flags,
        );
        connection.interest = interest;
    }

    /// Brings the budget up to date with the connection's unsent answers.
    fn account(&self, connection: &mut Connection) {
        let bytes = connection.output.memory_bytes() + connection.slot_bytes;
        if bytes > connection.charged {
            self.budget.charge(bytes - connection.charged);
        } else if bytes < connection.charged {
            self.budget.release(connection.charged - bytes);
        }
        connection.charged = bytes;
    }

    /// Closes a connection that was taken from the table.
    fn end(&mut self, connection: Box<Connection>, reason: Option<String>) {
        self.budget.release(connection.charged);
        self.waiting_bytes -= connection.slots.waiting_bytes();
        self.per_ip.leave(connection.origin.peer.ip());
        self.connections.remove(connection.id);
        // A new one may come in its place.
        self.watch_listeners();
        self.events.push_back(Event::Disconnected(Disconnected {
            connection: connection.id,
            reason,
            origin: Arc::clone(&connection.origin),
            client_id: connection.client_id.clone(),
        }));
    }

    // ---- listeners and time ----

    /// Watches listeners unless there are as many connections as allowed, or listeners rest.
    fn watch_listeners(&mut self) {
        let wanted =
            self.rest_until_ms.is_none() && self.connections.len() < self.limits.connections_max;
        for (index, listener) in self.listeners.iter_mut().enumerate() {
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

    fn accept(&mut self, index: usize) -> io::Result<()> {
        for _ in 0..TURN_ACCEPTS_MAX {
            if self.connections.len() >= self.limits.connections_max {
                self.watch_listeners();
                return Ok(());
            }
            let Some(listener) = self.listeners.get(index) else {
                return Ok(());
            };
            match listener.accept(&self.limits)? {
                Accepted::Nobody => return Ok(()),
                Accepted::Exhausted => {
                    self.rest_until_ms = Some(self.now_ms + ACCEPT_REST_MS);
                    self.watch_listeners();
                    self.set_timer();
                    return Ok(());
                }
                Accepted::Connection(socket, origin) => self.admit(socket, origin),
            }
        }
        Ok(())
    }

    fn admit(&mut self, socket: OwnedFd, origin: Origin) {
        self.figures.accepted_total += 1;
        if let Err(reason) = self.per_ip.enter(origin.peer.ip(), &self.limits) {
            self.events.push_back(Event::Disconnected(Disconnected {
                connection: 0,
                reason: Some(reason),
                origin: Arc::new(origin),
                client_id: None,
            }));
            return;
        }
        let id = self.connections.reserve();
        let connection = Box::new(Connection::new(id, socket, origin, self.now_ms));
        let added = epoll::add(
            &self.epoll,
            &connection.socket,
            EventData::new_u64(id),
            EventFlags::IN,
        );
        if let Err(error) = added {
            self.end(connection, Some(error.to_string()));
            return;
        }
        self.connections.put(connection);
        if let Some(idle_ms) = self.limits.idle_ms {
            self.deadlines.push(Reverse((self.now_ms + idle_ms, id)));
            self.set_timer();
        }
    }

    /// Closes connections that were idle for too long. Each is looked at once in an idle period, not at every sign of life.
    fn sweep(&mut self) {
        let mut expirations = [0u8; 8];
        let _ = rustix::io::read(&self.timer, &mut expirations);
        self.timer_at_ms = None;
        if self.rest_until_ms.is_some_and(|until| until <= self.now_ms) {
            self.rest_until_ms = None;
            self.watch_listeners();
        }
        let idle_ms = self.limits.idle_ms.unwrap_or(0);
        while let Some(&Reverse((deadline, id))) = self.deadlines.peek()
            && deadline <= self.now_ms
        {
            self.deadlines.pop();
            let Some(connection) = self.connections.take(id) else {
                continue;
            };
            // Who waits for an answer is not idle; who does not take one is.
            let owed = connection.slots.waiting() > 0 && connection.output.is_empty();
            let idle_at = if owed {
                self.now_ms + idle_ms
            } else {
                connection.last_active_ms + idle_ms
            };
            if idle_at <= self.now_ms {
                self.end(connection, None);
            } else {
                self.connections.put(connection);
                self.deadlines.push(Reverse((idle_at, id)));
            }
        }
        self.set_timer();
    }

    fn set_timer(&mut self) {
        let idle = self
            .deadlines
            .peek()
            .map(|Reverse((deadline, _))| *deadline);
        let privilege = self.privileged.filter(|_| !self.starved.is_empty());
        let privilege = privilege.map(|(_, active_ms)| active_ms + PRIVILEGE_MS);
        let Some(at_ms) = [idle, self.rest_until_ms, privilege]
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

/// Size, response header, body.
fn write_answer(
    to: &mut Vec<u8>,
    ticket: Ticket,
    write: impl FnOnce(&mut Vec<u8>),
    rest: &[Piece],
) {
    let start = to.len();
    to.extend_from_slice(&[0; 4]);
    to.extend_from_slice(&ticket.correlation_id.to_be_bytes());
    if response_header_version(ticket.api_key, ticket.api_version) >= 1 {
        to.push(0);
    }
    write(to);
    let rest: u64 = rest.iter().map(Piece::length).sum();
    let length = (to.len() - start - 4) as u64 + rest;
    to[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
}

impl Connection {
    /// Takes a slot for a request.
    fn start(&mut self, header: RequestHeader, frame: Buffer) -> Incoming {
        let id = header.client_id.clone().map(|range| &frame[range]);
        if id != self.client_id.as_deref().map(str::as_bytes) {
            self.client_id = client_id(&header, &frame).map(Arc::from);
        }
        self.is_broker |= BETWEEN_BROKERS.contains(&header.api_key);
        let sequence = self.slots.start(header.api_key == PRODUCE, frame.len());
        Incoming {
            ticket: Ticket {
                connection: self.id,
                sequence,
                api_key: header.api_key,
                api_version: header.api_version,
                correlation_id: header.correlation_id,
            },
            header,
            frame,
            client_id: self.client_id.clone(),
            origin: Arc::clone(&self.origin),
        }
    }

    /// An answer of the hub's own, with header version 0.
    fn answer(&mut self, correlation_id: i32, body: &[u8]) {
        let mut bytes = Vec::with_capacity(8 + body.len());
        bytes.extend_from_slice(&(4 + body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&correlation_id.to_be_bytes());
        bytes.extend_from_slice(body);
        self.slot_bytes += bytes.len();
        self.slots.push(Value::Answer(Reply {
            bytes,
            rest: Vec::new(),
        }));
    }

    /// Closes the connection once all earlier answers have left.
    fn refuse(&mut self, reason: String) {
        self.slots.push(Value::Close(Some(reason)));
        self.state = State::Closing;
    }
}
