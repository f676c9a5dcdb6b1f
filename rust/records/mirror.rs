//! Batches for a partition of another cluster: what a mirror sends of what it fetched.
//!
//! A Produce request has one batch of a partition. A batch that is large enough, and whose offsets have no gaps, travels unopened: its header is
//! written anew (no producer: the one who sends it puts in its own; flags), its records stay as they are, packed or not. Small batches that follow each other are joined. What
//! no producer may send is written anew: batches with gaps (of a compacted topic, or before the place where the mirror begins), old formats,
//! batches with the time of the append, and all if a record header is to be added. Control batches and aborted ones are left out.

use super::aborted::AbortedTransactions;
use super::batch::{
    BatchHeader, CODEC_MASK, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TRANSACTIONAL,
    check_crc, set_crc,
};
use super::batches::{Batch, Batches};
use super::decode::Records;
use super::encode::{BatchBuilder, BatchOptions, Header};
use super::error::RecordError;
use super::scratch::{Limits, Scratch};

/// The flags of a batch that a mirror can send unopened.
const PLAIN: i16 = CODEC_MASK | TRANSACTIONAL;

/// How batches are sent.
#[derive(Clone, Debug, Default)]
pub struct MirrorOptions {
    pub transactional: bool,
    /// Batches that are smaller are joined, until they are that large together.
    pub join_bytes: usize,
    /// A record header that every record is given; one that has a header of this name and one of the values of `stops` is left out, because it
    /// was where it would go.
    pub header: Option<(Vec<u8>, Vec<u8>)>,
    pub stops: Vec<Vec<u8>>,
}

/// A batch for the other cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    pub bytes: Vec<u8>,
    pub records: i32,
    /// The offsets of the first and of the last record where they come from.
    pub first_offset: i64,
    pub last_offset: i64,
    pub is_unopened: bool,
}

/// Makes batches for one partition, from one fetched buffer after the other.
#[derive(Default)]
pub struct Mirror {
    options: MirrorOptions,
    builder: BatchBuilder,
    scratch: Scratch,
    limits: Limits,
}

/// Batches that become one.
struct Joined<'a> {
    batches: Vec<Batch<'a>>,
    size_bytes: usize,
    /// Where they begin, and the offset after all that was looked at.
    from: i64,
    until: i64,
}

impl Joined<'_> {
    fn from(offset: i64) -> Self {
        Joined {
            batches: Vec::new(),
            size_bytes: 0,
            from: offset,
            until: offset,
        }
    }
}

impl Mirror {
    pub fn new(options: MirrorOptions) -> Self {
        Mirror {
            options,
            ..Self::default()
        }
    }

    /// The whole batches of `buffer` that have records from `offset` on, for the other cluster; and the offset after all that was looked at.
    ///
    /// Damage is an error if it comes first; else what is before it is given, and the next call meets it. Memory: the batches, and one unpacked.
    pub fn copy(
        &mut self,
        buffer: &[u8],
        offset: i64,
        mut aborted: AbortedTransactions,
    ) -> Result<(Vec<Mirrored>, i64), RecordError> {
        let mut out = Vec::new();
        let mut joined = Joined::from(offset);
        let done = self.copy_into(&mut out, &mut joined, buffer, offset, &mut aborted);
        match done {
            Err(error) if out.is_empty() => Err(error),
            // The place where the batches began that could not be made.
            Err(_) => Ok((out, joined.from)),
            Ok(()) => Ok((out, joined.until)),
        }
    }

