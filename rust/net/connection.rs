//! One connection: its transport, unstarted input, reply slots and unsent output. The hub decides when; what can be done is here.

use std::io;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::budget::Moves;
use super::hub::Load;
use super::input::{Fresh, Input, Next};
use super::limits::{Limits, RECEIVED_BYTES_MAX, SENT_BYTES_MAX, SMALL_FRAME_BYTES};
use super::listeners::Origin;
use super::reply::{Output, Sent};
use super::session::Session;
use super::slots::{Slots, Value};
use super::times::Times;
use super::transport::Transport;
use crate::wire::keys::PRODUCE;
use crate::wire::piece::{FileSlice, Piece};

/// What epoll is asked for while a connection is read. The end of a connection (RDHUP) is asked for always: a client that leaves while its
/// connection is not read should not be kept.
pub const READING: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// An answer that waits in a slot for those before it.
pub struct Reply {
    /// Size, header, and the body or its beginning.
    pub bytes: Vec<u8>,
    /// What follows, in order.
    pub rest: Vec<Piece>,
}

impl Reply {
    /// What it takes of this process's memory.
    pub fn memory_bytes(&self) -> usize {
        let rest = self.rest.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::File(_) => 0,
        });
        self.bytes.len() + rest.sum::<usize>()
    }
}

/// Whether the connection's life goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    Open,
    /// No further frame starts; what is in the slots before the close still leaves.
    Closing,
    /// The output before a close slot is being sent; then the connection ends, for this reason if there is one to tell.
    Ending(Option<String>),
}

pub struct Connection {
    pub id: u64,
    pub transport: Transport,
    pub origin: Arc<Origin>,
    pub client_id: Option<Arc<str>>,
    pub input: Input,
    pub slots: Slots<Reply>,
    pub output: Output,
    pub state: State,
    /// Who speaks.
    pub session: Session,
    /// The client sends no more, or cannot be sent to: the connection ends when what was read is started.
    pub gone: bool,
    /// Its listener was closed: nothing more is read, and it ends when it is owed nothing.
    pub leaving: bool,
    /// It says that it is another broker's, on a listener where that is believed.
    pub is_broker: bool,
    /// It came to a listener that is not for clients: memory is reserved for it.
    pub is_reserved: bool,
    /// The socket had something to read when it was last asked.
    pub readable: bool,
    /// Nothing is read before the memory budget has room.
    pub starved: bool,
    /// Its next request is not started before unsent answers take less memory.
    pub deferred: bool,
    /// How answers leave that the socket does not take at once.
    pub sending: Option<Moves>,
    /// An I/O thread brings in a part of the front slice.
    pub cold: bool,
    /// The client sends no more, but what it sent is not all read, and a whole frame may be in it.
    pub half_closed: bool,
    /// The interest registered with epoll.
    pub interest: EventFlags,
    /// Whether epoll watches it.
    pub watched: bool,
    /// Whether it is in the hub's queue of connections to visit, in that of connections to flush, and among those that have more to send.
    pub in_ready: bool,
    pub in_dirty: bool,
    pub in_unfinished: bool,
    /// When it came into the queue of those to visit, by the meter's clock; 0 if nobody measures.
    pub ready_us: u64,
    pub last_active_ms: u64,
    /// Its place in the order in which connections came, to whatever hub.
    pub came: u64,
    /// A quota is exceeded: until then nothing is read and no request starts, while answers leave (KIP-219).
    pub muted_until_ms: Option<u64>,
    /// Bytes of unsent answers that are charged to the budget, and those of answers still in slots.
    pub charged: usize,
    pub slot_bytes: usize,
    /// Bytes sent in the turn of this number.
    pub sent_in_round: (u64, usize),
    /// Of requests whose answers are not sent.
    pub times: Times,
    /// Its cost, where several threads serve.
    pub load: Load,
    /// When its hub looks whether it is idle.
    pub looked_at_ms: Option<u64>,
}

/// What one visit read.
pub enum Received {
    /// Bytes for the shared buffer's end, and in all.
    Bytes { shared: usize, total: usize },
    /// The client sends no more.
    End,
}

impl Connection {
    /// Whether it waits for an answer, or for being heard again. Who does not take an answer waits for nothing.
    pub fn is_owed(&self) -> bool {
        (self.slots.waiting() > 0 || self.muted_until_ms.is_some()) && self.output.is_empty()
    }

    /// Whether nobody would miss it now: a client's, with nothing under way.
    pub fn is_idle(&self) -> bool {
        let is_client = !self.is_broker && !self.is_reserved;
        let is_held_back = self.starved || self.deferred;
        is_client && !self.is_owed() && !is_held_back && !self.in_ready && !self.in_dirty
    }

    pub fn new(id: u64, transport: Transport, origin: Arc<Origin>, now_ms: u64) -> Self {
        Self {
            id,
            transport,
            origin,
            client_id: None,
            leaving: false,
            input: Input::default(),
            slots: Slots::default(),
            output: Output::default(),
            state: State::Open,
            session: Session::known(None),
            gone: false,
            is_broker: false,
            is_reserved: false,
            readable: false,
            starved: false,
            deferred: false,
            sending: None,
            cold: false,
            half_closed: false,
            interest: READING,
            watched: true,
            in_ready: false,
            in_dirty: false,
            in_unfinished: false,
            ready_us: 0,
            last_active_ms: now_ms,
            came: 0,
            muted_until_ms: None,
            charged: 0,
            slot_bytes: 0,
            sent_in_round: (0, 0),
            times: Times::default(),
            load: Load::default(),
            looked_at_ms: None,
        }
    }

