//! An index file: fixed-size entries in ascending order, appended at the end, searched by key.
//!
//! Kafka maps its indexes into memory. We do not: a map costs resident memory in steps of 64 KiB for every page that a search touches, ends
//! the process with SIGBUS when the disk fails, and cannot go through the storage trait. Instead
//! * new entries gather in memory (`recent`) and are written some hundred at a time: an append costs no system call for them. Losing
//!   them in a crash is harmless, since recovery rebuilds the indexes of every segment that was not flushed whole;
//! * the entries on disk are found through a directory of the first key of every 4 KiB page (2 KiB of memory for a full index of a 1 GiB
//!   segment, built at the first search) and one read of one page. Measured: see `benches/log.rs`.
//!
//! The file is opened for each read or write and closed again, so that indexes hold no descriptors.
//!
//! Kafka preallocates the indexes of an active segment, and after a kill the unused zeros stay. They are recognised and left out: no entry
//! after the first is all zeros.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::error::{Context, LogError, Result};
use super::files::Folder;
use super::names::{Kind, Suffix};
use super::pages::{self, PAGE_BYTES, Page};
use super::scan::Reach;
use crate::storage::{File, Mode, Storage};

/// One entry of an index of type `Self`.
pub trait Entry:
    Copy + PartialEq + std::fmt::Debug + std::fmt::Display + Send + Sync + 'static
{
    const BYTES: usize;
    const KIND: Kind;
    /// Reads an entry from exactly `BYTES` bytes.
    fn decode(bytes: &[u8], base_offset: i64) -> Self;
    /// Writes it to exactly `BYTES` bytes.
    fn encode(&self, bytes: &mut [u8], base_offset: i64);
    /// The number that a search compares.
    fn key(&self) -> i64;
    /// The offset that the entry is about.
    fn offset(&self) -> i64;
}

/// When this many entries are in memory, those not yet on disk are written,
const RECENT_MAX: usize = 512;
/// and this many stay, since most reads are near the end.
const RECENT_KEPT: usize = 128;
/// No index of ours or Kafka's is larger: `segment.index.bytes` is an int32.
const FILE_BYTES_MAX: u64 = 1 << 31;
/// A count that was not taken yet.
const UNKNOWN: usize = usize::MAX;

pub struct Index<E> {
    folder: Arc<Folder>,
    base_offset: i64,
    /// Held while the file is opened or renamed: nobody looks for it in between.
    suffix: RwLock<Suffix>,
    state: RwLock<State<E>>,
    /// How many entries there are, for whoever asks at each append; UNKNOWN until the file was looked at.
    count: AtomicUsize,
    /// The file was written since the last sync.
    unsynced: AtomicBool,
    entry: PhantomData<E>,
}

struct State<E> {
    /// Names the content for the cache of pages.
    content: u64,
    /// Entries in the file; None until it was looked at.
    stored: Option<usize>,
    /// The last entries of the index, some of them perhaps in the file too.
    recent: Vec<E>,
    /// Entries before `recent`.
    older: usize,
    /// Keys of the first entries of each page of the file, for the pages that were full or searched.
    directory: Option<Vec<i64>>,
    last: Option<E>,
}

impl<E: Entry> Index<E> {
    const PER_PAGE: usize = PAGE_BYTES / E::BYTES;

    /// The index of a segment that is being created: empty, its file not yet there.
    pub fn create(folder: Arc<Folder>, base_offset: i64, suffix: Suffix) -> Self {
        let state = State {
            content: pages::number(),
            stored: Some(0),
            recent: Vec::new(),
            older: 0,
            directory: Some(Vec::new()),
            last: None,
        };
        Self {
            folder,
            base_offset,
            suffix: RwLock::new(suffix),
            state: RwLock::new(state),
            count: AtomicUsize::new(0),
            unsynced: AtomicBool::new(false),
            entry: PhantomData,
        }
    }

    /// The index of a segment that exists. Nothing is read before it is needed.
    pub fn open(folder: Arc<Folder>, base_offset: i64) -> Self {
        let index = Self::create(folder, base_offset, Suffix::None);
        index.count.store(UNKNOWN, Ordering::Relaxed);
        *index.state.write() = State {
            content: pages::number(),
            stored: None,
            recent: Vec::new(),
            older: 0,
            directory: None,
            last: None,
        };
        index
    }

