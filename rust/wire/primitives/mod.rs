//! Checked readers and writers of the protocol's basic types.
//!
//! Numbers are big-endian. A text or byte string has its length in front: two or four bytes in the old encoding, -1 for null; in the
//! *compact* encoding of flexible versions (KIP-482) an unsigned varint of length + 1, 0 for null. Arrays count items the same way.
//! A flexible structure ends with tagged fields: their number, then for each tag, size and value; unknown tags are skipped.
//!
//! The reader believes no length: it is compared with what is left before anything is read or allocated, and an array's count with what its
//! items need at least. It hands out ranges into the buffer instead of copies.

mod reader;
mod writer;

pub use reader::{ITEMS_AT_FIRST, ITEMS_MAX, REQUEST_ITEMS_MAX, Reader};
pub use writer::Writer;

/// The longest text, in both encodings: Kafka refuses longer ones even where the length field could say more.
const TEXT_BYTES_MAX: usize = i16::MAX as usize;
