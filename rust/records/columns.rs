//! Batches into columns, incrementally: buffers in (a fetched answer, a stretch of a segment), chunks of rows out.
//!
//! One decoder reads one partition in order. It drops what a consumer must not see: records before the wanted offset (a
//! fetch answers with whole batches), records from the upper bound on, control batches, and batches of aborted
//! transactions. Gaps in the offsets are normal: compaction, markers and aborted batches leave them.

use super::aborted::{AbortedTransaction, AbortedTransactions};
use super::batch::{BatchHeader, HEADER_BYTES, check_crc};
use super::batches::{Batch, Batches};
use super::chunk::{Chunk, Row, Selection};
use super::error::{ErrorKind, RecordError};
use super::scratch::{Limits, Scratch};
use super::walk::{self, RawRecord};

/// The unit of the timestamp column. Batches have milliseconds; Spark and most tables have microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampUnit {
    Milliseconds,
    Microseconds,
}

/// The treatment of a timestamp that the unit of the column cannot hold, such as nanoseconds where
/// milliseconds belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampOverflow {
    /// An error that names the offset and the timestamp.
    Error,
    Null,
}

/// The columns and records to decode, and how much at once.
#[derive(Clone, Copy, Debug)]
pub struct ColumnOptions {
    pub selection: Selection,
    pub timestamp_unit: TimestampUnit,
    pub timestamp_overflow: TimestampOverflow,
    /// The first offset that is wanted.
    pub start_offset: i64,
    /// The first offset that is not wanted any more.
    pub end_offset: i64,
    /// A chunk ends at this many rows.
    pub rows_max: usize,
    /// A chunk ends before its keys, values and headers take more than this, but has at least one row.
    pub bytes_max: usize,
    /// True if checksums are to be compared. It costs 2 ns for a record of 100 bytes.
    pub check_crc: bool,
    pub limits: Limits,
}

impl Default for ColumnOptions {
    fn default() -> Self {
        ColumnOptions {
            selection: Selection::ALL,
            timestamp_unit: TimestampUnit::Microseconds,
            timestamp_overflow: TimestampOverflow::Error,
            start_offset: 0,
            end_offset: i64::MAX,
            rows_max: 50_000,
            bytes_max: 8 << 20,
            check_crc: true,
            limits: Limits::default(),
        }
    }
}

/// The greatest chunk: positions in a column are signed 32-bit numbers, and one record is less than half of this.
const CHUNK_BYTES_MAX: usize = i32::MAX as usize;

/// Why decoding paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The chunk has as much as it may: take it and go on with the same buffer.
    ChunkFull,
    /// The buffer has no whole batch left: go on with the next one. `position` says where a batch that is cut off starts.
    BufferDone,
    /// `end_offset` was reached.
    End,
}

/// Decodes one partition's batches into chunks.
pub struct ColumnDecoder {
    options: ColumnOptions,
    scratch: Scratch,
    chunk: Chunk,
    next_offset: i64,
    /// Where in the current buffer the next batch starts.
    position: usize,
    /// The batch that the last chunk ended in.
    open: Option<OpenBatch>,
    aborted: AbortedTransactions,
}

/// A batch whose records are partly in a chunk that was taken.
#[derive(Clone, Copy)]
struct OpenBatch {
    header: BatchHeader,
    start: usize,
    decompressed: bool,
    /// Where the next record starts in the (decompressed) records.
    at: usize,
    next_index: i32,
}

impl ColumnDecoder {
    pub fn new(mut options: ColumnOptions) -> Self {
        options.bytes_max = options.bytes_max.min(CHUNK_BYTES_MAX);
        options.rows_max = options.rows_max.clamp(1, CHUNK_BYTES_MAX);
        ColumnDecoder {
            options,
            scratch: Scratch::default(),
            chunk: Chunk::like(options.selection, None),
            next_offset: options.start_offset,
            position: 0,
            open: None,
            aborted: AbortedTransactions::default(),
        }
    }

