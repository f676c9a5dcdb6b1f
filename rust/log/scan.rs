//! Walking over the batches of a segment file, by header or whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Context, LogError, Result};
use super::files::SegmentFile;
use crate::records::{BatchHeader, HEADER_BYTES, check_crc};
use crate::storage::{File, Mode, Storage};

/// What a lookup reads at once: a batch's header and, where batches are small, its neighbours'.
pub const LOOKUP_BYTES: usize = 4096;
/// What a scan of everything reads at once.
pub const SCAN_BYTES: usize = 1 << 20;

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
    path: PathBuf,
    position: u64,
    end: u64,
    buffer: Vec<u8>,
    buffer_start: u64,
    chunk_bytes: usize,
}

impl Scan {
    /// `end`: what is behind is not looked at, a batch that reaches beyond it is torn.
    pub fn new(
        file: &Arc<SegmentFile>,
        position: u64,
        end: u64,
        chunk_bytes: usize,
    ) -> Result<Self> {
        let path = file.path();
        let handle = file.file().context("open", &path)?;
        Ok(Self::over(handle, path, position, end, chunk_bytes))
    }

    /// The same for a file that is open.
    pub fn over(
        file: Arc<dyn File>,
        path: PathBuf,
        position: u64,
        end: u64,
        chunk_bytes: usize,
    ) -> Self {
        Self {
            file,
            path,
            position,
            end,
            buffer: Vec::new(),
            buffer_start: 0,
            chunk_bytes,
        }
    }

    /// Where the next batch starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    #[cold]
    fn corrupt(&self, problem: impl Into<String>) -> LogError {
        LogError::Corrupt {
            path: self.path.clone(),
            position: self.position,
            problem: problem.into(),
        }
    }

    /// At least `length` bytes at the current position, if the file has them before `end`.
    fn fill(&mut self, length: usize) -> Result<Option<&[u8]>> {
        if length as u64 > self.end.saturating_sub(self.position) {
            return Ok(None);
        }
        let buffered_to = self.buffer_start + self.buffer.len() as u64;
        if self.position < self.buffer_start || self.position + length as u64 > buffered_to {
            let left = self.end - self.position;
            let wanted = (length.max(self.chunk_bytes) as u64).min(left) as usize;
            self.buffer.resize(wanted, 0);
            let read = self
                .file
                .read_at(&mut self.buffer, self.position)
                .context("read", &self.path)?;
            self.buffer.truncate(read);
            self.buffer_start = self.position;
            if read < length {
                return Ok(None);
            }
        }
        let start = (self.position - self.buffer_start) as usize;
        Ok(Some(&self.buffer[start..start + length]))
    }

    fn peek(&mut self) -> Result<Option<Located>> {
        if self.position >= self.end {
            return Ok(None);
        }
        let header = match self.fill(HEADER_BYTES)? {
            Some(bytes) => BatchHeader::parse(bytes),
            None => {
                let left = self.end - self.position;
                return Err(
                    self.corrupt(format!("{left} bytes are left, less than a batch header"))
                );
            }
        };
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

    /// The next batch's header; its checksum is not checked.
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
            Some(bytes) => check_crc(bytes, &located.header).map_err(|error| error.to_string()),
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

/// Up to `count` batches of the file at `path` from `position` on, and what is wrong behind them if they ended early.
pub fn headers(
    storage: &dyn Storage,
    path: &Path,
    position: u64,
    count: usize,
) -> Result<(Vec<Located>, Option<String>)> {
    let file = storage.open(path, Mode::Read).context("open", path)?;
    let end = file.length().context("look at", path)?;
    let mut scan = Scan::over(file, path.to_owned(), position, end, LOOKUP_BYTES);
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
