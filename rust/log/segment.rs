//! A segment: one `.log` of record batches with its offset index, its time index, and its aborted transactions.
//!
//! One thread at a time appends to, truncates or closes a segment (the log's writer); any number search and read it meanwhile. Data comes
//! before index entries, so that an index never points behind the data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::config::LogConfig;
use super::error::{Context, LogError, Result};
use super::files::{FileCache, Folder, SegmentFile};
use super::index::Entry;
use super::names::{Kind, Suffix};
use super::offset_index::{OffsetIndex, OffsetPosition, fits};
use super::scan::{LOOKUP_BYTES, Located, Reach, Scan};
use super::time_index::{TimeIndex, TimestampOffset};
use super::transaction_index::TransactionIndex;
use crate::records::BatchHeader;
use crate::records::batch::NO_TIMESTAMP;
use crate::storage::Mode;

pub struct Segment {
    pub base_offset: i64,
    pub file: Arc<SegmentFile>,
    pub offset_index: OffsetIndex,
    pub time_index: TimeIndex,
    pub transaction_index: TransactionIndex,
    folder: Arc<Folder>,
    size_bytes: AtomicU64,
    /// It left its log: its files are renamed, or gone.
    removed: AtomicBool,
    /// The greatest timestamp of the first batch: what age is counted from. UNKNOWN until it was looked up, and while there is none.
    first_ms: AtomicI64,
    times: Mutex<Times>,
}

const UNKNOWN: i64 = i64::MIN;

#[derive(Clone, Copy, Default)]
struct Times {
    /// The greatest timestamp and the last offset of the batch that has it; None until it was looked up.
    largest: Option<TimestampOffset>,
    created_ms: i64,
    /// Bytes of batches since the last index entry.
    unindexed_bytes: u64,
    /// The time index has this timestamp or a later one: batches of one millisecond need not ask it.
    timed_ms: Option<i64>,
}

impl Segment {
    /// Creates the three files of an empty segment. Leftovers of the same name (from a crash in the middle of a roll) are emptied.
    pub fn create(
        folder: &Arc<Folder>,
        base_offset: i64,
        now_ms: i64,
        cache: &Arc<FileCache>,
    ) -> Result<Arc<Self>> {
        Self::create_as(folder, base_offset, Suffix::None, now_ms, cache)
    }

    /// The same in files that end in `suffix`.
    pub fn create_as(
        folder: &Arc<Folder>,
        base_offset: i64,
        suffix: Suffix,
        now_ms: i64,
        cache: &Arc<FileCache>,
    ) -> Result<Arc<Self>> {
        for kind in [Kind::OffsetIndex, Kind::TimeIndex, Kind::Log] {
            let path = folder.file(base_offset, kind, suffix);
            folder
                .storage
                .open(&path, Mode::Replace)
                .context("create", &path)?;
        }
        let transaction_index = TransactionIndex::open(Arc::clone(folder), base_offset, suffix);
        transaction_index.replace(&[])?;
        let times = Times {
            largest: Some(TimestampOffset {
                timestamp_ms: NO_TIMESTAMP,
                offset: base_offset,
            }),
            created_ms: now_ms,
            ..Times::default()
        };
        Ok(Arc::new(Self {
            base_offset,
            file: SegmentFile::new(
                Arc::clone(folder),
                base_offset,
                suffix,
                true,
                Arc::clone(cache),
            ),
            offset_index: OffsetIndex::create(Arc::clone(folder), base_offset, suffix),
            time_index: TimeIndex::create(Arc::clone(folder), base_offset, suffix),
            transaction_index,
            folder: Arc::clone(folder),
            size_bytes: AtomicU64::new(0),
            removed: AtomicBool::new(false),
            first_ms: AtomicI64::new(UNKNOWN),
            times: Mutex::new(times),
        }))
    }

