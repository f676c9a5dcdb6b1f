//! One cleaning of one log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::cleaned::CleanedSegments;
use super::filter::{Filter, Kept};
use super::groups::group;
use super::offset_map::OffsetMap;
use super::throttle::Throttle;
use super::transactions::Transactions;
use crate::log::error::{LogError, Result};
use crate::log::log::Log;
use crate::log::scan::{Reach, Scan};
use crate::log::segment::Segment;
use crate::log::snapshots::end_marker;
use crate::log::transaction_index::AbortedEntry;
use crate::records::rewrite::rewrite_empty;
use crate::records::{BatchHeader, RecordError};

/// Reads and writes are at least this large.
const IO_BYTES_MIN: usize = 16 << 10;

/// Limits of each thread that cleans, but for the last, which all share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerSettings {
    /// Memory for the map of keys, and how full it may become, as a part of 1.
    pub map_bytes: u64,
    pub map_load_factor: f64,
    /// Memory for reading and writing. A batch that is larger gets what it needs.
    pub io_bytes: usize,
    /// Read and written.
    pub bytes_per_second: f64,
}

/// The settings and state that the cleaning threads of a process share.
pub struct Cleaner {
    settings: CleanerSettings,
    throttle: Throttle,
    stopped: AtomicBool,
}

/// The work of one cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CleanReport {
    /// The dirty part that was cleaned: from here
    pub first_offset: i64,
    /// to before here. Less than was asked for if the map became full.
    pub end_offset: i64,
    /// The bytes that were read for the map,
    pub map_bytes_read: u64,
    /// and for writing the segments anew.
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub records_read: u64,
    pub records_written: u64,
    /// Records without key, which were dropped.
    pub records_keyless: u64,
    pub segments_read: usize,
    pub segments_written: usize,
    pub map_bytes: usize,
    /// Keys in the map, and how full that made it, as a part of 1.
    pub map_keys: usize,
    pub map_utilization: f64,
    pub map_duration: Duration,
    pub duration: Duration,
}

impl Cleaner {
    pub fn new(settings: CleanerSettings) -> Self {
        Self {
            throttle: Throttle::new(settings.bytes_per_second),
            settings,
            stopped: AtomicBool::new(false),
        }
    }

    /// Cleanings that are at work end soon, with `CleaningStopped`, and no other begins.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn io_bytes(&self) -> usize {
        (self.settings.io_bytes / 2).max(IO_BYTES_MIN)
    }
}

impl Log {
    /// Cleans the log from its start to at most `first_uncleanable_offset` (both as [`cleanable`](Log::cleanable) says). On success everything
    /// before the report's end is clean. After an error the log is as good as before; some of its segments may have been cleaned.
    pub fn clean(
        &self,
        cleaner: &Cleaner,
        first_dirty_offset: i64,
        first_uncleanable_offset: i64,
    ) -> Result<CleanReport> {
        let Some(_cleaning) = self.cleaning.try_lock() else {
            return Err(LogError::CleaningStopped("another thread cleans it"));
        };
        self.check_writable()?;
        self.check_in_place()?;
        if first_dirty_offset >= first_uncleanable_offset {
            // Not even the segment that the first dirty offset is in: it may be the active one.
            return Ok(CleanReport {
                first_offset: first_dirty_offset,
                end_offset: first_dirty_offset,
                ..CleanReport::default()
            });
        }
        if self.is_moving() {
            return Err(LogError::CleaningStopped("the log is being copied"));
        }
        if let Some(log) = self.this.upgrade() {
            // What makes older records needless must not be lost when they are gone.
            log.flush()?;
        }
        self.remove_cleaned()?;
        let truncations = self.truncations();
        let run = Run {
            log: self,
            cleaner,
            filter: Filter::default(),
            truncations,
            untaken_bytes: 0,
            emptied: Vec::new(),
            report: CleanReport::default(),
        };
        let result = run.run(first_dirty_offset, first_uncleanable_offset);
        let report = self.guard(result)?;
        let _layout = self.layout.lock();
        if self.truncations() == truncations {
            self.note_cleaned(report.end_offset);
        }
        Ok(report)
    }
}

