//! Readiness and turns.
//!
//! One epoll set, level-triggered, watches everything: listeners, connections, a timer, and the descriptor by which other threads wake the
//! hub. The loop waits in `wait`, which also ends when the loop itself has something to do (`beside`), or, with the hub's own descriptor, in
//! any way it likes. It then calls `next_event` until that returns None; those calls are one *turn*. What `wait` can do without the loop, it
//! does: a turn that only sends is over before anybody hears of it.
//!
//! A turn takes the ready connections one after the other. A *visit* reads a connection once, hands out its frames one by one (so that an
//! answer given to one decides whether the next may start), and sends its answers in one system call while everything is still in the
//! processor's cache. Bounds keep a turn short: frames in all and for each visit, bytes for each connection. What a bound leaves over is found by
//! the next turn: in the socket or its send buffer, which the level-triggered set reports again (with an edge-triggered one it would be
//! stranded), or in the ready queue, for which the hub wakes itself.
//!
//! Several threads may serve, each with a hub of its own ([`hubs`]): the loop's, and others that hand on to the loop
//! what they do not serve. The parts:
//!
//! | part | whose | what |
//! |---|---|---|
//! | [`Hub`] itself | one thread's | epoll set, timer, connections, turn, waiters for memory, cold slices, meter |
//! | [`Acceptor`] | all threads', behind a lock | listeners, connections by listener and by address, rates |
//! | [`Joint`] | all threads', behind locks | connections on their way to a thread, events on their way to the loop |
//! | | an atomic, and behind it a lock | the hubs of connections that have moved ([`moving`]) |
//! | | atomics that one thread changes | each thread's connections and work, by which the next connection is placed |
//! | | an atomic, and behind it a lock | which hubs serve ([`serving`]) |
//! | [`Shared`] | all threads' | budget and pool, which count with atomics; limits and APIs, which nobody changes |
//! | | behind locks, while memory is short | what addresses hold; large answers in the making |
//!
//! A hub is locked while its thread works in it, and by threads that answer a request of one of its connections. They
//! signal its `Wake`, as do threads that push completions, drop frames, and bring in cold slices.

mod acceptor;
mod anew;
mod answers;
mod arrivals;
mod brokers;
mod elsewhere;
mod gate;
mod handshakes;
mod hubs;
mod joint;
mod moving;
mod reservations;
mod search;
mod serving;
mod shortage;
mod turns;
mod waiting;
mod work;

use acceptor::Acceptor;
use handshakes::Handshakes;
pub use hubs::Hubs;
use joint::{Arrival, Joint};
pub use moving::Load;
use moving::Moving;
use reservations::Answers;
pub use reservations::Reserved;
use serving::Role;
use shortage::Short;
pub use waiting::wait;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::admission::{Admission, Api, Supported, client_id, describe};
use super::budget::{Account, Bounds, Budget, Moves, Shortages};
use super::cold::{COLD_BYTES_MAX, Cold, is_warm};
use super::connection::{Connection, READING, Received, Reply, State};
use super::frames::{Buffer, Pool};
use super::input::{Fresh, Next};
use super::limits::{
    ACCEPT_REST_MS, ConnectionLimits, FIRST_BYTES_MAX, LIGHT_READ_BYTES, Limits, SENT_BYTES_MAX,
    SHARED_READ_BYTES, SMALL_FRAME_BYTES, TURN_ACCEPTS_MAX, TURN_FRAMES_MAX, TURN_ROUNDS_MAX,
    VISIT_FRAMES_MAX,
};
use super::listeners::{Accepted, Handshaken, Listener, Origin, PerIp, Security};
use super::meter::Meter;
use super::rate::{Rate, Window};
use super::reply::Sent;
use super::session::{Session, TOKEN};
use super::slots::Value;
use super::table::{Table, hub_of};
use super::transport::Transport;
use crate::io::{Completion, Completions, Wake};
use crate::wire::headers::{RequestHeader, response_header_version};
use crate::wire::keys::{self, PRODUCE};
use crate::wire::piece::Piece;

/// What epoll reports for descriptors that are not connections; listeners count down from below these.
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const BESIDE: u64 = u64::MAX - 2;
const LISTENERS: u64 = u64::MAX - 1000;
const EVENTS_MAX: usize = 256;

/// Where an answer belongs.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub connection: u64,
    pub sequence: u64,
    pub api_key: i16,
    pub api_version: i16,
    pub is_flexible: bool,
    pub correlation_id: i32,
    /// When it started, for a hub that measures; else 0.
    pub started_us: u64,
}

