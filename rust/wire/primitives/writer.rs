//! Writing.

use super::TEXT_BYTES_MAX;
use crate::wire::error::Problem;

/// Appends to a vector; what does not fit its length field is an error that the caller names with the field.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
        }
    }

    /// Goes on at the end of `bytes`.
    pub fn over(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn bool(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    pub fn i8(&mut self, value: i8) {
        self.raw(&value.to_be_bytes());
    }

    pub fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    pub fn f64(&mut self, value: f64) {
        self.raw(&value.to_be_bytes());
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn length(&mut self, flexible: bool, wide: bool, length: Option<usize>) -> Result<(), Problem> {
        let max = if wide {
            i32::MAX as usize - 1
        } else {
            TEXT_BYTES_MAX
        };
        match length {
            Some(length) if length > max => {
                return Err(Problem::Other("too long for its length field"));
            }
            Some(length) if flexible => self.uvarint(length as u32 + 1),
            None if flexible => self.uvarint(0),
            Some(length) if wide => self.i32(length as i32),
            None if wide => self.i32(-1),
            Some(length) => self.i16(length as i16),
            None => self.i16(-1),
        }
        Ok(())
    }

    /// Text; None is null.
    pub fn text(&mut self, flexible: bool, text: Option<&[u8]>) -> Result<(), Problem> {
        self.length(flexible, false, text.map(<[u8]>::len))?;
        self.raw(text.unwrap_or_default());
        Ok(())
    }

    /// Byte strings and records; None is null.
    pub fn bytes(&mut self, flexible: bool, bytes: Option<&[u8]>) -> Result<(), Problem> {
        self.bytes_length(flexible, bytes.map(<[u8]>::len))?;
        self.raw(bytes.unwrap_or_default());
        Ok(())
    }

    /// The length of a byte string that is sent from elsewhere.
    pub fn bytes_length(&mut self, flexible: bool, length: Option<usize>) -> Result<(), Problem> {
        self.length(flexible, true, length)
    }

    /// The number of an array's items.
    pub fn array(&mut self, flexible: bool, count: Option<usize>) -> Result<(), Problem> {
        self.length(flexible, true, count)
    }

    /// The number of the items of an array that is in memory: it always fits.
    pub fn count(&mut self, flexible: bool, count: usize) {
        debug_assert!(count < i32::MAX as usize);
        let _ = self.array(flexible, Some(count));
    }

    /// Text that is cut (between characters) if it does not fit its length field: names that came in by the same length field, and messages.
    pub fn clipped(&mut self, flexible: bool, text: Option<&[u8]>) {
        let mut text = text;
        if let Some(long) = text.filter(|text| text.len() > TEXT_BYTES_MAX) {
            let mut end = TEXT_BYTES_MAX;
            while end > 0 && long[end] & 0xC0 == 0x80 {
                end -= 1;
            }
            text = Some(&long[..end]);
        }
        let _ = self.text(flexible, text);
    }

    /// The end of a flexible structure that has no tagged field to say.
    pub fn no_tagged(&mut self, flexible: bool) {
        if flexible {
            self.bytes.push(0);
        }
    }
}
