//! Opening a log: what is in the folder, and how far it can be trusted.
//!
//! After a clean stop everything can: segments are noted, the end is found from the last index entry, producers come from the newest
//! snapshot; an idle partition costs a listing and a handful of reads. Otherwise nothing at or after the recovery point can: every segment from there
//! is read whole, each batch's checksum compared, indexes, producer state and epochs rebuilt, and the first damage ends the log (KAFKA-10101: what is
//! exposed afterwards is fsynced first, or a second crash could take back what consumers saw).
//!
//! With mode `r` nothing is changed: what a live writer has not finished, or a crash has torn, is left out in memory only.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::checkpoint::{START_OFFSETS, read_offsets};
use super::config::LogConfig;
use super::deletion::remove_folder;
use super::error::{Context, LogError, Result};
use super::files::{FileSlice, Folder};
use super::home::{Home, now_ms};
use super::leader_epochs::{LeaderEpochs, is_damaged};
use super::log::{Log, OpenMode};
use super::names::{Kind, Suffix, TopicPartition, parse_file_name};
use super::offset_index::{OffsetPosition, fits};
use super::producer_state::ProducerState;
use super::scan::{SCAN_BYTES, Scan};
use super::segment::Segment;
use super::time_index::TimestampOffset;
use crate::records::batch::NO_TIMESTAMP;
use crate::records::{Batch, BatchHeader, Limits, Marker, Records, Scratch};

/// What the directory's checkpoints say about a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The last stop was clean.
    pub clean: bool,
    /// Everything before it is on disk.
    pub recovery_point: i64,
    /// Nothing before it may be read.
    pub start_offset: i64,
}

/// No snapshot is larger: a million producers.
const SNAPSHOT_BYTES_MAX: u64 = 64 << 20;

impl Log {
    /// Opens the partition in `home.path/folder_name`, which must exist; see the module about what `hints` and `mode` change.
    pub fn open(
        home: &Arc<Home>,
        folder_name: &str,
        config: LogConfig,
        hints: Hints,
        mode: OpenMode,
    ) -> Result<Arc<Self>> {
        home.check()?;
        let path = home.path.join(folder_name);
        let partition = TopicPartition::from_folder_name(folder_name)
            .ok_or_else(|| LogError::NotAPartition(path.clone()))?;
        let folder = Folder::new(Arc::clone(&home.storage), &path);
        let opening = Opening {
            home,
            folder,
            partition,
            config,
            hints,
            mode,
        };
        match opening.open(hints.clean) {
            // The marker lied, or a disk did.
            Err(LogError::Corrupt { .. }) if hints.clean => opening.open(false),
            other => other,
        }
    }
}

/// Opens the partition in the folder `path` for reading: see the module.
pub fn open_to_read(path: &Path) -> Result<Arc<Log>> {
    let absolute = std::path::absolute(path).context("find", path)?;
    let not_a_partition = || LogError::NotAPartition(path.to_owned());
    let name = absolute
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(not_a_partition)?;
    let home = Home::real(absolute.parent().ok_or_else(not_a_partition)?);
    let partition = TopicPartition::from_folder_name(name).ok_or_else(not_a_partition)?;
    // A deletion of records shows only in the directory's table. One that a writer is replacing right now is the old or the new.
    let table = read_offsets(&*home.storage, &home.path.join(START_OFFSETS)).unwrap_or_default();
    let start_offset = table.get(&partition).copied().unwrap_or(0);
    Log::open(
        &home,
        name,
        LogConfig::default(),
        Hints {
            start_offset,
            ..Hints::default()
        },
        OpenMode::Read,
    )
}

struct Opening<'a> {
    home: &'a Arc<Home>,
    folder: Arc<Folder>,
    partition: TopicPartition,
    config: LogConfig,
    hints: Hints,
    mode: OpenMode,
}

