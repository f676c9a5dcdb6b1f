//! Walking over the batches of a segment file, by header or whole.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Context, LogError, Result};
use super::files::SegmentFile;
use crate::records::{BatchHeader, HEADER_BYTES, check_crc};
use crate::storage::{File, Mode, Storage};

/// Where the bytes come from: a name is only made for an error.
enum Source {
    Segment(Arc<SegmentFile>),
    Path(PathBuf),
}

impl Source {
    #[cold]
    fn path(&self) -> PathBuf {
        match self {
            Source::Segment(file) => file.path(),
            Source::Path(path) => path.clone(),
        }
    }
}

thread_local! {
    /// The memory of the last scan on this thread.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The bytes that a lookup reads first; each further read is twice as long, up to a page. Of large
/// batches only headers are read, of small ones many at once.
pub const LOOKUP_BYTES: usize = 256;
const LOOKUP_BYTES_MAX: usize = 4096;
const BUFFER_BYTES_KEPT: usize = 64 << 10;
/// The bytes that a scan of everything reads at once.
pub const SCAN_BYTES: usize = 1 << 20;

/// How far a lookup may go for bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The page cache: else it ends with `NotCached`.
    Cache,
    /// The disk, for which it waits.
    Disk,
}

/// A batch's header and where the batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    pub position: u64,
    pub header: BatchHeader,
}

impl Located {
    pub fn end(&self) -> u64 {
        self.position + self.header.size_bytes() as u64
    }
}

/// The batches of a file from a position to an end, in order. What is no whole valid batch is an error `Corrupt` that says where; after it,
/// the scan stays where it is.
pub struct Scan {
    file: Arc<dyn File>,
    source: Source,
    position: u64,
    end: u64,
    buffer: Vec<u8>,
    /// How much of it is the file's, from `buffer_start` on.
    buffered: usize,
    buffer_start: u64,
    chunk_bytes: usize,
    reach: Reach,
}

impl Scan {
    /// `end`: what is behind is not looked at, a batch that reaches beyond it is torn.
    pub fn new(
        file: &Arc<SegmentFile>,
        position: u64,
        end: u64,
        chunk_bytes: usize,
    ) -> Result<Self> {
        let handle = file
            .file()
            .or_else(|error| Err(error).context("open", &file.path()))?;
        let source = Source::Segment(Arc::clone(file));
        Ok(Self::over(handle, source, position, end, chunk_bytes))
    }

    fn over(
        file: Arc<dyn File>,
        source: Source,
        position: u64,
        end: u64,
        chunk_bytes: usize,
    ) -> Self {
        Self {
            file,
            source,
            position,
            end,
            buffer: BUFFER.take(),
            buffered: 0,
            buffer_start: 0,
            chunk_bytes,
            reach: Reach::Disk,
        }
    }

    /// The same, going no further than that for its bytes.
    pub fn within(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// Where the next batch starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// True if nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.position >= self.end
    }

    #[cold]
    fn corrupt(&self, problem: impl Into<String>) -> LogError {
        LogError::Corrupt {
            path: self.source.path(),
            position: self.position,
            problem: problem.into(),
        }
    }

    /// At least `length` bytes at the current position, if the file has them before `end`.
    fn fill(&mut self, length: usize) -> Result<Option<&[u8]>> {
        if length as u64 > self.end.saturating_sub(self.position) {
            return Ok(None);
        }
        let buffered_to = self.buffer_start + self.buffered as u64;
        if self.position < self.buffer_start || self.position + length as u64 > buffered_to {
            let left = self.end - self.position;
            let wanted = (length.max(self.chunk_bytes) as u64).min(left) as usize;
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
            let buffer = &mut self.buffer[..wanted];
            let read = match self.reach {
                Reach::Cache => self.file.read_cached(buffer, self.position),
                Reach::Disk => self.file.read_at(buffer, self.position),
            };
            self.buffered =
                read.or_else(|error| Err(error).context("read", &self.source.path()))?;
            self.buffer_start = self.position;
            if self.chunk_bytes < LOOKUP_BYTES_MAX {
                self.chunk_bytes *= 2;
            }
            if self.buffered < length {
                return match self.reach {
                    Reach::Cache => Err(LogError::NotCached),
                    Reach::Disk => Ok(None),
                };
            }
        }
        let start = (self.position - self.buffer_start) as usize;
        Ok(Some(&self.buffer[start..start + length]))
    }