impl Log {
    /// An error once another directory has the partition.
    fn check_in_place(&self) -> Result<()> {
        match self.successor.get() {
            Some(_) => Err(LogError::CleaningStopped("the log has moved")),
            None => Ok(()),
        }
    }
}

struct Run<'a> {
    log: &'a Log,
    cleaner: &'a Cleaner,
    filter: Filter,
    truncations: u64,
    /// Read or written, but not yet taken from the throttle.
    untaken_bytes: u64,
    emptied: Vec<u8>,
    report: CleanReport,
}

/// For each producer id that a log remembers, the last offset of its last batch of records, None if
/// only markers are left, and its epoch.
type LastBatches = HashMap<i64, (Option<i64>, i16)>;

impl Run<'_> {
    fn run(mut self, first_dirty: i64, first_uncleanable: i64) -> Result<CleanReport> {
        let begin = Instant::now();
        let segments = self.log.segments();
        let dirty = dirty_part(&segments, first_dirty, first_uncleanable);
        let map = self.index(dirty, first_dirty, first_uncleanable)?;
        let end_offset = map.latest_offset() + 1;
        self.report.first_offset = first_dirty;
        self.report.end_offset = end_offset;
        self.report.map_bytes = map.bytes();
        self.report.map_keys = map.keys();
        self.report.map_utilization = map.utilization();
        self.report.map_duration = begin.elapsed();

        let config = self.log.config();
        let count = segments.partition_point(|segment| segment.base_offset < end_offset);
        let last_clean = segments[..count]
            .iter()
            .rev()
            .find(|segment| segment.base_offset < first_dirty);
        let horizon_ms = match last_clean {
            Some(segment) => segment
                .modified_ms()?
                .saturating_sub(config.delete_retention_ms),
            None => 0,
        };
        let groups = group(&segments[..count], first_uncleanable, &config)?;
        // Of whole segments, even where the map does not reach to the end of the last: its index is written anew too.
        let from = segments
            .first()
            .map_or(first_dirty, |first| first.base_offset);
        let to = segments
            .get(count)
            .map_or(end_offset, |next| next.base_offset);
        // A list that is held would hold the old segments' files.
        drop(segments);
        let mut transactions = Transactions::new(self.aborted(from, to)?);
        for group in groups {
            self.clean_group(group, &map, horizon_ms, &mut transactions)?;
        }
        let counts = self.filter.counts;
        self.report.records_read = counts.records_read;
        self.report.records_written = counts.records_kept;
        self.report.records_keyless = counts.records_keyless;
        self.report.duration = begin.elapsed();
        Ok(self.report)
    }

    /// The aborted transactions that have batches in a range of offsets.
    fn aborted(&self, first_offset: i64, end_offset: i64) -> Result<Vec<AbortedEntry>> {
        let segments = self.log.segments();
        let from = segments
            .partition_point(|segment| segment.base_offset <= first_offset)
            .saturating_sub(1);
        let mut found = Vec::new();
        for segment in &segments[from..] {
            let index = &segment.transaction_index;
            if index.collect(Reach::Disk, first_offset, end_offset, &mut found)? {
                break;
            }
        }
        Ok(found)
    }

    /// An error if the cleaning should end here.
    fn go_on(&self) -> Result<()> {
        self.log.check_writable()?;
        self.log.check_in_place()?;
        if self.cleaner.is_stopped() {
            return Err(LogError::CleaningStopped("the cleaner stops"));
        }
        if self.log.truncations() != self.truncations {
            return Err(LogError::CleaningStopped("the log was truncated"));
        }
        Ok(())
    }

    /// Counts bytes that were read or written; now and then waits for the throttle, and looks whether to go on.
    fn took(&mut self, bytes: usize) -> Result<()> {
        self.untaken_bytes += bytes as u64;
        if self.untaken_bytes >= self.cleaner.io_bytes() as u64 {
            self.pay()?;
        }
        Ok(())
    }

    fn pay(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.untaken_bytes);
        self.cleaner.throttle.take(bytes, || self.go_on())
    }

    /// The last offset of each key in the dirty part, as far as the map has room.
    fn index(
        &mut self,
        dirty: &[Arc<Segment>],
        first_dirty: i64,
        first_uncleanable: i64,
    ) -> Result<OffsetMap> {
        let settings = self.cleaner.settings;
        let mut map = OffsetMap::new(
            settings.map_bytes,
            settings.map_load_factor,
            first_dirty,
            (first_uncleanable - first_dirty).max(0) as u64,
        );
        let mut transactions = Transactions::new(self.aborted(first_dirty, first_uncleanable)?);
        for (at, segment) in dirty.iter().enumerate() {
            self.go_on()?;
            if !self.index_segment(segment, first_dirty, &mut transactions, &mut map)? {
                break;
            }
            // Offsets that nothing has are covered too.
            let next_base = dirty
                .get(at + 1)
                .map_or(first_uncleanable, |next| next.base_offset);
            map.cover(next_base - 1);
        }
        map.finish();
        Ok(map)
    }

    /// False if the map became full.
    fn index_segment(
        &mut self,
        segment: &Arc<Segment>,
        first_dirty: i64,
        transactions: &mut Transactions,
        map: &mut OffsetMap,
    ) -> Result<bool> {
        let size = segment.size_bytes();
        let Some(first) = segment.find(first_dirty, size)? else {
            return Ok(true);
        };
        let mut scan = Scan::new(&segment.file, first.position, size, self.cleaner.io_bytes())?;
        while let Some((located, bytes)) = scan.next_batch()? {
            let header = located.header;
            if header.is_control() {
                let marker = end_marker(bytes, &header);
                let outcome = marker.map(|marker| marker.outcome);
                transactions.marker(&header, outcome, header.record_count == 0);
            } else if !transactions.is_aborted(&header) {
                let indexed = self.filter.index(bytes, &header, first_dirty, map);
                if !indexed.map_err(|error| damaged(segment, located.position, &error))? {
                    return Ok(false);
                }
            }
            self.report.map_bytes_read += bytes.len() as u64;
            self.took(bytes.len())?;
        }
        self.pay()?;
        Ok(self.filter.settle(map))
    }

    /// Writes the segments of a group anew, as one, and swaps it in.
    fn clean_group(
        &mut self,
        group: Vec<Arc<Segment>>,
        map: &OffsetMap,
        horizon_ms: i64,
        transactions: &mut Transactions,
    ) -> Result<()> {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            return Ok(());
        };
        self.go_on()?;
        let last_batches = self.last_batches();
        let segments = self.log.segments();
        let after = segments.partition_point(|other| other.base_offset <= last.base_offset);
        let Some(next) = segments.get(after) else {
            return Err(LogError::CleaningStopped("its segments changed"));
        };
        let mut cleaned = CleanedSegments::create(
            self.log,
            first.base_offset,
            next.base_offset,
            last.modified_ms()?,
            self.cleaner.io_bytes(),
        )?;
        drop(segments);
        let mut last_marker = None;
        let mut write = || {
            for segment in &group {
                let keeps_tombstones = segment.modified_ms()? > horizon_ms;
                let mut into = Into {
                    cleaned: &mut cleaned,
                    map,
                    keeps_tombstones,
                    last_batches: &last_batches,
                    last_marker: &mut last_marker,
                };
                self.clean_segment(segment, &mut into, transactions)?;
            }
            self.go_on()?;
            cleaned.finish()
        };
        let written = write();
        let swapped = written.and_then(|segments| {
            self.report.segments_written += segments.len();
            if let Some(offset) = last_marker {
                self.log.remove_snapshots_to(offset)?;
            }
            self.log.swap(&segments, &group, self.truncations)
        });
        if swapped.is_err() {
            cleaned.discard();
        }
        swapped?;
        self.report.segments_read += group.len();
        self.report.bytes_written += cleaned.bytes();
        Ok(())
    }

    fn clean_segment(
        &mut self,
        segment: &Arc<Segment>,
        into: &mut Into<'_, '_>,
        transactions: &mut Transactions,
    ) -> Result<()> {
        let size = segment.size_bytes();
        let mut scan = Scan::new(&segment.file, 0, size, self.cleaner.io_bytes())?;
        while let Some((located, bytes)) = scan.next_batch()? {
            let before = into.cleaned.bytes();
            self.clean_batch(bytes, &located.header, into, transactions)
                .map_err(|error| match error {
                    LogError::Record(error) => damaged(segment, located.position, &error),
                    other => other,
                })?;
            self.report.bytes_read += bytes.len() as u64;
            self.took(bytes.len() + (into.cleaned.bytes() - before) as usize)?;
        }
        self.pay()
    }

    fn clean_batch(
        &mut self,
        bytes: &[u8],
        header: &BatchHeader,
        into: &mut Into<'_, '_>,
        transactions: &mut Transactions,
    ) -> Result<()> {
        let kept = if header.is_control() {
            let outcome = end_marker(bytes, header).map(|marker| marker.outcome);
            let fate = transactions.marker(header, outcome, header.record_count == 0);
            if let Some(aborted) = fate.aborted {
                into.cleaned.push(bytes, header)?;
                return into.cleaned.push_aborted(aborted);
            }
            if fate.needless && !into.keeps_tombstones {
                *into.last_marker = Some(header.last_offset());
                Kept::Nothing
            } else {
                Kept::All
            }
        } else if transactions.is_aborted(header) {
            Kept::Nothing
        } else {
            self.filter
                .filter(bytes, header, into.map, into.keeps_tombstones)?
        };
        match kept {
            Kept::All => into.cleaned.push(bytes, header),
            Kept::Some => {
                let rewritten = self.filter.rewritten();
                into.cleaned
                    .push(rewritten, &BatchHeader::parse(rewritten)?)
            }
            Kept::Nothing if is_last_of_producer(header, into.last_batches) => {
                rewrite_empty(header, &mut self.emptied)?;
                into.cleaned
                    .push(&self.emptied, &BatchHeader::parse(&self.emptied)?)
            }
            Kept::Nothing => Ok(()),
        }
    }

    fn last_batches(&self) -> LastBatches {
        let writer = self.log.writer();
        let producers = writer.producers.producers();
        producers
            .map(|(id, producer)| {
                let last = producer.last_batch().map(|last| last.last_offset);
                (id, (last, producer.epoch))
            })
            .collect()
    }
}

