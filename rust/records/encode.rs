//! Building batches: records are written once into one buffer, the header is put before them at the end.

use super::batch::{
    self, BatchHeader, HEADER_BYTES, LOG_APPEND_TIME, LOG_OVERHEAD_BYTES, MAGIC_V2,
    NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP,
};
use super::compression::{Codec, Compressor};
use super::error::{ErrorKind, RecordError};
use super::varint;

/// A header of a record: a name and a value that may be null.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// The fields of a batch that do not come from its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    pub codec: Codec,
    /// See [`Codec::levels`]; `None` is Kafka's default.
    pub level: Option<i32>,
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub transactional: bool,
    pub control: bool,
    /// The time of the whole batch in milliseconds, for a topic with log append time.
    pub append_time_ms: Option<i64>,
}

impl Default for BatchOptions {
    /// The options of a producer without idempotence: no codec, offset 0, no epochs, no producer.
    fn default() -> Self {
        BatchOptions {
            codec: Codec::None,
            level: None,
            base_offset: 0,
            leader_epoch: -1,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            transactional: false,
            control: false,
            append_time_ms: None,
        }
    }
}

/// The greatest batch: batch_length is a signed 32-bit number.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// Collects records and gives batches, one after the other; memory and codec contexts are kept in between.
///
/// A record that is refused leaves the builder as it was.
#[derive(Default)]
pub struct BatchBuilder {
    pub options: BatchOptions,
    /// Room for the header, then records.
    buffer: Vec<u8>,
    compressor: Compressor,
    record_count: i32,
    last_offset_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl BatchBuilder {
    pub fn new(options: BatchOptions) -> Self {
        BatchBuilder {
            options,
            ..Self::default()
        }
    }

    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// The batch as it would be without compression.
    pub fn size_bytes(&self) -> usize {
        self.buffer.len().max(HEADER_BYTES)
    }

    /// Adds a record at the next offset and gives its offset delta. `timestamp_ms` since 1970, or -1 for none.
    pub fn append(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Result<i32, RecordError> {
        let offset_delta = if self.record_count == 0 {
            0
        } else {
            self.last_offset_delta.saturating_add(1)
        };
        self.append_at(offset_delta, timestamp_ms, key, value, headers)?;
        Ok(offset_delta)
    }

    /// Adds a record at an offset after the last one's (compaction leaves gaps).
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Result<(), RecordError> {
        if offset_delta < 0 || (self.record_count > 0 && offset_delta <= self.last_offset_delta) {
            let problem = format!(
                "{offset_delta} does not come after {}",
                self.last_offset_delta
            );
            return Err(RecordError::invalid(
                "offset_delta",
                self.size_bytes(),
                problem,
            ));
        }
        if timestamp_ms < NO_TIMESTAMP {
            let problem = format!("{timestamp_ms} is before 1970");
            return Err(RecordError::new(
                ErrorKind::InvalidTimestamp,
                "timestamp",
                self.size_bytes(),
                problem,
            ));
        }
        let base_timestamp = if self.record_count == 0 {
            timestamp_ms
        } else {
            self.base_timestamp
        };
        // Modulo 2^64, as `timestamp_of` adds it: from -1 to the last time is further than i64 says.
        let timestamp_delta = timestamp_ms.wrapping_sub(base_timestamp);
        let fields = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len) + 10;
        let upper_bound = headers
            .iter()
            .map(|(key, value)| key.len() + 5 + fields(*value))
            .sum::<usize>()
            + fields(key)
            + fields(value)
            + 32;
        if upper_bound > BATCH_BYTES_MAX - self.size_bytes() {
            let problem = format!(
                "a record of {upper_bound} bytes does not fit in a batch of {BATCH_BYTES_MAX}"
            );
            return Err(RecordError::new(
                ErrorKind::TooLarge,
                "length",
                self.size_bytes(),
                problem,
            ));
        }
        let body_bytes = 1
            + varint::size_i64(timestamp_delta)
            + varint::size_i32(offset_delta)
            + slot_bytes(key)
            + slot_bytes(value)
            + varint::size_i32(headers.len() as i32)
            + headers
                .iter()
                .map(|(key, value)| slot_bytes(Some(key)) + slot_bytes(*value))
                .sum::<usize>();

        self.buffer.resize(self.size_bytes(), 0);
        let out = &mut self.buffer;
        varint::write_i32(out, body_bytes as i32);
        out.push(0); // attributes
        varint::write_i64(out, timestamp_delta);
        varint::write_i32(out, offset_delta);
        write_slot(out, key);
        write_slot(out, value);
        varint::write_i32(out, headers.len() as i32);
        for (key, value) in headers {
            write_slot(out, Some(key));
            write_slot(out, *value);
        }
        self.max_timestamp = if self.record_count == 0 {
            timestamp_ms
        } else {
            self.max_timestamp.max(timestamp_ms)
        };
        self.base_timestamp = base_timestamp;
        self.last_offset_delta = offset_delta;
        self.record_count += 1;
        Ok(())
    }

    /// The batch; the builder is empty again and takes the next one with the same options.
    pub fn finish(&mut self) -> Result<Vec<u8>, RecordError> {
        if self.record_count == 0 {
            return Err(RecordError::invalid(
                "record_count",
                batch::RECORD_COUNT,
                "no record was added",
            ));
        }
        let options = self.options;
        let mut out = if options.codec == Codec::None {
            let next = Vec::with_capacity(self.buffer.len());
            std::mem::replace(&mut self.buffer, next)
        } else {
            let mut out = vec![0; HEADER_BYTES];
            self.compressor.compress(
                options.codec,
                options.level,
                &self.buffer[HEADER_BYTES..],
                &mut out,
            );
            out
        };
        let header = self.header(out.len())?;
        header.write(&mut out);
        batch::set_crc(&mut out);
        self.clear();
        Ok(out)
    }

    /// Forgets the records that were added.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.record_count = 0;
    }