    fn copy_into<'a>(
        &mut self,
        out: &mut Vec<Mirrored>,
        joined: &mut Joined<'a>,
        buffer: &'a [u8],
        offset: i64,
        aborted: &mut AbortedTransactions,
    ) -> Result<(), RecordError> {
        let mut problem = None;
        for batch in Batches::new(buffer) {
            let looked_at = batch.and_then(|batch| {
                check_crc(batch.bytes, &batch.header)
                    .and_then(|()| aborted.is_visible(&batch, &self.limits, &mut self.scratch))
                    .map(|is_visible| (batch, is_visible))
                    .map_err(|error| error.moved_by(batch.position))
            });
            let (batch, is_visible) = match looked_at {
                Ok(looked_at) => looked_at,
                Err(error) => {
                    problem = Some(error).filter(|error| !error.is_incomplete());
                    break;
                }
            };
            let header = &batch.header;
            if header.last_offset() < offset {
                continue;
            }
            if is_visible && header.record_count > 0 {
                let size_bytes = batch.bytes.len();
                if joined.size_bytes + size_bytes > self.options.join_bytes {
                    self.finish(joined, offset, out)?;
                }
                joined.batches.push(batch);
                joined.size_bytes += size_bytes;
            }
            joined.until = joined.until.max(header.last_offset().saturating_add(1));
        }
        self.finish(joined, offset, out)?;
        problem.map_or(Ok(()), Err)
    }

    /// Makes one batch of those that were gathered.
    fn finish(
        &mut self,
        joined: &mut Joined<'_>,
        offset: i64,
        out: &mut Vec<Mirrored>,
    ) -> Result<(), RecordError> {
        let made = match joined.batches.as_slice() {
            [] => None,
            [batch] if self.can_stay_closed(&batch.header, offset) => Some(self.readdressed(batch)),
            batches => {
                let made = self.written_anew(batches, offset);
                self.builder.clear();
                made?
            }
        };
        joined.batches.clear();
        joined.size_bytes = 0;
        joined.from = joined.until;
        out.extend(made);
        Ok(())
    }

    fn can_stay_closed(&self, header: &BatchHeader, offset: i64) -> bool {
        !header.is_message()
            && header.attributes & !PLAIN == 0
            && header.base_offset >= offset
            && header.record_count.checked_sub(1) == Some(header.last_offset_delta)
            && self.options.header.is_none()
    }

    fn readdressed(&self, batch: &Batch<'_>) -> Mirrored {
        let options = &self.options;
        let transactional = if options.transactional {
            TRANSACTIONAL
        } else {
            0
        };
        let mut bytes = batch.bytes.to_vec();
        BatchHeader {
            base_offset: 0,
            leader_epoch: -1,
            attributes: batch.header.attributes & CODEC_MASK | transactional,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            ..batch.header
        }
        .write(&mut bytes);
        set_crc(&mut bytes);
        Mirrored {
            bytes,
            records: batch.header.record_count,
            first_offset: batch.header.base_offset,
            last_offset: batch.header.last_offset(),
            is_unopened: true,
        }
    }

    /// None if no record is left.
    fn written_anew(
        &mut self,
        batches: &[Batch<'_>],
        offset: i64,
    ) -> Result<Option<Mirrored>, RecordError> {
        let options = &self.options;
        let Some(first) = batches.first() else {
            return Ok(None);
        };
        self.builder.options = BatchOptions {
            codec: first.header.compression()?,
            transactional: options.transactional,
            ..BatchOptions::default()
        };
        let mut offsets: Option<(i64, i64)> = None;
        for batch in batches {
            let mut headers: Vec<Header<'_>> = Vec::new();
            for record in Records::new(batch, &self.limits, &mut self.scratch)? {
                let record = record.map_err(|error| error.moved_by(batch.position))?;
                if record.offset < offset {
                    continue;
                }
                headers.clear();
                headers.extend(record.headers);
                if let Some((name, value)) = &options.header {
                    let was_there = |(other, value): &Header<'_>| {
                        *other == name.as_slice()
                            && value
                                .is_some_and(|value| options.stops.iter().any(|stop| stop == value))
                    };
                    if headers.iter().any(was_there) {
                        continue;
                    }
                    headers.push((name, Some(value)));
                }
                self.builder.append(
                    record.timestamp_ms.max(-1),
                    record.key,
                    record.value,
                    &headers,
                )?;
                let (from, _) = offsets.unwrap_or((record.offset, record.offset));
                offsets = Some((from, record.offset));
            }
        }
        let Some((first_offset, last_offset)) = offsets else {
            return Ok(None);
        };
        let records = self.builder.record_count();
        Ok(Some(Mirrored {
            bytes: self.builder.finish()?,
            records,
            first_offset,
            last_offset,
            is_unopened: false,
        }))
    }
}
