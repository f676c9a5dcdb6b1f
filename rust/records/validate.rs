//! Checks of a broker before it takes a batch, in one pass: checksum, lengths, and every field of
//! every record.

use super::batch::{
    ATTRIBUTES, BASE_SEQUENCE, BATCH_LENGTH, BatchHeader, HEADER_BYTES, NO_SEQUENCE, NO_TIMESTAMP,
    RECORD_COUNT, check_crc,
};
use super::compression::Codec;
use super::error::{ErrorKind, RecordError};
use super::message_set::Source;
use super::scratch::{Limits, Opened, Scratch};
use super::walk::{self, RawRecord};

/// The facts that the walk over a valid batch saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validated {
    pub header: BatchHeader,
    /// True if any record has a null key (a compacted topic refuses those).
    pub keyless: bool,
    /// True if the offset deltas are 0, 1, 2, ... up to last_offset_delta: no record is missing. What a producer sent otherwise is
    /// numbered anew.
    pub consecutive: bool,
    /// The greatest timestamp of the records, which is what header.max_timestamp should be for CreateTime; -1 if no
    /// record has one.
    pub max_timestamp: i64,
    /// The least timestamp of those records that have one; -1 if none has.
    pub min_timestamp: i64,
    /// The records as they are without compression.
    pub records_bytes: usize,
}

/// Checks one batch, exactly: size limit, checksum, and that its records are record_count whole records.
///
/// A batch that passes can be stored, read by every client, and decoded by this crate without an error. Batches that
/// compaction left with fewer records (or none) pass; what only a producer must obey is [`Validated::check_produced`].
///
/// Errors name the field and its position. An error in the first 61 bytes or in the checksum is `Corrupt` (the client
/// sends again), one in checked bytes is `InvalidRecord` (sending again would not help). Memory: at most
/// `limits.decompressed_bytes_max`, and what the codec's window needs.
///
/// A message (set) of format 0 or 1 passes under the same rules; its header is the one it would have as a batch.
pub fn validate(
    batch: &[u8],
    limits: &Limits,
    scratch: &mut Scratch,
) -> Result<Validated, RecordError> {
    let (validated, opened) = walk_batch(batch, limits, scratch)?;
    if !validated.consecutive {
        check_deltas(opened.records, &validated.header, opened.is_unpacked)?;
    }
    Ok(validated)
}

/// The same for a batch of format 2 from a producer, whose offset deltas may be anything: who cannot count is numbered anew.
pub fn validate_sent(
    batch: &[u8],
    limits: &Limits,
    scratch: &mut Scratch,
) -> Result<Validated, RecordError> {
    let (validated, _) = walk_batch(batch, limits, scratch)?;
    validated.check_produced()?;
    Ok(validated)
}

/// The checks of both: everything but the offset deltas.
fn walk_batch<'a>(
    batch: &'a [u8],
    limits: &Limits,
    scratch: &'a mut Scratch,
) -> Result<(Validated, Opened<'a>), RecordError> {
    let header = checked_header(batch, limits)?;
    let opened = scratch.open(batch, &header, limits)?;
    let validated = walk_all(opened.records, opened.header, opened.is_unpacked)?;
    Ok((validated, opened))
}

/// A message (set) of format 0 or 1 as a producer sent it.
#[derive(Clone, Copy, Debug)]
pub struct Produced {
    /// Its header is for the records in the scratch, which count from 0.
    pub validated: Validated,
    pub codec: Codec,
    /// Its messages have the offsets 0, 1, 2, ...: it can be stored as it is, with another outer offset.
    pub is_numbered: bool,
}

/// Checks one message (set) under the rules for producers, and leaves its records in the scratch.
pub fn validate_produced(
    message: &[u8],
    limits: &Limits,
    scratch: &mut Scratch,
) -> Result<Produced, RecordError> {
    let header = checked_header(message, limits)?;
    let codec = header.compression()?;
    let limit = limits.decompressed_bytes_max;
    let unpacked = scratch.unpack(message, &header, Source::Producer, limit)?;
    Ok(Produced {
        validated: walk_all(scratch.unpacked(), unpacked.header, true)?,
        codec,
        is_numbered: unpacked.is_numbered,
    })
}

/// The header of exactly one batch whose size and checksum are right.
fn checked_header(batch: &[u8], limits: &Limits) -> Result<BatchHeader, RecordError> {
    let header = BatchHeader::parse(batch)?;
    let size = header.size_bytes();
    if size > limits.batch_bytes_max {
        let problem = format!(
            "a batch of {size} bytes, the limit is {}",
            limits.batch_bytes_max
        );
        return Err(RecordError::new(
            ErrorKind::TooLarge,
            "batch_length",
            BATCH_LENGTH,
            problem,
        ));
    }
    if size != batch.len() {
        let kind = if size > batch.len() {
            ErrorKind::Incomplete
        } else {
            ErrorKind::Corrupt
        };
        let problem = format!("a batch of {size} bytes, {} are there", batch.len());
        return Err(RecordError::new(
            kind,
            "batch_length",
            BATCH_LENGTH,
            problem,
        ));
    }
    check_crc(batch, &header)?;
    Ok(header)
}

