//! A record batch, format v2: the header, and the fields that a broker stamps.
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | base_offset: the offset of the first record; given by the broker |
//! | 8 | 4 | batch_length: the bytes that follow this field |
//! | 12 | 4 | leader_epoch: given by the broker |
//! | 16 | 1 | magic: 2 |
//! | 17 | 4 | crc: CRC-32C of everything that follows this field |
//! | 21 | 2 | attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control |
//! | 23 | 4 | last_offset_delta: last offset - base_offset, kept by compaction |
//! | 27 | 8 | base_timestamp: milliseconds since 1970; the records' deltas add to it |
//! | 35 | 8 | max_timestamp: the greatest of the records, or the append time |
//! | 43 | 8 | producer_id: -1 without one |
//! | 51 | 2 | producer_epoch |
//! | 53 | 4 | base_sequence: -1 without one |
//! | 57 | 4 | record_count |
//! | 61 | | records, compressed as one block if a codec is set |
//!
//! Everything is big-endian. The checksum leaves out the first 21 bytes, so a broker gives offsets and its epoch to a
//! batch without touching what the producer wrote (KIP-98). In formats 0 and 1 the magic byte is at the same place, which
//! is what tells them apart: a message of those is read as a batch of its own here (`message_set`).

use super::compression::Codec;
use super::error::{ErrorKind, RecordError};
use super::message_set;
use super::walk::RawRecord;
use crate::checksum::crc32c;

const BASE_OFFSET: usize = 0;
pub(super) const BATCH_LENGTH: usize = BASE_OFFSET + 8;
pub(crate) const LEADER_EPOCH: usize = BATCH_LENGTH + 4;
pub(crate) const MAGIC: usize = LEADER_EPOCH + 4;
const CRC: usize = MAGIC + 1;
pub(super) const ATTRIBUTES: usize = CRC + 4;
pub(super) const LAST_OFFSET_DELTA: usize = ATTRIBUTES + 2;
const BASE_TIMESTAMP: usize = LAST_OFFSET_DELTA + 4;
const MAX_TIMESTAMP: usize = BASE_TIMESTAMP + 8;
const PRODUCER_ID: usize = MAX_TIMESTAMP + 8;
const PRODUCER_EPOCH: usize = PRODUCER_ID + 8;
pub(super) const BASE_SEQUENCE: usize = PRODUCER_EPOCH + 2;
pub(super) const RECORD_COUNT: usize = BASE_SEQUENCE + 4;
/// The size of a batch without records.
pub const HEADER_BYTES: usize = RECORD_COUNT + 4;
/// base_offset and batch_length: what is needed to know where the next batch starts.
pub const LOG_OVERHEAD_BYTES: usize = LEADER_EPOCH;
/// No log gets so far. What a header, a name, a checkpoint or another broker says is held against it where it comes in ([`is_offset`]).
/// Behind that, any 32-bit delta and the step to the next offset may be added without a look at the ends of i64.
pub const OFFSET_MAX: i64 = i64::MAX - (1 << 32);
/// The format of record batches.
pub const MAGIC_V2: i8 = 2;
/// The timestamp of a record or an empty batch that has none.
pub const NO_TIMESTAMP: i64 = -1;
/// The producer id, epoch and sequence of a batch from a producer without idempotence.
pub const NO_PRODUCER_ID: i64 = -1;
pub const NO_PRODUCER_EPOCH: i16 = -1;
pub const NO_SEQUENCE: i32 = -1;

pub(super) const CODEC_MASK: i16 = 0x07;
pub(super) const LOG_APPEND_TIME: i16 = 0x08;
pub(super) const TRANSACTIONAL: i16 = 0x10;
pub(super) const CONTROL: i16 = 0x20;

/// True if `offset` is at least as far from both ends of i64 as [`OFFSET_MAX`] is from the upper
/// one.
#[inline]
pub fn is_offset(offset: i64) -> bool {
    (-OFFSET_MAX..=OFFSET_MAX).contains(&offset)
}