impl Ticket {
    /// True for a token of SASL without a header: its answer has none.
    pub fn is_token(&self) -> bool {
        self.api_key == keys::SASL_AUTHENTICATE && self.api_version == TOKEN
    }
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
    /// All requests were handed out that the turn brings: what was put off for all of them together is done now, and answers that are given now
    /// leave with the turn's others. Comes once, before the end of a turn with requests; again if those answers let further requests start.
    Served,
    /// Memory that `reserve` was asked for is there, or nobody waits for the answer any more.
    Reserved {
        token: u64,
        is_granted: bool,
    },
    /// The thread of a hub cannot go on, for this reason, nor can the broker.
    Failed(String),
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

/// The part that all threads share.
struct Shared {
    budget: Arc<Budget>,
    pool: Arc<Pool>,
    /// Where the milliseconds of all hubs begin.
    started: Instant,
    limits: Limits,
    supported: Supported,
    shortages: Shortages,
    /// Large answers in the making.
    answers: Answers,
}

pub struct Hub<T> {
    /// Its place among all hubs; the loop's is the first.
    number: usize,
    joint: Arc<Joint<T>>,
    /// Shared with whoever waits while the hub is not locked.
    epoll: Arc<OwnedFd>,
    timer: OwnedFd,
    /// What the loop waits for beside the hub, and whether it was ready in the turn that goes on, or in the last one.
    beside: Option<OwnedFd>,
    beside_ready: bool,
    completions: Arc<Completions<T>>,
    wake: Arc<Wake>,
    shared: Arc<Shared>,
    acceptor: Arc<Mutex<Acceptor>>,
    /// Where connections with TLS are until they are in, once a listener has it.
    handshakes: Option<Handshakes>,
    connections: Table,
    /// The bytes that a read brings, for one connection after the other.
    brought: Box<[u8]>,
    /// Handed out before any frame.
    events: VecDeque<Event<T>>,
    /// Connections to visit: readable, or with a frame that may start.
    ready: VecDeque<u64>,
    /// Connections whose slots were filled outside their visit: whoever was answered first is sent to first.
    dirty: VecDeque<u64>,
    /// Connections that sent as much as one may in this round, and have more.
    unfinished: Vec<u64>,
    /// Those of the rounds before, and those whose sockets were full or whose records were not in memory: when everybody else has been sent to,
    /// so are they, as many in each round as together get what one may.
    resumed: VecDeque<u64>,
    sent_bytes: u64,
    /// Who waits for memory.
    short: Short,
    /// The charges of all its connections together.
    charged: usize,
    visit: Option<Visit>,
    in_turn: bool,
    /// Requests were handed out since the last `Served`.
    serving: bool,
    turn: u64,
    frames_left: usize,
    rounds_left: usize,
    round: u64,
    /// Each connection once, by the earliest time at which it can be idle.
    deadlines: BinaryHeap<Reverse<(u64, u64)>>,
    /// When connections that were muted are heard again.
    mutes: BinaryHeap<Reverse<(u64, u64)>>,
    timer_at_ms: Option<u64>,
    cold: Cold,
    moving: Moving,
    started: Instant,
    now_ms: u64,
    draining: bool,
    figures: Figures,
    /// While somebody wants to know what requests cost.
    pub meter: Option<Box<Meter>>,
}

impl<T> Hub<T> {
    /// The hub of this number.
    fn new(
        number: usize,
        (epoll, wake): (Arc<OwnedFd>, Arc<Wake>),
        joint: Arc<Joint<T>>,
        acceptor: Arc<Mutex<Acceptor>>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(&epoll, wake.fd(), EventData::new_u64(WAKE), EventFlags::IN)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        Ok(Self {
            number,
            joint,
            epoll,
            timer,
            beside: None,
            beside_ready: false,
            completions: Arc::new(Completions::with_wake(Arc::clone(&wake))),
            acceptor,
            handshakes: None,
            started: shared.started,
            shared,
            connections: Table::of(number),
            // Room for the bytes of an incomplete length in front of what a read brings.
            brought: vec![0; SHARED_READ_BYTES + 4].into_boxed_slice(),
            events: VecDeque::new(),
            ready: VecDeque::new(),
            dirty: VecDeque::new(),
            unfinished: Vec::new(),
            resumed: VecDeque::new(),
            sent_bytes: 0,
            short: Short::default(),
            charged: 0,
            visit: None,
            in_turn: false,
            serving: false,
            turn: 0,
            frames_left: 0,
            rounds_left: 0,
            round: 0,
            deadlines: BinaryHeap::new(),
            mutes: BinaryHeap::new(),
            timer_at_ms: None,
            cold: Cold::new(Arc::clone(&wake)),
            wake,
            moving: Moving::of(number),
            now_ms: 0,
            draining: false,
            figures: Figures::default(),
            meter: None,
        })
    }

    /// Readable when `next_event` has something to do; also what `wait` waits for.
    pub fn fd(&self) -> &Arc<OwnedFd> {
        &self.epoll
    }

    /// Where other threads put results for the loop.
    pub fn completions(&self) -> &Arc<Completions<T>> {
        &self.completions
    }

    pub fn figures(&self) -> Figures {
        Figures {
            connections: self.connections.len(),
            queued_bytes: self.shared.budget.used() + self.shared.answers.bytes(),
            pooled_bytes: self.shared.pool.kept_bytes(),
            accepted_total: self.acceptor.lock().accepted_total,
            turns_total: self.turn,
            ..self.figures
        }
    }

