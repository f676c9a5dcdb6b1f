//! Messages of formats 0 and 1 (Kafka 0.8 to 0.10), each read as a batch of its own.
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | offset: of the message; of a compressed set that of its last message |
//! | 8 | 4 | message_size: the bytes that follow this field |
//! | 12 | 4 | crc: CRC-32 of everything that follows this field |
//! | 16 | 1 | magic: 0 or 1 |
//! | 17 | 1 | attributes: bits 0-2 codec; in format 1 bit 3 log append time |
//! | 18 | 8 | timestamp: milliseconds since 1970 or -1; only in format 1 |
//! | | 4 + n | key: length (-1 is null), bytes |
//! | | 4 + n | value: length (-1 is null), bytes; of a compressed set the messages in it, packed |
//!
//! The messages in a set have the same form. Their offsets are absolute in format 0. In format 1 they count from the set's first message,
//! so that a broker gives offsets to a set without unpacking it (KIP-31); the set's own offset minus its last message's is what to
//! add. An outer offset of 0 stands for "none given", as some versions of librdkafka send it.
//!
//! Everything that reads records reads the bytes of format 2. [`unpack`] translates: what it gives is the batch that the message, or the
//! set, would be in format 2. That costs a copy, which is little beside what the old formats cost anyway, and there is one way to read.

use super::batch::{
    BatchHeader, CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, field, incomplete,
};
use super::compression::{Codec, Decompressor};
use super::encode;
use super::error::{ErrorKind, RecordError};
use crate::checksum::crc32;

pub(super) const OFFSET: usize = 0;
pub(super) const CRC: usize = LOG_OVERHEAD_BYTES;
pub(super) const MAGIC: usize = CRC + 4;
pub(super) const ATTRIBUTES: usize = MAGIC + 1;
pub(super) const TIMESTAMP: usize = ATTRIBUTES + 1;

/// Where the key is, counted from the offset.
pub(super) const fn key_at(magic: i8) -> usize {
    if magic == 0 { TIMESTAMP } else { TIMESTAMP + 8 }
}

/// The least message_size.
pub const fn fixed_bytes(magic: i8) -> usize {
    key_at(magic) + 4 + 4 - LOG_OVERHEAD_BYTES
}

/// The CRC-32 that a message should have.
pub(super) fn crc(message: &[u8]) -> u32 {
    crc32(message.get(MAGIC..).unwrap_or_default())
}

/// The message at the start of `bytes` as the header of a batch: base_offset and last offset are the message's (of a compressed set: of
/// its last message), and record_count is 1 (of a set: unknown before it is unpacked). `size` is from `batch_size`.
pub(super) fn header(bytes: &[u8], size: usize) -> Result<BatchHeader, RecordError> {
    let magic = bytes[MAGIC] as i8;
    let fixed = LOG_OVERHEAD_BYTES + fixed_bytes(magic);
    if bytes.len() < fixed {
        return Err(incomplete("message", fixed, bytes.len()));
    }
    let (timestamp, mask) = if magic == 0 {
        (NO_TIMESTAMP, CODEC_MASK)
    } else {
        let timestamp = i64::from_be_bytes(field(bytes, TIMESTAMP));
        (timestamp, CODEC_MASK | LOG_APPEND_TIME)
    };
    Ok(BatchHeader {
        base_offset: i64::from_be_bytes(field(bytes, OFFSET)),
        batch_length: (size - LOG_OVERHEAD_BYTES) as i32,
        leader_epoch: -1,
        magic,
        crc: u32::from_be_bytes(field(bytes, CRC)),
        attributes: i16::from(bytes[ATTRIBUTES]) & mask,
        last_offset_delta: 0,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        base_sequence: NO_SEQUENCE,
        record_count: 1,
    })
}

/// Key and value of a message.
pub(super) struct Content<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

/// Reads key and value of `message`, which is exactly one.
pub(super) fn content<'a>(message: &'a [u8], magic: i8) -> Result<Content<'a>, RecordError> {
    let mut at = key_at(magic);
    let key = slot(message, &mut at, "key_length")?;
    let value = slot(message, &mut at, "value_length")?;
    if at != message.len() {
        let problem = format!(
            "key and value end {} bytes before the message",
            message.len() - at
        );
        return Err(RecordError::invalid("value_length", at, problem));
    }
    Ok(Content { key, value })
}

