//! Splitting a segment whose offsets reach too far.
//!
//! Indexes count offsets from a segment's first in 31 bits. Cleaners of old brokers (before 0.10.2.2 and 0.11.0.1, KAFKA-5413) joined segments without
//! minding that, and their directories are still about. Kafka splits such a segment when it meets it (KAFKA-6264), and so does opening a log
//! here. Cleaning, should it meet one all the same, writes it as several (`cleaner/cleaned.rs`).
//!
//! | | files | a crash here leaves |
//! |---:|---|---|
//! | 1 | the parts are complete and durable under `.cleaned` | the old segment; `.cleaned` is removed |
//! | 2 | they become `.swap`, the first part last | a `.cleaned` before each `.swap`: all of them are removed |
//! | 3 | the folder is listed again, which finishes the swap: each part takes its place, the first that of the old segment | the same again |
//!
//! These are Kafka's names and order. Only that the first part keeps the name of the old segment, even when it gets no batch, is ours: so there is no
//! moment in which both are there. Parts are ranges of the old segment's bytes, and nothing in them is changed.
//!
//! An offset that reaches too far may also be a flipped bit, because a batch's checksum leaves its offset out. One that is true is confirmed: by the
//! batch behind it, which goes on from there, or for the last batch by the next segment, by what the directory's checkpoints say, or because others
//! reach too far. Any other is damage like any other. (Kafka believes it.)

use std::sync::Arc;

use super::error::{Context, LogError, Result};
use super::names::{Kind, Suffix};
use super::offset_index::fits;
use super::opening::Opening;
use super::scan::{Located, SCAN_BYTES, Scan};
use super::segment::Segment;
use crate::storage::Mode;

/// A range of a segment's bytes that becomes a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    base_offset: i64,
    start: u64,
    end: u64,
}

impl Opening<'_> {
    /// Splits the first segment that reaches too far; then the error says that the folder is another now.
    pub(super) fn split_overflowed(&self, segments: &[Arc<Segment>]) -> Result<()> {
        for (at, segment) in segments.iter().enumerate() {
            let reach = match segments.get(at + 1) {
                Some(next) => next.base_offset,
                None => self.hints.recovery_point.max(self.hints.high_watermark),
            };
            // Only then is it worth reading.
            if reach > segment.base_offset && !fits(segment.base_offset, reach - 1) {
                self.split_if_overflowed(segment, reach)?;
            }
        }
        Ok(())
    }

    /// The same for a segment of which something confirms that the log reaches to before `reach`.
    pub(super) fn split_if_overflowed(&self, segment: &Segment, reach: i64) -> Result<()> {
        let parts = parts(segment, reach)?;
        if parts.len() < 2 {
            return Ok(());
        }
        self.split(segment, &parts)?;
        self.is_split.set(true);
        Err(LogError::Split(segment.file.path()))
    }

    fn split(&self, segment: &Segment, parts: &[Part]) -> Result<()> {
        let (folder, storage) = (&self.folder, &*self.folder.storage);
        let modified_ms = segment.modified_ms()?;
        let mut buffer = vec![0; SCAN_BYTES.min(segment.size_bytes() as usize)];
        for part in parts {
            let path = folder.file(part.base_offset, Kind::Log, Suffix::Cleaned);
            copy(segment, part, &path, &mut buffer, self)?;
            storage
                .set_modified(&path, modified_ms)
                .context("set the time of", &path)?;
        }
        folder.sync()?;
        for (at, part) in parts.iter().enumerate().rev() {
            if at == 0 {
                // Whatever of this a power cut takes, no part is without one before it that says that it does not count.
                folder.sync()?;
            }
            let from = folder.file(part.base_offset, Kind::Log, Suffix::Cleaned);
            let to = folder.file(part.base_offset, Kind::Log, Suffix::Swap);
            storage.rename(&from, &to).context("rename", &from)?;
        }
        folder.sync()
    }
}

fn copy(
    segment: &Segment,
    part: &Part,
    path: &std::path::Path,
    buffer: &mut [u8],
    opening: &Opening<'_>,
) -> Result<()> {
    let from = segment.file.path();
    let source = segment.file.file().context("open", &from)?;
    let storage = &opening.folder.storage;
    let target = storage.open(path, Mode::Replace).context("create", path)?;
    let mut position = part.start;
    while position < part.end {
        let wanted = (part.end - position).min(buffer.len() as u64) as usize;
        let read = source.read_at(&mut buffer[..wanted], position);
        let read = read.context("read", &from)?;
        if read == 0 {
            return Err(LogError::Corrupt {
                path: from,
                position,
                problem: "the file ended while it was read".to_owned(),
            });
        }
        target
            .write_at(&buffer[..read], position - part.start)
            .context("write", path)?;
        position += read as u64;
    }
    target.sync_data().context("sync", path)
}

/// How a segment is to be split; one part if it is not. What no batch can be made out of belongs to the part before it.
fn parts(segment: &Segment, reach: i64) -> Result<Vec<Part>> {
    let size = segment.size_bytes();
    let mut part = Part {
        base_offset: segment.base_offset,
        start: 0,
        end: size,
    };
    let mut parts = Vec::new();
    let mut next_offset = segment.base_offset;
    let mut scan = Scan::new(&segment.file, 0, size, SCAN_BYTES)?;
    let mut batch = next(&mut scan)?;
    while let Some(Located { position, header }) = batch {
        let following = next(&mut scan)?;
        let last_offset = header.last_offset();
        let is_confirmed = match &following {
            Some(following) => following.header.base_offset > last_offset,
            None => !parts.is_empty() || last_offset < reach,
        };
        if header.base_offset < next_offset || last_offset < header.base_offset {
            // Damage: what comes behind it goes on from before it.
        } else if fits(part.base_offset, last_offset) {
            next_offset = last_offset + 1;
        } else if is_confirmed && last_offset < i64::MAX {
            part.end = position;
            parts.push(part);
            part = Part {
                base_offset: header.base_offset,
                start: position,
                end: size,
            };
            next_offset = last_offset + 1;
        }
        batch = following;
    }
    parts.push(part);
    Ok(parts)
}

/// The next batch by its header; none where none can be made out.
fn next(scan: &mut Scan) -> Result<Option<Located>> {
    match scan.next_header() {
        Err(LogError::Corrupt { .. }) => Ok(None),
        other => other,
    }
}