    /// Connections that are open, by the listener that they came to.
    pub fn listener_connections(&self) -> Vec<(String, usize)> {
        self.acceptor.lock().connections()
    }

    /// The TLS handshakes that are over, by the listener.
    pub fn handshakes(&self) -> Vec<(String, Handshaken)> {
        self.acceptor.lock().handshakes()
    }

    /// Listens on `host` and `port` (0: any free one), and returns the port.
    pub fn listen(&mut self, host: &str, port: u16, name: &str) -> io::Result<u16> {
        self.acceptor.lock().listen(host, port, name)
    }

    /// Connections that come to the listeners of a name from now on may speak when `let_speak` says
    /// so, and end after `greeting_ms` milliseconds without it. None: everybody may speak.
    pub fn greet(&mut self, name: &str, greeting_ms: Option<u64>) {
        for listener in self.acceptor.lock().named(name) {
            listener.greeting_ms = greeting_ms;
        }
    }

    /// Connections that come to a listener of this name from now on have this transport.
    #[cfg(test)]
    pub fn wrap(&mut self, name: &str, transport: fn(OwnedFd) -> Transport) {
        for listener in self.acceptor.lock().named(name) {
            listener.transport = Security::Other(transport);
        }
    }

    /// It is known who is on a connection: it may speak, for so many milliseconds or for ever. Said
    /// before the answer to the request that told it, or the next request is refused.
    pub fn let_speak(&mut self, connection: u64, for_ms: Option<u64>) {
        let now_ms = self.started.elapsed().as_millis() as u64;
        if let Some(connection) = self.connections.get(connection) {
            let until_ms = for_ms.map(|for_ms| now_ms.saturating_add(for_ms));
            connection.session = Session::known(until_ms);
        }
    }

    /// The next frames of a connection are tokens without headers, until `let_speak`. Said before the answer to the
    /// request that announced them.
    pub fn take_tokens(&mut self, connection: u64) {
        if let Some(connection) = self.connections.get(connection) {
            connection.session.take_tokens();
        }
    }

    /// Nothing more is taken from a connection, which ends when what it has asked is answered, for this reason.
    pub fn refuse(&mut self, connection: u64, reason: String) {
        let id = connection;
        if let Some(connection) = self.connections.get(id)
            && connection.state == State::Open
        {
            connection.refuse(reason);
            self.mark_dirty(id);
        }
    }

    /// A session is over: its connection ends now, for this reason. Its requests that wait are not
    /// answered.
    pub fn end_session(&mut self, connection: u64, reason: String) {
        if let Some(connection) = self.connections.take(connection) {
            self.end(connection, Some(reason));
            // The loop is told, even if nobody sends anything.
            self.wake.signal();
        }
    }

    /// Closes the listeners of a name. Their connections end as soon as they are owed no answer.
    pub fn stop_listening(&mut self, name: &str) {
        self.acceptor.lock().close(name);
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.get(id)
                && &*connection.origin.listener == name
            {
                connection.leaving = true;
                connection.muted_until_ms = None;
                self.mark_dirty(id);
            }
        }
        // The loop looks at them, even if nobody sends anything.
        self.wake.signal();
    }

    /// Closes all listeners; connections live on.
    pub fn stop_accepting(&mut self) {
        self.acceptor.lock().close_all();
    }

    /// Reads no more. What was read is still handed out and answered; a connection that is owed nothing is closed.
    pub fn drain(&mut self) {
        self.stop_accepting();
        // Those who are not in yet are owed nothing.
        self.handshakes = None;
        self.draining = true;
        // Whoever waits for the last connection to end looks again, even if there is none.
        self.wake.signal();
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.get(id) {
                connection.muted_until_ms = None;
            }
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
        self.unfinished.clear();
        self.resumed.clear();
        self.visit = None;
        self.completions.sent();
    }

    /// Ends the wait of the thread that serves the hub.
    pub fn interrupt(&mut self) {
        self.events.push_back(Event::Served);
        self.wake.signal();
    }

    /// Other limits for connections, from the next one on. The buffers of sockets stay.
    pub fn limit_connections(&mut self, limits: ConnectionLimits) {
        self.acceptor.lock().limit(limits);
    }

    /// Bounds for all listeners together, which do not hold for the `protected` one (KIP-612).
    pub fn limit_connection_rate(
        &mut self,
        window: Window,
        per_second_max: Option<u32>,
        protected: Option<String>,
    ) {
        let mut acceptor = self.acceptor.lock();
        acceptor.limit_rate(window, per_second_max, protected);
    }

    /// Bounds for the listeners of one name.
    pub fn limit_listener(
        &mut self,
        name: &str,
        connections_max: usize,
        window: Window,
        per_second_max: Option<u32>,
    ) {
        let mut acceptor = self.acceptor.lock();
        acceptor.limit_listener(name, connections_max, window, per_second_max);
    }
}
