//! gzip (RFC 1952). Several members one after the other are one stream, and bytes after the last are ignored, as the Java
//! client's reader does.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Codec, ENDS, Output, damaged};
use crate::records::error::RecordError;

const WINDOW_BITS: u8 = 15;
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// zlib's own default, which the Java client uses.
pub(super) const LEVEL_DEFAULT: i32 = 6;

pub(super) struct Reader(Decompress);

impl Default for Reader {
    fn default() -> Self {
        Reader(Decompress::new_gzip(WINDOW_BITS))
    }
}

impl Reader {
    pub fn read(&mut self, packed: &[u8], output: &mut Output<'_>) -> Result<(), RecordError> {
        self.0.reset(true);
        let mut member = 0; // where the member starts
        loop {
            let at = member + self.0.total_in() as usize;
            let rest = packed.get(at..).unwrap_or_default();
            // Text packs to about a fifth.
            output.grow(packed.len().saturating_mul(5))?;
            let length = output.out.len();
            let status = self
                .0
                .decompress_vec(rest, output.out, FlushDecompress::None)
                .map_err(|error| damaged(Codec::Gzip, at, error))?;
            let next = member + self.0.total_in() as usize;
            match status {
                Status::StreamEnd => {
                    if output.out.len() - output.start > output.bytes_max {
                        return Err(output.too_large());
                    }
                    if !packed.get(next..).unwrap_or_default().starts_with(&MAGIC) {
                        return Ok(());
                    }
                    member = next;
                    self.0.reset(true);
                }
                Status::Ok | Status::BufError if next == at && output.out.len() == length => {
                    return Err(damaged(Codec::Gzip, packed.len(), ENDS));
                }
                Status::Ok | Status::BufError => {}
            }
        }
    }
}

pub(super) struct Writer {
    level: i32,
    stream: Compress,
}

impl Writer {
    pub fn write(kept: &mut Option<Self>, level: i32, records: &[u8], out: &mut Vec<u8>) {
        if kept.as_ref().is_some_and(|writer| writer.level != level) {
            *kept = None;
        }
        let writer = kept.get_or_insert_with(|| {
            let compression = Compression::new(level.unsigned_abs());
            Writer {
                level,
                stream: Compress::new_gzip(compression, WINDOW_BITS),
            }
        });
        writer.stream.reset();
        // The worst case of deflate is stored blocks: five bytes for each 16 KiB, and header and trailer.
        out.reserve(records.len() + records.len() / 1000 + 64);
        loop {
            let rest = &records[writer.stream.total_in() as usize..];
            match writer.stream.compress_vec(rest, out, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => return,
                // Compressing has no bad input; what is left to fail is a full output.
                Ok(_) | Err(_) => out.reserve(STEP_BYTES),
            }
        }
    }
}

const STEP_BYTES: usize = 16 << 10;
