//! Reading: which bytes of which segment answer a fetch, and where a timestamp is. No record bytes are read here.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::{Context, LogError, Result};
use super::files::FileSlice;
use super::log::{Log, Published, Segments};
use super::scan::Reach;
use super::segment::Segment;
use super::transaction_index::AbortedEntry;
use crate::io::read_cold;
use crate::records::{BatchHeader, Codec, HEADER_BYTES, Limits, Scratch, walk};

/// What a fetch gets.
#[derive(Clone)]
pub struct ReadInfo {
    /// Whole batches from the one that contains the offset on, the last perhaps cut; None if there is nothing below the upper bound.
    pub slice: Option<FileSlice>,
    /// The base offset of the segment that was read and the position in it: what a waiting fetch counts new bytes from.
    pub segment: i64,
    pub position: u64,
    /// A later segment has more below the upper bound, so that the slice gets no longer: a slice is of one segment.
    pub goes_on: bool,
    /// The log as it was.
    pub start_offset: i64,
    pub end_offset: i64,
    /// The segments as they were, where somebody may ask for aborted transactions: a cleaned segment knows fewer than its predecessor.
    pub(super) segments: Option<Segments>,
}

/// What a Fetch asks of a log: the arguments of [`Log::read`], and whether aborted transactions are to be named.
#[derive(Clone, Copy, Debug)]
pub struct FetchRange {
    pub offset: i64,
    pub bytes_max: u64,
    pub upper_bound: i64,
    pub at_least_one: bool,
    pub committed: bool,
}

/// What a Fetch gets of a log: batches, and the aborted transactions that have any among them, for readers of committed records.
#[derive(Clone)]
pub struct Fetched {
    pub slice: Option<FileSlice>,
    /// As in [`ReadInfo`].
    pub goes_on: bool,
    pub aborted: Option<Vec<AbortedEntry>>,
}

impl Fetched {
    /// Producer id and first offset of the aborted transactions, as an answer names them.
    pub fn aborted_transactions(&self) -> Option<Vec<(i64, i64)>> {
        let named = |one: &AbortedEntry| (one.producer_id, one.first_offset);
        let aborted = self.aborted.as_ref()?;
        Some(aborted.iter().map(named).collect())
    }
}

/// Where a timestamp was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampMatch {
    pub offset: i64,
    pub timestamp_ms: i64,
    pub leader_epoch: i32,
}

