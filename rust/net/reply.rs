//! What is on its way to one socket: pieces of memory and slices of files, in order.
//!
//! Small answers are joined in one piece of memory as they come, so that a turn's answers to one connection are one system call; file slices
//! go from the page cache to the socket by `sendfile`. Only small slices that are in the page cache are copied and joined as well: for a few
//! records one read costs less than a probe, a system call of their own, and two more packets. A slice whose file turns out shorter than promised is an error, never padded: the client
//! was told a length, and after that only the end of the connection can take it back.

use std::collections::VecDeque;
use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;

use rustix::io::{Errno, ReadWriteFlags};

use super::limits::JOINED_BYTES_MAX;
use super::transport::Transport;
use crate::wire::piece::{FileSlice, Piece};

/// Pieces in one sendmsg.
const VECTOR_MAX: usize = 64;
/// How long a part that was found in the page cache is believed to be there: a socket takes it in a dozen steps, and each would look again.
const WARM_MS: u64 = 100;

/// How a call of `Output::send` ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything is sent.
    All,
    /// The turn's bytes are used up.
    Budget,
    /// The socket takes no more now.
    Blocked,
    /// The next part of a slice must be brought in from the disk first.
    Cold,
}

/// The unsent output of one connection.
#[derive(Default)]
pub struct Output {
    pieces: VecDeque<Piece>,
    /// How much of the front piece is sent.
    sent: u64,
    /// Unsent bytes in memory, and in all.
    memory_bytes: usize,
    bytes: u64,
    /// Bytes that were sent, or forgotten, since the connection began.
    gone_bytes: u64,
    /// Up to where the front slice is known to be in the page cache, as a part of the slice, and until when that is believed.
    warm: u64,
    warm_until_ms: u64,
}

impl Output {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Unsent bytes, memory and slices.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How far the connection's bytes are sent, and where they end.
    pub fn extent(&self) -> (u64, u64) {
        (self.gone_bytes, self.gone_bytes + self.bytes)
    }

