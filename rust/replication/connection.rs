//! The socket to the leader, and the buffer that its answers are read into.
//!
//! The thread waits in `poll` for the socket and for the table's `closing`, so that closing a fetcher interrupts it wherever it waits: while it
//! connects, sends, or reads. Only the look-up of a host's name cannot be interrupted.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::greeting::Greeting;
use super::large::{LargeAnswers, Place};
use crate::io::Wake;
use crate::net::tls::{Client, Failed, Progress, Tls};
use crate::net::transport::Transport;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The fetcher is being closed.
    Closing,
    /// The connection is of no more use.
    Lost(String),
}

fn lost<T>(reason: impl Into<String>) -> Result<T, Broken> {
    Err(Broken::Lost(reason.into()))
}

/// The bytes of a frame's size.
pub(super) const SIZE_BYTES: usize = 4;
/// Memory for an answer is taken in such steps or larger ones, as its bytes come in.
const STEP_BYTES: usize = 64 * 1024;
/// Memory that is kept however small the answers are.
const KEPT_BYTES: usize = 1024 * 1024;
/// After so many answers in a row that were small, memory beyond that is given back.
const SMALL_ANSWERS: u32 = 64;
/// An answer of many bytes has so much more time for each MiB.
const TIME_FOR_MIB: Duration = Duration::from_secs(1);

/// How much memory an answer may have.
pub(super) struct Room<'a> {
    /// The largest frame.
    pub frame_bytes_max: usize,
    /// Of what fetchers ask for, without a place among the large ones.
    pub own_bytes: usize,
    pub large: &'a Arc<LargeAnswers>,
}

/// The memory of one answer, which is used again for the next.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The frame with its size in front.
    pub bytes: Vec<u8>,
    small: u32,
    /// Held as long as the memory is more than a fetcher's own: it is dropped after that.
    place: Option<Place>,
}

impl Answer {
    /// The bytes that follow the size.
    pub fn frame(&self) -> &[u8] {
        self.bytes.get(SIZE_BYTES..).unwrap_or_default()
    }

    /// Is done with a large answer: gives back its memory, then its place.
    pub fn leave_place(&mut self, own_bytes: usize) {
        if self.place.is_some() {
            self.bytes.clear();
            self.bytes.shrink_to(own_bytes);
            self.place = None;
        }
    }

    /// How many more bytes it takes memory for, when it has `len` of `wanted`.
    fn more_bytes(&self, wanted: Option<usize>, own_bytes: usize) -> usize {
        // As much again as came: what is announced costs nothing before it is there.
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        let step = STEP_BYTES.max(length);
        let more = step.min(wanted.map_or(step, |wanted| wanted - length));
        match own_bytes.saturating_sub(capacity) {
            own if own > 0 && self.place.is_none() => more.min(own),
            _ => more,
        }
    }

    /// Gives memory back if the last answers were much smaller than it.
    fn note_size(&mut self) {
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        if capacity <= KEPT_BYTES || length > capacity / 8 {
            self.small = 0;
            return;
        }
        self.small += 1;
        if self.small >= SMALL_ANSWERS {
            self.bytes.shrink_to(KEPT_BYTES.max(2 * length));
            self.small = 0;
        }
    }
}

/// Where the leader is, and how long it may take.
pub(super) struct Leader<'a> {
    pub host: &'a str,
    pub port: u16,
    pub timeout: Duration,
    /// 0: what the system gives.
    pub receive_buffer_bytes: usize,
    /// How the bytes move.
    pub transport: fn(OwnedFd) -> Transport,
    pub greeting: Option<&'a dyn Greeting>,
}

#[derive(Debug)]
pub(super) struct Connection {
    transport: Transport,
}

impl Connection {
    pub fn open(leader: &Leader<'_>, closing: &Wake) -> Result<Self, Broken> {
        let Leader { host, port, .. } = *leader;
        let addresses = match (host, port).to_socket_addrs() {
            Ok(addresses) => addresses,
            Err(error) => return lost(format!("the address of {host} is not known: {error}")),
        };
        let mut reason = format!("{host} has no address");
        for address in addresses {
            match Self::open_to(&address, leader, closing) {
                Err(Broken::Lost(other)) => reason = other,
                other => return other,
            }
        }
        lost(reason)
    }

    fn open_to(address: &SocketAddr, leader: &Leader<'_>, closing: &Wake) -> Result<Self, Broken> {
        let failed = |error: Errno| {
            let error = io::Error::from(error);
            Broken::Lost(format!("no connection to {address}: {error}"))
        };
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
        let socket = socket.map_err(failed)?;
        // These only make it faster or tell earlier that the leader is gone.
        if leader.receive_buffer_bytes > 0 {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, leader.receive_buffer_bytes);
        }
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let _ = sockopt::set_socket_keepalive(&socket, true);
        let connected = rustix::net::connect(&socket, address);
        let connection = Self {
            transport: (leader.transport)(socket),
        };
        match connected {
            Ok(()) => return Ok(connection),
            Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
        let deadline = Instant::now() + leader.timeout;
        if !connection.wait(PollFlags::OUT, deadline, closing)? {
            return Err(failed(Errno::TIMEDOUT));
        }
        let outcome = sockopt::socket_error(&connection.transport);
        outcome.and_then(|outcome| outcome).map_err(failed)?;
        Ok(connection)
    }