/// Walks over all records, whatever their offset deltas are.
fn walk_all(
    records: &[u8],
    header: BatchHeader,
    decompressed: bool,
) -> Result<Validated, RecordError> {
    let count = header.record_count;
    if count as usize > records.len() / walk::RECORD_BYTES_MIN {
        let problem = format!("{count} records cannot be in {} bytes", records.len());
        return Err(RecordError::invalid("record_count", RECORD_COUNT, problem));
    }
    let mut seen = Seen::new();
    loop {
        seen.walk_usual(records, &header);
        if seen.index == count {
            break;
        }
        let record = walk::read(records, seen.at)
            .map_err(|error| placed(error, seen.index, decompressed))?;
        seen.take(&record, header.base_timestamp);
    }
    let last = header.last_offset_delta;
    if seen.at != records.len() {
        let problem = format!(
            "{count} records take {} bytes, {} are left",
            seen.at,
            records.len() - seen.at
        );
        return Err(RecordError::invalid("record_count", RECORD_COUNT, problem));
    }
    let timed = seen.least_timestamp <= seen.greatest_timestamp;
    Ok(Validated {
        header,
        keyless: seen.key_lengths < 0,
        consecutive: seen.gaps == 0 && count == last.wrapping_add(1),
        max_timestamp: if timed {
            seen.greatest_timestamp
        } else {
            NO_TIMESTAMP
        },
        min_timestamp: if timed {
            seen.least_timestamp
        } else {
            NO_TIMESTAMP
        },
        records_bytes: records.len(),
    })
}

/// An error for the first record whose offset delta is outside of the batch.
#[cold]
fn check_deltas(
    records: &[u8],
    header: &BatchHeader,
    decompressed: bool,
) -> Result<(), RecordError> {
    let (mut at, last) = (0, header.last_offset_delta);
    for index in 0..header.record_count {
        let record = walk::read(records, at)?;
        let delta = record.offset_delta;
        if delta as u32 > last as u32 {
            let problem = format!("offset delta {delta}, last_offset_delta is {last}");
            let error = RecordError::invalid("offset_delta", at, problem);
            return Err(placed(error, index, decompressed));
        }
        at = record.end;
    }
    Ok(())
}

/// A record's damage where it is in the batch, or in the decompressed records.
fn placed(mut error: RecordError, index: i32, decompressed: bool) -> RecordError {
    error.in_decompressed = decompressed;
    error.position += if decompressed { 0 } else { HEADER_BYTES };
    error.of_record(index as u32)
}

/// The facts that a walk gathers, without a decision a record: those are taken once, at the end.
#[derive(Clone, Copy)]
struct Seen {
    /// The next record and where it is.
    index: i32,
    at: usize,
    /// All key lengths or-ed: negative if one is.
    key_lengths: i32,
    /// All differences of index and offset delta or-ed: zero if all are equal.
    gaps: i32,
    greatest_timestamp: i64,
    least_timestamp: i64,
}

impl Seen {
    fn new() -> Self {
        Seen {
            index: 0,
            at: 0,
            key_lengths: 0,
            gaps: 0,
            greatest_timestamp: i64::MIN,
            least_timestamp: i64::MAX,
        }
    }

    #[inline(always)]
    fn take(&mut self, record: &RawRecord, base_timestamp: i64) {
        self.key_lengths |= record.key.length;
        self.gaps |= record.offset_delta ^ self.index;
        let timestamp = base_timestamp.wrapping_add(record.timestamp_delta);
        if timestamp != NO_TIMESTAMP {
            self.greatest_timestamp = self.greatest_timestamp.max(timestamp);
            self.least_timestamp = self.least_timestamp.min(timestamp);
        }
        self.at = record.end;
        self.index = self.index.wrapping_add(1);
    }

    /// Walks until the end or the first record of unusual shape. On its own, and nothing else inlined, so that everything it
    /// gathers stays in registers.
    #[inline(never)]
    fn walk_usual(&mut self, records: &[u8], header: &BatchHeader) {
        let (count, base_timestamp) = (header.record_count, header.base_timestamp);
        let mut seen = *self;
        while seen.index < count {
            let Some(record) = walk::read_usual(records, seen.at) else {
                break;
            };
            seen.take(&record, base_timestamp);
        }
        *self = seen;
    }
}

impl Validated {
    /// Checks what must hold for a batch that comes from a producer, but not for one from a leader
    /// (compaction leaves gaps, and coordinators write control batches): at least one record, as
    /// many offsets as records, no control batch, a sequence if there is a producer id, timestamps
    /// that are the producer's own.
    pub fn check_produced(&self) -> Result<(), RecordError> {
        let header = &self.header;
        let (count, last) = (header.record_count, header.last_offset_delta);
        if count == 0 {
            return Err(RecordError::invalid(
                "record_count",
                RECORD_COUNT,
                "a producer sends at least one record",
            ));
        }
        if i64::from(count) != i64::from(last) + 1 {
            let problem = format!("{count} records, but last_offset_delta is {last}");
            return Err(RecordError::invalid("record_count", RECORD_COUNT, problem));
        }
        if header.is_control() {
            return Err(RecordError::invalid(
                "attributes",
                ATTRIBUTES,
                "a producer cannot write control records",
            ));
        }
        if header.has_producer_id() && header.base_sequence < 0 {
            let problem = if header.base_sequence == NO_SEQUENCE {
                "no sequence"
            } else {
                "a negative sequence"
            };
            return Err(RecordError::invalid(
                "base_sequence",
                BASE_SEQUENCE,
                format!("a producer id with {problem}"),
            ));
        }
        if header.is_log_append_time() {
            let problem = "a producer cannot set the append time";
            return Err(RecordError::new(
                ErrorKind::InvalidTimestamp,
                "attributes",
                ATTRIBUTES,
                problem,
            ));
        }
        Ok(())
    }
}
