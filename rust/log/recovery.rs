//! Recovery: reading what cannot be trusted.
//!
//! From the segment of the recovery point on, every batch is read and its checksum compared; indexes, producer state and leader epochs are rebuilt from
//! what is read, and the first damage ends the log. What is exposed afterwards is fsynced first, or a second crash could take back what
//! consumers saw (KAFKA-10101).

use std::sync::Arc;

use super::checkpoint::LEADER_EPOCHS;
use super::config::LogConfig;
use super::error::{Context, LogError, Result};
use super::leader_epochs::LeaderEpochs;
use super::names::{Kind, Suffix};
use super::offset_index::{OffsetPosition, fits};
use super::opening::{Hints, Opening};
use super::producer_state::ProducerState;
use super::scan::{SCAN_BYTES, Scan};
use super::segment::Segment;
use super::snapshots::{end_marker, load_producers, snapshots, take_snapshot};
use super::time_index::TimestampOffset;
use super::transaction_index::AbortedEntry;
use crate::records::BatchHeader;
use crate::records::batch::NO_TIMESTAMP;

impl Opening<'_> {
    /// After a crash: from the segment that contains the recovery point on, everything is read.
    pub(super) fn recover(
        &self,
        segments: &mut Vec<Arc<Segment>>,
        epochs_are_whole: bool,
        recovered: &mut Recovered,
    ) -> Result<()> {
        // The one before it too if it ends there: its indexes may not have been on disk when it was closed.
        let first = segments
            .partition_point(|segment| segment.base_offset < self.hints.recovery_point)
            .saturating_sub(1);
        let before = &segments[..first.min(segments.len())];
        recovered.has_aborted |= self.rebuild_missing(before, recovered.has_aborted)?;
        let Some(from) = segments.get(first) else {
            return Ok(());
        };
        let base_offset = from.base_offset;
        for snapshot in snapshots(&self.folder)? {
            if snapshot > base_offset {
                let path = self.folder.file(snapshot, Kind::Snapshot, Suffix::None);
                self.folder
                    .storage
                    .remove_file(&path)
                    .context("remove", &path)?;
            }
        }
        recovered.producers = load_producers(&self.folder, &segments[..first], base_offset)?;
        recovered.end_offset = base_offset;
        // The file may be older than the batches, from before a truncation: from here on they say which epoch wrote what.
        recovered.epochs.truncate_from_end(base_offset);
        if !epochs_are_whole {
            recovered.epochs = read_epochs(&segments[..first])?;
        }
        let mut damaged = None;
        for (at, segment) in segments.iter().enumerate().skip(first) {
            // It begins before its predecessor ends: nothing from here on can be right. Or after it, and the offsets in between were never flushed: they
            // had not reached the disk when the power went, and a log is a prefix of what was appended. Compaction leaves such gaps too.
            let Hints {
                recovery_point,
                start_offset,
                ..
            } = self.hints;
            let unflushed = segment.base_offset > recovered.end_offset.max(recovery_point);
            // So much at once was never on its way to a disk.
            let is_lost = fits(recovered.end_offset, segment.base_offset);
            let is_gap = unflushed && is_lost && at > first && !self.may_have_gaps();
            // What is before the start was deleted: there a truncation may have left a gap, and nobody misses what the power took. But a marker may
            // be gone with it, so what was open before it counts no more.
            let is_deleted = segment.base_offset <= start_offset;
            let forgets = is_gap && is_deleted;
            if forgets {
                recovered.producers.forget_open();
            }
            let gap = is_gap && !is_deleted;
            if segment.base_offset < recovered.end_offset || gap {
                damaged = Some(at);
                break;
            }
            recovered.producers.end_offset = segment.base_offset;
            let snapshot = take_snapshot(&self.folder, &mut recovered.producers)?;
            if let Some(path) = snapshot.filter(|_| forgets) {
                // It says what the batches before it do not, and the next recovery may begin behind them.
                self.folder.sync_file(&path)?;
            }
            recovered.end_offset = segment.base_offset;
            let flushed_offset = self.hints.recovery_point;
            let damage = Damage {
                flushed_offset,
                is_kept: segments
                    .get(at + 1)
                    .is_some_and(|next| next.base_offset <= flushed_offset),
                is_last: at + 1 == segments.len(),
            };
            let torn = self.rebuild(segment, &mut Some(recovered), damage)?;
            if torn {
                damaged = Some(at + 1);
                break;
            }
        }
        if let Some(damaged) = damaged {
            for segment in segments.drain(damaged..) {
                segment.set_suffix(Suffix::Deleted)?;
            }
        }
        recovered.epochs.save(&self.folder)?;
        self.sync(&segments[first..])
    }

    /// Makes the indexes of segments anew that lack one, or whose index of aborted transactions cannot be right. True if there are aborted
    /// transactions in them.
    pub(super) fn rebuild_missing(
        &self,
        segments: &[Arc<Segment>],
        may_have_aborted: bool,
    ) -> Result<bool> {
        let mut has_aborted = false;
        let is_there = |segment: &Segment, kind| {
            let path = self.folder.file(segment.base_offset, kind, Suffix::None);
            let exists = self.folder.storage.exists(&path);
            exists.context("look at", &path)
        };
        for (at, segment) in segments.iter().enumerate() {
            // Whoever took an index may have taken the aborted transactions, whose file nobody misses.
            if is_there(segment, Kind::OffsetIndex)?
                && is_there(segment, Kind::TimeIndex)?
                && (!may_have_aborted || segment.transaction_index.is_sane()?)
            {
                continue;
            }
            let mut before = self.producers_before(segment.base_offset, &segments[..at])?;
            self.rebuild(segment, &mut Some(&mut before), Damage::KEPT)?;
            segment.sync_closed()?;
            has_aborted |= before.has_aborted;
        }
        Ok(has_aborted)
    }

    /// The state from which a segment's transaction index is rebuilt. `segments`: those before it.
    pub(super) fn producers_before(
        &self,
        base_offset: i64,
        segments: &[Arc<Segment>],
    ) -> Result<Recovered> {
        Ok(Recovered {
            end_offset: base_offset,
            epochs: LeaderEpochs::default(),
            producers: load_producers(&self.folder, segments, base_offset)?,
            high_watermark: self.hints.high_watermark,
            aborted: Vec::new(),
            has_aborted: false,
        })
    }

    /// A log that was ever compacted keeps its gaps, even where `cleanup.policy` is another by now.
    fn may_have_gaps(&self) -> bool {
        self.config.compact || self.hints.cleaned_offset.is_some() || self.is_split.get()
    }

    /// Before anything of it is shown to anybody.
    fn sync(&self, segments: &[Arc<Segment>]) -> Result<()> {
        for segment in segments {
            segment.sync()?;
            segment.offset_index.sync()?;
            segment.time_index.sync()?;
            segment.transaction_index.sync()?;
        }
        self.folder.sync_file(&self.folder.join(LEADER_EPOCHS))?;
        self.folder.sync()
    }

    /// Reads a segment whole and writes its indexes anew. At the first batch that is torn it is cut off, and the result is true. What was
    /// flushed was not torn: a batch whose checksum is wrong there stays, for its readers to find; see [`Damage`].
    pub(super) fn rebuild(
        &self,
        segment: &Segment,
        recovered: &mut Option<&mut Recovered>,
        damage: Damage,
    ) -> Result<bool> {
        let size = segment.size_bytes();
        let mut rebuilt = Rebuilt::new(segment.base_offset);
        let mut scan = Scan::new(&segment.file, 0, size, SCAN_BYTES)?;
        let end = loop {
            let position = scan.position();
            match scan.next_batch() {
                Ok(None) => break position,
                Ok(Some((located, bytes))) => {
                    let header = located.header;
                    if !rebuilt.take(position, &header, &self.config) {
                        if damage.is_last && !fits(segment.base_offset, header.last_offset()) {
                            // Perhaps no checkpoint says how far the log reaches.
                            self.split_if_overflowed(segment, damage.flushed_offset)?;
                        }
                        break position;
                    }
                    if let Some(recovered) = recovered {
                        recovered.take(&header, bytes);
                    }
                }
                Err(LogError::Corrupt { .. }) if rebuilt.next_offset < damage.flushed_offset => {
                    match flushed_header(&mut scan, damage.flushed_offset)? {
                        Some(header) if rebuilt.take(position, &header, &self.config) => {
                            if let Some(recovered) = recovered {
                                recovered.skip(&header);
                            }
                        }
                        _ => break position,
                    }
                }
                Err(LogError::Corrupt { .. }) => break position,
                Err(error) => return Err(error),
            }
        };
        let is_kept = damage.is_kept && rebuilt.next_offset < damage.flushed_offset;
        let is_torn = end < size && !is_kept;
        if is_torn {
            let path = segment.file.path();
            let file = segment.file.file().context("open", &path)?;
            file.set_length(end).context("truncate", &path)?;
            segment.set_size_bytes(end);
        }
        rebuilt.close();
        if let Some(recovered) = recovered {
            recovered.has_aborted |= !recovered.aborted.is_empty();
            segment.transaction_index.replace(&recovered.aborted)?;
            // Nobody misses it. The others are missed until they are there: then it is too, whatever a power cut takes.
            segment.transaction_index.sync()?;
            recovered.aborted.clear();
        }
        segment.offset_index.replace(&rebuilt.offsets)?;
        segment.time_index.replace(&rebuilt.times)?;
        segment.recovered(rebuilt.largest, rebuilt.first_ms, rebuilt.unindexed_bytes);
        Ok(is_torn)
    }
}

