//! A batch with fewer records than it had: what compaction leaves.
//!
//! First and last offset, sequence, producer and leader epoch stay, so that offsets never change and a producer's last sequence number stays
//! known. Records stay byte for byte: their offsets and timestamps are relative to header fields that stay too.

use super::batch::{
    self, BatchHeader, CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD_BYTES, NO_TIMESTAMP, set_crc,
};
use super::compression::{Codec, Compressor};
use super::error::RecordError;
use super::message_builder::MessageBuilder;
use super::walk;

/// Writes a batch like `header` into `out` (emptied first), with `count` of its records, packed with its codec. `max_timestamp_ms` is theirs.
pub fn rewrite(
    header: &BatchHeader,
    records: &[u8],
    count: i32,
    max_timestamp_ms: i64,
    compressor: &mut Compressor,
    out: &mut Vec<u8>,
) -> Result<(), RecordError> {
    out.clear();
    out.resize(HEADER_BYTES, 0);
    compressor.compress(header.compression()?, None, records, out);
    let mut header = BatchHeader {
        record_count: count,
        ..*header
    };
    if !header.is_log_append_time() {
        header.max_timestamp = max_timestamp_ms;
    }
    finish(header, out)
}

/// The same for a compressed set of messages (formats 0 and 1), of which `outer` is the header as it lies there: a set with those `records`, which
/// are as [`Scratch::open`](super::Scratch::open) gave them, together with `header`.
pub fn rewrite_messages(
    outer: &BatchHeader,
    header: &BatchHeader,
    records: &[u8],
    compressor: &mut Compressor,
) -> Result<Vec<u8>, RecordError> {
    let append_time_ms = outer.is_log_append_time().then_some(outer.max_timestamp);
    let mut builder = MessageBuilder::new(outer.magic, outer.compression()?, append_time_ms)?;
    let mut at = 0;
    while at < records.len() {
        let record = walk::read(records, at)?;
        builder.append(
            header.offset_of(&record),
            header.timestamp_of(&record),
            record.key.of(records),
            record.value.of(records),
        )?;
        at = record.end;
    }
    Ok(builder.finish(compressor))
}

/// Writes a batch like `header` without any record into `out` (emptied first).
pub fn rewrite_empty(header: &BatchHeader, out: &mut Vec<u8>) -> Result<(), RecordError> {
    out.clear();
    out.resize(HEADER_BYTES, 0);
    let header = BatchHeader {
        attributes: header.attributes & !CODEC_MASK | Codec::None as i16,
        base_timestamp: NO_TIMESTAMP,
        record_count: 0,
        ..*header
    };
    finish(header, out)
}

fn finish(mut header: BatchHeader, out: &mut [u8]) -> Result<(), RecordError> {
    header.batch_length = i32::try_from(out.len() - LOG_OVERHEAD_BYTES).map_err(|_| {
        let problem = format!("a batch of {} bytes does not fit the format", out.len());
        RecordError::invalid("batch_length", batch::BATCH_LENGTH, problem)
    })?;
    header.write(out);
    set_crc(out);
    Ok(())
}
