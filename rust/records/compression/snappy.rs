//! Snappy, in two forms that are told apart by their first bytes.
//!
//! The Java client (xerial's snappy-java) and kafka-python write a header and then blocks of at most 32 KiB:
//!
//! | bytes | |
//! |---:|---|
//! | 8 | 82 53 4e 41 50 50 59 00 (`\x82SNAPPY\0`) |
//! | 4 | version, big-endian |
//! | 4 | least version that can read it: 1 |
//! | | per block: length (4 bytes, big-endian), one raw snappy block |
//!
//! librdkafka writes one raw snappy block. Everybody reads both; here the first is written, as old readers know only it.

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::{Codec, ENDS, Output, damaged};
use crate::records::error::RecordError;

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4;
const VERSION: u32 = 1;
const BLOCK_BYTES: usize = 32 << 10;
/// A copy element of three bytes gives at most 64 bytes, and nothing gives more: a block that promises more is refused
/// before memory is taken for it.
const RATIO_MAX: usize = 22;

#[derive(Default)]
pub(super) struct Reader(Decoder);

impl Reader {
    pub fn read(&mut self, packed: &[u8], output: &mut Output<'_>) -> Result<(), RecordError> {
        if !packed.starts_with(&MAGIC) {
            return self.block(packed, 0, output);
        }
        let Some(header) = packed.first_chunk::<HEADER_BYTES>() else {
            return Err(damaged(Codec::Snappy, packed.len(), ENDS));
        };
        let version = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        if version < VERSION {
            return Err(damaged(
                Codec::Snappy,
                MAGIC.len(),
                format_args!("framing version {version}"),
            ));
        }
        let mut at = HEADER_BYTES;
        while at < packed.len() {
            let rest = &packed[at..];
            let (length, rest) = rest
                .split_first_chunk::<4>()
                .ok_or_else(|| damaged(Codec::Snappy, at, ENDS))?;
            // Two packed streams one after the other: Java reads a header where a length would be.
            if *length == MAGIC[..4] && packed[at..].starts_with(&MAGIC) {
                at += HEADER_BYTES;
                continue;
            }
            let length = u32::from_be_bytes(*length) as usize;
            let block = rest.get(..length).ok_or_else(|| {
                damaged(
                    Codec::Snappy,
                    at,
                    format_args!("a block of {length} bytes, {} are left", rest.len()),
                )
            })?;
            self.block(block, at + 4, output)?;
            at += 4 + length;
        }
        Ok(())
    }

    fn block(
        &mut self,
        block: &[u8],
        at: usize,
        output: &mut Output<'_>,
    ) -> Result<(), RecordError> {
        let length = decompress_len(block).map_err(|error| damaged(Codec::Snappy, at, error))?;
        if length > output.room() {
            return Err(output.too_large());
        }
        if length / RATIO_MAX > block.len() {
            let problem = format_args!("{} bytes promise {length}", block.len());
            return Err(damaged(Codec::Snappy, at, problem));
        }
        let start = output.out.len();
        output.extend_by(length);
        let unpacked = self.0.decompress(block, &mut output.out[start..]);
        unpacked
            .map(|_| ())
            .map_err(|error| damaged(Codec::Snappy, at, error))
    }
}

pub(super) struct Writer(Encoder);

impl Default for Writer {
    fn default() -> Self {
        Writer(Encoder::new())
    }
}

impl Writer {
    pub fn write(&mut self, records: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        for block in records.chunks(BLOCK_BYTES) {
            let start = out.len();
            out.resize(start + 4 + max_compress_len(block.len()), 0);
            // Only a short output can make this fail, and this one has the greatest length.
            let length = self.0.compress(block, &mut out[start + 4..]).unwrap_or(0);
            out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
            out.truncate(start + 4 + length);
        }
    }
}
