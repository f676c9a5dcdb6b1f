//! Finds the part of a log that can be cleaned (Kafka's LogCleanerManager.cleanableOffsets).

use std::sync::Arc;

use crate::log::error::Result;
use crate::log::log::Log;
use crate::log::segment::Segment;

/// A compacted log's state, as whoever chooses the next one to clean wants to know it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleanable {
    /// Everything before was cleaned.
    pub first_dirty_offset: i64,
    /// From here on nothing may be cleaned yet: it is active, unstable or too young.
    pub first_uncleanable_offset: i64,
    /// Bytes before the first, and between the two.
    pub clean_bytes: u64,
    pub cleanable_bytes: u64,
    /// How long the oldest dirty record has been there beyond `max.compaction.lag.ms`.
    pub overdue_ms: i64,
    /// `min.cleanable.dirty.ratio`
    pub dirty_ratio_min: f64,
}

impl Log {
    /// None if the log is not compacted, is being cleaned, or was set aside.
    pub fn cleanable(&self, now_ms: i64) -> Result<Option<Cleanable>> {
        let config = self.config();
        let in_use = !self.is_future() && !self.is_moving() && self.check_writable().is_ok();
        if !config.compact || !in_use || self.uncleanable().is_some() {
            return Ok(None);
        }
        let Some(_idle) = self.cleaning.try_lock() else {
            return Ok(None);
        };
        let segments = self.segments();
        let Some((active, closed)) = segments.split_last() else {
            return Ok(None);
        };
        let first_dirty_offset = self.first_dirty_offset();
        let dirty = if first_dirty_offset < active.base_offset {
            &closed[floor(closed, first_dirty_offset)..]
        } else {
            &[]
        };
        let first_uncleanable_offset =
            self.first_uncleanable(dirty, active, config.min_compaction_lag_ms, now_ms)?;
        let first_uncleanable_offset = first_uncleanable_offset.max(first_dirty_offset);
        // By whole segments.
        let first_uncleanable_offset = closed
            .get(floor(closed, first_uncleanable_offset)..)
            .and_then(<[_]>::first)
            .filter(|_| first_uncleanable_offset < active.base_offset)
            .map_or(active.base_offset, |segment| segment.base_offset);
        let from = first_dirty_offset.min(first_uncleanable_offset);
        let bytes = |segments: &mut dyn Iterator<Item = &Arc<Segment>>| {
            segments.map(|segment| segment.size_bytes()).sum()
        };
        Ok(Some(Cleanable {
            first_dirty_offset,
            first_uncleanable_offset,
            clean_bytes: bytes(
                &mut closed
                    .iter()
                    .take_while(|segment| segment.base_offset < first_dirty_offset),
            ),
            cleanable_bytes: if from < first_uncleanable_offset {
                bytes(
                    &mut closed[floor(closed, from)..]
                        .iter()
                        .take_while(|segment| segment.base_offset < first_uncleanable_offset),
                )
            } else {
                0
            },
            overdue_ms: overdue_ms(dirty, config.max_compaction_lag_ms, now_ms)?,
            dirty_ratio_min: config.min_cleanable_dirty_ratio,
        }))
    }

    /// Where the last cleaning ended, or the log's start: without a cleaning, after a truncation behind it, after records before it were deleted.
    fn first_dirty_offset(&self) -> i64 {
        let start = self.start_offset();
        match self.cleaned_offset() {
            Some(cleaned) if (start..=self.end_offset()).contains(&cleaned) => cleaned,
            _ => start,
        }
    }

    fn first_uncleanable(
        &self,
        dirty: &[Arc<Segment>],
        active: &Segment,
        min_lag_ms: i64,
        now_ms: i64,
    ) -> Result<i64> {
        let unstable = self.first_unstable_offset().unwrap_or(i64::MAX);
        let end = active.base_offset.min(unstable).min(self.high_watermark());
        if min_lag_ms > 0 {
            for segment in dirty {
                if segment.largest_timestamp_ms()? > now_ms.saturating_sub(min_lag_ms) {
                    return Ok(end.min(segment.base_offset));
                }
            }
        }
        Ok(end)
    }
}

/// The position of the segment that contains `offset`, or of the first.
fn floor(segments: &[Arc<Segment>], offset: i64) -> usize {
    segments
        .partition_point(|segment| segment.base_offset <= offset)
        .saturating_sub(1)
}

fn overdue_ms(dirty: &[Arc<Segment>], max_lag_ms: i64, now_ms: i64) -> Result<i64> {
    let clean_until_ms = now_ms.saturating_sub(max_lag_ms.max(0));
    if clean_until_ms <= 0 {
        return Ok(0);
    }
    let mut earliest_ms = i64::MAX;
    for segment in dirty {
        let first_ms = segment.first_timestamp_ms()?;
        if first_ms > 0 {
            earliest_ms = earliest_ms.min(first_ms);
        }
    }
    Ok(clean_until_ms.saturating_sub(earliest_ms).max(0))
}
