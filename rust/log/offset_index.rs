//! The offset index: where in a segment a batch is.
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | the last offset of an append, minus the segment's base offset |
//! | 4 | 4 | the position in the `.log` where that append starts |
//!
//! Big-endian, strictly ascending. One entry every `index.interval.bytes` of batches or more, never for the first batch.

use super::error::Result;
use super::index::{Entry, Index};
use super::names::Kind;
use super::scan::Reach;

/// A place in a segment: the batch at `position` contains `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetPosition {
    pub offset: i64,
    pub position: u32,
}

impl std::fmt::Display for OffsetPosition {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "offset {} at position {}", self.offset, self.position)
    }
}

impl Entry for OffsetPosition {
    const BYTES: usize = 8;
    const KIND: Kind = Kind::OffsetIndex;

    fn decode(bytes: &[u8], base_offset: i64) -> Self {
        let relative = i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let position = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Self {
            offset: base_offset.wrapping_add(i64::from(relative)),
            position,
        }
    }

    fn encode(&self, bytes: &mut [u8], base_offset: i64) {
        let relative = relative(self.offset, base_offset);
        bytes[..4].copy_from_slice(&relative.to_be_bytes());
        bytes[4..].copy_from_slice(&self.position.to_be_bytes());
    }

    fn key(&self) -> i64 {
        self.offset
    }

    fn offset(&self) -> i64 {
        self.offset
    }
}

pub type OffsetIndex = Index<OffsetPosition>;

impl OffsetIndex {
    /// The last position before `position` where the index knows that a batch starts.
    pub fn last_before_position(&self, reach: Reach, position: u64) -> Result<Option<u64>> {
        let entry = self.last_not(reach, |entry| u64::from(entry.position) >= position)?;
        Ok(entry.map(|entry| u64::from(entry.position)))
    }
}

/// The number that an entry has for `offset`. Of a batch whose offset is damaged (no checksum
/// covers it) that is wrong in any case, and every entry is compared with the batch that it names
/// before it is believed.
pub(super) fn relative(offset: i64, base_offset: i64) -> i32 {
    offset.wrapping_sub(base_offset) as i32
}

/// Entries hold offsets relative to the segment in 31 bits.
pub fn fits(base_offset: i64, offset: i64) -> bool {
    offset
        .checked_sub(base_offset)
        .is_some_and(|relative| (0..=i64::from(i32::MAX)).contains(&relative))
}

/// The (offset, position) pairs in a file's bytes, without the zeros of a preallocated tail. Nothing is checked.
pub fn entries(bytes: &[u8], base_offset: i64) -> Vec<(i64, i64)> {
    let zeros = bytes.len() > OffsetPosition::BYTES && bytes.iter().all(|byte| *byte == 0);
    let chunks = if zeros {
        [].chunks_exact(1)
    } else {
        bytes.chunks_exact(OffsetPosition::BYTES)
    };
    let used = chunks
        .enumerate()
        .take_while(|(at, chunk)| *at == 0 || chunk.iter().any(|byte| *byte != 0));
    let decoded = used.map(|(_, chunk)| OffsetPosition::decode(chunk, base_offset));
    decoded
        .map(|entry| (entry.offset, i64::from(entry.position)))
        .collect()
}