/// What a search by time reads of an uncompressed batch first.
const FIRST_BYTES: usize = 1024;
const BUFFER_BYTES_KEPT: usize = 64 << 10;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Log {
    /// The batches from `offset` on: at most `bytes_max` bytes, none that reaches `upper_bound`, from one segment. With
    /// `at_least_one` the first batch comes whole, however large. Below the log's start or beyond its end: `OffsetOutOfRange`.
    pub fn read(
        &self,
        offset: i64,
        bytes_max: u64,
        upper_bound: i64,
        at_least_one: bool,
    ) -> Result<ReadInfo> {
        let found = self.read_within(Reach::Disk, offset, bytes_max, upper_bound, at_least_one);
        self.home.guard_read(found)
    }

    /// As [`read`](Self::read), but None if it would have to wait for the disk to find the batches.
    pub fn read_cached(
        &self,
        offset: i64,
        bytes_max: u64,
        upper_bound: i64,
        at_least_one: bool,
    ) -> Result<Option<ReadInfo>> {
        match self.read_within(Reach::Cache, offset, bytes_max, upper_bound, at_least_one) {
            Err(LogError::NotCached) => Ok(None),
            other => self.home.guard_read(other).map(Some),
        }
    }

    /// What a Fetch gets.
    pub fn fetch(&self, asked: &FetchRange) -> Result<Fetched> {
        let found = self.fetch_within(Reach::Disk, asked);
        self.home.guard_read(found)
    }

    /// As [`fetch`](Self::fetch), but None if it would have to wait for the disk.
    pub fn fetch_cached(&self, asked: &FetchRange) -> Result<Option<Fetched>> {
        match self.fetch_within(Reach::Cache, asked) {
            Err(LogError::NotCached) => Ok(None),
            other => self.home.guard_read(other).map(Some),
        }
    }

    /// As [`fetch_cached`](Self::fetch_cached), and after None `done` gets what an I/O thread finds.
    pub fn fetch_or_queue(
        self: &Arc<Self>,
        asked: FetchRange,
        done: impl FnOnce(Result<Fetched>) + Send + 'static,
    ) -> Result<Option<Fetched>> {
        if let Some(found) = self.fetch_cached(&asked)? {
            return Ok(Some(found));
        }
        let log = Arc::clone(self);
        read_cold(move || log.fetch(&asked), done);
        Ok(None)
    }

    fn fetch_within(&self, reach: Reach, asked: &FetchRange) -> Result<Fetched> {
        let FetchRange {
            offset,
            bytes_max,
            upper_bound,
            at_least_one,
            committed,
        } = *asked;
        let read = self.read_within(reach, offset, bytes_max, upper_bound, at_least_one)?;
        let aborted = match committed {
            true => Some(self.aborted_within(reach, offset, &read)?),
            false => None,
        };
        Ok(Fetched {
            slice: read.slice,
            goes_on: read.goes_on,
            aborted,
        })
    }

    fn read_within(
        &self,
        reach: Reach,
        offset: i64,
        bytes_max: u64,
        upper_bound: i64,
        at_least_one: bool,
    ) -> Result<ReadInfo> {
        // The end first: segments that come later are behind it, and what it names stays in the list unless it is truncated.
        let end = self.published();
        let segments = self.segments();
        let start_offset = self.start_offset();
        if offset < start_offset || offset > end.end_offset {
            return Err(LogError::OffsetOutOfRange {
                offset,
                start: start_offset,
                end: end.end_offset,
            });
        }
        let mut info = ReadInfo {
            slice: None,
            segment: end.segment,
            position: end.position,
            goes_on: false,
            start_offset,
            end_offset: end.end_offset,
            segments: None,
        };
        let upper_bound = upper_bound.min(end.end_offset);
        if offset >= upper_bound || (bytes_max == 0 && !at_least_one) {
            return Ok(info);
        }
        let first = segments
            .partition_point(|segment| segment.base_offset <= offset)
            .saturating_sub(1);
        for (at, segment) in segments.iter().enumerate().skip(first) {
            if segment.base_offset >= upper_bound {
                break;
            }
            let bound = self.bound_in(reach, &segments, at, upper_bound, &end)?;
            let (written_offset, written_position) = end.last_write;
            let is_at_the_end = segment.base_offset == end.segment && offset >= written_offset;
            let known = if is_at_the_end { written_position } else { 0 };
            let Some(batch) = segment.find_near(reach, known, offset, bound)? else {
                continue;
            };
            info.segment = segment.base_offset;
            info.position = batch.position;
            let size = batch.header.size_bytes() as u64;
            let wanted = if at_least_one {
                bytes_max.max(size)
            } else {
                bytes_max
            };
            let length = wanted.min(bound - batch.position);
            if length > 0 {
                if self.has_aborted.load(Ordering::Acquire) {
                    info.segments = Some(Arc::clone(&segments));
                }
                let next = segments.get(at + 1);
                info.goes_on = next.is_some_and(|next| next.base_offset < upper_bound);
                info.slice = Some(FileSlice {
                    file: Arc::clone(&segment.file),
                    position: batch.position,
                    length,
                });
            }
            break;
        }
        Ok(info)
    }

    /// How far a reader may look in a segment whose visible offsets end at `upper_bound`.
    fn bound_in(
        &self,
        reach: Reach,
        segments: &Segments,
        at: usize,
        upper_bound: i64,
        end: &Published,
    ) -> Result<u64> {
        let segment = &segments[at];
        let is_active = segment.base_offset == end.segment;
        let visible = if is_active {
            end.position
        } else {
            segment.size_bytes()
        };
        let next_base = segments
            .get(at + 1)
            .map_or(end.end_offset, |next| next.base_offset);
        if upper_bound >= if is_active { end.end_offset } else { next_base } {
            return Ok(visible);
        }
        Ok(segment
            .find_within(reach, upper_bound, visible)?
            .map_or(visible, |batch| batch.position))
    }

    /// The first record at or after the log's start that is as young as `timestamp_ms`, None if all are older.
    pub fn offset_for_timestamp(&self, timestamp_ms: i64) -> Result<Option<TimestampMatch>> {
        let end = self.published();
        let segments = self.segments();
        let start_offset = self.start_offset();
        for segment in segments
            .iter()
            .filter(|segment| segment.base_offset <= end.end_offset)
        {
            if segment.largest()?.timestamp_ms < timestamp_ms {
                continue;
            }
            let visible = if segment.base_offset == end.segment {
                end.position
            } else {
                segment.size_bytes()
            };
            let mut from = start_offset;
            while let Some(batch) = segment.find_timestamp(timestamp_ms, from, visible)? {
                if let Some((offset, timestamp_ms)) =
                    find_in_batch(segment, &batch, timestamp_ms, start_offset)?
                {
                    let leader_epoch = batch.header.leader_epoch;
                    return Ok(Some(TimestampMatch {
                        offset,
                        timestamp_ms,
                        leader_epoch,
                    }));
                }
                from = batch.header.last_offset() + 1;
            }
        }
        Ok(None)
    }
}

