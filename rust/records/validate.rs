//! What a broker checks before it takes a batch, in one pass: checksum, lengths, and every field of every record.

use super::batch::{
    ATTRIBUTES, BASE_SEQUENCE, BATCH_LENGTH, BatchHeader, HEADER_BYTES, NO_SEQUENCE, NO_TIMESTAMP,
    RECORD_COUNT, check_crc,
};
use super::compression::{Codec, Decompressor};
use super::error::{ErrorKind, RecordError};
use super::walk;

/// The greatest sizes that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A batch as it is stored, header included (`max.message.bytes` of the topic).
    pub batch_bytes_max: usize,
    /// The records of a compressed batch when they are decompressed. Kafka has no such limit, since it decompresses as
    /// a stream; 128 MiB is far beyond what clients build and small beside a machine's memory.
    pub decompressed_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            batch_bytes_max: i32::MAX as usize,
            decompressed_bytes_max: 128 << 20,
        }
    }
}

/// Memory that decompression reuses from batch to batch. One per thread; not shared.
#[derive(Default)]
pub struct Scratch {
    decompressor: Decompressor,
    decompressed: Vec<u8>,
}

/// A scratch that held more than this is made small again: one huge batch must not stay in memory.
const SCRATCH_BYTES_KEPT_MAX: usize = 4 << 20;

impl Scratch {
    /// What the last compressed batch decompressed to.
    pub(super) fn decompressed(&self) -> &[u8] {
        &self.decompressed
    }

    /// The records of a batch, decompressed if need be; the second is true if they were.
    pub fn records<'a>(
        &'a mut self,
        batch: &'a [u8],
        header: &BatchHeader,
        limits: &Limits,
    ) -> Result<(&'a [u8], bool), RecordError> {
        let records = batch.get(HEADER_BYTES..).unwrap_or_default();
        let codec = header.compression()?;
        if codec == Codec::None {
            return Ok((records, false));
        }
        if self.decompressed.capacity() > SCRATCH_BYTES_KEPT_MAX {
            self.decompressed = Vec::new();
        }
        self.decompressed.clear();
        self.decompressor
            .decompress(
                codec,
                records,
                limits.decompressed_bytes_max,
                &mut self.decompressed,
            )
            .map_err(|error| error.moved_by(HEADER_BYTES))?;
        Ok((&self.decompressed, true))
    }
}

/// What the walk over a valid batch saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validated {
    pub header: BatchHeader,
    /// True if any record has a null key (a compacted topic refuses those).
    pub keyless: bool,
    /// True if the offset deltas are 0, 1, 2, ... up to last_offset_delta: no record is missing.
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
pub fn validate(
    batch: &[u8],
    limits: &Limits,
    scratch: &mut Scratch,
) -> Result<Validated, RecordError> {
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
    let (records, decompressed) = scratch.records(batch, &header, limits)?;
    walk_all(records, header, decompressed)
}

/// Walks over all records. A record's damage is `placed` where it is in the batch or in the decompressed records.
fn walk_all(
    records: &[u8],
    header: BatchHeader,
    decompressed: bool,
) -> Result<Validated, RecordError> {
    let placed = |mut error: RecordError, index: i32| {
        error.in_decompressed = decompressed;
        error.position += if decompressed { 0 } else { HEADER_BYTES };
        error.of_record(index as u32)
    };
    let count = header.record_count;
    if count as usize > records.len() / walk::RECORD_BYTES_MIN {
        let problem = format!("{count} records cannot be in {} bytes", records.len());
        return Err(RecordError::invalid("record_count", RECORD_COUNT, problem));
    }
    let (mut at, mut keyless, mut gaps) = (0, 0, 0);
    let (mut greatest, mut least) = (i64::MIN, i64::MAX);
    for index in 0..count {
        let record = walk::read(records, at).map_err(|error| placed(error, index))?;
        let delta = record.offset_delta;
        if delta as u32 > header.last_offset_delta as u32 {
            let problem = format!(
                "offset delta {delta}, last_offset_delta is {}",
                header.last_offset_delta
            );
            return Err(placed(
                RecordError::invalid("offset_delta", at, problem),
                index,
            ));
        }
        gaps |= delta ^ index;
        keyless |= record.key.length;
        let timestamp = header.base_timestamp.wrapping_add(record.timestamp_delta);
        if timestamp != NO_TIMESTAMP {
            greatest = greatest.max(timestamp);
            least = least.min(timestamp);
        }
        at = record.end;
    }
    if at != records.len() {
        let problem = format!(
            "{count} records take {at} bytes, {} are left",
            records.len() - at
        );
        return Err(RecordError::invalid("record_count", RECORD_COUNT, problem));
    }
    let timed = least <= greatest;
    Ok(Validated {
        header,
        keyless: keyless < 0,
        consecutive: gaps == 0 && count == header.last_offset_delta.wrapping_add(1),
        max_timestamp: if timed { greatest } else { NO_TIMESTAMP },
        min_timestamp: if timed { least } else { NO_TIMESTAMP },
        records_bytes: records.len(),
    })
}

impl Validated {
    /// What holds for a batch that comes from a producer, but not for one from a leader (compaction leaves gaps, and
    /// coordinators write control batches): at least one record, offsets without gaps, no control batch, a sequence if
    /// there is a producer id, timestamps that are the producer's own.
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
        if !self.consecutive {
            return Err(RecordError::invalid(
                "offset_delta",
                HEADER_BYTES,
                "the records do not count 0, 1, 2, ...",
            ));
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
