//! Batches for consumers that are older than they: from format 2 or 1 to 1 or 0 (Fetch 0 to 3), by Kafka's rules.

use super::batch::LOG_OVERHEAD_BYTES;
use super::batches::{Batch, Batches};
use super::compression::{Codec, Compressor};
use super::decode::Records;
use super::error::{ErrorKind, RecordError};
use super::message_builder::MessageBuilder;
use super::scratch::{Limits, Scratch};

/// The messages that the consumer wants.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The greatest format that it reads: 0 or 1.
    pub magic: i8,
    /// Records before it are left out of uncompressed batches: some versions of librdkafka count on that.
    pub first_offset: i64,
    /// Where to stop. The first batch comes whole, as a set may not be cut.
    pub bytes_max: usize,
}

/// Messages of an old format.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DownConverted {
    pub bytes: Vec<u8>,
    /// How many records were converted (one that stands in no message since there was no room counts too).
    pub records: u64,
    /// Behind the last batch that was looked at; None if there was no whole one.
    pub next_offset: Option<i64>,
}

/// True if a batch of this header has to be converted, or left out.
pub fn is_too_new(magic: i8, wanted: i8) -> bool {
    magic > wanted
}

/// The whole batches of `buffer` as messages. Headers of records are lost, control batches left out, batches that are old enough copied.
///
/// zstd has no form in the old formats: an `UnsupportedCompression` error if it comes first, else the end. So it is with damage: what is
/// before it is given, and the next call meets it. Memory: `bytes_max`, and one batch unpacked and as messages.
pub fn down_convert(
    buffer: &[u8],
    wanted: &Wanted,
    limits: &Limits,
    scratch: &mut Scratch,
) -> Result<DownConverted, RecordError> {
    let mut out = Vec::new();
    let mut records = 0;
    let mut next_offset = None;
    let mut compressor = Compressor::default();
    for batch in Batches::new(buffer) {
        let start = batch.as_ref().map_or(0, |batch| batch.position);
        let converted = batch.and_then(|batch| {
            next_offset = Some(batch.header.last_offset() + 1);
            convert(&batch, wanted, limits, scratch, &mut compressor)
        });
        let messages = match converted {
            Ok((messages, converted)) => {
                records += converted;
                messages
            }
            Err(error) if error.is_incomplete() => break,
            Err(error) if out.is_empty() => return Err(error.moved_by(start)),
            Err(_) => break,
        };
        if out.is_empty() {
            out = messages;
            continue;
        }
        let room = wanted.bytes_max.saturating_sub(out.len());
        let fits = whole_messages(&messages, room);
        out.extend_from_slice(&messages[..fits]);
        if fits < messages.len() {
            break;
        }
    }
    Ok(DownConverted {
        bytes: out,
        records,
        next_offset,
    })
}

/// The messages of one batch, and how many records were converted for them.
fn convert(
    batch: &Batch<'_>,
    wanted: &Wanted,
    limits: &Limits,
    scratch: &mut Scratch,
    compressor: &mut Compressor,
) -> Result<(Vec<u8>, u64), RecordError> {
    let header = &batch.header;
    if header.is_control() {
        return Ok((Vec::new(), 0));
    }
    if !is_too_new(header.magic, wanted.magic) {
        return Ok((batch.bytes.to_vec(), 0));
    }
    let codec = header.compression()?;
    if codec == Codec::Zstd {
        let problem = "zstd cannot be converted to an older format";
        let kind = ErrorKind::UnsupportedCompression;
        return Err(RecordError::new(kind, "attributes", 0, problem));
    }
    super::batch::check_crc(batch.bytes, header)?;
    let append_time_ms = header.is_log_append_time().then_some(header.max_timestamp);
    let mut builder = MessageBuilder::new(wanted.magic, codec, append_time_ms)?;
    let mut records = 0;
    for record in Records::new(batch, limits, scratch)? {
        let record = record?;
        records += 1;
        if codec != Codec::None || record.offset >= wanted.first_offset {
            builder.append(record.offset, record.timestamp_ms, record.key, record.value)?;
        }
    }
    Ok((builder.finish(compressor), records))
}

/// How many bytes of `messages` are whole ones that fit into `room`.
fn whole_messages(messages: &[u8], room: usize) -> usize {
    if messages.len() <= room {
        return messages.len();
    }
    let mut at = 0;
    while let Some(head) = messages.get(at..at + LOG_OVERHEAD_BYTES) {
        let size = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
        // A batch of format 2 is never among them: what is copied is old enough.
        let next = at + LOG_OVERHEAD_BYTES + size;
        if next > room || next > messages.len() {
            break;
        }
        at = next;
    }
    at
}