impl Opening<'_> {
    fn open(&self, clean: bool) -> Result<Arc<Log>> {
        let writable = self.mode == OpenMode::Append;
        let (mut segments, newest_snapshot) = self.list()?;
        let first_base = segments.first().map(|first| first.base_offset);
        let start_offset = self.hints.start_offset.max(first_base.unwrap_or(0));
        let epochs = match LeaderEpochs::load(&self.folder) {
            Err(error) if is_damaged(&error) => None,
            other => Some(other?),
        };
        // The table is replaced without an fsync each time: a power cut may leave an empty file in its place. A table that does not reach back to
        // the log's start is rebuilt from the batches.
        let whole = epochs.as_ref().is_some_and(|epochs| {
            epochs
                .entries()
                .first()
                .is_some_and(|first| first.start_offset <= start_offset)
        });
        let mut recovered = Recovered {
            start_offset,
            end_offset: start_offset,
            epochs: epochs.unwrap_or_default(),
            producers: ProducerState::starting_at(start_offset),
        };
        if !writable {
            self.look(&segments, &mut recovered)?;
        } else if clean && (whole || end_is_start(&segments)) {
            self.trust(&segments, newest_snapshot, &mut recovered)?;
        } else {
            self.recover(&mut segments, whole, &mut recovered)?;
        }
        let Recovered {
            mut end_offset,
            mut epochs,
            mut producers,
            ..
        } = recovered;
        if end_offset < start_offset && writable {
            // Segments were taken away from under the checkpoint: what is left may not be read.
            for segment in segments.drain(..) {
                segment.remove(Suffix::None)?;
            }
        }
        if segments.is_empty() {
            end_offset = start_offset;
            producers = ProducerState::starting_at(start_offset);
            if writable {
                segments.push(Segment::create(
                    &self.folder,
                    start_offset,
                    now_ms(),
                    &self.home.cache,
                )?);
            }
        }
        if epochs.truncate_from_end(end_offset.max(start_offset)) && writable {
            epochs.save(&self.folder)?;
        }
        Ok(Log::new(
            Arc::clone(self.home),
            Arc::clone(&self.folder),
            self.partition.clone(),
            self.mode,
            self.config.clone(),
            segments,
            end_offset,
            start_offset.min(end_offset),
            end_offset,
            epochs,
            producers,
        ))
    }

    /// The segments of the folder, after what interrupted work left was finished or removed.
    fn list(&self) -> Result<(Vec<Arc<Segment>>, Option<i64>)> {
        let storage = &*self.folder.storage;
        let path = self.folder.path();
        let mut files: BTreeMap<i64, Vec<(Kind, Suffix)>> = BTreeMap::new();
        for entry in storage.list(&path).context("list", &path)? {
            if let Some((base_offset, kind, suffix)) = parse_file_name(&entry.name) {
                files.entry(base_offset).or_default().push((kind, suffix));
            }
        }
        if self.mode == OpenMode::Append {
            self.tidy(&mut files)?;
        }
        let newest_snapshot = files
            .iter()
            .rev()
            .find(|(_, files)| files.contains(&(Kind::Snapshot, Suffix::None)))
            .map(|(offset, _)| *offset);
        let now_ms = now_ms();
        let mut segments = Vec::new();
        for (base_offset, files) in files {
            if !files.contains(&(Kind::Log, Suffix::None)) {
                continue;
            }
            let file = self.folder.file(base_offset, Kind::Log, Suffix::None);
            let length = storage.metadata(&file).context("look at", &file)?.length;
            let writable = self.mode == OpenMode::Append;
            segments.push(Segment::open(
                &self.folder,
                base_offset,
                length,
                writable,
                now_ms,
                &self.home.cache,
            ));
        }
        Ok((segments, newest_snapshot))
    }

    /// Kafka's rules for what a crash leaves: `.deleted` and `.cleaned` go; a `.swap` takes its place, unless it is part of a split that was not
    /// finished (there is a `.cleaned` at or before it); an index without a log goes.
    fn tidy(&self, files: &mut BTreeMap<i64, Vec<(Kind, Suffix)>>) -> Result<()> {
        let first_cleaned = files
            .iter()
            .find(|(_, files)| files.iter().any(|(_, suffix)| *suffix == Suffix::Cleaned))
            .map(|(base_offset, _)| *base_offset);
        let mut swapped = Vec::new();
        for (base_offset, files) in files.iter_mut() {
            let has_log = files.contains(&(Kind::Log, Suffix::None));
            for (kind, suffix) in std::mem::take(files) {
                let path = self.folder.file(*base_offset, kind, suffix);
                let is_index = !matches!(kind, Kind::Log | Kind::Snapshot);
                let keep = match suffix {
                    Suffix::None => has_log || !is_index,
                    Suffix::Deleted | Suffix::Cleaned => false,
                    Suffix::Swap => {
                        if kind == Kind::Log
                            && first_cleaned.is_none_or(|first| *base_offset < first)
                        {
                            swapped.push(*base_offset);
                            continue;
                        }
                        false
                    }
                };
                if keep {
                    files.push((kind, suffix));
                } else {
                    self.folder
                        .storage
                        .remove_file(&path)
                        .context("remove", &path)?;
                }
            }
        }
        for base_offset in swapped {
            self.finish_swap(base_offset, files)?;
        }
        files.retain(|_, files| !files.is_empty());
        Ok(())
    }

    /// Puts a compacted segment in the place of those that it was made of.
    fn finish_swap(
        &self,
        base_offset: i64,
        files: &mut BTreeMap<i64, Vec<(Kind, Suffix)>>,
    ) -> Result<()> {
        let swap = self.folder.file(base_offset, Kind::Log, Suffix::Swap);
        let log = self.folder.file(base_offset, Kind::Log, Suffix::None);
        let length = self
            .folder
            .storage
            .metadata(&swap)
            .context("look at", &swap)?
            .length;
        for (kind, _) in files.remove(&base_offset).unwrap_or_default() {
            if !matches!(kind, Kind::Log | Kind::Snapshot) {
                let path = self.folder.file(base_offset, kind, Suffix::None);
                self.folder
                    .storage
                    .remove_file(&path)
                    .context("remove", &path)?;
            }
        }
        self.folder
            .storage
            .rename(&swap, &log)
            .context("rename", &swap)?;
        files.insert(base_offset, vec![(Kind::Log, Suffix::None)]);
        let segment = Segment::open(
            &self.folder,
            base_offset,
            length,
            true,
            now_ms(),
            &self.home.cache,
        );
        self.rebuild(&segment, &mut None)?;
        let next = segment.next_offset()?;
        let covered: Vec<i64> = files
            .range(base_offset + 1..next)
            .map(|(base_offset, _)| *base_offset)
            .collect();
        for base_offset in covered {
            for (kind, suffix) in files.remove(&base_offset).unwrap_or_default() {
                let path = self.folder.file(base_offset, kind, suffix);
                self.folder
                    .storage
                    .remove_file(&path)
                    .context("remove", &path)?;
            }
        }
        Ok(())
    }

    /// After a clean stop.
    fn trust(
        &self,
        segments: &[Arc<Segment>],
        newest_snapshot: Option<i64>,
        recovered: &mut Recovered,
    ) -> Result<()> {
        let Some(active) = segments.last() else {
            return Ok(());
        };
        for segment in segments {
            for kind in [Kind::OffsetIndex, Kind::TimeIndex] {
                let path = self.folder.file(segment.base_offset, kind, Suffix::None);
                if !self
                    .folder
                    .storage
                    .exists(&path)
                    .context("look at", &path)?
                {
                    self.rebuild(segment, &mut None)?;
                    break;
                }
            }
        }
        recovered.end_offset = if active.is_empty() {
            active.base_offset
        } else {
            active.next_offset()?
        };
        let (start, end) = (recovered.producers.end_offset, recovered.end_offset);
        if newest_snapshot.is_none() && end > start {
            // Kafka's rule for logs from before producer ids: a clean stop writes a snapshot, so there were none.
            recovered.producers.end_offset = end;
        } else if end > start {
            recovered.producers = load_producers(&self.folder, segments, start, end)?;
        }
        Ok(())
    }

    /// After a crash: from the segment that contains the recovery point on, everything is read.
    fn recover(
        &self,
        segments: &mut Vec<Arc<Segment>>,
        epochs_are_whole: bool,
        recovered: &mut Recovered,
    ) -> Result<()> {
        // The one before it too if it ends there: its indexes may not have been on disk when it was closed.
        let first = segments
            .partition_point(|segment| segment.base_offset < self.hints.recovery_point)
            .saturating_sub(1);
        for segment in &segments[..first.min(segments.len())] {
            for kind in [Kind::OffsetIndex, Kind::TimeIndex] {
                let path = self.folder.file(segment.base_offset, kind, Suffix::None);
                if !self
                    .folder
                    .storage
                    .exists(&path)
                    .context("look at", &path)?
                {
                    self.rebuild(segment, &mut None)?;
                    break;
                }
            }
        }
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
        recovered.producers = load_producers(
            &self.folder,
            &segments[..first],
            recovered.start_offset.min(base_offset),
            base_offset,
        )?;
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
            let unflushed =
                segment.base_offset > recovered.end_offset.max(self.hints.recovery_point);
            let gap = unflushed && at > first && !self.config.compact;
            if segment.base_offset < recovered.end_offset || gap {
                damaged = Some(at);
                break;
            }
            recovered.producers.end_offset = segment.base_offset;
            self.save_snapshot(&mut recovered.producers)?;
            recovered.end_offset = segment.base_offset;
            let torn = self.rebuild(segment, &mut Some(recovered))?;
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

    fn save_snapshot(&self, producers: &mut ProducerState) -> Result<()> {
        if producers.end_offset > producers.snapshot_offset {
            let path = self
                .folder
                .file(producers.end_offset, Kind::Snapshot, Suffix::None);
            let file = self
                .folder
                .storage
                .open(&path, crate::storage::Mode::Replace)
                .context("create", &path)?;
            file.write_at(&producers.snapshot(), 0)
                .context("write", &path)?;
            producers.snapshot_offset = producers.end_offset;
        }
        Ok(())
    }

    /// Before anything of it is shown to anybody.
    fn sync(&self, segments: &[Arc<Segment>]) -> Result<()> {
        for segment in segments {
            segment.sync()?;
            segment.offset_index.sync()?;
            segment.time_index.sync()?;
        }
        let epochs = self.folder.join(super::checkpoint::LEADER_EPOCHS);
        let file = self
            .folder
            .storage
            .open(&epochs, crate::storage::Mode::Write)
            .context("open", &epochs)?;
        file.sync_data().context("sync", &epochs)?;
        let path = self.folder.path();
        self.folder
            .storage
            .sync_directory(&path)
            .context("sync", &path)
    }

    /// Reads a segment whole, cuts it at the first damage and writes its indexes anew. True if something was cut off.
    fn rebuild(&self, segment: &Segment, recovered: &mut Option<&mut Recovered>) -> Result<bool> {
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
                        break position;
                    }
                    if let Some(recovered) = recovered {
                        recovered.take(&header, bytes);
                    }
                }
                Err(LogError::Corrupt { .. }) => break position,
                Err(error) => return Err(error),
            }
        };
        if end < size {
            let path = segment.file.path();
            let file = segment.file.file().context("open", &path)?;
            file.set_length(end).context("truncate", &path)?;
            segment.set_size_bytes(end);
        }
        rebuilt.close();
        segment.offset_index.replace(&rebuilt.offsets)?;
        segment.time_index.replace(&rebuilt.times)?;
        segment.recovered(rebuilt.largest, rebuilt.first_ms, rebuilt.unindexed_bytes);
        Ok(end < size)
    }

    /// For a reader: the end is where whole valid batches end, whatever the indexes say. Nothing is written.
    fn look(&self, segments: &[Arc<Segment>], recovered: &mut Recovered) -> Result<()> {
        let Some(active) = segments.last() else {
            return Ok(());
        };
        for segment in segments.iter() {
            // An index that is missing or damaged is as good as an empty one.
            let usable = segment.offset_index.last().is_ok_and(|last| {
                last.is_none_or(|last| u64::from(last.position) < segment.size_bytes().max(1))
            });
            if !usable {
                segment.offset_index.replace_in_memory(Vec::new());
            }
            if segment.time_index.last().is_err() {
                segment.time_index.replace_in_memory(Vec::new());
            }
        }
        recovered.end_offset = active.base_offset;
        let from = active
            .offset_index
            .last()?
            .map_or(0, |last| u64::from(last.position));
        let mut from = from;
        loop {
            let mut scan = Scan::new(&active.file, from, active.size_bytes(), SCAN_BYTES)?;
            let end = loop {
                let position = scan.position();
                match scan.next_batch() {
                    Ok(None) => break position,
                    Ok(Some((located, _))) => {
                        recovered.end_offset = located.header.last_offset() + 1
                    }
                    Err(LogError::Corrupt { .. }) => break position,
                    Err(error) => return Err(error),
                }
            };
            if end == from && from > 0 {
                // The index points at no batch: do without it.
                active.offset_index.replace_in_memory(Vec::new());
                active.time_index.replace_in_memory(Vec::new());
                from = 0;
                continue;
            }
            active.set_size_bytes(end);
            return Ok(());
        }
    }
}

