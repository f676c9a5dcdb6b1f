//! Zstandard (RFC 8878). One context per thread is kept: it is large, and building it costs more than most batches.
//!
//! Read as a stream: a frame may promise any size, and a small one may unpack to gigabytes. The window that a frame asks for
//! is memory too, so it is bounded by the limit on the output (and by 128 MiB, zstd's own default, which the Java client
//! keeps).

use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, compress_bound,
    get_error_name, zstd_sys::ZSTD_EndDirective,
};

use super::{Codec, ENDS, Output, damaged, too_large};
use crate::records::error::RecordError;

/// zstd's default, which the Java client uses.
pub(super) const LEVEL_DEFAULT: i32 = 3;
pub(super) const LEVEL_MIN: i32 = -(1 << 17);
pub(super) const LEVEL_MAX: i32 = 22;
const WINDOW_LOG_MIN: u32 = 10;
const WINDOW_LOG_MAX: u32 = 27;
/// zstd's text for a window past the limit. A frame whose size is known has a window of that size.
const WINDOW_TOO_LARGE: &str = "Frame requires too much memory for decoding";
/// A context that grew past this (a large window) is built anew instead of kept.
const CONTEXT_BYTES_KEPT_MAX: usize = 12 << 20;

pub(super) struct Reader(DCtx<'static>);

pub(super) fn read(
    kept: &mut Option<Reader>,
    packed: &[u8],
    output: &mut Output<'_>,
) -> Result<(), RecordError> {
    let reader = kept.get_or_insert_with(|| Reader(DCtx::create()));
    let result = reader.read(packed, output);
    if reader.0.sizeof() > CONTEXT_BYTES_KEPT_MAX {
        *kept = None;
    }
    result
}

impl Reader {
    fn read(&mut self, packed: &[u8], output: &mut Output<'_>) -> Result<(), RecordError> {
        let window_log = output.bytes_max.max(1).ilog2() + 1;
        let window_log = window_log.clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX);
        self.0
            .reset(ResetDirective::SessionAndParameters)
            .and_then(|_| self.0.set_parameter(DParameter::WindowLogMax(window_log)))
            .map_err(|code| damaged(Codec::Zstd, 0, get_error_name(code)))?;
        let bytes_max = output.bytes_max;
        let mut input = InBuffer::around(packed);
        loop {
            output.grow(packed.len().saturating_mul(5))?;
            let (at, length) = (input.pos(), output.out.len());
            let mut target = OutBuffer::around_pos(&mut *output.out, length);
            let hint_bytes = self
                .0
                .decompress_stream(&mut target, &mut input)
                .map_err(|code| match get_error_name(code) {
                    WINDOW_TOO_LARGE => too_large(bytes_max),
                    name => damaged(Codec::Zstd, at, name),
                })?;
            if output.out.len() - output.start > output.bytes_max {
                return Err(output.too_large());
            }
            let all_read = input.pos() == packed.len();
            if hint_bytes == 0 && all_read {
                return Ok(());
            }
            if all_read && output.out.len() == length {
                return Err(damaged(Codec::Zstd, packed.len(), ENDS));
            }
        }
    }
}

pub(super) struct Writer(CCtx<'static>);

impl Default for Writer {
    fn default() -> Self {
        Writer(CCtx::create())
    }
}

impl Writer {
    pub fn write(&mut self, level: i32, records: &[u8], out: &mut Vec<u8>) {
        out.reserve(compress_bound(records.len()));
        let start = out.len();
        // With room for the greatest length and a level in range, none of these calls has a way to fail; if memory for
        // the context cannot be had, the frame stays unfinished and is started over in a new context.
        for _ in 0..2 {
            let set = self.0.set_parameter(CParameter::CompressionLevel(level));
            let mut input = InBuffer::around(records);
            let mut target = OutBuffer::around_pos(&mut *out, start);
            let left =
                self.0
                    .compress_stream2(&mut target, &mut input, ZSTD_EndDirective::ZSTD_e_end);
            if set.is_ok() && left == Ok(0) {
                return;
            }
            self.0 = CCtx::create();
            out.truncate(start);
        }
    }
}