/// A length and as many bytes. Null is any negative length, as Kafka reads it.
fn slot<'a>(
    message: &'a [u8],
    at: &mut usize,
    name: &'static str,
) -> Result<Option<&'a [u8]>, RecordError> {
    let rest = message.get(*at..).unwrap_or_default();
    let Some((length, rest)) = rest.split_first_chunk::<4>() else {
        let problem = "the message ends inside the number";
        return Err(RecordError::invalid(name, *at, problem));
    };
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
        *at += 4;
        return Ok(None);
    };
    let Some(bytes) = rest.get(..length) else {
        let problem = format!("{length} bytes, {} are left in the message", rest.len());
        return Err(RecordError::invalid(name, *at, problem));
    };
    *at += 4 + length;
    Ok(Some(bytes))
}

/// Whose message it is: what is right in the log need not be from a producer, and the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Offsets are the messages' and ascend. A message that is cut off ends a set, as for Kafka's consumers.
    Log,
    /// Offsets do not matter, they are about to be given: the messages count from 0. All have the format of the set and are whole.
    Producer,
}

/// The header that `unpack` made of a message.
#[derive(Clone, Copy, Debug)]
pub struct Unpacked {
    /// As if it had been a batch of format 2 (batch_length and magic stay the message's).
    pub header: BatchHeader,
    /// The messages are numbered 0, 1, 2, ... as a producer of format 1 should.
    pub is_numbered: bool,
}

/// Memory for one set at a time.
#[derive(Default)]
pub(super) struct Room {
    /// The messages of a set.
    pub set: Vec<u8>,
    /// Records in format 2.
    pub records: Vec<u8>,
}

/// Translates `message`, exactly one with its `header`, into records of format 2, which replace `room.records`.
///
/// The checksums of messages in a set are compared, the outer one is not. Errors inside a set count from its start.
pub(super) fn unpack(
    message: &[u8],
    header: &BatchHeader,
    source: Source,
    decompressed_bytes_max: usize,
    decompressor: &mut Decompressor,
    room: &mut Room,
) -> Result<Unpacked, RecordError> {
    room.records.clear();
    let content = content(message, header.magic)?;
    let codec = header.compression()?;
    if codec == Codec::None {
        let is_numbered = header.base_offset == 0;
        encode::write_plain(&mut room.records, 0, 0, content.key, content.value);
        let mut header = *header;
        if source == Source::Producer {
            header.base_offset = 0;
        }
        return Ok(Unpacked {
            header,
            is_numbered,
        });
    }
    if codec == Codec::Zstd {
        let problem = "zstd needs record batches (format 2)";
        return Err(RecordError::invalid("attributes", ATTRIBUTES, problem));
    }
    let value_at = message.len() - content.value.map_or(0, <[u8]>::len);
    let Some(packed) = content.value else {
        let problem = "a compressed set without a value";
        return Err(RecordError::invalid("value_length", value_at, problem));
    };
    room.set.clear();
    decompressor
        .decompress_set(
            codec,
            header.magic,
            packed,
            decompressed_bytes_max,
            &mut room.set,
        )
        .map_err(|error| error.moved_by(value_at))?;
    let mut inner = Inner::new(header, source);
    let mut at = 0;
    while at < room.set.len() {
        match inner.take(&room.set, at, &mut room.records) {
            Ok(next) => at = next,
            Err(error) if error.is_incomplete() && source == Source::Log => break,
            Err(mut error) => {
                if error.is_incomplete() {
                    error.kind = ErrorKind::InvalidRecord;
                }
                error.position += at;
                error.in_decompressed = true;
                return Err(error.of_record(inner.count as u32));
            }
        }
    }
    inner.finish(header, value_at)
}

/// The messages of a set, as they come.
struct Inner {
    magic: i8,
    source: Source,
    count: i32,
    first_offset: i64,
    last_offset: i64,
    base_timestamp: i64,
    is_numbered: bool,
}

impl Inner {
    fn new(outer: &BatchHeader, source: Source) -> Self {
        Self {
            magic: outer.magic,
            source,
            count: 0,
            first_offset: 0,
            last_offset: 0,
            base_timestamp: NO_TIMESTAMP,
            is_numbered: true,
        }
    }

