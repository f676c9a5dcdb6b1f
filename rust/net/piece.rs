//! Pieces of an answer.
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub struct SliceFile(pub Arc<OwnedFd>);
impl SliceFile {
    pub fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::clone(&self.0))
    }
}
pub struct FileSlice {
    pub file: Arc<SliceFile>,
    pub position: u64,
    pub length: u64,
}
pub enum Piece {
    Bytes(Vec<u8>),
    File(FileSlice),
}
impl Piece {
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::File(slice) => slice.length,
        }
    }
}
