//! TLS on a connection: a session of rustls between a socket and the hub, or the replica fetcher. On the hub's
//! connections this is the server; on the fetcher's it is the client.
//!
//! A session keeps bytes in both directions, and this file says how many, and whose they are:
//!
//! * **Ciphertext that came.** The socket is read into memory that a thread has once (`scratch`), and the session takes
//!   all of it. It keeps the part of a record that is not whole, at most 18 KB, and of a handshake at most 64 KB.
//! * **Plaintext that nobody read**: at most what one look at the socket brings. `buffered` counts it, since the system
//!   reports nothing of it.
//! * **Ciphertext that the socket does not take**: at most `SLICE_BYTES`, with the bounds of records. The bytes in it
//!   count as written when it has left (`sealed`): until then their owner keeps them, is charged for them, and
//!   comes again with the same ones.
//!
//! Files are read and encrypted in slices as long, so that a large Fetch takes neither more memory nor more of a
//! turn than others.
//!
//! The end of a session is a close_notify. A connection that ends without one may have been cut off by somebody else:
//! it counts as broken, not as over.

mod certificate;
mod clients;
mod config;
mod meeting;
mod provider;
mod servers;

use std::cell::RefCell;
use std::io::{self, IoSlice, Read, Write};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
pub use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use certificate::Certificate;
pub use config::{
    Client, ClientAuth, Given, GivenToClient, Part, Wrong, client_config, server_config,
};
pub use meeting::meet;

/// The plaintext that is encrypted at a time: four records of TLS.
pub const SLICE_BYTES: usize = 64 << 10;
/// The bytes that one call of `read` takes from the socket.
pub const TAKEN_BYTES_MAX: usize = 256 << 10;
/// The least that a look at the socket asks for: a record.
const LOOK_BYTES_MIN: usize = 17 << 10;
/// The first byte of a client that speaks TLS. A server may begin with an alert, too.
const HANDSHAKE_RECORD: u8 = 22;
const ALERT_RECORD: u8 = 21;

thread_local! {
    /// For bytes on their way between a socket, a file and a session. Nothing stays here between two calls.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SLICE_BYTES].into_boxed_slice());
}

/// How far a handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// It goes on when the other side has sent more.
    Reads,
    /// It goes on when the socket takes more.
    Writes,
}

/// The reason why a handshake failed.
#[derive(Debug, PartialEq, Eq)]
pub enum Failed {
    /// The other side went away, and had not said anything.
    Left,
    Because(String),
}

impl Failed {
    /// The words for the log, if it is worth some.
    pub fn reason(self) -> Option<String> {
        match self {
            Self::Left => None,
            Self::Because(reason) => Some(reason),
        }
    }
}

#[derive(Debug)]
pub struct Tls {
    socket: OwnedFd,
    session: Box<Connection>,
    /// Plaintext that was taken out of the session and is not read, from `start` on.
    held: Vec<u8>,
    start: usize,
    /// Bytes of plaintext inside the session.
    inside: usize,
    /// Bytes of plaintext in the ciphertext that has not left.
    sealed: usize,
    end: Option<End>,
    /// The other side has sent something.
    has_begun: bool,
}

/// The reason why nothing more comes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// By a close_notify.
    Over,
    /// Without one.
    Cut,
    Failed(String),
}

impl AsFd for Tls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Tls {
    /// The session of a client that has just come.
    pub fn new(socket: OwnedFd, config: &Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut session = ServerConnection::new(Arc::clone(config))?;
        session.set_buffer_limit(Some(SLICE_BYTES));
        Ok(Self::of(socket, session.into()))
    }

