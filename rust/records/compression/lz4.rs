//! LZ4 frames (lz4_Frame_format.md, version 1), the part of them that Kafka's Java client knows.
//!
//! | bytes | |
//! |---:|---|
//! | 4 | 04 22 4d 18 |
//! | 1 | FLG: bits 6-7 version 1; 5 blocks are independent; 4 block checksums; 3 content size; 2 content checksum; 0-1 zero |
//! | 1 | BD: bits 4-6 greatest block: 4 = 64 KiB, 5 = 256 KiB, 6 = 1 MiB, 7 = 4 MiB; others zero |
//! | 8 | content size, if FLG says so |
//! | 1 | second byte of XXH32 of the descriptor (FLG to content size) |
//! | | per block: length (4 bytes, little-endian, top bit: stored as is), bytes, XXH32 of them if FLG says so |
//! | 4 | 0: the end |
//! | 4 | XXH32 of the content, if FLG says so |
//!
//! The Java client throws at blocks that depend on each other, so a batch that has them is refused before it is stored for
//! consumers that cannot read it. It ignores content size and content checksum; librdkafka checks both, so they are
//! checked here. Written: independent blocks of 64 KiB, no checksums, no content size.
//!
//! In messages of format 0 the checksum of the descriptor is taken over the magic too, which is wrong, and which old consumers expect
//! (KAFKA-3160). It is written so there, and not looked at.

use lz4::block::{compress_bound, compress_to_buffer, decompress_to_buffer};
use twox_hash::XxHash32;

use super::{Codec, ENDS, Output, damaged};
use crate::records::error::RecordError;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Version 1, independent blocks; blocks of 64 KiB.
const DESCRIPTOR: [u8; 2] = [0x60, 0x40];
/// The second byte of XXH32 of the descriptor, and what format 0 has instead.
const CHECKSUM: u8 = 0x82;
const CHECKSUM_V0: u8 = 0x1a;
const BLOCK_BYTES: usize = 64 << 10;
/// A block of this size needs memory of its own: clients write smaller ones.
const BLOCK_BYTES_KEPT_MAX: usize = 1 << 20;
const STORED: u32 = 1 << 31;
/// A byte of a match length adds at most 255.
const RATIO_MAX: usize = 255;

/// The checksum of the descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksum {
    Right,
    /// That of format 0, or the right one.
    Any,
}

/// Keeps the memory that blocks are unpacked in. Appended from there they cost one copy; unpacked where they belong, they would need zeros in as
/// much room as a block can take, which is far more than most have.
#[derive(Default)]
pub(super) struct Reader {
    block: Vec<u8>,
}

impl Reader {
    pub fn read(
        &mut self,
        packed: &[u8],
        output: &mut Output<'_>,
        checksum: Checksum,
    ) -> Result<(), RecordError> {
        let mut input = Input { packed, at: 0 };
        let frame = Frame::read(&mut input, checksum)?;
        let start = output.out.len();
        loop {
            let at = input.at;
            let word = u32::from_le_bytes(input.take()?);
            if word == 0 {
                break;
            }
            let length = (word & !STORED) as usize;
            if length > frame.block_bytes_max {
                let problem = format_args!(
                    "a block of {length} bytes, the greatest is {}",
                    frame.block_bytes_max
                );
                return Err(damaged(Codec::Lz4, at, problem));
            }
            let block = input.slice(length)?;
            if word & STORED != 0 {
                output.append(block)?;
            } else {
                self.read_block(block, at, frame.block_bytes_max, output)?;
            }
            if frame.block_checksums
                && u32::from_le_bytes(input.take()?) != XxHash32::oneshot(0, block)
            {
                return Err(damaged(
                    Codec::Lz4,
                    at,
                    "the checksum of the block is wrong",
                ));
            }
        }
        let content = &output.out[start..];
        if frame
            .content_bytes
            .is_some_and(|bytes| bytes != content.len() as u64)
        {
            return Err(damaged(Codec::Lz4, input.at, "the content size is wrong"));
        }
        if frame.content_checksum
            && u32::from_le_bytes(input.take()?) != XxHash32::oneshot(0, content)
        {
            return Err(damaged(
                Codec::Lz4,
                input.at,
                "the checksum of the content is wrong",
            ));
        }
        Ok(())
    }

