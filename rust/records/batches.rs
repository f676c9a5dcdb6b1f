//! The batches of a buffer, one after the other.

use super::batch::{BatchHeader, incomplete};
use super::error::RecordError;

/// One whole batch inside a buffer. Header fields are read, nothing else is checked.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub header: BatchHeader,
    /// Header and records, exactly.
    pub bytes: &'a [u8],
    /// Where the batch starts in the buffer that was iterated.
    pub position: usize,
}

/// The batches of a buffer, in order, without checking checksums or records.
///
/// After an error the iteration ends. A buffer that ends inside a batch gives an `Incomplete` error for it (a fetched
/// buffer may; the next fetch brings that batch whole).
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    buffer: &'a [u8],
    position: usize,
}

impl<'a> Batches<'a> {
    pub fn new(buffer: &'a [u8]) -> Self {
        Batches {
            buffer,
            position: 0,
        }
    }

    /// Where the next batch starts: everything before was whole.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self
            .buffer
            .get(self.position..)
            .filter(|rest| !rest.is_empty())?;
        let start = self.position;
        let batch =
            BatchHeader::parse(rest).and_then(|header| match rest.get(..header.size_bytes()) {
                Some(bytes) => Ok(Batch {
                    header,
                    bytes,
                    position: start,
                }),
                None => Err(incomplete("batch", header.size_bytes(), rest.len())),
            });
        match batch {
            Ok(batch) => {
                self.position += batch.bytes.len();
                Some(Ok(batch))
            }
            Err(error) => {
                self.buffer = &[];
                Some(Err(error.moved_by(start)))
            }
        }
    }
}
