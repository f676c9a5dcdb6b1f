//! Opening a log: what is in the folder, and how far it can be trusted.
//!
//! After a clean stop everything can: segments are noted, the end is found from the last index entry, producers come from the newest
//! snapshot; an idle partition costs a listing and a handful of reads. Otherwise nothing at or after the recovery point can: see [`recovery`](super::recovery).
//! In both cases what interrupted work left (deletions, a compaction's swap) is finished or removed first.
//!
//! With mode `r` nothing is changed: what a live writer has not finished, or a crash has torn, is left out in memory only.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::checkpoint::{START_OFFSETS, read_offsets};
use super::config::LogConfig;
use super::error::{Context, LogError, Result};
use super::files::Folder;
use super::home::{Home, now_ms};
use super::leader_epochs::{LeaderEpochs, is_damaged};
use super::log::{Log, OpenMode};
use super::names::{Kind, Suffix, TopicPartition, parse_file_name};
use super::producer_state::ProducerState;
use super::recovery::{Damage, Recovered};
use super::scan::{SCAN_BYTES, Scan, next_offset};
use super::segment::Segment;
use super::snapshots::load_producers;

/// The state of a log by the directory's checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The last stop was clean.
    pub clean: bool,
    /// Everything before it is on disk.
    pub recovery_point: i64,
    /// Nothing before it may be read.
    pub start_offset: i64,
    /// Everything before it is on every in-sync replica.
    pub high_watermark: i64,
    /// Everything before it was compacted; None if the log never was.
    pub cleaned_offset: Option<i64>,
}

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
        let future = TopicPartition::from_future_folder_name(folder_name);
        let is_future = future.is_some();
        let partition = match future {
            Some(partition) => partition,
            None => TopicPartition::parse_folder_name(folder_name)
                .map_err(|why| LogError::NotAPartition(path.clone(), why))?,
        };
        let folder = Folder::of(home, &path);
        let opening = Opening {
            home,
            folder,
            partition,
            config,
            hints,
            mode,
            is_split: Cell::new(false),
        };
        let mut clean = hints.clean;
        let log = loop {
            match opening.open(clean) {
                // The marker lied, or a disk did.
                Err(LogError::Corrupt { .. }) if clean => clean = false,
                // Into parts that fit, so there is an end to it.
                Err(LogError::Split(_)) => {}
                other => break other?,
            }
        };
        log.future
            .store(is_future, std::sync::atomic::Ordering::Release);
        // Ahead of the end after a crash within a truncation: what comes there will be dirty.
        let (start, end) = (log.start_offset(), log.end_offset());
        let cleaned = hints.cleaned_offset;
        log.restore_cleaned_offset(
            cleaned.map(|cleaned| if cleaned > end { start } else { cleaned }),
        );
        Ok(log)
    }
}

/// Opens the partition in the folder `path` for reading: see the module.
pub fn open_to_read(path: &Path) -> Result<Arc<Log>> {
    let absolute = std::path::absolute(path).context("find", path)?;
    let not_a_partition = |why| LogError::NotAPartition(path.to_owned(), why);
    let name = absolute
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| not_a_partition("it is no text"))?;
    let parent = absolute.parent();
    let home = Home::real(parent.ok_or_else(|| not_a_partition("it is in no folder"))?);
    let partition = TopicPartition::parse_folder_name(name).map_err(not_a_partition)?;
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

pub(super) struct Opening<'a> {
    pub home: &'a Arc<Home>,
    pub folder: Arc<Folder>,
    pub partition: TopicPartition,
    pub config: LogConfig,
    pub hints: Hints,
    pub mode: OpenMode,
    /// A segment was split: so the log was compacted once.
    pub is_split: Cell<bool>,
}