    fn path(&self) -> std::path::PathBuf {
        self.path_as(*self.suffix.read())
    }

    fn path_as(&self, suffix: Suffix) -> std::path::PathBuf {
        self.folder.file(self.base_offset, E::KIND, suffix)
    }

    fn open_file(&self, mode: Mode) -> Result<Arc<dyn File>> {
        let suffix = self.suffix.read();
        let path = self.path_as(*suffix);
        self.storage().open(&path, mode).context("open", &path)
    }

    /// Renames the file on disk; without one there is nothing to do.
    pub fn set_suffix(&self, suffix: Suffix) -> Result<()> {
        let mut current = self.suffix.write();
        let from = self.path_as(*current);
        match self.storage().rename(&from, &self.path_as(suffix)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.context("rename", &from)?,
        }
        *current = suffix;
        Ok(())
    }

    fn storage(&self) -> &dyn Storage {
        &*self.folder.storage
    }

    /// Reads what a search needs to know about the file, once.
    fn load(&self) -> Result<()> {
        if self.state.read().stored.is_some() {
            return Ok(());
        }
        let entries = self.read_stored()?;
        let mut state = self.state.write();
        if state.stored.is_none() {
            state.directory = Some(entries.iter().step_by(Self::PER_PAGE).map(E::key).collect());
            state.last = entries.last().copied();
            state.stored = Some(entries.len());
            state.older = entries.len();
            self.count.store(state.older, Ordering::Release);
        }
        Ok(())
    }

    /// The valid entries of the file: up to a tail of zeros, or to an entry that is out of order (a page that a power cut left half written).
    /// An index is a hint, so what is missing costs a longer scan and nothing else.
    fn read_stored(&self) -> Result<Vec<E>> {
        let path = self.path();
        let bytes = self
            .storage()
            .read(&path, FILE_BYTES_MAX)
            .context("read", &path)?;
        let mut entries: Vec<E> = Vec::new();
        for chunk in bytes.chunks_exact(E::BYTES) {
            if !entries.is_empty() && chunk.iter().all(|byte| *byte == 0) {
                break;
            }
            let entry = E::decode(chunk, self.base_offset);
            if entries
                .last()
                .is_some_and(|last| entry.key() <= last.key() || entry.offset() < last.offset())
            {
                break;
            }
            entries.push(entry);
        }
        // An index that was created and never used is all zeros; a time index may hold one entry of zeros, the first millisecond of 1970.
        let preallocated = bytes.len() > E::BYTES || E::KIND == Kind::OffsetIndex;
        if entries.len() == 1 && preallocated && bytes.iter().all(|byte| *byte == 0) {
            entries.clear();
        }
        Ok(entries)
    }

    /// How many entries there are.
    pub fn len(&self) -> Result<usize> {
        let count = self.count.load(Ordering::Acquire);
        if count != UNKNOWN {
            return Ok(count);
        }
        self.load()?;
        Ok(self.count.load(Ordering::Acquire))
    }

    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    pub fn last(&self) -> Result<Option<E>> {
        self.load()?;
        Ok(self.state.read().last)
    }

    /// The greatest entry whose key is at most `key`. Within the page cache that ends with `NotCached` also where the file was never looked at.
    pub fn lookup(&self, key: i64, reach: Reach) -> Result<Option<E>> {
        if reach == Reach::Cache && self.state.read().stored.is_none() {
            return Err(LogError::NotCached);
        }
        self.load()?;
        let (page, older, content) = {
            let state = self.state.read();
            let recent = state.recent.partition_point(|entry| entry.key() <= key);
            if recent > 0 {
                return Ok(Some(state.recent[recent - 1]));
            }
            let Some(directory) = &state.directory else {
                return Ok(None);
            };
            let Some(page) = directory
                .partition_point(|first| *first <= key)
                .checked_sub(1)
            else {
                return Ok(None);
            };
            (
                page,
                state.older.min(state.stored.unwrap_or(0)),
                state.content,
            )
        };
        // No lock while the disk may be waited for. A truncation meanwhile gives an entry that is gone, as if it had come later.
        let first = page * Self::PER_PAGE;
        let count = older.saturating_sub(first).min(Self::PER_PAGE);
        let page = match pages::get(content, page, count * E::BYTES) {
            Some(page) => page,
            None => self.read_page(content, page, count, reach)?,
        };
        let buffer = &page.bytes;
        let read = buffer.len().min(count * E::BYTES);
        let entry = |at: usize| {
            E::decode(
                &buffer[at * E::BYTES..(at + 1) * E::BYTES],
                self.base_offset,
            )
        };
        let (mut low, mut high) = (0, read / E::BYTES);
        while low < high {
            let middle = (low + high) / 2;
            if entry(middle).key() <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.checked_sub(1).map(entry))
    }

