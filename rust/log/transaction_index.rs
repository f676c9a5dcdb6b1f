//! The aborted transactions whose markers are in one segment: a `.txnindex` file, in Kafka's format (KIP-98).
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 2 | version: 0 |
//! | 2 | 8 | producer id |
//! | 10 | 8 | first offset: where the transaction begins, perhaps in an earlier segment |
//! | 18 | 8 | last offset: the marker's |
//! | 26 | 8 | last stable offset when the marker was written |
//!
//! Entries are in the order of their markers, and last stable offsets never fall: who collects what overlaps a range may stop at the first
//! entry whose last stable offset reaches the range's end. The file is made with the first entry, written at once (an entry that is not there
//! would show aborted records to readers), and read by pages, as the other indexes are. It holds no descriptor, and in memory a number.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::error::{Context, LogError, Result};
use super::files::Folder;
use super::names::{Kind, Suffix};
use super::pages::{self, PAGE_BYTES, Page};
use super::scan::Reach;
use crate::storage::{File, Mode};

const VERSION: i16 = 0;
pub const ENTRY_BYTES: usize = 34;
const PER_PAGE: usize = PAGE_BYTES / ENTRY_BYTES;
/// The number of entries before the file was looked at.
const UNKNOWN: usize = usize::MAX;
/// No file is larger: a segment has at most 2^31 offsets, and this many aborted transactions are a broken file.
const FILE_BYTES_MAX: u64 = 1 << 31;

/// One aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedEntry {
    pub producer_id: i64,
    pub first_offset: i64,
    pub last_offset: i64,
    pub last_stable_offset: i64,
}

impl std::fmt::Display for AbortedEntry {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset,
        } = self;
        write!(
            to,
            "a transaction of producer {producer_id} from offset {first_offset} to its marker at {last_offset}, with \
             the last stable offset {last_stable_offset}"
        )
    }
}

impl AbortedEntry {
    /// None for a version that is not known.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let field = |at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&bytes[at..at + 8]);
            i64::from_be_bytes(field)
        };
        (i16::from_be_bytes([bytes[0], bytes[1]]) == VERSION).then(|| Self {
            producer_id: field(2),
            first_offset: field(10),
            last_offset: field(18),
            last_stable_offset: field(26),
        })
    }

    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        bytes[2..10].copy_from_slice(&self.producer_id.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.first_offset.to_be_bytes());
        bytes[18..26].copy_from_slice(&self.last_offset.to_be_bytes());
        bytes[26..].copy_from_slice(&self.last_stable_offset.to_be_bytes());
        bytes
    }
}

/// The entries in a file's bytes, and where the first that cannot be read is (an unknown version, or less than an entry at the end).
pub fn entries(bytes: &[u8]) -> (Vec<AbortedEntry>, Option<usize>) {
    let (mut entries, mut rest) = (Vec::new(), bytes);
    while let Some((entry, next)) = rest
        .split_first_chunk()
        .and_then(|(first, next)| Some((AbortedEntry::decode(first)?, next)))
    {
        entries.push(entry);
        rest = next;
    }
    let unread = (!rest.is_empty()).then_some(bytes.len() - rest.len());
    (entries, unread)
}

/// One thread at a time appends and truncates (the log's writer); any number read meanwhile.
pub struct TransactionIndex {
    folder: Arc<Folder>,
    base_offset: i64,
    /// Held while the file is opened or renamed: nobody looks for it in between.
    suffix: RwLock<Suffix>,
    count: AtomicUsize,
    /// Names the content for the cache of pages.
    content: AtomicU64,
    /// The file was written since the last sync.
    unsynced: AtomicBool,
}