impl Opening<'_> {
    fn open(&self, clean: bool) -> Result<Arc<Log>> {
        let writable = self.mode == OpenMode::Append;
        let (mut segments, newest_snapshot, has_aborted) = self.list()?;
        let first_base = segments.first().map(|first| first.base_offset);
        let start_offset = self.hints.start_offset.max(first_base.unwrap_or(0));
        let epochs = match LeaderEpochs::load(&self.folder) {
            Err(error) if is_damaged(&error) => None,
            other => Some(other?),
        };
        // The table is replaced without an fsync each time: a power cut may leave an empty file in its place. A table that does not reach back to
        // the log's start is rebuilt from the batches. (After a clean stop it is as it was left, and formats 0 and 1 have no epochs.)
        let whole = epochs.as_ref().is_some_and(|epochs| {
            epochs
                .entries()
                .first()
                .is_some_and(|first| first.start_offset <= start_offset)
        });
        let trusted = clean
            && (whole
                || end_is_start(&segments)
                || epochs.is_some() && begins_without_epochs(&segments)?);
        let mut recovered = Recovered {
            end_offset: start_offset,
            epochs: epochs.unwrap_or_default(),
            producers: ProducerState::starting_at(start_offset),
            high_watermark: self.hints.high_watermark,
            aborted: Vec::new(),
            has_aborted,
        };
        if !writable {
            self.look(&segments, &mut recovered)?;
        } else if trusted {
            self.trust(&segments, newest_snapshot, &mut recovered)?;
        } else {
            self.recover(&mut segments, whole, &mut recovered)?;
        }
        let Recovered {
            mut end_offset,
            mut epochs,
            mut producers,
            has_aborted,
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
        // An epoch that begins at the end, before its first record, stays: it is what the table is for.
        if epochs.truncate_from_end(end_offset.max(start_offset) + 1) && writable {
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
            has_aborted,
        ))
    }

    /// The segments of the folder, after what interrupted work left was finished or removed.
    /// Also where the newest snapshot was taken, and whether a segment may have aborted transactions.
    fn list(&self) -> Result<(Vec<Arc<Segment>>, Option<i64>, bool)> {
        if self.mode == OpenMode::Read {
            let (segments, has_aborted) = self.list_to_read()?;
            return Ok((segments, None, has_aborted));
        }
        let storage = &*self.folder.storage;
        let path = self.folder.path();
        let mut files: BTreeMap<i64, Vec<(Kind, Suffix)>> = BTreeMap::new();
        for entry in storage.list(&path).context("list", &path)? {
            if let Some((base_offset, kind, suffix)) = parse_file_name(&entry.name) {
                files.entry(base_offset).or_default().push((kind, suffix));
            }
        }
        self.tidy(&mut files)?;
        let newest_snapshot = files
            .iter()
            .rev()
            .find(|(_, files)| files.contains(&(Kind::Snapshot, Suffix::None)))
            .map(|(offset, _)| *offset);
        let mut has_aborted = false;
        let now_ms = now_ms();
        let mut segments = Vec::new();
        for (base_offset, files) in files {
            has_aborted |= files.contains(&(Kind::TransactionIndex, Suffix::None));
            if !files.contains(&(Kind::Log, Suffix::None)) {
                continue;
            }
            let file = self.folder.file(base_offset, Kind::Log, Suffix::None);
            let length = storage.metadata(&file).context("look at", &file)?.length;
            segments.push(Segment::open(
                &self.folder,
                base_offset,
                length,
                true,
                now_ms,
                &self.home.cache,
            ));
        }
        self.split_overflowed(&segments)?;
        Ok((segments, newest_snapshot, has_aborted))
    }

    /// Kafka's rules for what a crash leaves: `.deleted` and `.cleaned` go; a `.swap` takes its place, unless it is part of a split that was not
    /// finished (there is a `.cleaned` at or before it); an index without a log goes. The `.cleaned` go last: what else would say that a `.swap` does
    /// not count, if this is interrupted too?
    fn tidy(&self, files: &mut BTreeMap<i64, Vec<(Kind, Suffix)>>) -> Result<()> {
        let first_cleaned = files
            .iter()
            .find(|(_, files)| files.iter().any(|(_, suffix)| *suffix == Suffix::Cleaned))
            .map(|(base_offset, _)| *base_offset);
        let (mut swapped, mut cleaned, mut is_half_split) = (Vec::new(), Vec::new(), false);
        let remove = |path: &Path| {
            let removed = self.folder.storage.remove_file(path);
            removed.context("remove", path)
        };
        for (base_offset, files) in files.iter_mut() {
            let has_log = files.contains(&(Kind::Log, Suffix::None));
            for (kind, suffix) in std::mem::take(files) {
                let path = self.folder.file(*base_offset, kind, suffix);
                let is_index = !matches!(kind, Kind::Log | Kind::Snapshot);
                match suffix {
                    Suffix::None if has_log || !is_index => files.push((kind, suffix)),
                    Suffix::Cleaned => cleaned.push(path),
                    Suffix::Swap if kind == Kind::Log => {
                        if first_cleaned.is_none_or(|first| *base_offset < first) {
                            swapped.push(*base_offset);
                        } else {
                            is_half_split = true;
                            remove(&path)?;
                        }
                    }
                    Suffix::Deleted => {
                        let removed = self.folder.storage.remove_file(&path);
                        self.home.note_leftover(&path, removed);
                    }
                    Suffix::None | Suffix::Swap => remove(&path)?,
                }
            }
        }
        if is_half_split {
            self.folder.sync()?;
        }
        for path in cleaned {
            remove(&path)?;
        }
        for base_offset in swapped {
            self.finish_swap(base_offset, files)?;
        }
        files.retain(|_, files| !files.is_empty());
        Ok(())
    }

    /// Puts a compacted segment, or a part of a split one, in the place of those that it was made of, in an order that a crash may interrupt
    /// anywhere: while the `.swap` is there, the next opening does the same again. Its name goes last, when its indexes are durable.
    fn finish_swap(
        &self,
        base_offset: i64,
        files: &mut BTreeMap<i64, Vec<(Kind, Suffix)>>,
    ) -> Result<()> {
        let storage = &*self.folder.storage;
        let remove = |base_offset: i64, kind: Kind, suffix: Suffix| {
            let path = self.folder.file(base_offset, kind, suffix);
            storage.remove_file(&path).context("remove", &path)
        };
        let swap = self.folder.file(base_offset, Kind::Log, Suffix::Swap);
        let next = next_offset(storage, &swap)?.unwrap_or(base_offset);
        // The indexes of the segment that it replaces would point anywhere in the new one.
        let mut kept = Vec::new();
        for (kind, suffix) in files.remove(&base_offset).unwrap_or_default() {
            match kind {
                Kind::Snapshot => kept.push((kind, suffix)),
                Kind::Log => {}
                _ => remove(base_offset, kind, suffix)?,
            }
        }
        let covered: Vec<i64> = files
            .range(base_offset + 1..next.max(base_offset + 1))
            .map(|(base_offset, _)| *base_offset)
            .collect();
        for base_offset in covered {
            for (kind, suffix) in files.remove(&base_offset).unwrap_or_default() {
                remove(base_offset, kind, suffix)?;
            }
        }
        let cache = &self.home.cache;
        let segment = Segment::open_swap(&self.folder, base_offset, now_ms(), cache)?;
        let before = self.segments_before(base_offset, files)?;
        let mut recovered = self.producers_before(base_offset, &before)?;
        self.rebuild(&segment, &mut Some(&mut recovered), Damage::KEPT)?;
        // Recovery trusts the indexes of what was flushed.
        segment.sync_closed()?;
        segment
            .file
            .set_suffix(Suffix::None)
            .context("rename", &swap)?;
        kept.push((Kind::Log, Suffix::None));
        if recovered.has_aborted {
            kept.push((Kind::TransactionIndex, Suffix::None));
        }
        files.insert(base_offset, kept);
        Ok(())
    }

    /// The segments before `base_offset`, while their folder is being put in order.
    fn segments_before(
        &self,
        base_offset: i64,
        files: &BTreeMap<i64, Vec<(Kind, Suffix)>>,
    ) -> Result<Vec<Arc<Segment>>> {
        let mut before = Vec::new();
        for (base_offset, files) in files.range(..base_offset) {
            if files.contains(&(Kind::Log, Suffix::None)) {
                let path = self.folder.file(*base_offset, Kind::Log, Suffix::None);
                let file = self.folder.storage.metadata(&path);
                let length = file.context("look at", &path)?.length;
                let cache = &self.home.cache;
                before.push(Segment::open(
                    &self.folder,
                    *base_offset,
                    length,
                    true,
                    now_ms(),
                    cache,
                ));
            }
        }
        Ok(before)
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
        recovered.has_aborted |= self.rebuild_missing(segments, recovered.has_aborted)?;
        recovered.end_offset = if active.is_empty() {
            active.base_offset
        } else {
            active.next_offset()?
        };
        let flushed_offset = self.hints.recovery_point;
        if flushed_offset > active.base_offset && flushed_offset != recovered.end_offset {
            // A clean stop flushes everything: the last batch lies about where it ends.
            return Err(LogError::Corrupt {
                path: active.file.path(),
                position: active.size_bytes(),
                problem: format!("it ends at {}, not {flushed_offset}", recovered.end_offset),
            });
        }
        let (start, end) = (recovered.producers.end_offset, recovered.end_offset);
        if newest_snapshot.is_none() && end > start {
            // Kafka's rule: a clean stop writes a snapshot where there are producers, so there were none.
            recovered.producers.end_offset = end;
        } else if newest_snapshot.is_some() {
            // Also where all records were deleted: their producers are known as long as their batches are there.
            recovered.producers = load_producers(&self.folder, segments, end)?;
        }
        Ok(())
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

/// True if a log's first batch is of format 0 or 1.
fn begins_without_epochs(segments: &[Arc<Segment>]) -> Result<bool> {
    let Some(first) = segments.iter().find(|segment| !segment.is_empty()) else {
        return Ok(false);
    };
    let mut scan = Scan::new(&first.file, 0, first.size_bytes(), SCAN_BYTES)?;
    match scan.next_header() {
        Ok(located) => Ok(located.is_some_and(|located| located.header.magic < 2)),
        Err(LogError::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn end_is_start(segments: &[Arc<Segment>]) -> bool {
    segments.iter().all(|segment| segment.is_empty())
}