    /// Unsent bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Lets `write` append bytes to the last piece of memory.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let joins = matches!(self.pieces.back(), Some(Piece::Bytes(bytes)) if bytes.len() < JOINED_BYTES_MAX);
        if !joins {
            self.pieces.push_back(Piece::Bytes(Vec::new()));
        }
        if let Some(Piece::Bytes(bytes)) = self.pieces.back_mut() {
            let before = bytes.len();
            write(bytes);
            let added = bytes.len() - before;
            let is_empty = bytes.is_empty();
            self.memory_bytes += added;
            self.bytes += added as u64;
            if is_empty {
                self.pieces.pop_back();
            }
        }
    }

    pub fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Bytes(bytes) if bytes.len() < JOINED_BYTES_MAX => {
                self.append(|to| to.extend_from_slice(&bytes));
            }
            Piece::File(slice) if slice.length <= JOINED_BYTES_MAX as u64 && self.join(&slice) => {}
            piece => {
                let bytes = piece.length();
                if bytes > 0 {
                    self.bytes += bytes;
                    if matches!(piece, Piece::Bytes(_)) {
                        self.memory_bytes += bytes as usize;
                    }
                    self.pieces.push_back(piece);
                }
            }
        }
    }

    /// Copies a slice to the last piece of memory, if that takes no disk.
    fn join(&mut self, slice: &FileSlice) -> bool {
        let Ok(descriptor) = slice.file.descriptor() else {
            return false;
        };
        let mut joined = false;
        self.append(|to| {
            let start = to.len();
            to.resize(start + slice.length as usize, 0);
            let mut vector = [IoSliceMut::new(&mut to[start..])];
            let flags = ReadWriteFlags::NOWAIT;
            let read = rustix::io::preadv2(&*descriptor, &mut vector, slice.position, flags);
            joined = read == Ok(slice.length as usize);
            if !joined {
                to.truncate(start);
            }
        });
        joined
    }

    /// Forgets everything that is unsent.
    pub fn clear(&mut self) {
        *self = Self {
            gone_bytes: self.gone_bytes + self.bytes,
            ..Self::default()
        };
    }

    /// The slice whose next part must be read before it is sent: file, position and length of that part.
    pub fn cold_part(&self, bytes_max: u64) -> Option<FileSlice> {
        match self.pieces.front() {
            Some(Piece::File(slice)) => Some(FileSlice {
                file: slice.file.clone(),
                position: slice.position + self.sent,
                length: (slice.length - self.sent).min(bytes_max),
            }),
            _ => None,
        }
    }

    /// The front slice is in the page cache for `length` bytes from what is sent: they were just read. Nobody asks again before they are sent, or a
    /// cache that is too small for its readers would have them read for ever.
    pub fn warmed(&mut self, length: u64) {
        self.warm = self.sent + length;
        self.warm_until_ms = u64::MAX;
    }

    /// Sends until everything is sent, `bytes_max` are, the socket is full, or a slice is cold by the judgement of `is_warm`.
    pub fn send(
        &mut self,
        transport: &mut Transport,
        bytes_max: usize,
        now_ms: u64,
        is_warm: &mut dyn FnMut(&FileSlice) -> bool,
    ) -> io::Result<(Sent, usize)> {
        let mut total = 0;
        let outcome = loop {
            let result = match self.pieces.front() {
                None => break Sent::All,
                Some(Piece::Bytes(_)) => self.send_memory(transport),
                Some(Piece::File(_)) => {
                    if total >= bytes_max {
                        break Sent::Budget;
                    }
                    match self.send_slice(transport, bytes_max - total, now_ms, is_warm)? {
                        None => break Sent::Cold,
                        Some(result) => result,
                    }
                }
            };
            match result {
                Ok((count, is_whole)) => {
                    total += count;
                    if !is_whole {
                        // Asking again would tell no more than that.
                        break Sent::Blocked;
                    }
                }
                Err(Errno::AGAIN) => break Sent::Blocked,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if total >= bytes_max && !self.pieces.is_empty() {
                break Sent::Budget;
            }
        };
        Ok((outcome, total))
    }

    /// How much was sent, and whether that is all that was tried.
    fn send_memory(&mut self, transport: &mut Transport) -> Result<(usize, bool), Errno> {
        let mut vector = [IoSlice::new(&[]); VECTOR_MAX];
        let (mut count, mut bytes) = (0, 0);
        let mut is_followed = false;
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(memory) if count < VECTOR_MAX => {
                    let start = if count == 0 { self.sent as usize } else { 0 };
                    vector[count] = IoSlice::new(&memory[start..]);
                    bytes += vector[count].len();
                    count += 1;
                }
                _ => {
                    // More follows at once: the header of a slice should not travel alone.
                    is_followed = true;
                    break;
                }
            }
        }
        let sent = transport.write(&vector[..count], is_followed)?;
        self.memory_bytes -= sent;
        self.advance(sent as u64);
        Ok((sent, sent == bytes))
    }

    fn send_slice(
        &mut self,
        transport: &mut Transport,
        bytes_max: usize,
        now_ms: u64,
        is_warm: &mut dyn FnMut(&FileSlice) -> bool,
    ) -> io::Result<Option<Result<(usize, bool), Errno>>> {
        let Some(Piece::File(slice)) = self.pieces.front() else {
            return Ok(Some(Ok((0, true))));
        };
        let mut part = (slice.length - self.sent).min(bytes_max as u64);
        if self.warm > self.sent && now_ms <= self.warm_until_ms {
            part = part.min(self.warm - self.sent);
        } else {
            let probe = FileSlice {
                file: slice.file.clone(),
                position: slice.position + self.sent,
                length: part,
            };
            if !is_warm(&probe) {
                return Ok(None);
            }
            self.warm = self.sent + part;
            self.warm_until_ms = now_ms + WARM_MS;
        }
        let descriptor = slice.file.descriptor()?;
        let position = slice.position + self.sent;
        match transport.write_file(descriptor.as_fd(), position, part as usize) {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "the file of an answer ends {} bytes before what was promised",
                    slice.length - self.sent
                ),
            )),
            Ok(count) => {
                self.advance(count as u64);
                Ok(Some(Ok((count, count as u64 >= part))))
            }
            Err(error) => Ok(Some(Err(error))),
        }
    }

    /// `count` more bytes are sent; pieces that are sent whole are dropped.
    fn advance(&mut self, count: u64) {
        self.bytes -= count;
        self.gone_bytes += count;
        self.sent += count;
        while let Some(piece) = self.pieces.front() {
            let length = piece.length();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            self.warm = 0;
            self.pieces.pop_front();
        }
    }
}
