//! The codecs of a batch: its records are compressed as one block.
//!
//! Reading is bounded: output grows with what was really unpacked, never with what a header promises, and stops at the
//! caller's limit, so that a bomb costs at most that limit. Contexts and tables are kept from call to call (a zstd context
//! is 100 KB to build, more than most batches are to unpack). What each codec writes is what the Java client writes, and what
//! it reads is no more than the Java client reads: a broker that took more would store what consumers cannot read.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use super::error::{ErrorKind, RecordError};

/// A codec by its number in the attributes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Codec {
    pub const ALL: [Codec; 5] = [
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ];

    pub fn from_id(id: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| *codec as i8 == id)
    }

    /// The name in Kafka's settings (`compression.type`).
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// The levels that the codec knows, and the one that Kafka uses if none is said. Empty without levels (lz4's are only
    /// accepted, as the writer here has one speed).
    pub fn levels(self) -> Option<(std::ops::RangeInclusive<i32>, i32)> {
        match self {
            Codec::None | Codec::Snappy => None,
            Codec::Gzip => Some((1..=9, gzip::LEVEL_DEFAULT)),
            Codec::Lz4 => Some((1..=17, 9)),
            Codec::Zstd => Some((zstd::LEVEL_MIN..=zstd::LEVEL_MAX, zstd::LEVEL_DEFAULT)),
        }
    }
}

/// Unpacks the records of batches, one after the other. One per thread.
#[derive(Default)]
pub struct Decompressor {
    gzip: Option<gzip::Reader>,
    lz4: lz4::Reader,
    zstd: Option<zstd::Reader>,
    snappy: snappy::Reader,
}

impl Decompressor {
    /// Appends what `packed` unpacks to, at most `bytes_max` bytes; more is a `TooLarge` error. After an error `out` holds
    /// some part. Positions in errors count in `packed`.
    pub fn decompress(
        &mut self,
        codec: Codec,
        packed: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        let mut output = Output {
            start: out.len(),
            out,
            bytes_max,
        };
        match codec {
            Codec::None => output.append(packed),
            Codec::Gzip => self.gzip.get_or_insert_default().read(packed, &mut output),
            Codec::Snappy => self.snappy.read(packed, &mut output),
            Codec::Lz4 => self.lz4.read(packed, &mut output, lz4::Checksum::Right),
            Codec::Zstd => zstd::read(&mut self.zstd, packed, &mut output),
        }
    }

    /// The same for a message set: the lz4 frames of format 0 have a wrong checksum (KAFKA-3160), which is not looked at.
    pub fn decompress_set(
        &mut self,
        codec: Codec,
        magic: i8,
        packed: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        if codec != Codec::Lz4 || magic > 0 {
            return self.decompress(codec, packed, bytes_max, out);
        }
        let mut output = Output {
            start: out.len(),
            out,
            bytes_max,
        };
        self.lz4.read(packed, &mut output, lz4::Checksum::Any)
    }
}

/// Packs the records of batches, one after the other. One per thread.
#[derive(Default)]
pub struct Compressor {
    gzip: Option<gzip::Writer>,
    lz4: lz4::Writer,
    snappy: snappy::Writer,
    zstd: Option<zstd::Writer>,
}

impl Compressor {
    /// Appends `records` packed. `level` is one of [`Codec::levels`] (nearest if outside), or the default.
    pub fn compress(
        &mut self,
        codec: Codec,
        level: Option<i32>,
        records: &[u8],
        out: &mut Vec<u8>,
    ) {
        let level = codec.levels().map_or(0, |(known, default)| {
            level.map_or(default, |level| level.clamp(*known.start(), *known.end()))
        });
        match codec {
            Codec::None => out.extend_from_slice(records),
            Codec::Gzip => gzip::Writer::write(&mut self.gzip, level, records, out),
            Codec::Snappy => self.snappy.write(records, out),
            Codec::Lz4 => self.lz4.write(records, lz4::Checksum::Right, out),
            Codec::Zstd => self.zstd.get_or_insert_default().write(level, records, out),
        }
    }

    /// Appends the messages of a set packed, as old consumers expect them.
    pub fn compress_set(&mut self, codec: Codec, magic: i8, messages: &[u8], out: &mut Vec<u8>) {
        match codec {
            Codec::Lz4 if magic == 0 => self.lz4.write(messages, lz4::Checksum::Any, out),
            codec => self.compress(codec, None, messages, out),
        }
    }
}

/// A vector that grows up to a limit.
struct Output<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    bytes_max: usize,
}

/// The least by which an output grows.
const STEP_BYTES: usize = 16 << 10;

impl Output<'_> {
    /// How many more bytes may come.
    fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.out.len() - self.start)
    }

    /// Makes some spare capacity, about `hint_bytes` the first time and then doubling, but never more than one byte past
    /// the limit: a decoder needs that byte to tell "exactly full" from "more to come".
    fn grow(&mut self, hint_bytes: usize) -> Result<(), RecordError> {
        if self.out.len() - self.start > self.bytes_max {
            return Err(self.too_large());
        }
        if self.out.len() == self.out.capacity() {
            self.reserve(hint_bytes.max(STEP_BYTES).min(self.room() + 1));
        }
        Ok(())
    }

    /// Makes room for at least `bytes` (which the caller found to be in the limit), doubling inside the limit.
    fn reserve(&mut self, bytes: usize) {
        if self.out.capacity() - self.out.len() < bytes {
            let doubled = self.out.len() - self.start;
            self.out
                .reserve_exact(doubled.min(self.room() + 1).max(bytes));
        }
    }

    /// Appends zeros for a decoder to write over.
    fn extend_by(&mut self, bytes: usize) {
        self.reserve(bytes);
        self.out.resize(self.out.len() + bytes, 0);
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), RecordError> {
        if bytes.len() > self.room() {
            return Err(self.too_large());
        }
        self.reserve(bytes.len());
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn too_large(&self) -> RecordError {
        too_large(self.bytes_max)
    }
}

#[cold]
fn too_large(bytes_max: usize) -> RecordError {
    let problem = format!("they decompress to more than the limit of {bytes_max} bytes");
    RecordError::new(ErrorKind::TooLarge, "records", 0, problem)
}

/// Damage in compressed bytes. The checksum of the batch was right (or is not asked for), so the writer is at fault.
#[cold]
fn damaged(codec: Codec, position: usize, problem: impl std::fmt::Display) -> RecordError {
    RecordError::invalid("records", position, format!("{}: {problem}", codec.name()))
}

const ENDS: &str = "the bytes end too early";

#[cfg(test)]
mod tests;
