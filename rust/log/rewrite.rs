//! Appends that are not stored as they came: messages of old formats, and batches whose format, codec or numbering is not the topic's.
//!
//! The rules are Kafka's (LogValidator). What a topic stores is its `message.format.version` in its `compression.type`. Messages that are so
//! already keep their bytes: each gets its offset, and a set of format 1 one offset for all. Anything else is unpacked, checked record by
//! record, and built anew; a set of format 0 always, since its messages have absolute offsets inside.

use super::checks::check_records;
use super::config::{LogConfig, TimestampType};
use super::error::{LogError, Result};
use super::producer_state::AppendOrigin;
use crate::records::{
    Batch, BatchBuilder, BatchHeader, BatchOptions, Batches, Codec, Compressor, Header, Limits,
    MessageBuilder, Produced, Record, Records, Scratch, set_timestamp, stamp_message, validate,
    validate_produced, validate_sent,
};

const MAGIC: usize = 16;
const ATTRIBUTES_LOW: usize = 22;
const CODEC_MASK: u8 = 7;
const CONTROL: u8 = 0x20;

/// True if `records` begin with a batch of format 2 that the topic stores as it is. Markers are
/// never packed.
pub(super) fn is_plain(records: &[u8], config: &LogConfig) -> bool {
    config.message_format == 2
        && records.get(MAGIC) == Some(&2)
        && config.compression.is_none_or(|codec| {
            records
                .get(ATTRIBUTES_LOW)
                .is_some_and(|bits| bits & CODEC_MASK == codec as u8 || bits & CONTROL != 0)
        })
}

/// Larger ones are not packed anew on the loop: gzip takes about 15 ns a byte.
const INLINE_PACKED_BYTES_MAX: usize = 8 << 10;

/// True if an append of this size may be rewritten on the loop's thread.
pub(super) fn is_quick_to_store(records: &[u8], config: &LogConfig) -> bool {
    records.len() <= INLINE_PACKED_BYTES_MAX || is_plain(records, config)
}

/// The bytes to append instead.
pub(super) enum Rewritten {
    /// A batch of format 2, to be stamped and appended like any other.
    Batch(Vec<u8>),
    /// Messages with their offsets, and where each one is.
    Messages(Vec<u8>, Vec<(usize, BatchHeader)>),
}

/// How records are rewritten: for whom, when, and where to.
#[derive(Clone, Copy)]
pub(super) struct Rewrite<'a> {
    pub config: &'a LogConfig,
    pub limits: &'a Limits,
    pub origin: AppendOrigin,
    pub now_ms: i64,
    pub first_offset: i64,
}