    fn read_block(
        &mut self,
        block: &[u8],
        at: usize,
        block_bytes_max: usize,
        output: &mut Output<'_>,
    ) -> Result<(), RecordError> {
        let greatest = block_bytes_max.min(block.len().saturating_mul(RATIO_MAX));
        let room = greatest.min(output.room());
        if self.block.len() < room {
            self.block.resize(room, 0);
        }
        let appended = match unpack(block, &mut self.block[..room]) {
            Some(length) => output.append(&self.block[..length]),
            None if room < greatest && unpack(block, &mut vec![0; greatest]).is_some() => {
                Err(output.too_large())
            }
            None => {
                let problem =
                    format_args!("the block is invalid, or of more than {greatest} bytes");
                Err(damaged(Codec::Lz4, at, problem))
            }
        };
        if self.block.len() > BLOCK_BYTES_KEPT_MAX {
            self.block = Vec::new();
        }
        appended
    }
}

/// The length of what a block was unpacked to; None if it is invalid or does not fit, which the library does not tell apart.
fn unpack(block: &[u8], into: &mut [u8]) -> Option<usize> {
    let room = i32::try_from(into.len()).ok()?;
    decompress_to_buffer(block, Some(room), into).ok()
}

struct Frame {
    block_bytes_max: usize,
    block_checksums: bool,
    content_checksum: bool,
    content_bytes: Option<u64>,
}

impl Frame {
    fn read(input: &mut Input<'_>, checksum: Checksum) -> Result<Self, RecordError> {
        if input.take()? != MAGIC {
            return Err(damaged(Codec::Lz4, 0, "not a frame"));
        }
        let start = input.at;
        let [flags, block] = input.take()?;
        if flags >> 6 != 1 {
            return Err(damaged(
                Codec::Lz4,
                start,
                format_args!("version {} is unknown", flags >> 6),
            ));
        }
        if flags & 0x20 == 0 {
            return Err(damaged(
                Codec::Lz4,
                start,
                "the blocks depend on each other; clients read only independent ones",
            ));
        }
        if flags & 0x03 != 0 || block & 0x8f != 0 || block >> 4 < 4 {
            return Err(damaged(
                Codec::Lz4,
                start,
                format_args!("the descriptor {flags:#04x} {block:#04x} is invalid"),
            ));
        }
        let content_bytes = if flags & 0x08 != 0 {
            Some(u64::from_le_bytes(input.take()?))
        } else {
            None
        };
        let hash = XxHash32::oneshot(0, &input.packed[start..input.at]);
        if input.take()? != [(hash >> 8) as u8] && checksum == Checksum::Right {
            return Err(damaged(
                Codec::Lz4,
                start,
                "the checksum of the descriptor is wrong",
            ));
        }
        Ok(Frame {
            block_bytes_max: 1 << (2 * (block >> 4) + 8),
            block_checksums: flags & 0x10 != 0,
            content_checksum: flags & 0x04 != 0,
            content_bytes,
        })
    }
}

struct Input<'a> {
    packed: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn slice(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let rest = &self.packed[self.at..];
        let taken = rest
            .get(..length)
            .ok_or_else(|| damaged(Codec::Lz4, self.packed.len(), ENDS))?;
        self.at += length;
        Ok(taken)
    }

    fn take<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], RecordError> {
        let taken = self.packed[self.at..]
            .first_chunk()
            .ok_or_else(|| damaged(Codec::Lz4, self.packed.len(), ENDS))?;
        self.at += SIZE;
        Ok(*taken)
    }
}

#[derive(Default)]
pub(super) struct Writer;

impl Writer {
    pub fn write(&mut self, records: &[u8], checksum: Checksum, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&DESCRIPTOR);
        out.push(match checksum {
            Checksum::Right => CHECKSUM,
            Checksum::Any => CHECKSUM_V0,
        });
        for block in records.chunks(BLOCK_BYTES) {
            let start = out.len();
            // Only a block that is too long has no bound, and only an output that is shorter makes packing fail.
            let bound = compress_bound(block.len()).unwrap_or_default();
            out.resize(start + 4 + bound, 0);
            match compress_to_buffer(block, None, false, &mut out[start + 4..]) {
                Ok(length) if length < block.len() => {
                    out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
                    out.truncate(start + 4 + length);
                }
                Ok(_) | Err(_) => {
                    out.truncate(start);
                    out.extend_from_slice(&(block.len() as u32 | STORED).to_le_bytes());
                    out.extend_from_slice(block);
                }
            }
        }
        out.extend_from_slice(&[0; 4]);
    }
}