fn find_in_batch(
    segment: &Segment,
    batch: &super::scan::Located,
    timestamp_ms: i64,
    start_offset: i64,
) -> Result<Option<(i64, i64)>> {
    let header: BatchHeader = batch.header;
    // Of a message set the header has only the last offset: it is opened.
    if header.is_log_append_time() && !header.is_message() {
        return Ok(Some((
            header.base_offset.max(start_offset),
            header.max_timestamp,
        )));
    }
    let path = || segment.file.path();
    let file = segment
        .file
        .file()
        .or_else(|error| Err(error).context("open", &path()))?;
    let size = header.size_bytes();
    BUFFER.with_borrow_mut(|buffer| {
        let mut walk = Walk {
            header,
            timestamp_ms,
            start_offset,
            at: 0,
            index: 0,
        };
        let plain = header.compression()? == Codec::None && !header.is_message();
        // Of an uncompressed batch no more is read than the search needs.
        let mut length = if plain { FIRST_BYTES.min(size) } else { size };
        loop {
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            let read = file
                .read_at(&mut buffer[..length], batch.position)
                .or_else(|error| Err(error).context("read", &path()))?;
            let found = if plain {
                walk.over(
                    buffer[..read].get(HEADER_BYTES..).unwrap_or_default(),
                    length == size,
                )?
            } else {
                SCRATCH.with_borrow_mut(|scratch| {
                    let opened = scratch.open(&buffer[..read], &header, &Limits::default())?;
                    walk.header = opened.header;
                    walk.over(opened.records, true)
                })?
            };
            if found.is_some() || length == size || read < length {
                if buffer.len() > BUFFER_BYTES_KEPT {
                    *buffer = Vec::new();
                }
                return Ok(found);
            }
            length = (length * 4).min(size);
        }
    })
}

/// A search through a batch's records for the first that is young enough.
struct Walk {
    header: BatchHeader,
    timestamp_ms: i64,
    start_offset: i64,
    at: usize,
    index: i32,
}