    /// A segment that exists, of `size_bytes`. Nothing is opened or read before it is needed.
    pub fn open(
        folder: &Arc<Folder>,
        base_offset: i64,
        size_bytes: u64,
        writable: bool,
        now_ms: i64,
        cache: &Arc<FileCache>,
    ) -> Arc<Self> {
        let (folder, none) = (Arc::clone(folder), Suffix::None);
        let file = SegmentFile::new(
            Arc::clone(&folder),
            base_offset,
            none,
            writable,
            Arc::clone(cache),
        );
        Arc::new(Self::existing(folder, file, none, size_bytes, now_ms))
    }

    /// A `.swap` that is about to take its place: its indexes have the names that they will keep.
    pub fn open_swap(
        folder: &Arc<Folder>,
        base_offset: i64,
        now_ms: i64,
        cache: &Arc<FileCache>,
    ) -> Result<Arc<Self>> {
        let folder = Arc::clone(folder);
        let (swap, cache) = (Suffix::Swap, Arc::clone(cache));
        let file = SegmentFile::new(Arc::clone(&folder), base_offset, swap, true, cache);
        let path = file.path();
        let length = file.file().and_then(|file| file.length());
        let size_bytes = length.context("look at", &path)?;
        Ok(Arc::new(Self::existing(
            folder,
            file,
            Suffix::None,
            size_bytes,
            now_ms,
        )))
    }

