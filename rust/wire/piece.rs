//! An answer as a list of pieces: bytes in memory, and slices of files that go to the socket without passing through this process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A file that can be sent from: a segment of a log, which reopens its descriptor when it was closed to save descriptors.
pub trait Source: Send + Sync {
    /// The open descriptor; it stays open for as long as the result lives.
    fn descriptor(&self) -> io::Result<Arc<OwnedFd>>;

    /// Reading it failed, outside of whoever owns it.
    fn failed(&self, _error: &io::Error) {}
}

/// A range of a file's bytes. It holds the file, so that deleting it leaves the slice readable.
#[derive(Clone)]
pub struct FileSlice {
    pub file: Arc<dyn Source>,
    pub position: u64,
    pub length: u64,
}

/// Part of an answer. Pieces are sent in order, without anything between them.
pub enum Piece {
    Bytes(Vec<u8>),
    File(FileSlice),
}

impl Piece {
    /// Bytes on the wire.
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File(slice) => slice.length,
        }
    }
}

/// Any file that stays open.
impl Source for Arc<OwnedFd> {
    fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::clone(self))
    }
}
