//! What old consumers (Fetch 0 to 3) get of a stretch of the log: the same bytes, or messages of their format.

use super::error::{Context, LogError, Result};
use super::files::FileSlice;
use super::scan::{LOOKUP_BYTES, Scan};
use crate::records::convert::is_too_new;
use crate::records::{DownConverted, Limits, Scratch, Wanted, down_convert};

/// What to send.
#[derive(Debug, PartialEq, Eq)]
pub enum Converted {
    /// The stretch itself: its consumer reads every batch in it.
    Same,
    Messages(DownConverted),
    /// There is something to convert, and the caller would not have it.
    Refused,
}

/// Takes of a fetched stretch what `wanted` says, if there is something in it that its consumer cannot read.
///
/// Memory: the stretch, `wanted.bytes_max`, and one batch unpacked.
pub fn convert(slice: &FileSlice, wanted: &Wanted, may_convert: bool) -> Result<Converted> {
    if !has_newer(slice, wanted.magic)? {
        return Ok(Converted::Same);
    }
    if !may_convert {
        return Ok(Converted::Refused);
    }
    let bytes = slice.read().context("read", &slice.file.path())?;
    let messages = down_convert(&bytes, wanted, &Limits::default(), &mut Scratch::default())?;
    Ok(Converted::Messages(messages))
}

/// By headers alone: most stretches are of one format.
fn has_newer(slice: &FileSlice, magic: i8) -> Result<bool> {
    let end = slice.position + slice.length;
    let mut scan = Scan::new(&slice.file, slice.position, end, LOOKUP_BYTES)?;
    loop {
        match scan.next_header() {
            Ok(Some(batch)) if is_too_new(batch.header.magic, magic) => return Ok(true),
            Ok(Some(_)) => {}
            // The last batch may be cut off.
            Ok(None) | Err(LogError::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}
