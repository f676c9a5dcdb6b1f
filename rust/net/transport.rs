//! How the bytes of one connection move: the seam between a connection and its socket.
//!
//! The hub's connections and the replica fetcher's read and write through it, and wait for its
//! descriptor. A transport may hold bytes that it took from the socket and nobody has read yet
//! (`buffered`), or the end behind them. The system reports nothing of them, so a reader asks before it
//! waits (`holds`).
//!
//! There is the plain one, and one that encrypts (`tls`): it reads and encrypts what the plain one leaves to
//! `sendfile`.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};

use super::tls::{TAKEN_BYTES_MAX, Tls};

/// Nothing here waits: `Errno::AGAIN` says that it would.
#[derive(Debug)]
pub enum Transport {
    /// TCP as it is.
    Plain(OwnedFd),
    /// TLS over TCP.
    Tls(Box<Tls>),
    /// Takes all that the socket has, and gives it in small parts.
    #[cfg(test)]
    Holding(OwnedFd, std::cell::RefCell<Vec<u8>>),
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(socket) => socket.as_fd(),
            Self::Tls(session) => session.as_fd(),
            #[cfg(test)]
            Self::Holding(socket, _) => socket.as_fd(),
        }
    }
}

impl Transport {
    /// Reads into `to`, which is not empty. 0: the other side sends no more.
    pub fn read(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Plain(socket) => {
                rustix::net::recv(&*socket, to, RecvFlags::DONTWAIT).map(|(count, _)| count)
            }
            Self::Tls(session) => session.read(to),
            #[cfg(test)]
            Self::Holding(socket, held) => holding::read(socket, held, to),
        }
    }

    /// Reads into `first`, and into `second` behind it.
    pub fn read_two(&mut self, first: &mut [u8], second: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Plain(socket) => {
                let mut vector = [IoSliceMut::new(first), IoSliceMut::new(second)];
                rustix::io::readv(&*socket, &mut vector)
            }
            // What belongs to the second stays in the session, which says so.
            Self::Tls(session) => session.read(first),
            #[cfg(test)]
            Self::Holding(socket, held) => holding::read(socket, held, first),
        }
    }

    /// Reads into the memory that `to` has taken and does not use.
    pub fn read_spare(&mut self, to: &mut Vec<u8>) -> Result<usize, Errno> {
        match self {
            Self::Plain(socket) => {
                let spare = spare_capacity(to);
                rustix::net::recv(&*socket, spare, RecvFlags::DONTWAIT).map(|(count, _)| count)
            }
            Self::Tls(session) => {
                let before = to.len();
                // Not more than a call brings: the memory is cleared first.
                let room = (to.capacity() - before).min(TAKEN_BYTES_MAX);
                to.resize(before + room, 0);
                let read = session.read(&mut to[before..]);
                to.truncate(before + read.unwrap_or(0));
                read
            }
            #[cfg(test)]
            Self::Holding(socket, held) => {
                let mut part = [0; holding::PART_BYTES];
                let room = part.len().min(to.capacity() - to.len());
                let count = holding::read(socket, held, &mut part[..room])?;
                to.extend_from_slice(&part[..count]);
                Ok(count)
            }
        }
    }

    /// Copies the next bytes to `to` and leaves them there.
    pub fn peek(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match self {
            Self::Plain(socket) => rustix::net::recv(&*socket, to, flags).map(|(count, _)| count),
            Self::Tls(session) => session.peek(to),
            #[cfg(test)]
            Self::Holding(socket, held) => holding::peek(socket, held, to),
        }
    }

    /// Bytes that can be read at once, as far as that is known.
    pub fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(self.as_fd()).unwrap_or(0) + self.buffered() as u64
    }

    /// Bytes that were taken from the socket and not read: the system reports nothing of them.
    pub fn buffered(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(session) => session.buffered(),
            #[cfg(test)]
            Self::Holding(_, held) => held.borrow().len(),
        }
    }

    /// Something can be read although the system reports nothing: bytes, or the end.
    pub fn holds(&self) -> bool {
        match self {
            Self::Tls(session) => session.holds(),
            _ => self.buffered() > 0,
        }
    }

    /// Memory for bytes of the connection that nobody else counts.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Tls(session) => session.memory_bytes(),
            _ => 0,
        }
    }

    /// The reason of an error of `read`, in words.
    pub fn reason(&self, error: Errno) -> String {
        match self {
            Self::Tls(session) if let Some(reason) = session.failure() => reason.to_owned(),
            _ => std::io::Error::from(error).to_string(),
        }
    }

    /// The reason of an end that was not the other side's wish, in words. None: it is open, or the other side left.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Tls(session) => session
                .failure()
                .map(|reason| format!("the TLS session failed: {reason}")),
            _ => None,
        }
    }

    /// True if it takes more.
    pub fn is_writable(&self) -> bool {
        let mut poll = [PollFd::new(self, PollFlags::OUT)];
        let now = Timespec::default();
        matches!(rustix::event::poll(&mut poll, Some(&now)), Ok(count) if count > 0)
    }

    /// Writes `pieces` in their order, as much as it takes: the next call begins with what is left of them.
    /// `is_followed`: more follows at once, and should travel with it.
    pub fn write(&mut self, pieces: &[IoSlice<'_>], is_followed: bool) -> Result<usize, Errno> {
        if let Self::Tls(session) = self {
            return session.write(pieces, is_followed);
        }
        let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        flags.set(SendFlags::MORE, is_followed);
        match pieces {
            [piece] => rustix::net::send(self.as_fd(), piece, flags),
            _ => {
                let mut control = SendAncillaryBuffer::default();
                rustix::net::sendmsg(self.as_fd(), pieces, &mut control, flags)
            }
        }
    }

    /// Writes at most `count` bytes of a file, or as many as an earlier call was asked for from the same position. 0:
    /// the file ends there.
    pub fn write_file(
        &mut self,
        file: BorrowedFd<'_>,
        position: u64,
        count: usize,
    ) -> Result<usize, Errno> {
        if let Self::Tls(session) = self {
            return session.write_file(file, position, count);
        }
        let mut position = position;
        rustix::fs::sendfile(self.as_fd(), file, Some(&mut position), count)
    }

    /// Takes leave of the other side, as far as the socket takes that. Nothing is written afterwards.
    pub fn close(&mut self) {
        if let Self::Tls(session) = self {
            session.close();
        }
    }
}

