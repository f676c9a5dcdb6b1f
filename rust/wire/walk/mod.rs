//! Encoding and decoding along a plan (schema.rs), for whatever the values are: Python objects in rust/py, a plain enum in the tests.
//!
//! Decoding keeps all unfinished values on one stack: a structure or an array is built from the top of it, so that nothing is allocated per
//! structure. Errors are named on their way out: the innermost field first, then `partitions[3]` and so on; the happy path never touches a name.

mod decode;
mod encode;

pub use decode::{decode, decode_counted, decode_items};
pub use encode::{encode, encode_items};

use std::ops::Range;
use std::sync::Arc;
use std::vec::Drain;

use super::error::WireError;
use super::schema::Op;

/// An error that can be told where it happened.
pub trait Inside: From<WireError> {
    fn inside(self, outer: &str, index: Option<usize>) -> Self;
}

impl Inside for WireError {
    fn inside(self, outer: &str, index: Option<usize>) -> Self {
        WireError::inside(self, outer, index)
    }
}

/// Where the items of an array with many of them begin and end: they need not be checked again to be passed over.
#[derive(Clone, Copy, Debug)]
pub struct Long {
    pub position: usize,
    pub end: usize,
}

/// From so many items on an array is long.
pub const LONG_ITEMS: usize = 1_000;

/// Makes values out of what is decoded.
pub trait Build {
    type Value;
    type Error: Inside;

    fn null(&mut self) -> Self::Value;
    fn bool(&mut self, value: bool) -> Self::Value;
    fn int(&mut self, value: i64) -> Result<Self::Value, Self::Error>;
    fn float(&mut self, value: f64) -> Self::Value;
    fn text(&mut self, value: &str) -> Self::Value;
    /// Byte strings, and the 16 bytes of a UUID.
    fn bytes(&mut self, value: &[u8]) -> Self::Value;
    /// Record data: a range of the message.
    fn records(&mut self, range: Range<usize>) -> Result<Self::Value, Self::Error>;
    fn list(&mut self, items: Drain<'_, Self::Value>) -> Result<Self::Value, Self::Error>;
    /// An empty list in place of `count` items that begin at `position`, if they are to be decoded
    /// later, by `decode_items`: then they are only checked now.
    fn later(
        &mut self,
        _item: &Arc<Op>,
        _position: usize,
        _count: usize,
    ) -> Result<Option<Self::Value>, Self::Error> {
        Ok(None)
    }
    /// Does the work of checking so many items, which builds nothing: perhaps without what building needs.
    fn apart<R: Send>(&mut self, _items: usize, work: impl FnOnce() -> R + Send) -> R {
        work()
    }
    /// The long arrays that were met while items were checked.
    fn met(&mut self, _long: Vec<Long>) {}
    /// Where the array ends whose items begin at `position`, if that is known from an earlier check.
    fn end_of(&self, _position: usize) -> Option<usize> {
        None
    }
    /// A structure from the values of all its slots.
    fn structure(
        &mut self,
        id: usize,
        fields: Drain<'_, Self::Value>,
    ) -> Result<Self::Value, Self::Error>;
    /// The value of a slot that the version lacks or the sender left out.
    fn default(&mut self, id: usize, slot: usize) -> Result<Self::Value, Self::Error>;
}

/// A value to encode.
pub trait Take: Sized {
    type Error: Inside;

    /// The value of a slot of a structure.
    fn field(&self, id: usize, slot: usize) -> Result<Self, Self::Error>;
    fn is_null(&self) -> bool;
    fn is_default(&self, id: usize, slot: usize) -> Result<bool, Self::Error>;
    fn bool(&self) -> Result<bool, Self::Error>;
    fn int(&self) -> Result<i64, Self::Error>;
    fn float(&self) -> Result<f64, Self::Error>;
    fn text<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error>;
    fn bytes<R>(&self, use_it: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error>;
    fn count(&self) -> Result<usize, Self::Error>;
    fn item(&self, index: usize) -> Result<Self, Self::Error>;
    /// True if the `count` items of this list are encoded later, by `encode_items`: they belong at
    /// `position` of what is written.
    fn is_later(&self, _item: &Arc<Op>, _position: usize, _count: usize) -> bool {
        false
    }
}

/// An error of a value itself, or of an item of the array that the value is.
enum ValueError<E> {
    Here(E),
    Item(E, usize),
}

impl<E> From<E> for ValueError<E> {
    fn from(error: E) -> Self {
        ValueError::Here(error)
    }
}

impl<E: Inside> ValueError<E> {
    /// With the name of the field it is in; an array's own error has its index in front already.
    fn named(self, field: &str) -> E {
        match self {
            ValueError::Here(error) => error.inside(field, None),
            ValueError::Item(error, index) => error.inside(field, Some(index)),
        }
    }

    fn into_inner(self) -> E {
        match self {
            ValueError::Here(error) => error,
            ValueError::Item(error, index) => error.inside("", Some(index)),
        }
    }
}