impl TransactionIndex {
    /// Of a segment that exists. Nothing is read before it is needed.
    pub fn open(folder: Arc<Folder>, base_offset: i64, suffix: Suffix) -> Self {
        Self {
            folder,
            base_offset,
            suffix: RwLock::new(suffix),
            count: AtomicUsize::new(UNKNOWN),
            content: AtomicU64::new(pages::number()),
            unsynced: AtomicBool::new(false),
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.path_as(*self.suffix.read())
    }

    fn path_as(&self, suffix: Suffix) -> std::path::PathBuf {
        self.folder
            .file(self.base_offset, Kind::TransactionIndex, suffix)
    }

    /// Renames the file on disk; without one there is nothing to do.
    pub fn set_suffix(&self, suffix: Suffix) -> Result<()> {
        let mut current = self.suffix.write();
        let from = self.path_as(*current);
        match self.folder.storage.rename(&from, &self.path_as(suffix)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => other.context("rename", &from)?,
        }
        *current = suffix;
        Ok(())
    }

    /// How many entries there are. Less than an entry at the end is left out.
    pub fn len(&self) -> Result<usize> {
        let known = self.count.load(Ordering::Acquire);
        if known != UNKNOWN {
            return Ok(known);
        }
        let path = self.path();
        let count = match self.folder.storage.metadata(&path) {
            Ok(file) => file.length.min(FILE_BYTES_MAX) as usize / ENTRY_BYTES,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error).context("look at", &path),
        };
        // Whoever appends has looked before.
        let _ = self
            .count
            .compare_exchange(UNKNOWN, count, Ordering::AcqRel, Ordering::Acquire);
        Ok(self.count.load(Ordering::Acquire))
    }

    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Adds an entry, whose marker comes after the last one's. After an error the index is as it was. True if the file may be new.
    pub fn append(&self, entry: AbortedEntry) -> Result<bool> {
        let count = self.len()?;
        let path = self.path();
        let storage = &self.folder.storage;
        let file = storage.open(&path, Mode::Create).context("open", &path)?;
        self.unsynced.store(true, Ordering::Release);
        let position = (count * ENTRY_BYTES) as u64;
        if let Err(error) = file.write_at(&entry.encode(), position) {
            let _ = file.set_length(position);
            return Err(error).context("write", &path);
        }
        self.count.store(count + 1, Ordering::Release);
        Ok(count == 0)
    }

    /// Whether the entries can be what somebody wrote: nothing has a checksum here, but some things follow each other.
    pub fn is_sane(&self) -> Result<bool> {
        let path = self.path();
        let bytes = match self.folder.storage.read(&path, FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            other => other.context("read", &path)?,
        };
        let (entries, unread) = entries(&bytes);
        let mut before = (self.base_offset - 1, i64::MIN);
        Ok(unread.is_none()
            && entries.iter().all(|entry| {
                let last =
                    std::mem::replace(&mut before, (entry.last_offset, entry.last_stable_offset));
                entry.producer_id >= 0
                    && (0..=entry.last_offset).contains(&entry.first_offset)
                    && last.0 < entry.last_offset
                    && (last.1..=entry.last_offset.saturating_add(1))
                        .contains(&entry.last_stable_offset)
            }))
    }

    /// Removes the entries whose markers are at `offset` or later.
    pub fn truncate_to(&self, offset: i64) -> Result<()> {
        let count = self.len()?;
        let kept = self.first_ending_at(Reach::Disk, offset, count)?;
        if kept < count {
            let path = self.path();
            let storage = &self.folder.storage;
            let file = storage.open(&path, Mode::Write).context("open", &path)?;
            self.unsynced.store(true, Ordering::Release);
            self.count.store(kept, Ordering::Release);
            self.content.store(pages::number(), Ordering::Release);
            file.set_length((kept * ENTRY_BYTES) as u64)
                .context("truncate", &path)?;
        }
        Ok(())
    }

    /// Makes `entries` the whole content. Without entries no file is made, and one that is there is emptied, as Kafka does.
    pub fn replace(&self, entries: &[AbortedEntry]) -> Result<()> {
        let path = self.path();
        let storage = &self.folder.storage;
        if !entries.is_empty() || storage.exists(&path).context("look at", &path)? {
            let file = storage.open(&path, Mode::Replace).context("open", &path)?;
            self.unsynced.store(true, Ordering::Release);
            let bytes: Vec<u8> = entries.iter().flat_map(AbortedEntry::encode).collect();
            file.write_at(&bytes, 0).context("write", &path)?;
        }
        self.content.store(pages::number(), Ordering::Release);
        self.count.store(entries.len(), Ordering::Release);
        Ok(())
    }