/// The header of a damaged batch that ended before `flushed_offset`. Where it ended is what the next batch says, if its own number is wrong.
fn flushed_header(scan: &mut Scan, flushed_offset: i64) -> Result<Option<BatchHeader>> {
    let header_or_none = |located| match located {
        Ok(located) => Ok(located),
        Err(LogError::Corrupt { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let Some(damaged) = header_or_none(scan.next_header())? else {
        return Ok(None);
    };
    let mut header = damaged.header;
    let is_last = scan.is_at_end();
    let next = header_or_none(scan.peek())?.map(|next| next.header.base_offset);
    let end_offset = next
        .filter(|next| *next > header.base_offset)
        .map_or(flushed_offset, |next| next.min(flushed_offset));
    if header.base_offset >= end_offset {
        return Ok(None);
    }
    if header.last_offset() >= end_offset || is_last {
        // Offsets that were given are not given again.
        let last_offset_delta = (end_offset - 1).checked_sub(header.base_offset);
        match last_offset_delta.map(i32::try_from) {
            Some(Ok(delta)) => header.last_offset_delta = delta,
            // Its first offset is damaged too.
            _ => return Ok(None),
        }
    }
    Ok(Some(header))
}

/// The treatment of batches that are not whole. A write that the power interrupted is cut off. But
/// what is before the recovery point was whole on disk: if it is not any more, the disk lost it,
/// and the good batches behind it must not go with it.
#[derive(Clone, Copy)]
pub(super) struct Damage {
    /// Batches before it were whole on disk.
    pub flushed_offset: i64,
    /// Nothing is cut off before `flushed_offset`, even where no batch can be made out: the next segment begins before it, and is what counts.
    pub is_kept: bool,
    /// No segment follows that says how far this one may reach.
    pub is_last: bool,
}

impl Damage {
    /// Of a closed segment.
    pub const KEPT: Self = Self {
        flushed_offset: i64::MAX,
        is_kept: true,
        is_last: false,
    };
}

/// The content of a log as recovery learns it.
pub(super) struct Recovered {
    pub end_offset: i64,
    pub epochs: LeaderEpochs,
    pub producers: ProducerState,
    pub high_watermark: i64,
    /// The transactions whose abortion was met in the segment that is being read,
    pub aborted: Vec<AbortedEntry>,
    /// and whether there was one in any.
    pub has_aborted: bool,
}

impl Recovered {
    /// A batch that cannot be read: nobody knows what it did.
    fn skip(&mut self, header: &BatchHeader) {
        self.end_offset = header.last_offset() + 1;
        self.producers.end_offset = self.end_offset;
    }

    fn take(&mut self, header: &BatchHeader, bytes: &[u8]) {
        if header.is_message() {
            // What has no epoch ends what is known of epochs, as when it was appended.
            self.epochs.truncate_from_end(0);
        } else if header.leader_epoch > self.epochs.latest() {
            self.epochs.assign(header.leader_epoch, header.base_offset);
        }
        self.end_offset = header.last_offset() + 1;
        // Also what is before the log's start: a marker there ends a transaction that the snapshot before it calls open.
        let marker = end_marker(bytes, header);
        self.aborted
            .extend(self.producers.aborted_by(header, marker));
        self.producers.update(header, marker);
        if marker.is_some() {
            self.producers.on_high_watermark(self.high_watermark);
        }
    }
}

/// The leader epochs of segments, from their batches' headers. Damage ends the search in a segment: it is not for us to cut there.
fn read_epochs(segments: &[Arc<Segment>]) -> Result<LeaderEpochs> {
    let mut epochs = LeaderEpochs::default();
    for segment in segments {
        let mut scan = Scan::new(&segment.file, 0, segment.size_bytes(), SCAN_BYTES)?;
        loop {
            match scan.next_header() {
                Ok(Some(batch)) if batch.header.is_message() => {
                    epochs.truncate_from_end(0);
                }
                Ok(Some(batch)) if batch.header.leader_epoch > epochs.latest() => {
                    epochs.assign(batch.header.leader_epoch, batch.header.base_offset);
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(LogError::Corrupt { .. }) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(epochs)
}

/// The indexes of a segment as its batches come by.
pub(super) struct Rebuilt {
    base_offset: i64,
    pub offsets: Vec<OffsetPosition>,
    pub times: Vec<TimestampOffset>,
    pub largest: TimestampOffset,
    pub first_ms: Option<i64>,
    pub next_offset: i64,
    pub unindexed_bytes: u64,
}

impl Rebuilt {
    pub fn new(base_offset: i64) -> Self {
        Self {
            base_offset,
            offsets: Vec::new(),
            times: Vec::new(),
            largest: TimestampOffset {
                timestamp_ms: NO_TIMESTAMP,
                offset: base_offset,
            },
            first_ms: None,
            next_offset: base_offset,
            unindexed_bytes: 0,
        }
    }

    /// False if the batch cannot follow what came before.
    pub fn take(&mut self, position: u64, header: &BatchHeader, config: &LogConfig) -> bool {
        let last_offset = header.last_offset();
        if header.base_offset < self.next_offset
            || last_offset < header.base_offset
            || !fits(self.base_offset, last_offset)
            || position > u64::from(u32::MAX)
        {
            return false;
        }
        self.next_offset = last_offset + 1;
        self.first_ms.get_or_insert(header.max_timestamp);
        if header.max_timestamp > self.largest.timestamp_ms {
            self.largest = TimestampOffset {
                timestamp_ms: header.max_timestamp,
                offset: last_offset,
            };
        }
        if self.unindexed_bytes > u64::from(config.index_interval_bytes) {
            self.offsets.push(OffsetPosition {
                offset: last_offset,
                position: position as u32,
            });
            self.note_time();
            self.unindexed_bytes = 0;
        }
        self.unindexed_bytes += header.size_bytes() as u64;
        true
    }

    fn note_time(&mut self) {
        let last = self
            .times
            .last()
            .map_or(NO_TIMESTAMP, |last| last.timestamp_ms);
        if self.largest.timestamp_ms > last {
            self.times.push(self.largest);
        }
    }

    /// A closed segment's time index ends with its greatest timestamp.
    pub fn close(&mut self) {
        self.note_time();
    }
}