    /// The last entry that is not `behind` what is looked for; entries that are behind come after all others. `NotCached` as in `lookup`.
    pub fn last_not(&self, reach: Reach, behind: impl Fn(&E) -> bool) -> Result<Option<E>> {
        if reach == Reach::Cache && self.state.read().stored.is_none() {
            return Err(LogError::NotCached);
        }
        self.load()?;
        let (older, content, recent) = {
            let state = self.state.read();
            let older = state.older.min(state.stored.unwrap_or(0));
            let at = state.recent.partition_point(|entry| !behind(entry));
            let recent = at.checked_sub(1).map(|at| state.recent[at]);
            (older, state.content, recent)
        };
        if recent.is_some() {
            return Ok(recent);
        }
        let (mut low, mut high, mut found) = (0, older, None);
        while low < high {
            let middle = (low + high) / 2;
            let first = middle / Self::PER_PAGE * Self::PER_PAGE;
            let count = (older - first).min(Self::PER_PAGE);
            let number = middle / Self::PER_PAGE;
            let page = match pages::get(content, number, count * E::BYTES) {
                Some(page) => page,
                None => self.read_page(content, number, count, reach)?,
            };
            let at = (middle - first) * E::BYTES;
            let entry = page
                .bytes
                .get(at..at + E::BYTES)
                .map(|bytes| E::decode(bytes, self.base_offset));
            match entry.filter(|entry| !behind(entry)) {
                Some(entry) => {
                    found = Some(entry);
                    low = middle + 1;
                }
                None => high = middle,
            }
        }
        Ok(found)
    }

    fn read_page(
        &self,
        content: u64,
        page: usize,
        count: usize,
        reach: Reach,
    ) -> Result<Arc<Page>> {
        let mut buffer = [0; PAGE_BYTES];
        let buffer = &mut buffer[..count * E::BYTES];
        let path = self.path();
        let file = self.open_file(Mode::Read)?;
        let position = (page * Self::PER_PAGE * E::BYTES) as u64;
        let read = match reach {
            Reach::Cache => file.read_cached(buffer, position),
            Reach::Disk => file.read_at(buffer, position),
        };
        let read = read.context("read", &path)?;
        if reach == Reach::Cache && read < buffer.len() {
            return Err(LogError::NotCached);
        }
        Ok(pages::put(content, page, &buffer[..read]))
    }

    /// Adds an entry at the end; the caller has checked that it is greater than the last. Writes to the file only now and then.
    pub fn append(&self, entry: E) -> Result<()> {
        self.append_if(entry, |last| {
            debug_assert!(last.is_none_or(|last| last.key() < entry.key()));
            true
        })
    }

    /// Adds an entry if it may follow the last, as `follows` says.
    pub fn append_if(&self, entry: E, follows: impl FnOnce(Option<E>) -> bool) -> Result<()> {
        let mut state = self.state.write();
        if state.stored.is_none() {
            drop(state);
            self.load()?;
            state = self.state.write();
        }
        if !follows(state.last) {
            return Ok(());
        }
        state.recent.push(entry);
        state.last = Some(entry);
        let count = state.older + state.recent.len();
        self.count.store(count, Ordering::Release);
        let full = state.recent.len() >= RECENT_MAX;
        drop(state);
        if full { self.write() } else { Ok(()) }
    }