/// What recovery learns about the content.
struct Recovered {
    start_offset: i64,
    end_offset: i64,
    epochs: LeaderEpochs,
    producers: ProducerState,
}

impl Recovered {
    fn take(&mut self, header: &BatchHeader, bytes: &[u8]) {
        if header.leader_epoch > self.epochs.latest() {
            self.epochs.assign(header.leader_epoch, header.base_offset);
        }
        self.end_offset = header.last_offset() + 1;
        // Records before the log's start were deleted: they say nothing about their producers any more.
        if self.end_offset > self.start_offset {
            self.producers.update(header, end_marker(bytes, header));
        } else {
            self.producers.end_offset = self.end_offset;
        }
    }
}

fn end_is_start(segments: &[Arc<Segment>]) -> bool {
    segments.iter().all(|segment| segment.is_empty())
}

/// The leader epochs of segments, from their batches' headers. Damage ends the search in a segment: it is not for us to cut there.
fn read_epochs(segments: &[Arc<Segment>]) -> Result<LeaderEpochs> {
    let mut epochs = LeaderEpochs::default();
    for segment in segments {
        let mut scan = Scan::new(&segment.file, 0, segment.size_bytes(), SCAN_BYTES)?;
        loop {
            match scan.next_header() {
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
struct Rebuilt {
    base_offset: i64,
    offsets: Vec<OffsetPosition>,
    times: Vec<TimestampOffset>,
    largest: TimestampOffset,
    first_ms: Option<i64>,
    next_offset: i64,
    unindexed_bytes: u64,
}

impl Rebuilt {
    fn new(base_offset: i64) -> Self {
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
    fn take(&mut self, position: u64, header: &BatchHeader, config: &LogConfig) -> bool {
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
    fn close(&mut self) {
        self.note_time();
    }
}

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

/// The producer state at `end_offset`: the newest good snapshot before it, and the batches since.
pub fn load_producers(
    folder: &Arc<Folder>,
    segments: &[Arc<Segment>],
    start_offset: i64,
    end_offset: i64,
) -> Result<ProducerState> {
    let mut state = ProducerState::starting_at(start_offset);
    for offset in snapshots(folder)?
        .into_iter()
        .rev()
        .filter(|offset| *offset <= end_offset)
    {
        let path = folder.file(offset, Kind::Snapshot, Suffix::None);
        let bytes = folder
            .storage
            .read(&path, SNAPSHOT_BYTES_MAX)
            .context("read", &path)?;
        if let Some(loaded) = ProducerState::from_snapshot(&bytes, offset) {
            state = loaded;
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
        let size = segment.size_bytes();
        let Some(first) = segment.find(state.end_offset, size)? else {
            continue;
        };
        let mut scan = Scan::new(&segment.file, first.position, size, SCAN_BYTES)?;
        while let Some(located) = scan.next_header()? {
            let header = located.header;
            if header.base_offset >= end_offset {
                break;
            }
            let marker = if header.is_control() {
                let length = header.size_bytes() as u64;
                let slice = FileSlice {
                    file: Arc::clone(&segment.file),
                    position: located.position,
                    length,
                };
                end_marker(
                    &slice.read().context("read", &segment.file.path())?,
                    &header,
                )
            } else {
                None
            };
            state.update(&header, marker);
        }
    }
    state.end_offset = end_offset;
    Ok(state)
}

/// Removes the folder of a partition that was on its way out when the process ended.
pub fn remove_deleted(home: &Home, path: &Path) -> Result<()> {
    remove_folder(&*home.storage, path).context("remove", path)
}
