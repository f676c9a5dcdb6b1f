//! The records of one batch, one after the other, borrowed from it. For many records at once see `columns`.

use super::batch::{BatchHeader, HEADER_BYTES};
use super::batches::Batch;
use super::compression::Codec;
use super::encode::Header;
use super::error::RecordError;
use super::scratch::{Limits, Scratch};
use super::walk;

/// One record. Key, value and headers are where the batch (or its decompressed form) has them.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub offset: i64,
    /// Milliseconds since 1970: the record's own, or the append time of its batch; -1 for none.
    pub timestamp_ms: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// The records of a batch. Its checksum is not looked at (see `check_crc`). After an error the iteration ends.
#[derive(Debug)]
pub struct Records<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
    at: usize,
    next_index: i32,
    decompressed: bool,
}

impl<'a> Records<'a> {
    /// The records of `batch`, of any format; what has to be unpacked is unpacked at once, into `scratch`.
    pub fn new(
        batch: &Batch<'a>,
        limits: &Limits,
        scratch: &'a mut Scratch,
    ) -> Result<Self, RecordError> {
        let opened = scratch.open(batch.bytes, &batch.header, limits)?;
        Ok(Records {
            header: opened.header,
            bytes: opened.records,
            at: 0,
            next_index: 0,
            decompressed: opened.is_unpacked,
        })
    }

    /// The records of a batch that `validate` or `validate_produced` has just passed, with the header that it gave: nothing is unpacked again.
    pub fn validated(batch: &'a [u8], header: &BatchHeader, scratch: &'a Scratch) -> Self {
        let in_place = !header.is_message() && header.compression() == Ok(Codec::None);
        Records {
            header: *header,
            bytes: if in_place {
                batch.get(HEADER_BYTES..).unwrap_or_default()
            } else {
                scratch.unpacked()
            },
            at: 0,
            next_index: 0,
            decompressed: !in_place,
        }
    }

    /// The batch's header; of a message set the one it would have as a batch, with its first offset and the number of its messages.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next_index >= self.header.record_count {
            return None;
        }
        let index = self.next_index;
        match walk::read(self.bytes, self.at) {
            Ok(raw) => {
                self.at = raw.end;
                self.next_index += 1;
                let header = &self.header;
                let own_ms = header.timestamp_of(&raw);
                Some(Ok(Record {
                    offset: header.offset_of(&raw),
                    timestamp_ms: if header.is_log_append_time() {
                        header.max_timestamp
                    } else {
                        own_ms
                    },
                    key: raw.key.of(self.bytes),
                    value: raw.value.of(self.bytes),
                    headers: Headers {
                        bytes: self.bytes,
                        at: raw.headers_start,
                        left: raw.header_count,
                    },
                }))
            }
            Err(mut error) => {
                self.next_index = i32::MAX;
                error.in_decompressed = self.decompressed;
                error.position += if self.decompressed { 0 } else { HEADER_BYTES };
                Some(Err(error.of_record(index as u32)))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // record_count is a promise; the bytes bound it.
        let left = self
            .header
            .record_count
            .saturating_sub(self.next_index)
            .max(0) as usize;
        (0, Some(left.min(self.bytes.len() / walk::RECORD_BYTES_MIN)))
    }
}

/// The headers of a record, in order; names may come more than once.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u32,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        // The record was checked as a whole when it was read.
        let (key, value, next) = walk::read_header(self.bytes, self.at).ok()?;
        self.at = next;
        Some((key.of(self.bytes)?, value.of(self.bytes)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}
