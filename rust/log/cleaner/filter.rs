//! One batch after the other: its keys into the map, or its records against the map.
//!
//! Both walk over the records where they lie and hash some keys ahead of using the map, so that the memory of several searches is fetched
//! at once: a large map is in no cache, and one access after the other would cost more than everything else together. Of records that the map
//! was made of it says without a search whether they are the last.

use std::ops::Range;

use super::later::{AHEAD, Later};
use super::offset_map::{KeyHash, OffsetMap};
use crate::records::batch::NO_TIMESTAMP;
use crate::records::compression::Compressor;
use crate::records::rewrite::{rewrite, rewrite_messages};
use crate::records::{BatchHeader, Limits, RecordError, Scratch, walk};

/// The part of a batch that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Nothing,
    /// The batch as it is.
    All,
    /// The batch in [`Filter::rewritten`].
    Some,
}

/// Memory that is used again from batch to batch, and what was counted. One per thread.
#[derive(Default)]
pub struct Filter {
    scratch: Scratch,
    compressor: Compressor,
    seen: Ahead,
    noted: Noted,
    kept: Vec<u8>,
    rewritten: Vec<u8>,
    /// Records without key were among what was indexed.
    has_noted_keyless: bool,
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub records_read: u64,
    pub records_kept: u64,
    /// Records without key, which a compacted topic cannot keep: from a time when it was none.
    pub records_keyless: u64,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    start: usize,
    end: usize,
    offset: i64,
    timestamp_ms: i64,
    hash: KeyHash,
    has_key: bool,
    has_value: bool,
}

/// Not made anew for each batch: that would cost more than a batch of one record.
#[derive(Default)]
struct Ahead([Seen; AHEAD]);

/// Keys, perhaps of several batches, that come into the map when the memory for them is there.
struct Noted {
    later: Later<(KeyHash, i64)>,
    /// The offset up to which the map covers the log once they are in it.
    covers: i64,
}

impl Default for Noted {
    fn default() -> Self {
        Self {
            later: Later::default(),
            covers: i64::MIN,
        }
    }
}

impl Noted {
    /// False if the map is full.
    #[inline(always)]
    fn add(&mut self, hash: KeyHash, offset: i64, map: &mut OffsetMap) -> bool {
        map.prefetch(hash);
        match self.later.push((hash, offset)) {
            Some((hash, offset)) => map.put(hash, offset).is_ok(),
            None => true,
        }
    }

    fn settle(&mut self, map: &mut OffsetMap) -> bool {
        for (hash, offset) in self.later.drain() {
            if map.put(hash, offset).is_err() {
                return false;
            }
        }
        map.cover(self.covers);
        true
    }
}

/// The records of a batch that stay, in their order.
struct Keeping<'a> {
    records: &'a [u8],
    kept: &'a mut Vec<u8>,
    /// Records that follow each other are copied at once, and none before the first that goes.
    run: Range<usize>,
    count: i32,
    max_timestamp_ms: i64,
}

impl<'a> Keeping<'a> {
    fn new(records: &'a [u8], kept: &'a mut Vec<u8>) -> Self {
        kept.clear();
        Self {
            records,
            kept,
            run: 0..0,
            count: 0,
            max_timestamp_ms: NO_TIMESTAMP,
        }
    }

    #[inline(always)]
    fn keep(&mut self, record: Range<usize>, timestamp_ms: i64) {
        if self.run.end != record.start {
            self.kept.extend_from_slice(&self.records[self.run.clone()]);
            self.run.start = record.start;
        }
        self.run.end = record.end;
        self.count += 1;
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
    }

    fn finish(self) -> &'a [u8] {
        if self.kept.is_empty() {
            return &self.records[self.run];
        }
        self.kept.extend_from_slice(&self.records[self.run]);
        self.kept
    }
}

/// Up to [`AHEAD`] records from `at` on, their keys hashed and the map's memory asked for.
#[inline(always)]
fn look_ahead(
    records: &[u8],
    header: &BatchHeader,
    at: &mut usize,
    left: &mut i32,
    map: &OffsetMap,
    seen: &mut [Seen; AHEAD],
) -> Result<usize, RecordError> {
    let count = (*left as usize).min(AHEAD);
    for seen in &mut seen[..count] {
        let record = walk::read(records, *at)?;
        let key = record.key.of(records);
        let hash = key.map_or(KeyHash::default(), |key| map.hash(key));
        map.prefetch(hash);
        *seen = Seen {
            start: *at,
            end: record.end,
            offset: header.offset_of(&record),
            timestamp_ms: header.timestamp_of(&record),
            hash,
            has_key: key.is_some(),
            has_value: record.value.length >= 0,
        };
        *at = record.end;
    }
    *left -= count as i32;
    Ok(count)
}