    /// The offset from which to fetch next: one after the last record or batch that was decoded or left out.
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Where in the current buffer decoding stands: everything before is in chunks.
    pub fn position(&self) -> usize {
        self.position
    }

    pub fn is_done(&self) -> bool {
        self.next_offset >= self.options.end_offset
    }

    /// Goes on at another offset, with the next buffer.
    pub fn seek(&mut self, offset: i64) {
        self.next_offset = offset;
        self.open = None;
    }

    /// Starts with another buffer. What the last one had after `position` is forgotten.
    ///
    /// `aborted` replaces what is known of aborted transactions, as every Fetch answer brings its own full list (in any
    /// order); `None` keeps it, for buffers that follow each other.
    pub fn start_buffer(&mut self, aborted: Option<&[AbortedTransaction]>) {
        self.position = 0;
        self.open = None;
        if let Some(aborted) = aborted {
            self.aborted = AbortedTransactions::new(aborted);
        }
    }

    /// Decodes on in `buffer`, which is the same bytes until `start_buffer`, into the chunk.
    ///
    /// An error names the field and its position in `buffer`; rows before it stay in the chunk.
    pub fn decode(&mut self, buffer: &[u8]) -> Result<Pause, RecordError> {
        loop {
            if let Some(open) = self.open {
                if let Some(pause) = self.decode_open(buffer, open)? {
                    return Ok(pause);
                }
            }
            if self.is_done() {
                return Ok(Pause::End);
            }
            let start = self.position;
            let rest = buffer.get(start..).unwrap_or_default();
            let batch = match Batches::new(rest).next() {
                None => return Ok(Pause::BufferDone),
                Some(Err(error)) if error.is_incomplete() => return Ok(Pause::BufferDone),
                Some(Err(error)) => return Err(error.moved_by(start)),
                Some(Ok(batch)) => batch,
            };
            if batch.header.base_offset >= self.options.end_offset {
                self.next_offset = self.options.end_offset;
                return Ok(Pause::End);
            }
            self.open_batch(&batch, start)
                .map_err(|error| error.moved_by(start))?;
        }
    }

    /// The rows so far. Empty without any.
    pub fn take_chunk(&mut self) -> Chunk {
        let next = Chunk::like(self.options.selection, Some(&self.chunk));
        std::mem::replace(&mut self.chunk, next)
    }

    pub fn rows(&self) -> usize {
        self.chunk.rows
    }

    /// Looks at the batch as a whole: leaves it out, or checks and opens it.
    fn open_batch(&mut self, batch: &Batch<'_>, start: usize) -> Result<(), RecordError> {
        let header = batch.header;
        let visible = self
            .aborted
            .is_visible(batch, &self.options.limits, &mut self.scratch)?;
        if !visible || header.last_offset() < self.next_offset || header.record_count == 0 {
            self.skip_past(&header, start);
            return Ok(());
        }
        if self.options.check_crc {
            check_crc(batch.bytes, &header)?;
        }
        let opened = self
            .scratch
            .open(batch.bytes, &header, &self.options.limits)?;
        self.open = Some(OpenBatch {
            header: opened.header,
            start,
            decompressed: opened.is_unpacked,
            at: 0,
            next_index: 0,
        });
        Ok(())
    }

    fn skip_past(&mut self, header: &BatchHeader, start: usize) {
        self.open = None;
        self.position = start + header.size_bytes();
        let after = header
            .last_offset()
            .saturating_add(1)
            .min(self.options.end_offset);
        self.next_offset = self.next_offset.max(after);
    }