    /// Brings the file up to date. One thread at a time: whoever may append.
    pub fn write(&self) -> Result<()> {
        let (bytes, first, total) = {
            let state = self.state.read();
            let Some(stored) = state.stored else {
                return Ok(());
            };
            let unwritten = &state.recent[stored - state.older..];
            if unwritten.is_empty() {
                return Ok(());
            }
            let mut bytes = vec![0; unwritten.len() * E::BYTES];
            for (entry, bytes) in unwritten.iter().zip(bytes.chunks_exact_mut(E::BYTES)) {
                entry.encode(bytes, self.base_offset);
            }
            (bytes, stored, stored + unwritten.len())
        };
        let path = self.path();
        let file = self.open_file(Mode::Create)?;
        self.unsynced.store(true, Ordering::Release);
        file.write_at(&bytes, (first * E::BYTES) as u64)
            .context("write", &path)?;
        let mut state = self.state.write();
        state.stored = Some(total);
        let forget = state.recent.len().saturating_sub(RECENT_KEPT);
        let State {
            recent,
            older,
            directory,
            ..
        } = &mut *state;
        let directory = directory.get_or_insert_default();
        for at in (*older..total).filter(|at| at % Self::PER_PAGE == 0) {
            let page = at / Self::PER_PAGE;
            directory.truncate(page);
            directory.push(recent[at - *older].key());
        }
        recent.drain(..forget);
        recent.shrink_to(RECENT_MAX);
        *older += forget;
        Ok(())
    }

