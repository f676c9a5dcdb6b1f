//! Building messages of formats 0 and 1: one after the other, or packed as one set.

use super::batch::{LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, NO_TIMESTAMP};
use super::compression::{Codec, Compressor};
use super::error::{ErrorKind, RecordError};
use super::message_set::{ATTRIBUTES, MAGIC, OFFSET, TIMESTAMP, fixed_bytes, key_at, set_crc};

/// The greatest set before it is packed. A consumer has to hold it whole.
pub const SET_BYTES_MAX: usize = 256 << 20;

/// Collects records and gives them as messages. Headers, producers and transactions have no place in these formats.
pub struct MessageBuilder {
    magic: i8,
    codec: Codec,
    /// The time of all messages, for a topic with log append time; format 0 has no place for it.
    append_time_ms: Option<i64>,
    /// The messages of a set, or all there is.
    buffer: Vec<u8>,
    first_offset: Option<i64>,
    last_offset: i64,
    max_timestamp: i64,
}

impl MessageBuilder {
    /// A builder of format `magic`, 0 or 1. zstd is refused: these formats never had it.
    pub fn new(magic: i8, codec: Codec, append_time_ms: Option<i64>) -> Result<Self, RecordError> {
        if codec == Codec::Zstd {
            let problem = "zstd needs record batches (format 2)";
            let kind = ErrorKind::UnsupportedCompression;
            return Err(RecordError::new(kind, "attributes", ATTRIBUTES, problem));
        }
        Ok(Self {
            magic,
            codec,
            append_time_ms: append_time_ms.filter(|_| magic > 0),
            buffer: Vec::new(),
            first_offset: None,
            last_offset: 0,
            max_timestamp: NO_TIMESTAMP,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.first_offset.is_none()
    }

    /// The bytes that the messages take so far, before they are packed.
    pub fn size_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Adds a message. `offset` is after the last one's.
    pub fn append(
        &mut self,
        offset: i64,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), RecordError> {
        let bytes = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
        let size = fixed_bytes(self.magic) + bytes(key) + bytes(value);
        if size > SET_BYTES_MAX - self.buffer.len().min(SET_BYTES_MAX) {
            let problem = format!("more than {SET_BYTES_MAX} bytes of messages");
            let kind = ErrorKind::TooLarge;
            return Err(RecordError::new(kind, "message_size", 0, problem));
        }
        let first = *self.first_offset.get_or_insert(offset);
        self.last_offset = offset;
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
        let numbered = if self.magic > 0 && self.codec != Codec::None {
            offset.checked_sub(first).ok_or_else(|| {
                let problem = format!("{offset} is too far from the first, {first}");
                RecordError::invalid("offset", OFFSET, problem)
            })?
        } else {
            offset
        };
        let start = self.buffer.len();
        self.begin(
            numbered,
            size,
            0,
            self.append_time_ms.unwrap_or(timestamp_ms),
        );
        write_slot(&mut self.buffer, key);
        write_slot(&mut self.buffer, value);
        set_crc(&mut self.buffer[start..]);
        Ok(())
    }

    /// Everything up to the key, the checksum left open.
    fn begin(&mut self, offset: i64, size: usize, codec: i16, timestamp_ms: i64) {
        let mut head = [0; TIMESTAMP + 8];
        head[OFFSET..OFFSET + 8].copy_from_slice(&offset.to_be_bytes());
        head[OFFSET + 8..LOG_OVERHEAD_BYTES].copy_from_slice(&(size as u32).to_be_bytes());
        head[MAGIC] = self.magic as u8;
        let time_type = self.append_time_ms.map_or(0, |_| LOG_APPEND_TIME);
        head[ATTRIBUTES] = (codec | time_type) as u8;
        head[TIMESTAMP..].copy_from_slice(&timestamp_ms.to_be_bytes());
        self.buffer.extend_from_slice(&head[..key_at(self.magic)]);
    }

    /// The messages, or the set that has them. Empty without any; the builder is then empty again.
    pub fn finish(&mut self, compressor: &mut Compressor) -> Vec<u8> {
        let messages = std::mem::take(&mut self.buffer);
        if self.first_offset.take().is_none() || self.codec == Codec::None {
            self.max_timestamp = NO_TIMESTAMP;
            return messages;
        }
        let timestamp_ms = self.append_time_ms.unwrap_or(self.max_timestamp);
        self.max_timestamp = NO_TIMESTAMP;
        self.begin(self.last_offset, 0, self.codec as i16, timestamp_ms);
        write_slot(&mut self.buffer, None);
        let length_at = self.buffer.len();
        write_slot(&mut self.buffer, None);
        compressor.compress_set(self.codec, self.magic, &messages, &mut self.buffer);
        let mut set = std::mem::take(&mut self.buffer);
        let value_bytes = (set.len() - length_at - 4) as u32;
        set[length_at..length_at + 4].copy_from_slice(&value_bytes.to_be_bytes());
        let size = (set.len() - LOG_OVERHEAD_BYTES) as u32;
        set[OFFSET + 8..LOG_OVERHEAD_BYTES].copy_from_slice(&size.to_be_bytes());
        set_crc(&mut set);
        set
    }
}

fn write_slot(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
}