impl Walk {
    /// Goes on as far as `records` reach; the end of records that are not `whole` is no error.
    fn over(&mut self, records: &[u8], whole: bool) -> Result<Option<(i64, i64)>> {
        while self.index < self.header.record_count {
            let record = match walk::read(records, self.at) {
                Ok(record) if record.end <= records.len() => record,
                Err(error) if whole => return Err(error.into()),
                _ => return Ok(None),
            };
            let timestamp_ms = if self.header.is_log_append_time() {
                self.header.max_timestamp
            } else {
                let base_ms = self.header.base_timestamp;
                base_ms.wrapping_add(record.timestamp_delta)
            };
            let offset = self
                .header
                .base_offset
                .wrapping_add(i64::from(record.offset_delta));
            if timestamp_ms >= self.timestamp_ms && offset >= self.start_offset {
                return Ok(Some((offset, timestamp_ms)));
            }
            self.at = record.end;
            self.index += 1;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::fs::{Advice, fadvise};

    use super::*;
    use crate::log::LogConfig;
    use crate::log::tests::{Folder, append};

    /// A log of `count` batches of one record whose files are on a disk, and out of the page cache.
    fn cold_log(count: usize) -> (Folder, Arc<Log>) {
        let folder = Folder::within(env!("CARGO_MANIFEST_DIR"));
        let log = folder.open(LogConfig::default(), true);
        let value = "x".repeat(3000);
        for at in 0..count {
            append(&log, &[&value], at as i64);
        }
        log.close(true).unwrap();
        let log = folder.open(LogConfig::default(), true);
        evict(&folder);
        (folder, log)
    }

    fn evict(folder: &Folder) {
        for entry in std::fs::read_dir(folder.0.path().join("t-0")).unwrap() {
            let file = std::fs::File::open(entry.unwrap().path()).unwrap();
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
    }

    fn place(slice: Option<&FileSlice>) -> (u64, u64) {
        let slice = slice.unwrap();
        (slice.position, slice.length)
    }

    fn range(offset: i64, upper_bound: i64) -> FetchRange {
        FetchRange {
            offset,
            bytes_max: 1 << 20,
            upper_bound,
            at_least_one: true,
            committed: false,
        }
    }

    /// What another may disturb that uses the page cache at the same time: a system that takes pages back early, or reads them ahead.
    fn at_last<T>(what: &str, mut once: impl FnMut() -> Option<T>) -> T {
        let found = (0..100).find_map(|_| once());
        found.unwrap_or_else(|| panic!("{what}"))
    }

    #[test]
    fn a_place_that_is_not_in_memory_is_found_by_a_thread() {
        let (folder, log) = cold_log(200);
        let (told, hears) = mpsc::channel();
        for (offset, upper_bound) in [(0, i64::MAX), (77, 150), (199, i64::MAX)] {
            let read = log.read(offset, 1 << 20, upper_bound, true).unwrap();
            let expected = place(read.slice.as_ref());
            let by_a_thread = at_last("nothing is cold", || {
                evict(&folder);
                let told = told.clone();
                let asked = range(offset, upper_bound);
                let queued = log.fetch_or_queue(asked, move |found| told.send(found).unwrap());
                queued
                    .unwrap()
                    .is_none()
                    .then(|| hears.recv().unwrap().unwrap())
            });
            assert_eq!(place(by_a_thread.slice.as_ref()), expected);
            let at_once = at_last("nothing is cached", || {
                log.read(offset, 1 << 20, upper_bound, true).unwrap();
                log.read_cached(offset, 1 << 20, upper_bound, true).unwrap()
            });
            assert_eq!(place(at_once.slice.as_ref()), expected);
        }
        // What needs no look into a file is told at once, and so is what may have no bytes.
        evict(&folder);
        assert!(log.read_cached(200, 1, i64::MAX, true).unwrap().is_some());
        assert!(log.read_cached(100, 0, i64::MAX, false).unwrap().is_some());
        let beyond = log.read_cached(201, 1, i64::MAX, true);
        assert!(matches!(beyond, Err(LogError::OffsetOutOfRange { .. })));
    }

    #[test]
    fn a_thread_tells_what_is_wrong_with_a_file() {
        let (folder, log) = cold_log(20);
        let path = folder.0.path().join("t-0/00000000000000000000.log");
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(7000).unwrap();
        let (told, hears) = mpsc::channel();
        let queued = log.fetch_or_queue(range(15, i64::MAX), move |found| {
            told.send(found.map(|_| ())).unwrap();
        });
        assert!(queued.unwrap().is_none());
        assert!(matches!(
            hears.recv().unwrap(),
            Err(LogError::Corrupt { .. })
        ));
    }
}