/// Where batches go, and by what rules.
struct Into<'a, 'l> {
    cleaned: &'a mut CleanedSegments<'l>,
    map: &'a OffsetMap,
    keeps_tombstones: bool,
    last_batches: &'a LastBatches,
    /// The last marker that goes.
    last_marker: &'a mut Option<i64>,
}

/// True if the log would forget the producer's last sequence number (or, if only markers are left,
/// its epoch) with this batch.
fn is_last_of_producer(header: &BatchHeader, last_batches: &LastBatches) -> bool {
    header.has_producer_id()
        && match last_batches.get(&header.producer_id) {
            Some((Some(last_offset), _)) => *last_offset == header.last_offset(),
            Some((None, epoch)) => header.is_control() && *epoch == header.producer_epoch,
            None => false,
        }
}

/// The closed segments from the one that contains `first_dirty` on.
fn dirty_part(
    segments: &[Arc<Segment>],
    first_dirty: i64,
    first_uncleanable: i64,
) -> &[Arc<Segment>] {
    let from = segments
        .partition_point(|segment| segment.base_offset <= first_dirty)
        .saturating_sub(1);
    let to = segments.partition_point(|segment| segment.base_offset < first_uncleanable);
    segments.get(from..to).unwrap_or_default()
}

/// The checksum of the batch was right: whoever wrote it was wrong.
#[cold]
fn damaged(segment: &Segment, position: u64, error: &RecordError) -> LogError {
    LogError::Corrupt {
        path: segment.file.path(),
        position,
        problem: error.to_string(),
    }
}