    /// Makes what was written durable.
    pub fn sync(&self) -> Result<()> {
        if !self.unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let path = self.path();
        let storage = &self.folder.storage;
        let file = storage.open(&path, Mode::Write).context("open", &path)?;
        file.sync_data().context("sync", &path)
    }

    /// Every entry, in order.
    pub fn entries(&self) -> Result<Vec<AbortedEntry>> {
        let count = self.len()?;
        let mut found = Vec::with_capacity(count);
        self.walk(Reach::Disk, 0, count, |entry| {
            found.push(entry);
            true
        })?;
        Ok(found)
    }

    /// Adds to `found` the transactions that overlap the offsets from `offset` to before `upper_bound`. True if those of later segments need
    /// not be asked.
    pub fn collect(
        &self,
        reach: Reach,
        offset: i64,
        upper_bound: i64,
        found: &mut Vec<AbortedEntry>,
    ) -> Result<bool> {
        let count = self.len_within(reach)?;
        let first = self.first_ending_at(reach, offset, count)?;
        let mut is_complete = false;
        self.walk(reach, first, count, |entry| {
            if entry.first_offset < upper_bound {
                found.push(entry);
            }
            is_complete = entry.last_stable_offset >= upper_bound;
            !is_complete
        })?;
        Ok(is_complete)
    }

    /// Whether a marker at `offset` or later is here.
    pub fn reaches(&self, reach: Reach, offset: i64) -> Result<bool> {
        let count = self.len_within(reach)?;
        Ok(count > 0 && self.entry(reach, count - 1, count)?.last_offset >= offset)
    }

    /// As `len`. Within the page cache that ends with `NotCached` where the file was never looked at.
    fn len_within(&self, reach: Reach) -> Result<usize> {
        if reach == Reach::Cache && self.count.load(Ordering::Acquire) == UNKNOWN {
            return Err(LogError::NotCached);
        }
        self.len()
    }