    /// Has TLS on it from here on. The leader's certificate is for its host.
    pub fn secure(self, tls: &Client, leader: &Leader<'_>, closing: &Wake) -> Result<Self, Broken> {
        let Transport::Plain(socket) = self.transport else {
            return lost("the connection is encrypted already");
        };
        let mut session = Tls::to_server(socket, tls, leader.host).map_err(Broken::Lost)?;
        let deadline = Instant::now() + leader.timeout;
        loop {
            let flags = match session.handshake() {
                Ok(Progress::Done) => {
                    let transport = Transport::Tls(Box::new(session));
                    return Ok(Self { transport });
                }
                Ok(Progress::Reads) => PollFlags::IN,
                Ok(Progress::Writes) => PollFlags::OUT,
                Err(Failed::Left) => {
                    return lost("the leader closed the connection before it said anything in TLS");
                }
                Err(Failed::Because(reason)) => return lost(reason),
            };
            if !wait(&session, flags, deadline, closing)? {
                return lost("the leader did not end the TLS handshake in time");
            }
        }
    }

    /// Waits until the socket is ready; false if that took too long.
    fn wait(&self, flags: PollFlags, deadline: Instant, closing: &Wake) -> Result<bool, Broken> {
        wait(&self.transport, flags, deadline, closing)
    }

    pub fn send(&mut self, frame: &[u8], timeout: Duration, closing: &Wake) -> Result<(), Broken> {
        let deadline = Instant::now() + timeout;
        let mut rest = frame;
        while !rest.is_empty() {
            match self.transport.write(&[IoSlice::new(rest)], false) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !self.wait(PollFlags::OUT, deadline, closing)? {
                        return lost("the leader does not read our requests");
                    }
                }
                Err(error) => {
                    let error = io::Error::from(error);
                    return lost(format!("the request could not be sent: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Waits for a place among the large answers. The leader waits too: nothing is read meanwhile.
    fn wait_for_place(large: &Arc<LargeAnswers>, closing: &Wake) -> Result<Place, Broken> {
        loop {
            if let Some(place) = large.take() {
                return Ok(place);
            }
            let (closing_fd, places_fd) = (closing.fd(), large.fd());
            let mut descriptors = [
                PollFd::new(&closing_fd, PollFlags::IN),
                PollFd::new(&places_fd, PollFlags::IN),
            ];
            match poll(&mut descriptors, None) {
                Err(Errno::INTR) => continue,
                Err(error) => {
                    return lost(format!("waiting for memory for the answer failed: {error}"));
                }
                Ok(_) => {}
            }
            if !descriptors[0].revents().is_empty() {
                return Err(Broken::Closing);
            }
        }
    }

    /// Reads one frame.
    pub fn receive(
        &mut self,
        answer: &mut Answer,
        room: &Room<'_>,
        timeout: Duration,
        closing: &Wake,
    ) -> Result<(), Broken> {
        answer.bytes.clear();
        let mut deadline = Instant::now() + timeout;
        let mut wanted = None;
        while wanted.is_none_or(|wanted| answer.bytes.len() < wanted) {
            if answer.bytes.len() == answer.bytes.capacity() {
                let more = answer.more_bytes(wanted, room.own_bytes);
                let is_large = answer.bytes.capacity() + more > room.own_bytes;
                if is_large && answer.place.is_none() {
                    let began = Instant::now();
                    answer.place = Some(Self::wait_for_place(room.large, closing)?);
                    deadline += began.elapsed();
                }
                if answer.bytes.try_reserve_exact(more).is_err() {
                    return lost("there is no memory for the answer");
                }
            }
            let bytes = &mut answer.bytes;
            match self.transport.read_spare(bytes) {
                Ok(0) if bytes.is_empty() => return lost("the leader closed the connection"),
                Ok(0) => {
                    return lost("the leader closed the connection in the middle of an answer");
                }
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    if !self.wait(PollFlags::IN, deadline, closing)? {
                        return lost(match bytes.len() {
                            0 => "the leader did not answer in time",
                            _ => "the leader's answer did not end in time",
                        });
                    }
                    continue;
                }
                Err(error) => {
                    let reason = self.transport.reason(error);
                    return lost(format!("the answer could not be read: {reason}"));
                }
            }
            if wanted.is_none()
                && let Some(size) = bytes.first_chunk::<SIZE_BYTES>()
            {
                let size = frame_size(i32::from_be_bytes(*size), room.frame_bytes_max)?;
                wanted = Some(SIZE_BYTES + size);
                let mebibytes = u32::try_from(size >> 20).unwrap_or(u32::MAX);
                deadline += TIME_FOR_MIB * mebibytes;
            }
            if wanted.is_some_and(|wanted| bytes.len() > wanted) {
                return lost("the leader sent more than the answer that it announced");
            }
        }
        answer.note_size();
        Ok(())
    }
}

/// Waits until a socket is ready; false if that took too long.
fn wait(
    socket: &impl AsFd,
    flags: PollFlags,
    deadline: Instant,
    closing: &Wake,
) -> Result<bool, Broken> {
    loop {
        let closing_fd = closing.fd();
        let mut descriptors = [
            PollFd::new(&closing_fd, PollFlags::IN),
            PollFd::new(socket, flags),
        ];
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::from(i32::MAX)),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut descriptors, Some(&timeout)) {
            Err(Errno::INTR) => continue,
            Err(error) => return lost(format!("waiting for the leader failed: {error}")),
            Ok(_) => {}
        }
        if !descriptors[0].revents().is_empty() {
            return Err(Broken::Closing);
        }
        if !descriptors[1].revents().is_empty() {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// The size of a frame, if it may be so.
fn frame_size(announced: i32, frame_bytes_max: usize) -> Result<usize, Broken> {
    match usize::try_from(announced) {
        Ok(size) if size <= frame_bytes_max => Ok(size),
        _ => lost(format!(
            "the leader announced an answer of {announced} bytes, more than the {frame_bytes_max} that one may have"
        )),
    }
}
