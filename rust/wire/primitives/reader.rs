//! Reading, with every length checked before it is used.

use std::ops::Range;

use super::TEXT_BYTES_MAX;
use crate::wire::error::{Fault, Problem, WireError};

/// The longest form of a 32-bit varint.
const VARINT_BYTES_MAX: usize = 5;

/// The most array items of one message, in all its arrays together. An item of two bytes becomes an object of fifty: without this a frame
/// of 100 MB could ask for gigabytes. A cluster's 200,000 partitions with three replicas each take 1.4 million.
pub const ITEMS_MAX: usize = 4_000_000;
/// The same for a client's request: each of 200,000 partitions once, in a topic of its own.
pub const REQUEST_ITEMS_MAX: usize = 400_000;
/// Items for which there is room at first, however many are announced.
pub const ITEMS_AT_FIRST: usize = 1000;

#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    items_left: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::bounded(bytes, ITEMS_MAX)
    }

    /// A reader of a message with at most so many array items.
    pub fn bounded(bytes: &'a [u8], items_max: usize) -> Self {
        Self {
            bytes,
            position: 0,
            items_left: items_max,
        }
    }

    /// A reader of items that were counted before, from `position` on.
    pub fn again(bytes: &'a [u8], position: usize) -> Self {
        Self {
            bytes,
            position: position.min(bytes.len()),
            items_left: usize::MAX,
        }
    }

    /// A reader of another part of the same message goes on with what this one has left of the message's items.
    pub fn follow(&mut self, earlier: &Reader<'_>) {
        self.items_left = earlier.items_left;
    }

    /// How many more array items the message may have.
    pub fn items_left(&self) -> usize {
        self.items_left
    }

    /// Goes on at `position`: what is before it was checked.
    pub fn pass_to(&mut self, position: usize) {
        self.position = position.min(self.bytes.len());
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The whole buffer: what the ranges of this reader point into.
    pub fn buffer(&self) -> &'a [u8] {
        self.bytes
    }

    fn fault<T>(&self, problem: Problem) -> Result<T, Fault> {
        Err(Fault {
            position: self.position,
            problem,
        })
    }

    /// The next `length` bytes as a range of the buffer.
    pub fn range(&mut self, length: usize) -> Result<Range<usize>, Fault> {
        if length > self.left() {
            return self.fault(Problem::Truncated {
                needed: length,
                left: self.left(),
            });
        }
        let start = self.position;
        self.position += length;
        Ok(start..self.position)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        match self.bytes[self.position..].first_chunk::<N>() {
            Some(chunk) => {
                self.position += N;
                Ok(*chunk)
            }
            None => self.fault(Problem::Truncated {
                needed: N,
                left: self.left(),
            }),
        }
    }

    pub fn bool(&mut self) -> Result<bool, Fault> {
        Ok(self.i8()? != 0)
    }

    pub fn i8(&mut self) -> Result<i8, Fault> {
        self.fixed().map(i8::from_be_bytes)
    }

    pub fn i16(&mut self) -> Result<i16, Fault> {
        self.fixed().map(i16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, Fault> {
        self.fixed().map(i32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, Fault> {
        self.fixed().map(i64::from_be_bytes)
    }

    pub fn f64(&mut self) -> Result<f64, Fault> {
        self.fixed().map(f64::from_be_bytes)
    }

    pub fn uuid(&mut self) -> Result<[u8; 16], Fault> {
        self.fixed()
    }

    /// An unsigned varint of at most 32 bits.
    pub fn uvarint(&mut self) -> Result<u32, Fault> {
        let start = self.position;
        let mut value = 0u64;
        for index in 0..VARINT_BYTES_MAX {
            let byte = match self.bytes.get(start + index) {
                Some(byte) => *byte,
                None => {
                    return self.fault(Problem::Truncated {
                        needed: index + 1,
                        left: self.left(),
                    });
                }
            };
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return match u32::try_from(value) {
                    Ok(value) => {
                        self.position = start + index + 1;
                        Ok(value)
                    }
                    Err(_) => self.fault(Problem::Other("the number needs more than 32 bits")),
                };
            }
        }
        self.fault(Problem::EndlessVarint(VARINT_BYTES_MAX))
    }

    /// A length of either encoding; `wide` is the old encoding's four bytes instead of two. None is null.
    fn length(&mut self, flexible: bool, wide: bool) -> Result<Option<usize>, Fault> {
        let start = self.position;
        let length = if flexible {
            i64::from(self.uvarint()?) - 1
        } else if wide {
            i64::from(self.i32()?)
        } else {
            i64::from(self.i16()?)
        };
        if length >= 0 {
            return Ok(Some(length as usize));
        }
        if length == -1 {
            return Ok(None);
        }
        self.position = start;
        self.fault(Problem::NegativeLength(length))
    }

    fn counted(&mut self, flexible: bool, wide: bool) -> Result<Option<Range<usize>>, Fault> {
        let start = self.position;
        let Some(length) = self.length(flexible, wide)? else {
            return Ok(None);
        };
        if !wide && length > TEXT_BYTES_MAX {
            self.position = start;
            return self.fault(Problem::Other("the text is longer than 32,767 bytes"));
        }
        // The fault belongs to the field, which begins at its length.
        self.range(length).map(Some).map_err(|fault| Fault {
            position: start,
            ..fault
        })
    }

    /// Text, not yet looked at; None is null.
    pub fn text(&mut self, flexible: bool) -> Result<Option<Range<usize>>, Fault> {
        self.counted(flexible, false)
    }

    /// Text that is UTF-8; None is null.
    pub fn string(&mut self, flexible: bool) -> Result<Option<&'a str>, Fault> {
        let start = self.position;
        match self.counted(flexible, false)? {
            None => Ok(None),
            Some(range) => match std::str::from_utf8(&self.bytes[range]) {
                Ok(text) => Ok(Some(text)),
                Err(_) => {
                    self.position = start;
                    self.fault(Problem::NotUtf8)
                }
            },
        }
    }

    /// The range of text that is UTF-8; None is null.
    pub fn name_or_null(&mut self, flexible: bool) -> Result<Option<Range<usize>>, Fault> {
        let length = self.string(flexible)?.map(str::len);
        Ok(length.map(|length| self.position - length..self.position))
    }

    /// The range of text that is UTF-8 and not null.
    pub fn name(&mut self, flexible: bool) -> Result<Range<usize>, Fault> {
        let start = self.position;
        self.name_or_null(flexible)?.ok_or(Fault {
            position: start,
            problem: Problem::Null,
        })
    }

    /// Byte strings and records; None is null.
    pub fn bytes(&mut self, flexible: bool) -> Result<Option<Range<usize>>, Fault> {
        self.counted(flexible, true)
    }

    /// An array's number of items, which fit into what is left if each takes `item_bytes_min`; None is null.
    pub fn array(&mut self, flexible: bool, item_bytes_min: usize) -> Result<Option<usize>, Fault> {
        let start = self.position;
        let count = self.length(flexible, true)?;
        if let Some(count) = count {
            let left = self.left();
            if count > left / item_bytes_min.max(1) {
                self.position = start;
                return self.fault(Problem::TooManyItems { count, left });
            }
            match self.items_left.checked_sub(count) {
                Some(items_left) => self.items_left = items_left,
                None => {
                    self.position = start;
                    return self.fault(Problem::Other("a message may not have so many items"));
                }
            }
        }
        Ok(count)
    }

    /// The same, where null is not allowed.
    pub fn items(&mut self, flexible: bool, item_bytes_min: usize) -> Result<usize, Fault> {
        let start = self.position;
        self.array(flexible, item_bytes_min)?.ok_or(Fault {
            position: start,
            problem: Problem::Null,
        })
    }

    /// Reads tagged fields and hands each one's tag and a reader of its bytes to `visit`; positions stay those of the whole buffer.
    pub fn tagged(
        &mut self,
        mut visit: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, WireError>,
    ) -> Result<(), WireError> {
        let named = |fault: Fault| fault.named("tagged fields");
        for _ in 0..self.uvarint().map_err(named)? {
            let tag = self.uvarint().map_err(named)?;
            let size = self.uvarint().map_err(named)? as usize;
            let range = self.range(size).map_err(named)?;
            let mut value = Reader {
                bytes: &self.bytes[..range.end],
                position: range.start,
                items_left: self.items_left,
            };
            let known = visit(tag, &mut value)?;
            self.follow(&value);
            if known && value.left() != 0 {
                let actual = size - value.left();
                return Err(Fault {
                    position: range.start,
                    problem: Problem::TagSize {
                        declared: size,
                        actual,
                    },
                }
                .named(format!("tag {tag}")));
            }
        }
        Ok(())
    }

    /// Skips tagged fields of which none is known, if they are no more than `fields_max` and `bytes_max`.
    pub fn skip_few_tagged(&mut self, fields_max: u32, bytes_max: usize) -> Result<(), WireError> {
        let named = |position, reason| {
            let problem = Problem::Other(reason);
            Fault { position, problem }.named("tagged fields")
        };
        let start = self.position;
        let mut counting = self.clone();
        let count = counting
            .uvarint()
            .map_err(|fault| fault.named("tagged fields"))?;
        if count > fields_max {
            return Err(named(
                start,
                "there are more of them than a header may have",
            ));
        }
        self.skip_tagged()?;
        if self.position - start > bytes_max {
            return Err(named(start, "they are larger than a header may have them"));
        }
        Ok(())
    }

    /// Skips tagged fields of which none is known.
    pub fn skip_tagged(&mut self) -> Result<(), WireError> {
        self.tagged(|_, _| Ok(false))
    }
}