    /// The number of the first entry whose marker is at `offset` or later.
    fn first_ending_at(&self, reach: Reach, offset: i64, count: usize) -> Result<usize> {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            if self.entry(reach, middle, count)?.last_offset < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    fn entry(&self, reach: Reach, at: usize, count: usize) -> Result<AbortedEntry> {
        self.decode(&*self.page(reach, at / PER_PAGE, count)?, at)
    }

    fn walk(
        &self,
        reach: Reach,
        first: usize,
        count: usize,
        mut take: impl FnMut(AbortedEntry) -> bool,
    ) -> Result<()> {
        let mut at = first;
        while at < count {
            let page = self.page(reach, at / PER_PAGE, count)?;
            let end = count.min((at / PER_PAGE + 1) * PER_PAGE);
            while at < end {
                if !take(self.decode(&page, at)?) {
                    return Ok(());
                }
                at += 1;
            }
        }
        Ok(())
    }

    fn decode(&self, page: &Page, at: usize) -> Result<AbortedEntry> {
        let corrupt = |problem: &str| LogError::Corrupt {
            path: self.path(),
            position: (at * ENTRY_BYTES) as u64,
            problem: problem.to_owned(),
        };
        let start = at % PER_PAGE * ENTRY_BYTES;
        let bytes = page.bytes[start.min(page.bytes.len())..]
            .first_chunk()
            .ok_or_else(|| corrupt("the file ended while it was read"))?;
        AbortedEntry::decode(bytes)
            .ok_or_else(|| corrupt("an aborted transaction of an unknown version"))
    }

    /// A page of an index that has `count` entries.
    fn page(&self, reach: Reach, page: usize, count: usize) -> Result<Arc<Page>> {
        let content = self.content.load(Ordering::Acquire);
        let length = PER_PAGE.min(count - page * PER_PAGE) * ENTRY_BYTES;
        if let Some(page) = pages::get(content, page, length) {
            return Ok(page);
        }
        let mut buffer = [0; PAGE_BYTES];
        let path = self.path();
        let file = self.file().context("open", &path)?;
        let buffer = &mut buffer[..length];
        let position = (page * PER_PAGE * ENTRY_BYTES) as u64;
        let read = match reach {
            Reach::Cache => file.read_cached(buffer, position),
            Reach::Disk => file.read_at(buffer, position),
        };
        let read = read.context("read", &path)?;
        if reach == Reach::Cache && read < length {
            return Err(LogError::NotCached);
        }
        Ok(pages::put(content, page, &buffer[..read]))
    }

    fn file(&self) -> std::io::Result<Arc<dyn File>> {
        let suffix = self.suffix.read();
        let storage = &self.folder.storage;
        storage.open(&self.path_as(*suffix), Mode::Read)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::storage::FaultyStorage;

    /// Transactions of ten offsets each, three open at once.
    fn entry(number: i64) -> AbortedEntry {
        AbortedEntry {
            producer_id: number % 7,
            first_offset: 1000 + 10 * number,
            last_offset: 1000 + 10 * number + 25,
            last_stable_offset: 1000 + 10 * (number + 1),
        }
    }

    #[test]
    fn entries_are_found_by_what_they_overlap() {
        let folder = Folder::new(Arc::new(FaultyStorage::new()), Path::new("/"));
        let index = TransactionIndex::open(Arc::clone(&folder), 1000, Suffix::None);
        let mut all = Vec::new();
        for number in 0..500 {
            all.push(entry(number));
            assert_eq!(index.append(entry(number)).unwrap(), number == 0);
            if number % 83 != 0 {
                continue;
            }
            for index in [
                &index,
                &TransactionIndex::open(Arc::clone(&folder), 1000, Suffix::None),
            ] {
                assert_eq!(index.entries().unwrap(), all);
                for offset in (990..1050 + 10 * number).step_by(13) {
                    for upper_bound in [offset, offset + 1, offset + 40, i64::MAX] {
                        let mut found = Vec::new();
                        index
                            .collect(Reach::Disk, offset, upper_bound, &mut found)
                            .unwrap();
                        let overlap = |entry: &&AbortedEntry| {
                            entry.last_offset >= offset && entry.first_offset < upper_bound
                        };
                        let expected: Vec<_> = all.iter().filter(overlap).copied().collect();
                        assert_eq!(found, expected, "{offset}..{upper_bound}");
                    }
                }
            }
        }
        index.truncate_to(entry(200).last_offset).unwrap();
        all.truncate(200);
        assert_eq!(index.entries().unwrap(), all);
        index.append(entry(300)).unwrap();
        all.push(entry(300));
        assert_eq!(
            TransactionIndex::open(folder, 1000, Suffix::None)
                .entries()
                .unwrap(),
            all
        );
    }

    #[test]
    fn a_torn_entry_is_written_over_and_an_unknown_version_is_told() {
        let folder = Folder::new(Arc::new(FaultyStorage::new()), Path::new("/"));
        let path = folder.file(0, Kind::TransactionIndex, Suffix::None);
        let file = folder.storage.open(&path, Mode::Create).unwrap();
        file.write_at(&entry(1).encode(), 0).unwrap();
        file.write_at(&entry(2).encode()[..20], ENTRY_BYTES as u64)
            .unwrap();
        let index = TransactionIndex::open(Arc::clone(&folder), 0, Suffix::None);
        index.append(entry(3)).unwrap();
        assert_eq!(index.entries().unwrap(), [entry(1), entry(3)]);
        file.write_at(&[0, 1], ENTRY_BYTES as u64).unwrap();
        let index = TransactionIndex::open(folder, 0, Suffix::None);
        assert!(matches!(
            index.entries(),
            Err(LogError::Corrupt { position: 34, .. })
        ));
        let mut bytes = [0; 2 * ENTRY_BYTES];
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(entries(&bytes), (vec![entry(1)], Some(34)));
        assert_eq!(entries(&bytes[..40]), (vec![entry(1)], Some(34)));
    }
}
