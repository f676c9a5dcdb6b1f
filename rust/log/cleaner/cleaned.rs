//! A segment while cleaning writes it, in files that end in `.cleaned`; several where one could not hold all offsets (see
//! [`split`](crate::log::split)).

use std::sync::Arc;

use crate::log::config::LogConfig;
use crate::log::error::{Context, LogError, Result};
use crate::log::files::Folder;
use crate::log::home::{Home, now_ms};
use crate::log::log::Log;
use crate::log::names::Suffix;
use crate::log::offset_index::fits;
use crate::log::recovery::Rebuilt;
use crate::log::segment::Segment;
use crate::log::transaction_index::AbortedEntry;
use crate::records::BatchHeader;
use crate::storage::File;

/// Kafka counts positions in a segment with an int32.
const POSITION_MAX: u64 = i32::MAX as u64;

struct CleanedSegment {
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    config: Arc<LogConfig>,
    rebuilt: Rebuilt,
    aborted: Vec<AbortedEntry>,
    /// The bytes that are not yet in the file, and where in it they will be.
    buffer: Vec<u8>,
    position: u64,
    buffer_bytes: usize,
}

/// The segments that a group becomes: one, but for a single segment whose offsets reach too far.
pub struct CleanedSegments<'a> {
    log: &'a Log,
    config: Arc<LogConfig>,
    buffer_bytes: usize,
    modified_ms: i64,
    end_offset: i64,
    parts: Vec<CleanedSegment>,
}

impl<'a> CleanedSegments<'a> {
    /// In the place of what begins at `base_offset` and ends before `end_offset`. The files count as last changed at `modified_ms`: when tombstones
    /// may go is counted from the change of the records, not of the files.
    pub fn create(
        log: &'a Log,
        base_offset: i64,
        end_offset: i64,
        modified_ms: i64,
        buffer_bytes: usize,
    ) -> Result<Self> {
        let mut cleaned = Self {
            log,
            config: log.config(),
            buffer_bytes,
            modified_ms,
            end_offset,
            parts: Vec::new(),
        };
        cleaned.begin(base_offset)?;
        Ok(cleaned)
    }

    fn begin(&mut self, base_offset: i64) -> Result<()> {
        self.parts.push(CleanedSegment::create(
            &self.log.home,
            &self.log.folder,
            base_offset,
            &self.config,
            self.buffer_bytes,
        )?);
        Ok(())
    }

    fn part(&mut self) -> Result<&mut CleanedSegment> {
        self.parts
            .last_mut()
            .ok_or(LogError::CleaningStopped("it has no segment to write"))
    }

    /// Whatever it was told so far.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(CleanedSegment::bytes).sum()
    }

    /// Adds a batch behind the last.
    pub fn push(&mut self, batch: &[u8], header: &BatchHeader) -> Result<()> {
        let modified_ms = self.modified_ms;
        // An offset is in no checksum: one that the next segment does not confirm is damage.
        let is_confirmed = header.last_offset() < self.end_offset;
        let part = self.part()?;
        let base_offset = part.segment.base_offset;
        let follows = header.base_offset >= part.rebuilt.next_offset;
        if follows && is_confirmed && !fits(base_offset, header.last_offset()) {
            part.finish(modified_ms)?;
            self.begin(header.base_offset)?;
        }
        self.part()?.push(batch, header)
    }

    /// Notes a transaction for the new `.txnindex`, in the order of the markers, each behind its marker.
    pub fn push_aborted(&mut self, aborted: AbortedEntry) -> Result<()> {
        self.part()?.aborted.push(aborted);
        Ok(())
    }

    /// Writes the indexes and makes everything durable.
    pub fn finish(&mut self) -> Result<Vec<Arc<Segment>>> {
        let modified_ms = self.modified_ms;
        self.part()?.finish(modified_ms)?;
        let segments = self.parts.iter().map(|part| Arc::clone(&part.segment));
        Ok(segments.collect())
    }

    /// Takes the files away again, as far as that works: what stays is removed by the next cleaning, or when the log is opened.
    pub fn discard(&self) {
        for part in &self.parts {
            let _ = part.segment.remove(Suffix::Cleaned);
        }
    }
}

impl CleanedSegment {
    fn create(
        home: &Home,
        folder: &Arc<Folder>,
        base_offset: i64,
        config: &Arc<LogConfig>,
        buffer_bytes: usize,
    ) -> Result<Self> {
        let segment =
            Segment::create_as(folder, base_offset, Suffix::Cleaned, now_ms(), &home.cache)?;
        let file = segment.file.file().context("open", &segment.file.path())?;
        Ok(Self {
            segment,
            file,
            config: Arc::clone(config),
            rebuilt: Rebuilt::new(base_offset),
            aborted: Vec::new(),
            buffer: Vec::new(),
            position: 0,
            buffer_bytes,
        })
    }

    fn bytes(&self) -> u64 {
        self.position + self.buffer.len() as u64
    }

    fn push(&mut self, batch: &[u8], header: &BatchHeader) -> Result<()> {
        let position = self.bytes();
        let fits = position + batch.len() as u64 <= POSITION_MAX;
        if !fits || !self.rebuilt.take(position, header, &self.config) {
            return Err(LogError::Corrupt {
                path: self.segment.file.path(),
                position,
                problem: format!(
                    "the batch with offsets {} to {} cannot follow here",
                    header.base_offset,
                    header.last_offset()
                ),
            });
        }
        if self.buffer.len() + batch.len() > self.buffer_bytes {
            self.write()?;
        }
        if batch.len() >= self.buffer_bytes {
            self.write_at_end(batch)?;
            self.position += batch.len() as u64;
        } else {
            self.buffer.extend_from_slice(batch);
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.write_at_end(&self.buffer)?;
            self.position += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    fn write_at_end(&self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_at(bytes, self.position)
            .context("write", &self.segment.file.path())
    }

    fn finish(&mut self, modified_ms: i64) -> Result<()> {
        self.write()?;
        self.rebuilt.close();
        let segment = &self.segment;
        segment.set_size_bytes(self.position);
        segment.offset_index.replace(&self.rebuilt.offsets)?;
        segment.time_index.replace(&self.rebuilt.times)?;
        segment.transaction_index.replace(&self.aborted)?;
        segment.recovered(
            self.rebuilt.largest,
            self.rebuilt.first_ms,
            self.rebuilt.unindexed_bytes,
        );
        segment.sync_closed()?;
        segment.set_modified(modified_ms)
    }
}