    fn header(&self, size_bytes: usize) -> Result<BatchHeader, RecordError> {
        let options = &self.options;
        let batch_length = i32::try_from(size_bytes - LOG_OVERHEAD_BYTES).map_err(|_| {
            let problem =
                format!("a batch of {size_bytes} bytes, the format ends at {BATCH_BYTES_MAX}");
            RecordError::new(
                ErrorKind::TooLarge,
                "batch_length",
                batch::BATCH_LENGTH,
                problem,
            )
        })?;
        let flag = |set: bool, bit: i16| if set { bit } else { 0 };
        let attributes = options.codec as i16
            | flag(options.append_time_ms.is_some(), LOG_APPEND_TIME)
            | flag(options.transactional, batch::TRANSACTIONAL)
            | flag(options.control, batch::CONTROL);
        Ok(BatchHeader {
            base_offset: options.base_offset,
            batch_length,
            leader_epoch: options.leader_epoch,
            magic: MAGIC_V2,
            crc: 0,
            attributes,
            last_offset_delta: self.last_offset_delta,
            base_timestamp: self.base_timestamp,
            max_timestamp: options.append_time_ms.unwrap_or(self.max_timestamp),
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            record_count: self.record_count,
        })
    }
}

/// Appends a record without headers to `out`, wherever that is from.
pub(super) fn write_plain(
    out: &mut Vec<u8>,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) {
    let body_bytes = 1
        + varint::size_i64(timestamp_delta)
        + varint::size_i32(offset_delta)
        + slot_bytes(key)
        + slot_bytes(value)
        + 1;
    varint::write_i32(out, body_bytes as i32);
    out.push(0); // attributes
    varint::write_i64(out, timestamp_delta);
    varint::write_i32(out, offset_delta);
    write_slot(out, key);
    write_slot(out, value);
    out.push(0); // no headers
}

fn slot_bytes(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| {
        varint::size_i32(bytes.len() as i32) + bytes.len()
    })
}

fn write_slot(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            varint::write_i32(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
        None => varint::write_i32(out, -1),
    }
}