    /// Of files that exist, which are not looked at.
    fn existing(
        folder: Arc<Folder>,
        file: Arc<SegmentFile>,
        suffix_of_transactions: Suffix,
        size_bytes: u64,
        now_ms: i64,
    ) -> Self {
        let base_offset = file.base_offset;
        Self {
            base_offset,
            file,
            offset_index: OffsetIndex::open(Arc::clone(&folder), base_offset),
            time_index: TimeIndex::open(Arc::clone(&folder), base_offset),
            transaction_index: TransactionIndex::open(
                Arc::clone(&folder),
                base_offset,
                suffix_of_transactions,
            ),
            folder,
            size_bytes: AtomicU64::new(size_bytes),
            removed: AtomicBool::new(false),
            first_ms: AtomicI64::new(UNKNOWN),
            times: Mutex::new(Times {
                created_ms: now_ms,
                ..Times::default()
            }),
        }
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    pub fn set_size_bytes(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
    }

    pub fn is_empty(&self) -> bool {
        self.size_bytes() == 0
    }

    /// Writes batches at the end. After an error the file is as long as before, or the second error says that it is not.
    ///
    /// `batches`: position in `bytes` and (stamped) header of each.
    pub fn append(
        &self,
        bytes: &[u8],
        batches: &[(usize, BatchHeader)],
        config: &LogConfig,
    ) -> std::result::Result<(), AppendFailure> {
        let start = self.size_bytes();
        let path_of = || self.file.path();
        let file = self
            .file
            .file()
            .map_err(|error| AppendFailure::undone(error, &path_of()))?;
        if let Err(error) = file.write_at(bytes, start) {
            // Part of it may be there. A later append would overwrite it, but a reader of the file, or a recovery, would see it. Even after a
            // power cut: of several batches the first may be whole, and somebody was told that it was not written.
            let undone = file.set_length(start).and_then(|()| match batches {
                [] | [_] => Ok(()),
                _ => file.sync_data(),
            });
            return Err(match undone {
                Ok(()) => AppendFailure::undone(error, &path_of()),
                Err(_) => AppendFailure {
                    undone: false,
                    ..AppendFailure::undone(error, &path_of())
                },
            });
        }
        self.set_size_bytes(start + bytes.len() as u64);
        for (position, header) in batches {
            if let Err(error) = self.note(start + *position as u64, header, config) {
                // Only an index could not be written: it is rebuilt at the next recovery, but this disk is not to be trusted.
                return Err(AppendFailure {
                    error,
                    undone: false,
                });
            }
        }
        Ok(())
    }

    /// Takes one batch at `position` into the indexes and the greatest timestamp.
    fn note(&self, position: u64, header: &BatchHeader, config: &LogConfig) -> Result<()> {
        let (entry, timed, largest) = {
            let mut times = self.times.lock();
            if position == 0 {
                self.first_ms.store(header.max_timestamp, Ordering::Release);
            }
            let mut largest = times.largest.unwrap_or(TimestampOffset {
                timestamp_ms: NO_TIMESTAMP,
                offset: self.base_offset,
            });
            if header.max_timestamp > largest.timestamp_ms {
                largest = TimestampOffset {
                    timestamp_ms: header.max_timestamp,
                    offset: header.last_offset(),
                };
            }
            times.largest = Some(largest);
            let entry = times.unindexed_bytes > u64::from(config.index_interval_bytes);
            times.unindexed_bytes =
                if entry { 0 } else { times.unindexed_bytes } + header.size_bytes() as u64;
            let timed = entry && times.timed_ms < Some(largest.timestamp_ms);
            if timed {
                times.timed_ms = Some(largest.timestamp_ms);
            }
            (entry, timed, largest)
        };
        if entry {
            self.offset_index.append(OffsetPosition {
                offset: header.last_offset(),
                position: position as u32,
            })?;
        }
        if timed {
            self.note_time(largest)?;
        }
        Ok(())
    }

    fn note_time(&self, largest: TimestampOffset) -> Result<()> {
        let before =
            |last: Option<TimestampOffset>| last.map_or(NO_TIMESTAMP, |last| last.timestamp_ms);
        self.time_index
            .append_if(largest, |last| largest.timestamp_ms > before(last))
    }

    /// True if batches of `bytes` up to `last_offset` belong into the next segment (Kafka's rules).
    /// `unindexed`: how many batches before them are not in the indexes yet.
    #[allow(clippy::too_many_arguments)]
    pub fn should_roll(
        &self,
        bytes: usize,
        unindexed: usize,
        max_timestamp_ms: i64,
        last_offset: i64,
        config: &LogConfig,
        jitter_ms: i64,
        now_ms: i64,
    ) -> Result<bool> {
        let size = self.size_bytes();
        if size + bytes as u64 > u64::from(config.segment_bytes)
            || !fits(self.base_offset, last_offset)
        {
            return Ok(true);
        }
        let index_bytes = config.segment_index_bytes as usize;
        if self.offset_index.len()? + unindexed >= index_bytes / OffsetPosition::BYTES
            || self.time_index.len()? + unindexed + 1 >= index_bytes / TimestampOffset::BYTES
        {
            return Ok(size > 0);
        }
        Ok(size > 0
            && self.age_ms(max_timestamp_ms, now_ms)? > config.segment_age_max_ms() - jitter_ms)
    }

    /// How long the segment has been open when a batch with `timestamp_ms` comes: by the batches' own clock if they have one.
    fn age_ms(&self, timestamp_ms: i64, now_ms: i64) -> Result<i64> {
        let first = self.first_timestamp_ms()?;
        if first >= 0 {
            return Ok(timestamp_ms.saturating_sub(first));
        }
        Ok(now_ms - self.times.lock().created_ms)
    }

    /// The greatest timestamp of the first batch; -1 if there is none.
    pub fn first_timestamp_ms(&self) -> Result<i64> {
        let first_ms = self.first_ms.load(Ordering::Acquire);
        if first_ms != UNKNOWN {
            return Ok(first_ms);
        }
        let Some(first) = self.scan(0, self.size_bytes())?.next_header()? else {
            return Ok(NO_TIMESTAMP);
        };
        self.first_ms
            .store(first.header.max_timestamp, Ordering::Release);
        Ok(first.header.max_timestamp)
    }

    /// The greatest timestamp, from the last entry of the time index and what comes after it.
    pub fn largest(&self) -> Result<TimestampOffset> {
        if let Some(largest) = self.times.lock().largest {
            return Ok(largest);
        }
        let mut largest = TimestampOffset {
            timestamp_ms: NO_TIMESTAMP,
            offset: self.base_offset,
        };
        let size = self.size_bytes();
        let mut from = 0;
        // An entry that is wrong would let retention take what is young.
        if let Some(last) = self.time_index.last()?
            && let Some(batch) = self.timed(last, size)
        {
            (largest, from) = (last, batch.position);
        }
        let mut scan = self.scan(from, size)?;
        while let Some(batch) = scan.next_header()? {
            if batch.header.max_timestamp > largest.timestamp_ms {
                largest = TimestampOffset {
                    timestamp_ms: batch.header.max_timestamp,
                    offset: batch.header.last_offset(),
                };
            }
        }
        Ok(*self.times.lock().largest.get_or_insert(largest))
    }

    /// The time from which retention counts a segment's age: its greatest timestamp, or without one
    /// the time of its last write.
    pub fn largest_timestamp_ms(&self) -> Result<i64> {
        let largest = self.largest()?.timestamp_ms;
        if largest >= 0 {
            return Ok(largest);
        }
        self.modified_ms()
    }

    /// The time of the last write.
    pub fn modified_ms(&self) -> Result<i64> {
        let path = self.file.path();
        let file = self.folder.storage.metadata(&path);
        Ok(file.context("look at", &path)?.modified_ms)
    }

    /// Makes the time of the last write another.
    pub fn set_modified(&self, modified_ms: i64) -> Result<()> {
        let path = self.file.path();
        self.folder
            .storage
            .set_modified(&path, modified_ms)
            .context("set the time of", &path)
    }

    fn scan(&self, from: u64, end: u64) -> Result<Scan> {
        Scan::new(&self.file, from, end, LOOKUP_BYTES)
    }

    /// The position in the index for `offset`. An index is a hint: without it (it went with its segment, or cannot be read) all is scanned.
    fn indexed(&self, offset: i64, reach: Reach) -> Result<u64> {
        let entry = match self.offset_index.lookup(offset, reach) {
            Err(LogError::NotCached) => return Err(LogError::NotCached),
            other => other.ok().flatten(),
        };
        Ok(entry.map_or(0, |entry| u64::from(entry.position)))
    }

    /// A segment as a reader beside a live writer finds it, perhaps still under another name. Its file is held open: another may get its name.
    pub fn open_to_read(
        folder: &Arc<Folder>,
        base_offset: i64,
        suffix: Suffix,
        suffix_of_transactions: Suffix,
        now_ms: i64,
        cache: &Arc<FileCache>,
    ) -> std::io::Result<Arc<Self>> {
        let file = SegmentFile::new(
            Arc::clone(folder),
            base_offset,
            suffix,
            false,
            Arc::clone(cache),
        );
        file.pin()?;
        let size_bytes = file.file()?.length()?;
        let folder = Arc::clone(folder);
        let segment = Self::existing(folder, file, suffix_of_transactions, size_bytes, now_ms);
        if suffix != Suffix::None {
            // They may have either name, and what has the usual one may be of a segment that this one replaces.
            segment.offset_index.replace_in_memory(Vec::new());
            segment.time_index.replace_in_memory(Vec::new());
        }
        Ok(Arc::new(segment))
    }

    /// The batch that contains `offset`, or else the first after it, among those before position `end`.
    pub fn find(&self, offset: i64, end: u64) -> Result<Option<Located>> {
        self.find_within(Reach::Disk, offset, end)
    }

    /// The same, going no further than that for what it has to read.
    pub fn find_within(&self, reach: Reach, offset: i64, end: u64) -> Result<Option<Located>> {
        let from = self.indexed(offset, reach)?;
        match self.find_from(reach, from, offset, end) {
            // The index was wrong: do without it.
            Err(LogError::Corrupt { .. }) if from > 0 => self.find_from(reach, 0, offset, end),
            // Or of another file, which a reader beside a compaction may meet.
            Ok(found)
                if from > 0
                    && !self.file.is_writable()
                    && found.is_none_or(|found| found.header.base_offset > offset) =>
            {
                self.find_from(reach, 0, offset, end)
            }
            other => other,
        }
    }

    /// The same, for who knows where a batch begins that may have `offset`, or an earlier one.
    pub fn find_near(
        &self,
        reach: Reach,
        known: u64,
        offset: i64,
        end: u64,
    ) -> Result<Option<Located>> {
        if known > self.indexed(offset, reach)?
            && let Ok(Some(batch)) = self.find_from(reach, known, offset, end)
        {
            return Ok(Some(batch));
        }
        self.find_within(reach, offset, end)
    }

    fn find_from(&self, reach: Reach, from: u64, offset: i64, end: u64) -> Result<Option<Located>> {
        let mut scan = self.scan(from, end)?.within(reach);
        let mut is_named = from > 0;
        loop {
            let batch = scan.next_header()?;
            // What the index names begins where it says, or earlier. From further on, readers would miss what is before it.
            if is_named && batch.is_none_or(|batch| batch.header.base_offset > offset) {
                return Err(LogError::Corrupt {
                    path: self.file.path(),
                    position: from,
                    problem: format!("the index names it for offset {offset}"),
                });
            }
            is_named = false;
            match batch {
                Some(batch) if batch.header.last_offset() < offset => {}
                // It reaches into the next one: no whole batch does, and the next one has the offset.
                Some(batch)
                    if batch.header.base_offset < offset && begins_by(&mut scan, offset)? => {}
                found => return Ok(found),
            }
        }
    }

    /// The batch that an entry of the time index is about; None if the entry is wrong.
    fn timed(&self, entry: TimestampOffset, end: u64) -> Option<Located> {
        let batch = self.find(entry.offset, end).ok().flatten()?;
        let is_true = batch.header.base_offset <= entry.offset
            && batch.header.max_timestamp == entry.timestamp_ms;
        is_true.then_some(batch)
    }

    /// The first batch that ends at `start_offset` or later and has a record as young as `timestamp_ms`.
    pub fn find_timestamp(
        &self,
        timestamp_ms: i64,
        start_offset: i64,
        end: u64,
    ) -> Result<Option<Located>> {
        // An entry names the first batch that reached its timestamp: nothing before that batch is as young.
        let older = self
            .time_index
            .lookup(timestamp_ms, Reach::Disk)
            .ok()
            .flatten();
        let older = older.filter(|entry| entry.offset > start_offset);
        let from = match older.and_then(|entry| self.timed(entry, end)) {
            Some(batch) => batch.position,
            None => self
                .find(start_offset, end)?
                .map_or(end, |batch| batch.position),
        };
        let mut scan = self.scan(from, end)?;
        while let Some(batch) = scan.next_header()? {
            if batch.header.max_timestamp >= timestamp_ms
                && batch.header.last_offset() >= start_offset
            {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// The offset after the last batch, by a scan from the last index entry. An error if what is there is not whole batches.
    pub fn next_offset(&self) -> Result<i64> {
        let size = self.size_bytes();
        if let Some(last) = self.offset_index.last()?
            && u64::from(last.position) < size
        {
            let mut scan = self.scan(u64::from(last.position), size)?;
            // An index that is older than the batches may point anywhere.
            if let Ok(Some(first)) = scan.next_header()
                && (self.base_offset..=last.offset).contains(&first.header.base_offset)
            {
                return self.end_of(scan, first.header.last_offset() + 1);
            }
        }
        self.end_of(self.scan(0, size)?, self.base_offset)
    }

    /// An offset that goes back, or too far, is damage (no checksum covers it): believed, it would move the log's end.
    fn end_of(&self, mut scan: Scan, mut next: i64) -> Result<i64> {
        while let Some(batch) = scan.next_header()? {
            let (first_offset, last_offset) =
                (batch.header.base_offset, batch.header.last_offset());
            if first_offset < next
                || last_offset < first_offset
                || !fits(self.base_offset, last_offset)
            {
                return Err(LogError::Corrupt {
                    path: self.file.path(),
                    position: batch.position,
                    problem: format!("offset {first_offset} after {next}"),
                });
            }
            next = last_offset + 1;
        }
        Ok(next)
    }

    /// Cuts off the batch that contains `offset` and everything after it.
    pub fn truncate_to(&self, offset: i64) -> Result<()> {
        let Some(batch) = self.find(offset, self.size_bytes())? else {
            return Ok(());
        };
        self.offset_index.truncate_to(offset)?;
        self.time_index.truncate_to(offset)?;
        self.transaction_index.truncate_to(offset)?;
        let path = self.file.path();
        let file = self.file.file().context("open", &path)?;
        self.set_size_bytes(batch.position);
        file.set_length(batch.position).context("truncate", &path)?;
        let mut times = self.times.lock();
        times.unindexed_bytes = 0;
        times.timed_ms = None;
        if batch.position == 0 {
            self.first_ms.store(UNKNOWN, Ordering::Release);
            times.largest = Some(TimestampOffset {
                timestamp_ms: NO_TIMESTAMP,
                offset: self.base_offset,
            });
        } else {
            times.largest = None;
        }
        drop(times);
        self.largest()?;
        Ok(())
    }

    /// Brings the index files up to date and to their length: what follows when the segment is rolled or closed.
    pub fn finish(&self) -> Result<()> {
        let largest = self.largest()?;
        self.note_time(largest)?;
        self.offset_index.finish()?;
        self.time_index.finish()
    }

    /// Sets what a recovery found.
    pub fn recovered(&self, largest: TimestampOffset, first_ms: Option<i64>, unindexed_bytes: u64) {
        self.first_ms
            .store(first_ms.unwrap_or(UNKNOWN), Ordering::Release);
        let mut times = self.times.lock();
        *times = Times {
            largest: Some(largest),
            unindexed_bytes,
            timed_ms: None,
            created_ms: times.created_ms,
        };
    }

    /// Makes the batches durable. Of a segment that leaves the log meanwhile there is nothing to keep.
    pub fn sync(&self) -> Result<()> {
        let path = self.file.path();
        let synced = self.file.file().and_then(|file| file.sync_data());
        self.unless_removed(synced.context("sync", &path))
    }

    /// Makes batches and indexes of a closed segment durable.
    pub fn sync_closed(&self) -> Result<()> {
        self.sync()?;
        self.sync_indexes()
    }

    /// Makes its indexes durable.
    pub fn sync_indexes(&self) -> Result<()> {
        self.unless_removed(
            self.offset_index
                .sync()
                .and_then(|()| self.time_index.sync())
                .and_then(|()| self.transaction_index.sync()),
        )
    }

    fn unless_removed(&self, result: Result<()>) -> Result<()> {
        if self.removed.load(Ordering::Acquire) {
            Ok(())
        } else {
            result
        }
    }

    /// Renames all files of the segment that exist. The log is what counts: it comes when its indexes are there, and goes before they do.
    /// After a crash in between there are indexes without a log, which mean nothing; never a log whose aborted transactions nobody knows.
    pub fn set_suffix(&self, suffix: Suffix) -> Result<()> {
        let goes = suffix == Suffix::Deleted;
        self.removed.store(goes, Ordering::Release);
        let rename_log = || {
            let path = self.file.path();
            self.file.set_suffix(suffix).context("rename", &path)
        };
        if goes {
            rename_log()?;
        }
        self.offset_index.set_suffix(suffix)?;
        self.time_index.set_suffix(suffix)?;
        self.transaction_index.set_suffix(suffix)?;
        if goes { Ok(()) } else { rename_log() }
    }

    /// Removes all files of the segment under `suffix`. A slice that is being sent keeps its bytes: the file it reads is opened first.
    pub fn remove(&self, suffix: Suffix) -> Result<()> {
        if Arc::strong_count(&self.file) > 1 {
            let _ = self.file.pin();
        }
        for kind in [
            Kind::Log,
            Kind::OffsetIndex,
            Kind::TimeIndex,
            Kind::TransactionIndex,
        ] {
            let path = self.folder.file(self.base_offset, kind, suffix);
            match self.folder.storage.remove_file(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                other => other.context("remove", &path)?,
            }
        }
        Ok(())
    }
}

/// True if another batch follows, and begins at `offset` or before.
fn begins_by(scan: &mut Scan, offset: i64) -> Result<bool> {
    match scan.peek() {
        Ok(next) => Ok(next.is_some_and(|next| next.header.base_offset <= offset)),
        Err(LogError::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// An append that failed; `undone` if the file is as it was.
#[derive(Debug)]
pub struct AppendFailure {
    pub error: super::error::LogError,
    pub undone: bool,
}

impl AppendFailure {
    fn undone(error: std::io::Error, path: &std::path::Path) -> Self {
        let error = Err::<(), _>(error).context("write", path).unwrap_err();
        Self {
            error,
            undone: true,
        }
    }
}