    /// The rest of an open batch. `None`: it is done.
    fn decode_open(
        &mut self,
        buffer: &[u8],
        mut open: OpenBatch,
    ) -> Result<Option<Pause>, RecordError> {
        let header = open.header;
        let records = if open.decompressed {
            self.scratch.unpacked()
        } else {
            buffer
                .get(open.start + HEADER_BYTES..open.start + header.size_bytes())
                .unwrap_or_default()
        };
        let options = &self.options;
        let is_append_time = header.is_log_append_time();
        // Format 0 has no timestamps.
        let timestamp_type = if header.magic == 0 {
            -1
        } else {
            i32::from(is_append_time)
        };
        let scale = if options.timestamp_unit == TimestampUnit::Microseconds {
            1000
        } else {
            1
        };
        let chunk = &mut self.chunk;
        while open.next_index < header.record_count {
            let raw = walk::read(records, open.at).map_err(|mut error| {
                error.in_decompressed = open.decompressed;
                error.position += if open.decompressed {
                    0
                } else {
                    open.start + HEADER_BYTES
                };
                error.of_record(open.next_index as u32)
            })?;
            let offset = header.offset_of(&raw);
            if offset >= options.end_offset {
                self.next_offset = options.end_offset;
                return Ok(Some(Pause::End));
            }
            if offset >= self.next_offset {
                let bytes = selected_bytes(&options.selection, &raw);
                if chunk.rows > 0
                    && (chunk.rows >= options.rows_max || chunk.bytes + bytes > options.bytes_max)
                {
                    self.open = Some(open);
                    return Ok(Some(Pause::ChunkFull));
                }
                if bytes > CHUNK_BYTES_MAX {
                    let problem =
                        format!("a row of {bytes} bytes, a column holds {CHUNK_BYTES_MAX}");
                    let error =
                        RecordError::new(ErrorKind::TooLarge, "headers", open.start, problem);
                    return Err(error.of_record(open.next_index as u32));
                }
                let own_ms = header.timestamp_of(&raw);
                let timestamp_ms = if is_append_time {
                    header.max_timestamp
                } else {
                    own_ms
                };
                let timestamp = timestamp_ms.checked_mul(scale);
                if timestamp.is_none()
                    && options.selection.timestamp
                    && options.timestamp_overflow == TimestampOverflow::Error
                {
                    let problem = format!(
                        "offset {offset} has the timestamp {timestamp_ms}, which is no time of milliseconds that \
                         microseconds can hold"
                    );
                    let error = RecordError::new(
                        ErrorKind::InvalidTimestamp,
                        "timestamp",
                        open.start,
                        problem,
                    );
                    return Err(error.of_record(open.next_index as u32));
                }
                if options.selection.headers {
                    push_headers(chunk, records, &raw);
                }
                chunk.push(&Row {
                    offset,
                    timestamp,
                    timestamp_type,
                    key: raw.key.of(records),
                    value: raw.value.of(records),
                });
                chunk.bytes += bytes;
                self.next_offset = offset.saturating_add(1);
            }
            open.at = raw.end;
            open.next_index += 1;
        }
        self.skip_past(&header, open.start);
        Ok(None)
    }
}

#[inline(always)]
fn selected_bytes(selection: &Selection, raw: &RawRecord) -> usize {
    let mut bytes = 0;
    if selection.key {
        bytes += raw.key.length.max(0) as usize;
    }
    if selection.value {
        bytes += raw.value.length.max(0) as usize;
    }
    if selection.headers {
        // Names may grow by replacement characters, three bytes for one.
        bytes += 3 * (raw.end - raw.headers_start);
    }
    bytes
}

#[inline(always)]
fn push_headers(chunk: &mut Chunk, records: &[u8], raw: &RawRecord) {
    let mut at = raw.headers_start;
    for _ in 0..raw.header_count {
        // The record was checked as a whole when it was read.
        let Ok((name, value, next)) = walk::read_header(records, at) else {
            break;
        };
        chunk
            .headers
            .push_header(name.of(records).unwrap_or_default(), value.of(records));
        at = next;
    }
    chunk.headers.end_record(raw.header_count > 0);
}