impl Filter {
    /// Notes the keys of the batch's records from `start_offset` on, which [`settle`](Self::settle) brings into the map, if this does not
    /// before. False if the map is full: it covers what comes before that record.
    pub fn index(
        &mut self,
        bytes: &[u8],
        outer: &BatchHeader,
        start_offset: i64,
        map: &mut OffsetMap,
    ) -> Result<bool, RecordError> {
        let opened = self.scratch.open(bytes, outer, &Limits::default())?;
        let (records, header) = (opened.records, &opened.header);
        let mut at = 0;
        for _ in 0..header.record_count {
            let record = walk::read(records, at)?;
            at = record.end;
            let offset = header.offset_of(&record);
            let Some(key) = record.key.of(records) else {
                self.has_noted_keyless = true;
                continue;
            };
            if offset >= start_offset && !self.noted.add(map.hash(key), offset, map) {
                return Ok(false);
            }
        }
        self.noted.covers = outer.last_offset();
        Ok(true)
    }

    /// Brings everything that was noted into the map. False if the map became full.
    pub fn settle(&mut self, map: &mut OffsetMap) -> bool {
        self.noted.settle(map)
    }

    /// Keeps the records that are the last of their key, or that the map does not reach to; tombstones only if `keeps_tombstones`.
    pub fn filter(
        &mut self,
        bytes: &[u8],
        outer: &BatchHeader,
        map: &OffsetMap,
        keeps_tombstones: bool,
    ) -> Result<Kept, RecordError> {
        if let Some(kept) = self.whole(outer, map, keeps_tombstones) {
            self.counts.records_read += outer.record_count as u64;
            if kept == Kept::All {
                self.counts.records_kept += outer.record_count as u64;
            }
            return Ok(kept);
        }
        let opened = self.scratch.open(bytes, outer, &Limits::default())?;
        let (records, header) = (opened.records, &opened.header);
        let mut keeping = Keeping::new(records, &mut self.kept);
        let latest_offset = map.latest_offset();
        let (mut at, mut left, mut keyless) = (0, header.record_count, 0);
        if map
            .superseded()
            .has(header.base_offset..=header.last_offset())
        {
            for _ in 0..left {
                let record = walk::read(records, at)?;
                let offset = header.offset_of(&record);
                let has_key = record.key.length >= 0;
                keyless += u64::from(!has_key);
                let stays = offset > latest_offset
                    || has_key
                        && (record.value.length >= 0 || keeps_tombstones)
                        && !map.superseded().contains(offset);
                if stays {
                    keeping.keep(at..record.end, header.timestamp_of(&record));
                }
                at = record.end;
            }
        } else {
            let seen = &mut self.seen.0;
            while left > 0 {
                let count = look_ahead(records, header, &mut at, &mut left, map, seen)?;
                for seen in &seen[..count] {
                    keyless += u64::from(!seen.has_key);
                    let is_last = || map.get(seen.hash).is_none_or(|last| seen.offset >= last);
                    let stays = seen.offset > latest_offset
                        || seen.has_key && (seen.has_value || keeps_tombstones) && is_last();
                    if stays {
                        keeping.keep(seen.start..seen.end, seen.timestamp_ms);
                    }
                }
            }
        }
        let (kept_count, max_timestamp_ms) = (keeping.count, keeping.max_timestamp_ms);
        self.counts.records_read += header.record_count as u64;
        self.counts.records_kept += kept_count as u64;
        self.counts.records_keyless += keyless;
        if kept_count == 0 {
            return Ok(Kept::Nothing);
        }
        if kept_count == header.record_count {
            return Ok(Kept::All);
        }
        let kept = keeping.finish();
        if outer.is_message() {
            self.rewritten = rewrite_messages(outer, header, kept, &mut self.compressor)?;
        } else {
            rewrite(
                outer,
                kept,
                kept_count,
                max_timestamp_ms,
                &mut self.compressor,
                &mut self.rewritten,
            )?;
        }
        Ok(Kept::Some)
    }

    /// The fate of a batch of which the map knows so much that nobody has to look into it; None of
    /// others.
    fn whole(&self, batch: &BatchHeader, map: &OffsetMap, keeps_tombstones: bool) -> Option<Kept> {
        let (first, last) = (batch.base_offset, batch.last_offset());
        // A message says less of what is in it.
        if batch.is_message()
            || self.has_noted_keyless
            || last > map.latest_offset()
            || !map.superseded().has(first..=last)
        {
            return None;
        }
        let superseded = map.superseded().count(first..=last);
        if superseded == 0 && keeps_tombstones && batch.record_count > 0 {
            return Some(Kept::All);
        }
        let offsets = last.abs_diff(first) + 1;
        (superseded == offsets && superseded == batch.record_count as u64).then_some(Kept::Nothing)
    }

    /// The batch that the last `Kept::Some` was about.
    pub fn rewritten(&self) -> &[u8] {
        &self.rewritten
    }
}
