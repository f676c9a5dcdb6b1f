//! One record of a batch, read where it lies: every length is checked before it is used, nothing is copied.
//!
//! | field | type |
//! |---|---|
//! | length | varint: the bytes that follow it |
//! | attributes | one byte, unused |
//! | timestamp_delta | varlong: to the batch's base_timestamp |
//! | offset_delta | varint: to the batch's base_offset |
//! | key_length, key | varint, bytes; -1 is null |
//! | value_length, value | varint, bytes; -1 is null |
//! | header_count | varint |
//! | per header: header_key_length, header_key | varint, UTF-8 |
//! | header_value_length, header_value | varint, bytes; -1 is null |
//!
//! This runs for every record that is produced (8 ns each is the budget), so there are two readers of the same bytes.
//! `read_usual` takes the usual shape, numbers of one or two bytes, several from one load of eight. It lets a field run past
//! its record: that the last field ends where the record ends is enough to know that all did, since positions only grow.
//! Whatever it does not like it leaves to `read_slowly`, which knows the name and the place of every field.

use std::ops::Range;

use super::error::RecordError;
use super::varint::{self, VarintError};

/// The least that a record can take: its length and six numbers of one byte.
pub const RECORD_BYTES_MIN: usize = 7;

/// Where the parts of one record are in the buffer of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Slot,
    pub value: Slot,
    pub header_count: u32,
    pub headers_start: usize,
    /// Where the next record starts.
    pub end: usize,
}

/// A nullable field: its start and its length, which is negative for null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub start: usize,
    pub length: i32,
}

impl Slot {
    pub fn range(self) -> Option<Range<usize>> {
        usize::try_from(self.length)
            .ok()
            .map(|length| self.start..self.start + length)
    }

    pub fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        self.range().and_then(|range| bytes.get(range))
    }
}

/// Reads the record at `at`. All of its fields are inside `bytes` and inside the record, headers included.
#[inline(always)]
pub fn read(bytes: &[u8], at: usize) -> Result<RawRecord, RecordError> {
    match read_usual(bytes, at) {
        Some(record) => Ok(record),
        None => read_slowly(bytes, at),
    }
}

/// One header of a record whose fields were checked by `read`: key, value, and where the next one starts.
pub fn read_header(bytes: &[u8], at: usize) -> Result<(Slot, Slot, usize), RecordError> {
    let mut fields = Fields {
        bytes,
        at,
        end: bytes.len(),
        limit: "the buffer",
    };
    let key = fields.slot("header_key_length", false)?;
    let value = fields.slot("header_value_length", true)?;
    Ok((key, value, fields.at))
}

// Additions wrap here: a position is less than the buffer's length (each load checks it) plus a 31-bit length, and overflow
// checks would cost as much as the reading.
#[inline(always)]
pub(super) fn read_usual(bytes: &[u8], at: usize) -> Option<RawRecord> {
    let mut head = Word::at(bytes, at)?;
    let length = head.number()?;
    let start = head.at;
    head.skip_byte(); // attributes
    let timestamp_delta = head.timestamp()?;
    let offset_delta = head.number()?;
    let mut rest = Word::at(bytes, head.at)?;
    let key_length = rest.number()?;
    let key_start = rest.at;
    if key_length > 0 {
        rest = Word::at(bytes, key_start.wrapping_add(key_length as usize))?;
    }
    let value_length = rest.number()?;
    let value_start = rest.at;
    let after_value = value_start.wrapping_add(value_length.max(0) as usize);
    let end = start.wrapping_add(length as usize);
    let mut record = RawRecord {
        timestamp_delta,
        offset_delta,
        key: Slot {
            start: key_start,
            length: key_length,
        },
        value: Slot {
            start: value_start,
            length: value_length,
        },
        header_count: 0,
        headers_start: after_value.wrapping_add(1),
        end,
    };
    // A negative length makes an end far outside, which this refuses too.
    if *bytes.get(after_value)? == 0 {
        return (record.headers_start == end).then_some(record);
    }
    (record.header_count, record.headers_start) = skip_headers(bytes, after_value, end)?;
    Some(record)
}

/// The number of headers and where they start, if they end at `end`, inside the buffer.
#[inline(never)]
fn skip_headers(bytes: &[u8], count_at: usize, end: usize) -> Option<(u32, usize)> {
    let (count, start) = varint::read_i32(bytes, count_at).ok()?;
    let count = u32::try_from(count).ok()?;
    let mut at = start;
    for _ in 0..count {
        let (name_length, name_start) = varint::read_i32(bytes, at).ok()?;
        let (value_length, value_start) = varint::read_i32(
            bytes,
            name_start.checked_add(usize::try_from(name_length).ok()?)?,
        )
        .ok()?;
        at = value_start.checked_add(value_length.max(0) as usize)?;
        if at > end {
            return None;
        }
    }
    (at == end && end <= bytes.len()).then_some((count, start))
}

/// Eight bytes, read at once, from which numbers are taken one after the other. `at` is where the next one is.
#[derive(Clone, Copy)]
struct Word {
    bits: u64,
    at: usize,
}