    /// The session with a server, whose name is `host`.
    pub fn to_server(socket: OwnedFd, client: &Client, host: &str) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| format!("no certificate can be for the name {host:?}"))?;
        let session = ClientConnection::new(Arc::clone(&client.0), name);
        let mut session = session.map_err(|error| error.to_string())?;
        session.set_buffer_limit(Some(SLICE_BYTES));
        Ok(Self::of(socket, session.into()))
    }

    fn of(socket: OwnedFd, session: Connection) -> Self {
        Self {
            socket,
            session: Box::new(session),
            held: Vec::new(),
            start: 0,
            inside: 0,
            sealed: 0,
            end: None,
            has_begun: false,
        }
    }

    fn is_server(&self) -> bool {
        matches!(*self.session, Connection::Server(_))
    }

    /// Takes the handshake as far as it goes.
    pub fn handshake(&mut self) -> Result<Progress, Failed> {
        loop {
            match self.send(false) {
                Ok(()) if !self.session.is_handshaking() => return Ok(Progress::Done),
                Ok(()) => {}
                Err(Errno::AGAIN) => return Ok(Progress::Writes),
                Err(error) => return Err(self.because(&error.to_string())),
            }
            match self.look(LOOK_BYTES_MIN, &mut [][..]) {
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(Progress::Reads),
                Err(error) => return Err(self.because(&error.to_string())),
            }
            match &self.end {
                None => {}
                // What it said last belongs to what it said before.
                Some(_) if !self.session.is_handshaking() => {}
                Some(End::Over | End::Cut) => {
                    return Err(self.because(match self.is_server() {
                        true => "the client left",
                        false => "the server left",
                    }));
                }
                Some(End::Failed(reason)) => return Err(self.because(reason)),
            }
        }
    }

    fn because(&self, reason: &str) -> Failed {
        match self.has_begun {
            true => Failed::Because(format!("the TLS handshake failed: {reason}")),
            false => Failed::Left,
        }
    }

    /// The name in the client's certificate, as DER. None: it has shown none. After the handshake.
    pub fn peer(&self) -> Result<Option<Box<[u8]>>, Failed> {
        let shown = self.session.peer_certificates();
        let Some(shown) = shown.and_then(<[_]>::first) else {
            return Ok(None);
        };
        match Certificate::read(shown) {
            Some(certificate) => Ok(Some(certificate.subject.into())),
            None => Err(self.because("the client's certificate cannot be read")),
        }
    }

    /// The reason why nothing more can be read, if the session broke.
    pub fn failure(&self) -> Option<&str> {
        match &self.end {
            Some(End::Failed(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Reads into `to`, which is not empty. 0: the other side has ended the session.
    pub fn read(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        let (mut count, mut taken) = (self.take(to), 0);
        while count < to.len() && self.end.is_none() && taken < TAKEN_BYTES_MAX {
            let wanted = (to.len() - count).clamp(LOOK_BYTES_MIN, SLICE_BYTES);
            let found = match self.look(wanted, &mut to[count..]) {
                Ok(found) => found,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) if count == 0 => return Err(error),
                Err(_) => break,
            };
            count += found.plain;
            taken += found.taken;
            if found.taken < wanted {
                break;
            }
        }
        match (&self.end, count) {
            (Some(End::Over), 0) => Ok(0),
            (Some(End::Cut), 0) => Err(Errno::CONNRESET),
            (Some(End::Failed(_)), 0) => Err(Errno::PROTO),
            (None, 0) => Err(Errno::AGAIN),
            _ => Ok(count),
        }
    }

    /// Copies the next bytes to `to` and leaves them here.
    pub fn peek(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        if self.buffered() == 0 && self.end.is_none() {
            self.look(LOOK_BYTES_MIN, &mut [][..])?;
        }
        self.hold(to.len());
        let held = &self.held[self.start..];
        let count = held.len().min(to.len());
        to[..count].copy_from_slice(&held[..count]);
        match (&self.end, count) {
            (None, 0) => Err(Errno::AGAIN),
            _ => Ok(count),
        }
    }

    /// Bytes that can be read without the socket.
    pub fn buffered(&self) -> usize {
        self.held.len() - self.start + self.inside
    }

    /// Something can be read without the socket: bytes, or the end.
    pub fn holds(&self) -> bool {
        self.buffered() > 0 || self.end.is_some()
    }

    /// Bytes that the session keeps of what is read and of what is written.
    pub fn memory_bytes(&self) -> usize {
        self.buffered() + self.sealed
    }

    /// Takes plaintext that is here.
    fn take(&mut self, to: &mut [u8]) -> usize {
        let held = &self.held[self.start..];
        let mut count = held.len().min(to.len());
        to[..count].copy_from_slice(&held[..count]);
        self.start += count;
        if self.start == self.held.len() {
            // An idle connection keeps no memory for it.
            self.held = Vec::new();
            self.start = 0;
        }
        while count < to.len() && self.inside > 0 {
            // It errs if it is empty, which it is not.
            let taken = self.session.reader().read(&mut to[count..]).unwrap_or(0);
            if taken == 0 {
                self.inside = 0;
            }
            count += taken;
            self.inside = self.inside.saturating_sub(taken);
        }
        count
    }

    /// Moves plaintext out of the session until at least `count` bytes are held, if there are so many.
    fn hold(&mut self, count: usize) {
        let more = count
            .saturating_sub(self.held.len() - self.start)
            .min(self.inside);
        if more > 0 {
            let before = self.held.len();
            self.held.resize(before + more, 0);
            let taken = self.session.reader().read(&mut self.held[before..]);
            let taken = taken.unwrap_or(0);
            self.held.truncate(before + taken);
            self.inside -= taken;
        }
    }

    /// Takes at most `wanted` bytes from the socket, has the session decrypt them, and takes what fits into `to`.
    fn look(&mut self, wanted: usize, to: &mut [u8]) -> Result<Looked, Errno> {
        SCRATCH.with_borrow_mut(|scratch| {
            let wanted = wanted.min(scratch.len());
            let space = &mut scratch[..wanted];
            let (taken, _) = rustix::net::recv(&self.socket, space, RecvFlags::DONTWAIT)?;
            if taken == 0 {
                self.end = Some(End::Cut);
                return Ok(Looked { taken, plain: 0 });
            }
            let mut rest = &scratch[..taken];
            if !mem::replace(&mut self.has_begun, true) && !self.is_tls(rest[0]) {
                self.not_tls(rest);
                return Ok(Looked { taken, plain: 0 });
            }
            let mut plain = 0;
            while !rest.is_empty() && self.end.is_none() {
                self.decrypt(&mut rest);
                plain += self.take(&mut to[plain..]);
                if self.inside > 0 {
                    // It takes nothing more before that is gone.
                    self.hold(usize::MAX);
                }
            }
            // Answers of the session itself, such as an alert. What does not leave now leaves before the next bytes.
            let _ = self.send(false);
            Ok(Looked { taken, plain })
        })
    }

    fn decrypt(&mut self, rest: &mut &[u8]) {
        let taken = self.session.read_tls(rest);
        match self.session.process_new_packets() {
            Ok(state) => {
                self.inside = state.plaintext_bytes_to_read();
                if state.peer_has_closed() {
                    self.end = Some(End::Over);
                } else if !matches!(taken, Ok(1..)) {
                    self.end = Some(End::Failed("the TLS session takes nothing more".to_owned()));
                }
            }
            Err(error) => {
                self.end = Some(End::Failed(error.to_string()));
                // What came before it is as good as ever; the session does not say how much that is.
                let _ = self.session.reader().read_to_end(&mut self.held);
            }
        }
    }

    /// True if the other side may begin with this byte.
    fn is_tls(&self, first: u8) -> bool {
        first == HANDSHAKE_RECORD || (first == ALERT_RECORD && !self.is_server())
    }

    /// The other side does not speak TLS. A client is told so in TLS.
    fn not_tls(&mut self, mut said: &[u8]) {
        let reason = match self.is_server() {
            true => "the client does not speak TLS; with security.protocol=SSL it would",
            false => "the server does not speak TLS on this port",
        };
        self.end = Some(End::Failed(reason.to_owned()));
        if self.is_server() {
            let _ = self.session.read_tls(&mut said);
            let _ = self.session.process_new_packets();
            let _ = self.send(false);
        }
    }

    // --- what is sent ---

    /// Writes `pieces` in their order. Who is told that fewer were taken comes again with the rest.
    pub fn write(&mut self, pieces: &[IoSlice<'_>], is_followed: bool) -> Result<usize, Errno> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.write_slices(total, is_followed, |session, written| {
            let taken = match pieces {
                [piece] => session.writer().write(&piece[written..]),
                _ => session.writer().write_vectored(&after(pieces, written)),
            };
            taken.map_err(|_| Errno::PIPE)
        })
    }

    /// Writes at most `count` bytes of a file, or those that were taken from it before and have not left. 0: the file
    /// ends there.
    pub fn write_file(
        &mut self,
        file: BorrowedFd<'_>,
        position: u64,
        count: usize,
    ) -> Result<usize, Errno> {
        self.write_slices(count, false, |session, written| {
            SCRATCH.with_borrow_mut(|scratch| {
                let room = scratch.len().min(count - written);
                let read =
                    rustix::io::pread(file, &mut scratch[..room], position + written as u64)?;
                session
                    .writer()
                    .write(&scratch[..read])
                    .map_err(|_| Errno::PIPE)
            })
        })
    }

    /// Seals slice after slice, as long as the socket takes all of each. `seal` is told how much was written.
    fn write_slices(
        &mut self,
        total: usize,
        is_followed: bool,
        mut seal: impl FnMut(&mut Connection, usize) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut written = 0;
        loop {
            match self.send(is_followed || written + self.sealed < total) {
                Ok(()) => written += mem::take(&mut self.sealed),
                Err(_) if written > 0 => return Ok(written),
                Err(error) => return Err(error),
            }
            if written >= total {
                return Ok(written);
            }
            match seal(&mut self.session, written) {
                Ok(0) => return Ok(written),
                Ok(sealed) => self.sealed = sealed,
                Err(_) if written > 0 => return Ok(written),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the ciphertext that is there. An error says that not all of it has left.
    fn send(&mut self, is_followed: bool) -> Result<(), Errno> {
        let mut socket = Socket(self.socket.as_fd(), is_followed);
        while self.session.wants_write() {
            match self.session.write_tls(&mut socket) {
                Ok(0) => return Err(Errno::AGAIN),
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => {}
                    other => return Err(other.unwrap_or(Errno::IO)),
                },
            }
        }
        Ok(())
    }

    /// Says good-bye, if the socket takes that.
    pub fn close(&mut self) {
        self.session.send_close_notify();
        let _ = self.send(false);
    }
}

/// The outcome of one look at the socket: bytes from there, and bytes of plaintext that were taken at once.
struct Looked {
    taken: usize,
    plain: usize,
}

/// The pieces without their first bytes.
fn after<'a>(pieces: &'a [IoSlice<'_>], mut skipped: usize) -> Vec<IoSlice<'a>> {
    let rest = pieces.iter().filter_map(|piece| {
        let start = skipped.min(piece.len());
        skipped -= start;
        (start < piece.len()).then(|| IoSlice::new(&piece[start..]))
    });
    rest.collect()
}

/// A socket that a session writes to, and whether more follows at once.
struct Socket<'a>(BorrowedFd<'a>, bool);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        flags.set(SendFlags::MORE, self.1);
        let mut control = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(self.0, pieces, &mut control, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