impl Rewrite<'_> {
    fn append_time_ms(&self) -> Option<i64> {
        (self.config.message_timestamp_type == TimestampType::LogAppendTime).then_some(self.now_ms)
    }

    /// Checks `records` and makes of them what the topic stores.
    pub fn of(&self, records: &[u8], scratch: &mut Scratch) -> Result<Rewritten> {
        let batches = whole_batches(records, self.limits.batch_bytes_max)?;
        let Some(first) = batches.first().map(|batch| batch.header) else {
            return Err(LogError::InvalidRecord("no records".to_owned()));
        };
        let mut source = Codec::None;
        for batch in &batches {
            if batch.header.magic != first.magic {
                return Err(LogError::InvalidRecord(format!(
                    "a message of format {} after one of format {}",
                    batch.header.magic, first.magic
                )));
            }
            match batch.header.compression()? {
                Codec::None => {}
                codec => source = codec,
            }
        }
        if batches.len() > 1 && (source != Codec::None || !first.is_message()) {
            let problem = "more than one record batch or compressed set for a partition";
            return Err(LogError::InvalidRecord(problem.to_owned()));
        }
        let target = self.config.compression.unwrap_or(source);
        let magic = self.config.message_format;
        if first.magic > 1 && magic < 2 && (first.has_producer_id() || first.is_transactional()) {
            return Err(LogError::UnsupportedForFormat(format!(
                "idempotent and transactional records need message.format.version 0.11 or later, the topic has format {magic}"
            )));
        }
        let may_stay = first.magic == magic && first.is_message() && source == target;
        if may_stay && source == Codec::None {
            return self.stay_single(&batches, scratch);
        }
        if may_stay && magic == 1 {
            let produced = self.check_message(&batches[0], 0, scratch)?;
            if produced.is_numbered {
                return self.stay_packed(&batches[0], &produced);
            }
        }
        if magic == 2 {
            self.rebuild_batch(&batches, target, scratch)
        } else {
            self.rebuild_messages(&batches, target, scratch)
        }
    }

    fn check_message(
        &self,
        message: &Batch<'_>,
        first_index: usize,
        scratch: &mut Scratch,
    ) -> Result<Produced> {
        let produced = validate_produced(message.bytes, self.limits, scratch)
            .map_err(|error| error.moved_by(message.position))?;
        let records = Records::validated(message.bytes, &produced.validated.header, scratch);
        let validated = &produced.validated;
        check_records(validated, records, first_index, self.config, self.now_ms)?;
        Ok(produced)
    }

    /// Messages that are stored as they are, each with its own offset.
    fn stay_single(&self, batches: &[Batch<'_>], scratch: &mut Scratch) -> Result<Rewritten> {
        let length = batches.iter().map(|batch| batch.bytes.len()).sum();
        let (mut bytes, mut headers) = (Vec::with_capacity(length), Vec::new());
        for (index, batch) in batches.iter().enumerate() {
            self.check_message(batch, index, scratch)?;
            let start = bytes.len();
            bytes.extend_from_slice(batch.bytes);
            let offset = self.first_offset + index as i64;
            let time = self.append_time_ms().filter(|_| batch.header.magic > 0);
            stamp_message(&mut bytes[start..], offset, time);
            headers.push((start, BatchHeader::parse(&bytes[start..])?));
        }
        Ok(Rewritten::Messages(bytes, headers))
    }

    /// A set of format 1 that is stored as it is: only its own offset and timestamp are new.
    fn stay_packed(&self, set: &Batch<'_>, produced: &Produced) -> Result<Rewritten> {
        let mut bytes = set.bytes.to_vec();
        let last_offset =
            self.first_offset + i64::from(produced.validated.header.last_offset_delta);
        stamp_message(&mut bytes, last_offset, self.append_time_ms());
        let max_timestamp = produced.validated.max_timestamp;
        if self.append_time_ms().is_none() && set.header.max_timestamp != max_timestamp {
            set_timestamp(&mut bytes, max_timestamp);
        }
        let header = BatchHeader::parse(&bytes)?;
        Ok(Rewritten::Messages(bytes, vec![(0, header)]))
    }

    fn rebuild_batch(
        &self,
        batches: &[Batch<'_>],
        codec: Codec,
        scratch: &mut Scratch,
    ) -> Result<Rewritten> {
        let first = &batches[0].header;
        let mut builder = BatchBuilder::new(BatchOptions {
            codec,
            producer_id: first.producer_id,
            producer_epoch: first.producer_epoch,
            base_sequence: first.base_sequence,
            transactional: first.is_transactional(),
            control: first.is_control(),
            ..BatchOptions::default()
        });
        let mut headers: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        self.each_record(batches, scratch, |record| {
            headers.clear();
            headers.extend(record.headers.map(owned));
            let borrowed: Vec<Header<'_>> = headers
                .iter()
                .map(|(name, value)| (&name[..], value.as_deref()))
                .collect();
            builder.append(record.timestamp_ms, record.key, record.value, &borrowed)?;
            Ok(())
        })?;
        Ok(Rewritten::Batch(builder.finish()?))
    }

    fn rebuild_messages(
        &self,
        batches: &[Batch<'_>],
        codec: Codec,
        scratch: &mut Scratch,
    ) -> Result<Rewritten> {
        let magic = self.config.message_format;
        let mut builder = MessageBuilder::new(magic, codec, self.append_time_ms())?;
        let mut offset = self.first_offset;
        self.each_record(batches, scratch, |mut record| {
            if record.headers.next().is_some() {
                return Err(LogError::UnsupportedForFormat(format!(
                    "records with headers need message.format.version 0.11 or later, the topic has format {magic}"
                )));
            }
            builder.append(offset, record.timestamp_ms, record.key, record.value)?;
            offset += 1;
            Ok(())
        })?;
        let bytes = builder.finish(&mut Compressor::default());
        let headers = whole_batches(&bytes, self.limits.batch_bytes_max)?
            .iter()
            .map(|batch| (batch.position, batch.header))
            .collect();
        Ok(Rewritten::Messages(bytes, headers))
    }

    /// Hands over every record in order, each batch checked before.
    fn each_record(
        &self,
        batches: &[Batch<'_>],
        scratch: &mut Scratch,
        mut take: impl FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        for (index, batch) in batches.iter().enumerate() {
            let validated = if batch.header.is_message() {
                self.check_message(batch, index, scratch)?.validated
            } else {
                let validated = match self.origin {
                    AppendOrigin::Client => validate_sent(batch.bytes, self.limits, scratch)?,
                    _ => validate(batch.bytes, self.limits, scratch)?,
                };
                let records = Records::validated(batch.bytes, &validated.header, scratch);
                check_records(&validated, records, 0, self.config, self.now_ms)?;
                validated
            };
            let records = Records::validated(batch.bytes, &validated.header, scratch);
            for record in records {
                take(record?)?;
            }
        }
        Ok(())
    }
}

fn owned((name, value): Header<'_>) -> (Vec<u8>, Option<Vec<u8>>) {
    (name.to_vec(), value.map(<[u8]>::to_vec))
}

/// The whole batches of `records`. Bytes at the end that are no whole message are left out, as Kafka does.
fn whole_batches(records: &[u8], batch_bytes_max: usize) -> Result<Vec<Batch<'_>>> {
    let mut batches = Vec::new();
    for batch in Batches::new(records) {
        match batch {
            Ok(batch) if batch.bytes.len() > batch_bytes_max => {
                return Err(LogError::BatchTooLarge {
                    bytes: batch.bytes.len(),
                    bytes_max: batch_bytes_max as u32,
                });
            }
            Ok(batch) => batches.push(batch),
            Err(error) if error.is_incomplete() && !batches.is_empty() => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(batches)
}