    /// Writes, and cuts off what is behind the last entry (zeros that Kafka left).
    pub fn finish(&self) -> Result<()> {
        self.load()?;
        self.write()?;
        let length = (self.len()? * E::BYTES) as u64;
        let path = self.path();
        let file = self.open_file(Mode::Create)?;
        if file.length().context("look at", &path)? != length {
            self.unsynced.store(true, Ordering::Release);
            file.set_length(length).context("truncate", &path)?;
        }
        self.state.write().recent = Vec::new();
        let mut state = self.state.write();
        state.older = state.stored.unwrap_or(0);
        self.count.store(state.older, Ordering::Release);
        Ok(())
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<()> {
        if !self.unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let path = self.path();
        let file = self.open_file(Mode::Write)?;
        file.sync_data().context("sync", &path)
    }

    /// Every entry, in order.
    pub fn entries(&self) -> Result<Vec<E>> {
        self.load()?;
        let mut entries = self.read_stored()?;
        let state = self.state.read();
        entries.truncate(state.older);
        entries.extend_from_slice(&state.recent);
        Ok(entries)
    }

    /// Removes the entries about `offset` and later ones, in memory and in the file.
    pub fn truncate_to(&self, offset: i64) -> Result<()> {
        if self.last()?.is_none_or(|last| last.offset() < offset) {
            // As for most logs when thousands are cut by a batch or two.
            return Ok(());
        }
        let mut entries = self.entries()?;
        entries.truncate(entries.partition_point(|entry| entry.offset() < offset));
        self.replace(&entries)
    }

    /// Makes `entries` the whole content, on disk too.
    pub fn replace(&self, entries: &[E]) -> Result<()> {
        let mut bytes = vec![0; entries.len() * E::BYTES];
        for (entry, bytes) in entries.iter().zip(bytes.chunks_exact_mut(E::BYTES)) {
            entry.encode(bytes, self.base_offset);
        }
        let path = self.path();
        let file = self.open_file(Mode::Replace)?;
        self.unsynced.store(true, Ordering::Release);
        file.write_at(&bytes, 0).context("write", &path)?;
        let mut state = self.state.write();
        *state = State {
            content: pages::number(),
            stored: Some(entries.len()),
            recent: Vec::new(),
            older: entries.len(),
            directory: Some(entries.iter().step_by(Self::PER_PAGE).map(E::key).collect()),
            last: entries.last().copied(),
        };
        self.count.store(entries.len(), Ordering::Release);
        Ok(())
    }

    /// Makes `entries` the whole content, in memory only: what a reader that may not write does with an index it cannot use.
    pub fn replace_in_memory(&self, entries: Vec<E>) {
        let mut state = self.state.write();
        self.count.store(entries.len(), Ordering::Release);
        *state = State {
            content: pages::number(),
            stored: Some(0),
            last: entries.last().copied(),
            recent: entries,
            older: 0,
            directory: None,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::log::offset_index::OffsetPosition;
    use crate::log::time_index::TimestampOffset;
    use crate::storage::FaultyStorage;

    fn folder() -> Arc<Folder> {
        Folder::new(Arc::new(FaultyStorage::new()), Path::new("/"))
    }

    fn check<E: Entry>(make: impl Fn(i64) -> E) {
        let folder = folder();
        let (index, mut all) = (
            Index::<E>::create(Arc::clone(&folder), 1000, Suffix::None),
            Vec::new(),
        );
        for number in 1..2000 {
            all.push(make(number));
            index.append(make(number)).unwrap();
            if number % 333 == 0 {
                // In memory, in pages that are cached, and from the file alone.
                for index in [&index, &reopened(&index, &folder)] {
                    assert_eq!(index.entries().unwrap(), all);
                    assert_eq!(
                        (index.len().unwrap(), index.last().unwrap()),
                        (all.len(), all.last().copied())
                    );
                    for at in (0..number * 10 + 20).step_by(7) {
                        let key = make(0).key() + at;
                        let expected = all.iter().rev().find(|entry| entry.key() <= key);
                        assert_eq!(
                            index.lookup(key, Reach::Disk).unwrap().as_ref(),
                            expected,
                            "{key}"
                        );
                        let found = index
                            .last_not(Reach::Disk, |entry| entry.key() > key)
                            .unwrap();
                        assert_eq!(found.as_ref(), expected, "{key}");
                    }
                }
            }
        }
        let kept = make(700).offset();
        index.truncate_to(kept).unwrap();
        all.truncate(699);
        assert_eq!(index.entries().unwrap(), all);
        assert_eq!(
            index.lookup(i64::MAX, Reach::Disk).unwrap(),
            all.last().copied()
        );
        index.append(make(5000)).unwrap();
        index.finish().unwrap();
        assert_eq!(
            folder.storage.metadata(&index.path()).unwrap().length,
            (700 * E::BYTES) as u64
        );
        assert_eq!(
            Index::<E>::open(folder, 1000).last().unwrap(),
            Some(make(5000))
        );
    }

    /// The same index as another process would see it after a write.
    fn reopened<E: Entry>(index: &Index<E>, folder: &Arc<Folder>) -> Index<E> {
        index.write().unwrap();
        Index::open(Arc::clone(folder), index.base_offset)
    }

    #[test]
    fn entries_are_found_wherever_they_are() {
        check(|number| OffsetPosition {
            offset: 1000 + 10 * number,
            position: 3 * number as u32,
        });
        check(|number| TimestampOffset {
            timestamp_ms: 77 + 10 * number,
            offset: 1000 + number,
        });
    }

    #[test]
    fn what_a_killed_kafka_left_behind_the_entries_is_cut_off() {
        let folder = folder();
        let index = Index::<OffsetPosition>::create(Arc::clone(&folder), 0, Suffix::None);
        for number in 1..4 {
            index
                .append(OffsetPosition {
                    offset: number,
                    position: number as u32,
                })
                .unwrap();
        }
        index.finish().unwrap();
        let file = folder.storage.open(&index.path(), Mode::Write).unwrap();
        file.set_length(1 << 20).unwrap();
        let index = Index::<OffsetPosition>::open(Arc::clone(&folder), 0);
        assert_eq!(index.len().unwrap(), 3);
        index
            .append(OffsetPosition {
                offset: 9,
                position: 9,
            })
            .unwrap();
        index.finish().unwrap();
        assert_eq!(file.length().unwrap(), 32);
        // All zeros: never used.
        file.set_length(0).unwrap();
        file.set_length(1 << 20).unwrap();
        assert!(
            Index::<OffsetPosition>::open(Arc::clone(&folder), 0)
                .is_empty()
                .unwrap()
        );
        // Out of order: what is before it counts.
        let mut bytes = [0; 24];
        for (at, offset) in [5, 4, 6].into_iter().enumerate() {
            OffsetPosition {
                offset,
                position: 1,
            }
            .encode(&mut bytes[8 * at..8 * at + 8], 0);
        }
        file.set_length(0).unwrap();
        file.write_at(&bytes, 0).unwrap();
        let last = Index::<OffsetPosition>::open(folder, 0).last().unwrap();
        assert_eq!(
            last,
            Some(OffsetPosition {
                offset: 5,
                position: 1
            })
        );
    }
}