impl Word {
    #[inline(always)]
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let eight = bytes.get(at..)?.first_chunk()?;
        Some(Word {
            bits: u64::from_le_bytes(*eight),
            at,
        })
    }

    #[inline(always)]
    fn skip_byte(&mut self) {
        self.bits >>= 8;
        self.at = self.at.wrapping_add(1);
    }

    /// A signed number of one or two bytes.
    #[inline(always)]
    fn number(&mut self) -> Option<i32> {
        let bits = self.bits as u32;
        if bits & 0x80 == 0 {
            self.skip_byte();
            return Some(varint::unzigzag_i32(bits & 0x7f));
        }
        if bits & 0x8000 == 0 {
            self.bits >>= 16;
            self.at = self.at.wrapping_add(2);
            return Some(varint::unzigzag_i32(bits & 0x7f | bits >> 1 & 0x3f80));
        }
        None
    }

    /// A signed number of one to three bytes: up to 17 minutes.
    #[inline(always)]
    fn timestamp(&mut self) -> Option<i64> {
        let bits = self.bits as u32;
        if bits & 0x80_8080 == 0x8080 {
            self.bits >>= 24;
            self.at = self.at.wrapping_add(3);
            let raw = bits & 0x7f | bits >> 1 & 0x3f80 | bits >> 2 & 0x1f_c000;
            return Some(varint::unzigzag_i64(u64::from(raw)));
        }
        self.number().map(i64::from)
    }
}

#[cold]
#[inline(never)]
pub(super) fn read_slowly(bytes: &[u8], at: usize) -> Result<RawRecord, RecordError> {
    let mut fields = Fields {
        bytes,
        at,
        end: bytes.len(),
        limit: "the batch",
    };
    let length = fields.number("length")?;
    let rest_bytes = bytes.len() - fields.at;
    match usize::try_from(length) {
        Ok(length) if length <= rest_bytes => fields.end = fields.at + length,
        Ok(_) => {
            return Err(RecordError::invalid(
                "length",
                at,
                format!("{length} bytes, {rest_bytes} are left"),
            ));
        }
        Err(_) => {
            return Err(RecordError::invalid(
                "length",
                at,
                format!("{length} is negative"),
            ));
        }
    }
    fields.limit = "the record";
    fields.skip("attributes", 1)?;
    let timestamp_at = fields.at;
    let (timestamp_delta, next) = varint::read_i64(&bytes[..fields.end], timestamp_at)
        .map_err(|error| fields.bad_number("timestamp_delta", timestamp_at, error))?;
    fields.at = next;
    let offset_delta = fields.number("offset_delta")?;
    let key = fields.slot("key_length", true)?;
    let value = fields.slot("value_length", true)?;
    let count_at = fields.at;
    let count = fields.number("header_count")?;
    let left = fields.end - fields.at;
    // A header takes at least two bytes, so a count that cannot be is known before any header is read.
    let header_count = match u32::try_from(count) {
        Ok(count) if count as usize <= left / 2 => count,
        Ok(_) => {
            let problem = format!("{count} headers cannot be in the {left} bytes that are left");
            return Err(RecordError::invalid("header_count", count_at, problem));
        }
        Err(_) => {
            return Err(RecordError::invalid(
                "header_count",
                count_at,
                format!("{count} is negative"),
            ));
        }
    };
    let headers_start = fields.at;
    for _ in 0..header_count {
        fields.slot("header_key_length", false)?;
        fields.slot("header_value_length", true)?;
    }
    if fields.at != fields.end {
        let problem = format!(
            "{length} bytes, but the fields take {} fewer",
            fields.end - fields.at
        );
        return Err(RecordError::invalid("length", at, problem));
    }
    Ok(RawRecord {
        timestamp_delta,
        offset_delta,
        key,
        value,
        header_count,
        headers_start,
        end: fields.end,
    })
}

/// Reads fields one after the other up to `end`, and says which one does not fit.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    limit: &'static str,
}

impl Fields<'_> {
    fn number(&mut self, field: &'static str) -> Result<i32, RecordError> {
        let at = self.at;
        let (number, next) = varint::read_i32(&self.bytes[..self.end], at)
            .map_err(|error| self.bad_number(field, at, error))?;
        self.at = next;
        Ok(number)
    }

    fn bad_number(&self, field: &'static str, at: usize, error: VarintError) -> RecordError {
        match error {
            VarintError::Ends => {
                RecordError::invalid(field, at, format!("{} ends inside the number", self.limit))
            }
            VarintError::TooLong => RecordError::invalid(field, at, error.problem()),
        }
    }

    fn skip(&mut self, field: &'static str, length: usize) -> Result<(), RecordError> {
        let left = self.end - self.at;
        if length > left {
            let problem = format!("{length} bytes, {left} are left in {}", self.limit);
            return Err(RecordError::invalid(field, self.at, problem));
        }
        self.at += length;
        Ok(())
    }

    /// A length and as many bytes. Null is any negative length, as Kafka reads it.
    fn slot(&mut self, field: &'static str, nullable: bool) -> Result<Slot, RecordError> {
        let at = self.at;
        let length = self.number(field)?;
        let start = self.at;
        match usize::try_from(length) {
            Ok(size) => {
                let left = self.end - start;
                if size > left {
                    let problem = format!("{length} bytes, {left} are left in {}", self.limit);
                    return Err(RecordError::invalid(field, at, problem));
                }
                self.at += size;
            }
            Err(_) if nullable => {}
            Err(_) => {
                return Err(RecordError::invalid(
                    field,
                    at,
                    format!("{length} is negative"),
                ));
            }
        }
        Ok(Slot { start, length })
    }
}
