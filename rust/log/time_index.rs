//! The time index: how young a segment's records are.
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | the greatest timestamp so far, milliseconds since 1970 |
//! | 8 | 4 | the last offset of the batch that has it, minus the segment's base offset |
//!
//! Big-endian; timestamps strictly ascending. An entry (T, O) says: every record before the one after O is at most T old. A segment that is
//! closed ends with the greatest timestamp of all.

use super::index::{Entry, Index};
use super::names::Kind;
use super::offset_index::relative;

/// The greatest timestamp up to an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    pub timestamp_ms: i64,
    pub offset: i64,
}

impl std::fmt::Display for TimestampOffset {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            to,
            "timestamp {} up to offset {}",
            self.timestamp_ms, self.offset
        )
    }
}

impl Entry for TimestampOffset {
    const BYTES: usize = 12;
    const KIND: Kind = Kind::TimeIndex;

    fn decode(bytes: &[u8], base_offset: i64) -> Self {
        let mut timestamp = [0; 8];
        timestamp.copy_from_slice(&bytes[..8]);
        let relative = i32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        Self {
            timestamp_ms: i64::from_be_bytes(timestamp),
            offset: base_offset.wrapping_add(i64::from(relative)),
        }
    }

    fn encode(&self, bytes: &mut [u8], base_offset: i64) {
        bytes[..8].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[8..].copy_from_slice(&relative(self.offset, base_offset).to_be_bytes());
    }

    fn key(&self) -> i64 {
        self.timestamp_ms
    }

    fn offset(&self) -> i64 {
        self.offset
    }
}

pub type TimeIndex = Index<TimestampOffset>;

/// The (timestamp, offset) pairs in a file's bytes, without the zeros of a preallocated tail. Nothing is checked.
pub fn entries(bytes: &[u8], base_offset: i64) -> Vec<(i64, i64)> {
    let zeros = bytes.len() > TimestampOffset::BYTES && bytes.iter().all(|byte| *byte == 0);
    let chunks = if zeros {
        [].chunks_exact(1)
    } else {
        bytes.chunks_exact(TimestampOffset::BYTES)
    };
    let used = chunks
        .enumerate()
        .take_while(|(at, chunk)| *at == 0 || chunk.iter().any(|byte| *byte != 0));
    let decoded = used.map(|(_, chunk)| TimestampOffset::decode(chunk, base_offset));
    decoded
        .map(|entry| (entry.timestamp_ms, entry.offset))
        .collect()
}