#[cfg(test)]
impl Transport {
    /// Takes all that the socket has, and gives it in small parts.
    pub fn holding(socket: OwnedFd) -> Self {
        Self::Holding(socket, std::cell::RefCell::default())
    }
}

/// A transport of tests that holds bytes, as one that decrypts does.
#[cfg(test)]
mod holding {
    use std::cell::RefCell;

    use super::*;

    /// It gives so many bytes at a time.
    pub const PART_BYTES: usize = 7;

    fn fill(socket: &OwnedFd, held: &RefCell<Vec<u8>>) -> Result<usize, Errno> {
        let mut held = held.borrow_mut();
        if held.is_empty() {
            held.resize(1 << 20, 0);
            let taken = rustix::net::recv(socket, &mut held[..], RecvFlags::DONTWAIT);
            held.truncate(taken.as_ref().map_or(0, |(count, _)| *count));
            taken?;
        }
        Ok(held.len())
    }

    pub fn peek(socket: &OwnedFd, held: &RefCell<Vec<u8>>, to: &mut [u8]) -> Result<usize, Errno> {
        let count = fill(socket, held)?.min(to.len());
        to[..count].copy_from_slice(&held.borrow()[..count]);
        Ok(count)
    }

    pub fn read(socket: &OwnedFd, held: &RefCell<Vec<u8>>, to: &mut [u8]) -> Result<usize, Errno> {
        let room = to.len().min(PART_BYTES);
        let count = peek(socket, held, &mut to[..room])?;
        held.borrow_mut().drain(..count);
        Ok(count)
    }
}