    /// Translates the message at `at`; gives where the next one starts. Errors count from `at`.
    fn take(&mut self, set: &[u8], at: usize, out: &mut Vec<u8>) -> Result<usize, RecordError> {
        let rest = &set[at..];
        let header = BatchHeader::parse(rest)?;
        if !header.is_message() {
            let problem = "a record batch inside a message";
            return Err(RecordError::invalid("magic", MAGIC, problem));
        }
        let size = header.size_bytes();
        let Some(message) = rest.get(..size) else {
            return Err(incomplete("message", size, rest.len()));
        };
        if self.source == Source::Producer && header.magic != self.magic {
            let problem = format!(
                "a message of format {} in a set of format {}",
                header.magic, self.magic
            );
            return Err(RecordError::invalid("magic", MAGIC, problem));
        }
        if header.attributes & CODEC_MASK != 0 {
            let problem = "a compressed message inside a compressed message";
            return Err(RecordError::invalid("attributes", ATTRIBUTES, problem));
        }
        super::batch::check_crc(message, &header)?;
        let content = content(message, header.magic)?;
        let offset = header.base_offset;
        if self.count == 0 {
            (self.first_offset, self.base_timestamp) = (offset, header.base_timestamp);
        }
        let delta = match self.source {
            Source::Producer => self.count,
            Source::Log if self.count > 0 && offset <= self.last_offset => {
                let problem = format!("{offset} after {}", self.last_offset);
                return Err(RecordError::invalid("offset", OFFSET, problem));
            }
            Source::Log => i32::try_from(offset.wrapping_sub(self.first_offset)).map_err(|_| {
                let problem = format!("{offset} is too far from the first, {}", self.first_offset);
                RecordError::invalid("offset", OFFSET, problem)
            })?,
        };
        self.is_numbered &= offset == i64::from(self.count);
        self.last_offset = offset;
        self.count = self.count.checked_add(1).ok_or_else(|| {
            RecordError::invalid("offset", OFFSET, "more messages than a batch can have")
        })?;
        let timestamp_delta = header.base_timestamp.wrapping_sub(self.base_timestamp);
        encode::write_plain(out, timestamp_delta, delta, content.key, content.value);
        Ok(at + size)
    }

    /// The header of the whole.
    fn finish(mut self, outer: &BatchHeader, value_at: usize) -> Result<Unpacked, RecordError> {
        if self.count == 0 {
            let problem = "a compressed set without messages";
            return Err(RecordError::invalid("value_length", value_at, problem));
        }
        let outer_offset = outer.base_offset;
        let mut first_offset = self.first_offset;
        if outer.magic == 1 && outer_offset != 0 {
            // Kafka checks producers' sets too.
            if outer_offset < self.last_offset {
                let problem = format!(
                    "{outer_offset} is less than that of its last message, {}",
                    self.last_offset
                );
                return Err(RecordError::invalid("offset", OFFSET, problem));
            }
            let base = outer_offset.wrapping_sub(self.last_offset);
            first_offset = first_offset.wrapping_add(base);
            self.is_numbered &= base == 0;
        }
        let (base_offset, last_offset_delta) = match self.source {
            Source::Producer => (0, self.count - 1),
            Source::Log => {
                // The outer offset is what is gone on from, also if its last message is gone.
                let inner = self.last_offset.wrapping_sub(self.first_offset);
                let delta = outer_offset.saturating_sub(first_offset).max(inner);
                let delta = i32::try_from(delta).map_err(|_| {
                    let problem = format!("{outer_offset} is too far from {first_offset}");
                    RecordError::invalid("offset", OFFSET, problem)
                })?;
                (first_offset, delta)
            }
        };
        Ok(Unpacked {
            header: BatchHeader {
                base_offset,
                last_offset_delta,
                base_timestamp: self.base_timestamp,
                record_count: self.count,
                ..*outer
            },
            is_numbered: self.is_numbered,
        })
    }
}

/// Gives `message` (one that was checked) its offset, and with `append_time_ms` that time as its own; the checksum follows.
pub fn stamp_message(message: &mut [u8], offset: i64, append_time_ms: Option<i64>) {
    message[OFFSET..OFFSET + 8].copy_from_slice(&offset.to_be_bytes());
    if let Some(append_time_ms) = append_time_ms {
        message[ATTRIBUTES] |= LOG_APPEND_TIME as u8;
        set_timestamp(message, append_time_ms);
    }
}

/// Corrects the timestamp of a message of format 1.
pub fn set_timestamp(message: &mut [u8], timestamp_ms: i64) {
    message[TIMESTAMP..TIMESTAMP + 8].copy_from_slice(&timestamp_ms.to_be_bytes());
    set_crc(message);
}

pub(super) fn set_crc(message: &mut [u8]) {
    let crc = crc(message);
    message[CRC..MAGIC].copy_from_slice(&crc.to_be_bytes());
}
