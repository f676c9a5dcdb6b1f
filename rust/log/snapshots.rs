//! Producer state from disk: the newest good snapshot, and the batches since.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::{Context, LogError, Result};
use super::files::{FileSlice, Folder};
use super::names::{Kind, Suffix, parse_file_name};
use super::producer_state::ProducerState;
use super::scan::{LOOKUP_BYTES, Reach, SCAN_BYTES, Scan};
use super::segment::Segment;
use crate::records::{Batch, BatchHeader, Limits, Marker, Records, Scratch};
use crate::storage::Mode;

/// No snapshot is larger: a million producers.
const SNAPSHOT_BYTES_MAX: u64 = 64 << 20;
/// How far before a snapshot its producers' earlier batches are looked for, in entries of the offset indexes: at least as many batches, and of
/// small ones a quarter of a megabyte.
const ENTRIES_RECALLED: usize = 64;

/// The transaction marker in a control batch; None for any other batch, and for a marker that cannot be read.
pub fn end_marker(bytes: &[u8], header: &BatchHeader) -> Option<Marker> {
    if !header.is_control() {
        return None;
    }
    let mut scratch = Scratch::default();
    let batch = Batch {
        header: *header,
        bytes,
        position: 0,
    };
    let mut records = Records::new(&batch, &Limits::default(), &mut scratch).ok()?;
    Marker::read(&records.next()?.ok()?).ok()?
}

/// The offsets of the producer snapshots in a folder, ascending.
pub fn snapshots(folder: &Folder) -> Result<Vec<i64>> {
    let path = folder.path();
    let entries = folder.storage.list(&path).context("list", &path)?;
    let mut offsets: Vec<i64> = entries
        .iter()
        .filter_map(|entry| match parse_file_name(&entry.name)? {
            (offset, Kind::Snapshot, Suffix::None) => Some(offset),
            _ => None,
        })
        .collect();
    offsets.sort_unstable();
    Ok(offsets)
}

/// Writes the producer state beside the segments, unless that was done at its offset. Where it was written; nothing is synced.
pub fn take_snapshot(folder: &Folder, producers: &mut ProducerState) -> Result<Option<PathBuf>> {
    let offset = producers.end_offset;
    if offset <= producers.snapshot_offset {
        return Ok(None);
    }
    let path = folder.file(offset, Kind::Snapshot, Suffix::None);
    let file = folder
        .storage
        .open(&path, Mode::Replace)
        .context("create", &path)?;
    file.write_at(&producers.snapshot(), 0)
        .context("write", &path)?;
    producers.snapshot_offset = offset;
    Ok(Some(path))
}

/// The producer state at `end_offset`: the newest good snapshot before it, and the batches since. A snapshot from before the first segment says
/// nothing: the batches that followed it are gone, and with them the markers of the transactions that it calls open.
pub fn load_producers(
    folder: &Arc<Folder>,
    segments: &[Arc<Segment>],
    end_offset: i64,
) -> Result<ProducerState> {
    let first_base = segments
        .first()
        .map_or(end_offset, |first| first.base_offset);
    // Also what is before the log's start, as long as it is there: everybody who asks must get the same answer.
    let mut state = ProducerState::starting_at(first_base);
    for offset in snapshots(folder)?
        .into_iter()
        .rev()
        .filter(|offset| (first_base..=end_offset).contains(offset))
    {
        let path = folder.file(offset, Kind::Snapshot, Suffix::None);
        let bytes = folder
            .storage
            .read(&path, SNAPSHOT_BYTES_MAX)
            .context("read", &path)?;
        if let Some(loaded) = ProducerState::from_snapshot(&bytes, offset) {
            state = loaded;
            recall(segments, &mut state)?;
            break;
        }
    }
    let from = segments
        .partition_point(|segment| segment.base_offset <= state.end_offset)
        .saturating_sub(1);
    for segment in segments.get(from..).unwrap_or_default() {
        if segment.base_offset >= end_offset || state.end_offset >= end_offset {
            break;
        }
        match replay(segment, end_offset, &mut state) {
            // What comes behind the damage in this segment nobody can tell.
            Err(LogError::Corrupt { .. }) => {}
            other => other?,
        }
    }
    state.end_offset = end_offset;
    Ok(state)
}

/// A snapshot has the newest batch of each producer. But what is sent again after a crash is everything that was in flight, and a producer that is told
/// that one of five batches is out of order, which are all there, gives up: so the others are looked up in the log.
fn recall(segments: &[Arc<Segment>], state: &mut ProducerState) -> Result<()> {
    let mut entries = ENTRIES_RECALLED;
    let before = segments.partition_point(|segment| segment.base_offset < state.end_offset);
    for segment in segments[..before].iter().rev() {
        if entries == 0 || state.is_empty() {
            break;
        }
        let size = segment.size_bytes();
        let end = match segment.find(state.end_offset, size) {
            Ok(behind) => behind.map_or(size, |behind| behind.position),
            Err(LogError::Corrupt { .. }) => size,
            Err(error) => return Err(error),
        };
        let mut from = end;
        while from > 0 && entries > 0 {
            // An index that is damaged costs a longer way.
            from = match segment.offset_index.last_before_position(Reach::Disk, from) {
                Ok(Some(position)) => position,
                Ok(None) | Err(LogError::Corrupt { .. }) => 0,
                Err(error) => return Err(error),
            };
            entries -= 1;
        }
        let mut batches = Vec::new();
        let mut scan = Scan::new(&segment.file, from, end, LOOKUP_BYTES)?;
        loop {
            match scan.next_header() {
                Ok(Some(located)) if located.header.check().is_ok() => {
                    batches.push(located.header);
                }
                // It may be damaged: its checksum would cost reading all of it.
                Ok(Some(_)) => {}
                // What comes behind it nobody can tell.
                Ok(None) | Err(LogError::Corrupt { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        batches.iter().rev().for_each(|batch| state.recall(batch));
    }
    Ok(())
}

/// Takes in the batches of a segment from the state's end to `end_offset`.
fn replay(segment: &Segment, end_offset: i64, state: &mut ProducerState) -> Result<()> {
    let size = segment.size_bytes();
    let Some(first) = segment.find(state.end_offset, size)? else {
        return Ok(());
    };
    let mut scan = Scan::new(&segment.file, first.position, size, SCAN_BYTES)?;
    while let Some(located) = scan.next_header()? {
        let header = located.header;
        if header.base_offset >= end_offset {
            break;
        }
        let marker = if header.is_control() {
            let slice = FileSlice {
                file: Arc::clone(&segment.file),
                position: located.position,
                length: header.size_bytes() as u64,
            };
            let bytes = slice.read().context("read", &segment.file.path())?;
            end_marker(&bytes, &header)
        } else {
            None
        };
        state.update(&header, marker);
    }
    Ok(())
}
