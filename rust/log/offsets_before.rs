//! ListOffsets 0: the offsets at which segments start, before a time. Kafka's rules (Log.legacyFetchOffsetsBefore).

use super::error::{Context, Result};
use super::log::Log;

pub const LATEST: i64 = -1;
pub const EARLIEST: i64 = -2;

impl Log {
    /// At most `count_max` offsets, the greatest first: of segments whose last write was not after `timestamp_ms`, and the log's end, which counts
    /// as written `now_ms`. [`LATEST`] and [`EARLIEST`] stand for all of them, and for the first.
    pub fn offsets_before(
        &self,
        timestamp_ms: i64,
        count_max: usize,
        now_ms: i64,
    ) -> Result<Vec<i64>> {
        let end = self.published();
        let start_offset = self.start_offset();
        let mut candidates = Vec::new();
        let mut last_has_size = false;
        for segment in self
            .segments()
            .iter()
            .filter(|segment| segment.base_offset <= end.end_offset)
        {
            let path = segment.file.path();
            let metadata = self.folder.storage.metadata(&path);
            let written_ms = metadata.context("look at", &path)?.modified_ms;
            candidates.push((segment.base_offset.max(start_offset), written_ms));
            last_has_size = !segment.is_empty();
        }
        if last_has_size {
            candidates.push((end.end_offset, now_ms));
        }
        let found = match timestamp_ms {
            LATEST => candidates.len(),
            EARLIEST => candidates.len().min(1),
            _ => candidates
                .iter()
                .rposition(|(_, written_ms)| *written_ms <= timestamp_ms)
                .map_or(0, |at| at + 1),
        };
        let mut offsets: Vec<i64> = candidates[..found]
            .iter()
            .rev()
            .take(count_max)
            .map(|(offset, _)| *offset)
            .collect();
        offsets.sort_unstable_by(|one, other| other.cmp(one));
        Ok(offsets)
    }
}