    /// True if it may go to another thread: its client has been let in, and nothing of it is under way.
    pub fn may_move(&self, limits: &Limits) -> bool {
        let is_held_back = self.starved || self.deferred || self.muted_until_ms.is_some();
        let is_ending = self.gone || self.half_closed || self.leaving || self.state != State::Open;
        let is_queued = self.in_ready || self.in_dirty || self.in_unfinished || self.cold;
        let is_between_frames = self.input.is_empty() && !self.readable && !self.transport.holds();
        let is_owed = !self.slots.is_empty() || !self.output.is_empty();
        !is_held_back
            && !is_ending
            && !is_queued
            && is_between_frames
            && !is_owed
            && self.watched
            && self.session.is_known()
            && self.may_read(limits)
    }

    /// Whether more requests may start, as far as the bounds of this connection go.
    pub fn may_serve(&self, limits: &Limits) -> bool {
        self.state == State::Open
            && self.muted_until_ms.is_none()
            && !self.deferred
            && self.output.bytes() + self.slot_bytes as u64 <= limits.output_bytes_max as u64
            && self.slots.waiting() < limits.waiting_requests_max
            && self.slots.waiting_bytes() < limits.waiting_bytes_max
    }

    /// Whether the socket may be read: nothing read before is left, and what it brings may be kept.
    pub fn may_read(&self, limits: &Limits) -> bool {
        !self.gone
            && !self.leaving
            && !self.starved
            && !self.input.has_parked()
            && self.may_serve(limits)
    }

    /// Whether a frame that was read before may start now.
    pub fn has_startable(&self, limits: &Limits) -> bool {
        if !self.may_serve(limits) || !self.input.has_parked() {
            return false;
        }
        let mut start = 0;
        let none = Fresh {
            bytes: &[],
            start: &mut start,
        };
        match self.input.peek(&none, self.session.frame_bytes_max(limits)) {
            Next::Nothing => false,
            Next::Frame { api_key, .. } => self.slots.may_start(api_key == PRODUCE),
            Next::Bad(_) => true,
        }
    }

    /// The length of the frame that the socket has next, 0 while it is not there, if the connection holds little with it: less than a small
    /// frame. Costs a system call; asked only when memory is short.
    pub fn next_small(&mut self) -> Option<usize> {
        let mut bytes = [0u8; 4];
        let head = self.input.head();
        bytes[..head.len()].copy_from_slice(head);
        let rest = &mut bytes[head.len()..];
        let missing = rest.len();
        let length = match self.transport.peek(rest) {
            Ok(count) if count == missing => {
                usize::try_from(i32::from_be_bytes(bytes)).unwrap_or(0)
            }
            // The end, an error, or too little: reading it costs no memory.
            _ => 0,
        };
        let held = self.input.held() + self.slots.waiting_bytes();
        (held + length < SMALL_FRAME_BYTES).then_some(length)
    }

    /// Bytes that the socket has and nobody read.
    pub fn unread(&self) -> u64 {
        self.transport.unread()
    }

    /// Whether the socket takes more.
    pub fn is_writable(&self) -> bool {
        self.transport.is_writable()
    }

    /// Whether what the client sent before it left can still make a whole frame. Asked when it left while it was not read.
    pub fn may_complete_a_frame(&self) -> bool {
        let unread = self.unread();
        match self.input.missing() {
            Some(missing) => missing as u64 <= unread,
            None => self.input.has_parked() || unread > 0,
        }
    }

    /// Reads once what the socket has: first into a large frame that has begun, then into `shared`.
    ///
    /// One read is enough: it asks for more than the socket is likely to hold, and what it leaves is reported again.
    pub fn receive(&mut self, shared: &mut [u8], now_ms: u64) -> io::Result<Received> {
        let head = self.input.take_head(shared);
        let (direct, is_rest) = self.input.direct().unwrap_or_default();
        let wanted = direct.len().min(RECEIVED_BYTES_MAX);
        let received = if wanted == 0 {
            self.transport.read(&mut shared[head..])
        } else if wanted < direct.len() || !is_rest || shared.is_empty() {
            self.transport.read(&mut direct[..wanted])
        } else {
            self.transport.read_two(direct, shared)
        };
        match received {
            Ok(0) => Ok(Received::End),
            Ok(count) => {
                let into_frame = count.min(wanted);
                self.input.advance(into_frame, now_ms);
                Ok(Received::Bytes {
                    shared: head + count - into_frame,
                    total: count,
                })
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Bytes {
                shared: head,
                total: 0,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves the answers that may leave from the slots to the output.
    pub fn settle(&mut self) {
        while !matches!(self.state, State::Ending(_)) {
            let sequence = self.slots.first();
            match self.slots.leave() {
                None => return,
                Some(Value::Skip) => {}
                Some(Value::Answer(reply)) => {
                    self.slot_bytes -= reply.memory_bytes();
                    self.output.push(Piece::Bytes(reply.bytes));
                    for piece in reply.rest {
                        self.output.push(piece);
                    }
                }
                Some(Value::Close(reason)) => self.state = State::Ending(reason),
            }
            self.times.left(sequence, self.output.extent().1);
        }
    }

    /// Sends what the round allows.
    pub fn flush(
        &mut self,
        round: u64,
        now_ms: u64,
        is_warm: &mut dyn FnMut(&FileSlice) -> bool,
    ) -> io::Result<Sent> {
        if self.sent_in_round.0 != round {
            self.sent_in_round = (round, 0);
        }
        let left = SENT_BYTES_MAX.saturating_sub(self.sent_in_round.1);
        if left == 0 && !self.output.is_empty() {
            return Ok(Sent::Budget);
        }
        let (sent, count) = self
            .output
            .send(&mut self.transport, left, now_ms, is_warm)?;
        self.sent_in_round.1 += count;
        Ok(sent)
    }
}