    /// The next batch's header, without going on.
    pub fn peek(&mut self) -> Result<Option<Located>> {
        if self.position >= self.end {
            return Ok(None);
        }
        // A message of an old format may be shorter than a batch header.
        let left = self.end - self.position;
        let header = match self.fill(left.min(HEADER_BYTES as u64) as usize)? {
            Some(bytes) => BatchHeader::read(bytes),
            None => return Err(self.corrupt("the file ended while it was read")),
        };
        if left < HEADER_BYTES as u64
            && let Err(error) = &header
            && error.is_incomplete()
        {
            return Err(self.corrupt(format!("{left} bytes are left, less than a batch header")));
        }
        let header = header.map_err(|error| self.corrupt(error.to_string()))?;
        let left = self.end - self.position;
        if header.size_bytes() as u64 > left {
            let size = header.size_bytes();
            return Err(self.corrupt(format!("the batch has {size} bytes, {left} are left")));
        }
        Ok(Some(Located {
            position: self.position,
            header,
        }))
    }

    /// The next batch's header, in which anything may be damaged that does not end the walk: its checksum is not checked.
    pub fn next_header(&mut self) -> Result<Option<Located>> {
        let located = self.peek()?;
        if let Some(located) = &located {
            self.position = located.end();
        }
        Ok(located)
    }

    /// The next batch whole, its checksum checked.
    pub fn next_batch(&mut self) -> Result<Option<(Located, &[u8])>> {
        let Some(located) = self.peek()? else {
            return Ok(None);
        };
        let size = located.header.size_bytes();
        let checked = match self.fill(size)? {
            Some(bytes) => check_crc(bytes, &located.header)
                .and_then(|()| located.header.check())
                .map_err(|error| error.to_string()),
            None => Err("the file ended while it was read".to_owned()),
        };
        if let Err(problem) = checked {
            return Err(self.corrupt(problem));
        }
        let start = (self.position - self.buffer_start) as usize;
        self.position += size as u64;
        Ok(Some((located, &self.buffer[start..start + size])))
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // Not what a scan of everything used.
        if self.buffer.len() <= BUFFER_BYTES_KEPT {
            BUFFER.set(std::mem::take(&mut self.buffer));
        }
    }
}

/// The offset behind the last whole batch of the file at `path`; None without one.
pub fn next_offset(storage: &dyn Storage, path: &Path) -> Result<Option<i64>> {
    let file = storage.open(path, Mode::Read).context("open", path)?;
    let end = file.length().context("look at", path)?;
    let source = Source::Path(path.to_owned());
    let mut scan = Scan::over(file, source, 0, end, LOOKUP_BYTES_MAX);
    let mut next = None;
    loop {
        match scan.next_header() {
            Ok(Some(batch)) => next = Some(batch.header.last_offset() + 1),
            Ok(None) | Err(LogError::Corrupt { .. }) => return Ok(next),
            Err(error) => return Err(error),
        }
    }
}

/// Up to `count` batches of the file at `path` from `position` on, and what is wrong behind them if they ended early.
pub fn headers(
    storage: &dyn Storage,
    path: &Path,
    position: u64,
    count: usize,
) -> Result<(Vec<Located>, Option<String>)> {
    let file = storage.open(path, Mode::Read).context("open", path)?;
    let end = file.length().context("look at", path)?;
    let mut scan = Scan::over(
        file,
        Source::Path(path.to_owned()),
        position,
        end,
        LOOKUP_BYTES,
    );
    let mut found = Vec::new();
    while found.len() < count {
        match scan.next_header() {
            Ok(Some(batch)) => found.push(batch),
            Ok(None) => break,
            Err(LogError::Corrupt { problem, .. }) => return Ok((found, Some(problem))),
            Err(error) => return Err(error),
        }
    }
    Ok((found, None))
}