/// True if the batch that `bytes` begin with belongs to a transaction, by its flag alone: what else
/// may be wrong with it is not looked at.
pub fn is_transactional(bytes: &[u8]) -> bool {
    let flags = bytes.get(ATTRIBUTES + 1).copied().unwrap_or(0);
    bytes.get(MAGIC) == Some(&2) && i16::from(flags) & TRANSACTIONAL != 0
}

/// True for a batch of format 2 with a producer id, of which the first bytes are enough.
pub fn has_producer_id(bytes: &[u8]) -> bool {
    let id = bytes.get(PRODUCER_ID..PRODUCER_EPOCH);
    let is_there = id.is_some_and(|id| id.first().is_some_and(|first| first & 0x80 == 0));
    bytes.get(MAGIC) == Some(&2) && is_there
}

/// The fixed fields of a batch, as they are in the bytes; for a message of format 0 or 1 see `message_set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: i64,
    pub batch_length: i32,
    pub leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`, which need not hold the whole batch.
    ///
    /// Checked: batch_length covers a header, the magic is known, last_offset_delta and record_count are not negative, the offsets are not
    /// beyond [`OFFSET_MAX`]. The checksum is not checked here (see [`check_crc`]).
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let header = Self::read(bytes)?;
        header.check()?;
        Ok(header)
    }

    /// The same for a batch that was stored once, and may have been damaged since. Only what is needed to know where the next one starts is
    /// checked: anything else is for the checksum to tell, and hides no batch behind it.
    pub fn read(bytes: &[u8]) -> Result<Self, RecordError> {
        let size = batch_size(bytes)?;
        if (bytes[MAGIC] as i8) < MAGIC_V2 {
            return message_set::header(bytes, size);
        }
        let Some(fixed) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(incomplete("batch header", HEADER_BYTES, bytes.len()));
        };
        Ok(BatchHeader {
            base_offset: i64::from_be_bytes(field(fixed, BASE_OFFSET)),
            batch_length: i32::from_be_bytes(field(fixed, BATCH_LENGTH)),
            leader_epoch: i32::from_be_bytes(field(fixed, LEADER_EPOCH)),
            magic: i8::from_be_bytes(field(fixed, MAGIC)),
            crc: u32::from_be_bytes(field(fixed, CRC)),
            attributes: i16::from_be_bytes(field(fixed, ATTRIBUTES)),
            last_offset_delta: i32::from_be_bytes(field(fixed, LAST_OFFSET_DELTA)),
            base_timestamp: i64::from_be_bytes(field(fixed, BASE_TIMESTAMP)),
            max_timestamp: i64::from_be_bytes(field(fixed, MAX_TIMESTAMP)),
            producer_id: i64::from_be_bytes(field(fixed, PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(field(fixed, PRODUCER_EPOCH)),
            base_sequence: i32::from_be_bytes(field(fixed, BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(field(fixed, RECORD_COUNT)),
        })
    }

    /// Refuses a header that no batch has, whoever wrote it.
    pub fn check(&self) -> Result<(), RecordError> {
        if !is_offset(self.base_offset) {
            let problem = format!("{} is no offset of a log", self.base_offset);
            let field = if self.is_message() {
                "offset"
            } else {
                "base_offset"
            };
            return Err(RecordError::invalid(field, BASE_OFFSET, problem));
        }
        if self.last_offset_delta < 0 {
            let problem = format!("{} is negative", self.last_offset_delta);
            return Err(RecordError::invalid(
                "last_offset_delta",
                LAST_OFFSET_DELTA,
                problem,
            ));
        }
        if self.record_count < 0 {
            let problem = format!("{} is negative", self.record_count);
            return Err(RecordError::invalid("record_count", RECORD_COUNT, problem));
        }
        Ok(())
    }

    /// Writes the header over the first [`HEADER_BYTES`] of `batch`, as it is (no field is computed).
    ///
    /// Only for format 2.
    ///
    /// # Panics
    /// If `batch` is shorter than a header.
    pub fn write(&self, batch: &mut [u8]) {
        batch[BASE_OFFSET..BATCH_LENGTH].copy_from_slice(&self.base_offset.to_be_bytes());
        batch[BATCH_LENGTH..LEADER_EPOCH].copy_from_slice(&self.batch_length.to_be_bytes());
        batch[LEADER_EPOCH..MAGIC].copy_from_slice(&self.leader_epoch.to_be_bytes());
        batch[MAGIC..CRC].copy_from_slice(&self.magic.to_be_bytes());
        batch[CRC..ATTRIBUTES].copy_from_slice(&self.crc.to_be_bytes());
        batch[ATTRIBUTES..LAST_OFFSET_DELTA].copy_from_slice(&self.attributes.to_be_bytes());
        batch[LAST_OFFSET_DELTA..BASE_TIMESTAMP]
            .copy_from_slice(&self.last_offset_delta.to_be_bytes());
        batch[BASE_TIMESTAMP..MAX_TIMESTAMP].copy_from_slice(&self.base_timestamp.to_be_bytes());
        batch[MAX_TIMESTAMP..PRODUCER_ID].copy_from_slice(&self.max_timestamp.to_be_bytes());
        batch[PRODUCER_ID..PRODUCER_EPOCH].copy_from_slice(&self.producer_id.to_be_bytes());
        batch[PRODUCER_EPOCH..BASE_SEQUENCE].copy_from_slice(&self.producer_epoch.to_be_bytes());
        batch[BASE_SEQUENCE..RECORD_COUNT].copy_from_slice(&self.base_sequence.to_be_bytes());
        batch[RECORD_COUNT..HEADER_BYTES].copy_from_slice(&self.record_count.to_be_bytes());
    }

    /// The whole batch in bytes, header included.
    pub fn size_bytes(&self) -> usize {
        LOG_OVERHEAD_BYTES + self.batch_length as usize
    }

    /// The offset of the last record (of the last that was there before compaction). One more is an offset too, also of a header that was
    /// [`read`](Self::read) and not checked: whose base_offset has no room for that, the last is before the first.
    pub fn last_offset(&self) -> i64 {
        self.base_offset
            .saturating_add(i64::from(self.last_offset_delta.max(0)))
            .min(i64::MAX - 1)
    }

    /// The offset of a record of this batch. Of a header that was checked nothing wraps.
    #[inline(always)]
    pub fn offset_of(&self, record: &RawRecord) -> i64 {
        self.base_offset
            .wrapping_add(i64::from(record.offset_delta))
    }

    /// The timestamp that the record itself has, whatever kind of time the batch's is. Deltas are differences modulo 2^64, here and in every
    /// other client: whatever two times a producer has, their sum is the one that it wrote.
    #[inline(always)]
    pub fn timestamp_of(&self, record: &RawRecord) -> i64 {
        self.base_timestamp.wrapping_add(record.timestamp_delta)
    }

    /// A message of format 0 or 1.
    pub fn is_message(&self) -> bool {
        self.magic < MAGIC_V2
    }

    /// The codec of the records; an error for the three numbers without a codec.
    pub fn compression(&self) -> Result<Codec, RecordError> {
        let id = self.attributes & CODEC_MASK;
        Codec::from_id(id as i8).ok_or_else(|| {
            let problem = format!("codec {id} is unknown");
            RecordError::new(
                ErrorKind::UnsupportedCompression,
                "attributes",
                ATTRIBUTES,
                problem,
            )
        })
    }

    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// True for a batch that holds a transaction marker instead of users' records.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    pub fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// The sequence number of the last record: after 2^31 - 1 comes 0. -1 without a sequence.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        increment_sequence(self.base_sequence, self.last_offset_delta)
    }
}

/// `sequence + increment` among the non-negative 32-bit numbers: after 2^31 - 1 comes 0.
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    sequence.wrapping_add(increment) & i32::MAX
}

/// The size of the batch at the start of `bytes`, from its first 17 bytes.
///
/// `Incomplete` says that less than 17 bytes are there.
pub fn batch_size(bytes: &[u8]) -> Result<usize, RecordError> {
    let Some(fixed) = bytes.first_chunk::<CRC>() else {
        return Err(incomplete("batch header", HEADER_BYTES, bytes.len()));
    };
    let length = i32::from_be_bytes(field(fixed, BATCH_LENGTH));
    let magic = fixed[MAGIC] as i8;
    let least = match magic {
        MAGIC_V2 => HEADER_BYTES - LOG_OVERHEAD_BYTES,
        0 | 1 => message_set::fixed_bytes(magic),
        _ => {
            let problem = format!("{magic} is not a format");
            return Err(RecordError::corrupt("magic", MAGIC, problem));
        }
    };
    match usize::try_from(length) {
        Ok(length) if length >= least => Ok(LOG_OVERHEAD_BYTES + length),
        _ => {
            let problem = format!("{length} is less than the fixed fields");
            Err(RecordError::corrupt("batch_length", BATCH_LENGTH, problem))
        }
    }
}

/// Compares the batch's checksum with its bytes. `batch` is exactly one batch.
pub fn check_crc(batch: &[u8], header: &BatchHeader) -> Result<(), RecordError> {
    let computed = if header.is_message() {
        message_set::crc(batch)
    } else {
        crc32c(batch.get(ATTRIBUTES..).unwrap_or_default())
    };
    if computed != header.crc {
        let problem = format!(
            "the stored checksum is {:#010x}, the bytes have {computed:#010x}",
            header.crc
        );
        let position = if header.is_message() {
            message_set::CRC
        } else {
            CRC
        };
        return Err(RecordError::corrupt("crc", position, problem));
    }
    Ok(())
}

/// Writes what a leader gives to a batch, in place: the offset of its first record, the leader epoch, and for a topic
/// with log append time that time. Only the last changes (and recomputes) the checksum. `batch` is one validated batch of
/// format 2.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn stamp(batch: &mut [u8], base_offset: i64, leader_epoch: i32, append_time_ms: Option<i64>) {
    batch[BASE_OFFSET..BATCH_LENGTH].copy_from_slice(&base_offset.to_be_bytes());
    batch[LEADER_EPOCH..MAGIC].copy_from_slice(&leader_epoch.to_be_bytes());
    if let Some(append_time_ms) = append_time_ms {
        let attributes =
            i16::from_be_bytes([batch[ATTRIBUTES], batch[ATTRIBUTES + 1]]) | LOG_APPEND_TIME;
        batch[ATTRIBUTES..LAST_OFFSET_DELTA].copy_from_slice(&attributes.to_be_bytes());
        set_max_timestamp(batch, append_time_ms);
    }
}

/// The part of a batch's header that [`stamp`] and [`set_max_timestamp`] write, as it was before.
pub struct Unstamped([u8; PRODUCER_ID]);

impl Unstamped {
    /// Copies the part of the header.
    ///
    /// # Panics
    /// If `batch` is shorter than a header.
    #[inline]
    pub fn of(batch: &[u8]) -> Self {
        Self(*batch.first_chunk().expect("a header"))
    }

    /// Puts the part back.
    pub fn restore(&self, batch: &mut [u8]) {
        batch[..PRODUCER_ID].copy_from_slice(&self.0);
    }
}

/// Corrects max_timestamp (a producer may have written another than its records have) and recomputes the checksum.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_max_timestamp(batch: &mut [u8], max_timestamp_ms: i64) {
    batch[MAX_TIMESTAMP..PRODUCER_ID].copy_from_slice(&max_timestamp_ms.to_be_bytes());
    set_crc(batch);
}

/// Computes the checksum of a batch that was changed or built. `batch` is exactly one batch.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_crc(batch: &mut [u8]) {
    let crc = crc32c(&batch[ATTRIBUTES..]);
    batch[CRC..ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
}

/// `SIZE` bytes at a constant position of a header whose length is known.
#[inline(always)]
pub(super) fn field<const SIZE: usize>(fixed: &[u8], at: usize) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes.copy_from_slice(&fixed[at..at + SIZE]);
    bytes
}

#[cold]
pub(super) fn incomplete(
    what: &'static str,
    needed_bytes: usize,
    available_bytes: usize,
) -> RecordError {
    let problem = format!("needs {needed_bytes} bytes, {available_bytes} are there");
    RecordError::new(ErrorKind::Incomplete, what, 0, problem)
}
