//! One connection: its socket, unstarted input, reply slots and unsent output. The hub decides when; what can be done is here.

use std::io;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::input::{Fresh, Input, Next};
use super::limits::{Limits, RECEIVED_BYTES_MAX, SENT_BYTES_MAX, SMALL_FRAME_BYTES};
use super::listeners::Origin;
use super::reply::{Output, Sent};
use super::slots::{Slots, Value};
use super::times::Times;
use crate::wire::piece::{FileSlice, Piece};

/// An answer that waits in a slot for those before it.
pub struct Reply {
    /// Size, header, and the body or its beginning.
    pub bytes: Vec<u8>,
    /// What follows, in order.
    pub rest: Vec<Piece>,
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
    pub socket: OwnedFd,
    pub origin: Arc<Origin>,
    pub client_id: Option<Arc<str>>,
    pub input: Input,
    pub slots: Slots<Reply>,
    pub output: Output,
    pub state: State,
    /// The client sends no more, or cannot be sent to: the connection ends when what was read is started.
    pub gone: bool,
    /// Its listener was closed: nothing more is read, and it ends when it is owed nothing.
    pub leaving: bool,
    /// A connection of another broker, which may use the reserve of the memory budget.
    pub is_broker: bool,
    /// The socket had something to read when it was last asked.
    pub readable: bool,
    /// Nothing is read before the memory budget has room.
    pub starved: bool,
    /// An I/O thread brings in a part of the front slice.
    pub cold: bool,
    /// The interest registered with epoll: to read, to write.
    pub interest: (bool, bool),
    /// Whether epoll watches it.
    pub watched: bool,
    /// Whether it is in the hub's queue of connections to visit, in that of connections to flush, and among those that have more to send.
    pub in_ready: bool,
    pub in_dirty: bool,
    pub in_unfinished: bool,
    /// When it came into the queue of those to visit, by the meter's clock; 0 if nobody measures.
    pub ready_us: u64,
    pub last_active_ms: u64,
    /// A quota is exceeded: until then nothing is read and no request starts, while answers leave (KIP-219).
    pub muted_until_ms: Option<u64>,
    /// Bytes of unsent answers that are charged to the budget, and those of answers still in slots.
    pub charged: usize,
    pub slot_bytes: usize,
    /// Bytes sent in the turn of this number.
    pub sent_in_round: (u64, usize),
    /// Of requests whose answers are not sent.
    pub times: Times,
}

/// What one visit read.
pub enum Received {
    /// Bytes for the shared buffer's end, and in all.
    Bytes { shared: usize, total: usize },
    /// The client sends no more.
    End,
}

impl Connection {
    pub fn new(id: u64, socket: OwnedFd, origin: Origin, now_ms: u64) -> Self {
        Self {
            id,
            socket,
            origin: Arc::new(origin),
            client_id: None,
            leaving: false,
            input: Input::default(),
            slots: Slots::default(),
            output: Output::default(),
            state: State::Open,
            gone: false,
            is_broker: false,
            readable: false,
            starved: false,
            cold: false,
            interest: (true, false),
            watched: true,
            in_ready: false,
            in_dirty: false,
            in_unfinished: false,
            ready_us: 0,
            last_active_ms: now_ms,
            muted_until_ms: None,
            charged: 0,
            slot_bytes: 0,
            sent_in_round: (0, 0),
            times: Times::default(),
        }
    }

    /// Whether more requests may start, as far as the bounds of this connection go.
    pub fn may_serve(&self, limits: &Limits) -> bool {
        self.state == State::Open
            && self.muted_until_ms.is_none()
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
        match self.input.peek(&none, limits.frame_bytes_max) {
            Next::Nothing => false,
            Next::Frame { api_key, .. } => self.slots.may_start(api_key == 0),
            Next::Bad(_) => true,
        }
    }

    /// Whether the client owes nothing and is owed nothing: then it may be closed for being idle, and may use the memory reserve.
    pub fn holds_nothing(&self) -> bool {
        self.slots.is_empty() && self.output.is_empty() && self.input.is_empty()
    }

    /// Whether the length of the frame that the socket has next is known, and small. Costs a system call; asked only when memory is short.
    pub fn next_is_small(&self) -> bool {
        let mut length = [0u8; 4];
        match rustix::net::recv(
            &self.socket,
            &mut length,
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        ) {
            Ok((_, 4)) => usize::try_from(i32::from_be_bytes(length))
                .is_ok_and(|length| length < SMALL_FRAME_BYTES),
            // The end, an error, or too little: reading it costs no memory.
            _ => true,
        }
    }

    /// Reads once what the socket has: first into a large frame that has begun, then into `shared`.
    ///
    /// One read is enough: it asks for more than the socket is likely to hold, and what it leaves is reported again.
    pub fn receive(&mut self, shared: &mut [u8]) -> io::Result<Received> {
        let head = self.input.take_head(shared);
        let (direct, is_rest) = self.input.direct().unwrap_or_default();
        let wanted = direct.len().min(RECEIVED_BYTES_MAX);
        let received = if wanted == 0 {
            rustix::net::recv(&self.socket, &mut shared[head..], RecvFlags::DONTWAIT)
                .map(|(count, _)| count)
        } else if wanted < direct.len() || !is_rest {
            rustix::net::recv(&self.socket, &mut direct[..wanted], RecvFlags::DONTWAIT)
                .map(|(count, _)| count)
        } else {
            let mut vector = [IoSliceMut::new(direct), IoSliceMut::new(shared)];
            rustix::io::readv(&self.socket, &mut vector)
        };
        match received {
            Ok(0) => Ok(Received::End),
            Ok(count) => {
                let into_frame = count.min(wanted);
                self.input.advance(into_frame);
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

    /// Moves answers whose turn has come from the slots to the output.
    pub fn settle(&mut self) {
        while !matches!(self.state, State::Ending(_)) {
            let sequence = self.slots.first();
            match self.slots.leave() {
                None => return,
                Some(Value::Skip) => {}
                Some(Value::Answer(reply)) => {
                    self.slot_bytes -= reply.bytes.len();
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
        let socket = self.socket.as_fd();
        let (sent, count) = self.output.send(socket, left, now_ms, is_warm)?;
        self.sent_in_round.1 += count;
        Ok(sent)
    }
}
