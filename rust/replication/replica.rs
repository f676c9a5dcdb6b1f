//! What a fetcher needs of a log.

use std::sync::Arc;

use crate::log::home::now_ms;
use crate::log::{AppendInfo, Log, LogError};

/// A replica that follows. All methods are called by the fetcher's thread alone, and may wait for the disk.
pub trait Replica: Send + Sync {
    fn start_offset(&self) -> i64;

    /// The log end offset: what is asked for next.
    fn end_offset(&self) -> i64;

    /// The leader epoch of the last record, or a later one that has no records yet; -1 if the log knows no epochs.
    fn last_epoch(&self) -> i32;

    /// The most bytes that one append may have.
    fn append_bytes_max(&self) -> usize;

    /// Appends whole batches as the leader of `leader_epoch` sent them. An error changes nothing.
    fn append(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError>;

    /// The same where batches may be of newer epochs than `leader_epoch`.
    fn append_of_any_epoch(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError>;

    /// Counts records that were appended, `is_move` if a reassignment adds this replica.
    fn note_appended(&self, _bytes: usize, _is_move: bool) {}

    /// Sets the high watermark to `offset`, or to the log end offset if that is lower.
    fn set_high_watermark(&self, offset: i64);

    /// Moves the log start offset up to `offset`, but not beyond the high watermark.
    fn move_start_offset(&self, offset: i64) -> Result<(), LogError>;
}

fn flush_if_due(log: &Arc<Log>, appended: AppendInfo) {
    if appended.flush_due {
        log.flush_async(Box::new(drop));
    }
}

impl Replica for Arc<Log> {
    fn start_offset(&self) -> i64 {
        Log::start_offset(self)
    }

    fn end_offset(&self) -> i64 {
        Log::end_offset(self)
    }

    fn last_epoch(&self) -> i32 {
        self.leader_epoch()
    }

    fn append_bytes_max(&self) -> usize {
        usize::try_from(self.config().segment_bytes).unwrap_or(usize::MAX)
    }

    fn append(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError> {
        flush_if_due(
            self,
            self.append_as_follower(records, leader_epoch, now_ms())?,
        );
        Ok(())
    }

    fn append_of_any_epoch(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError> {
        flush_if_due(
            self,
            Log::append_of_any_epoch(self, records, leader_epoch, now_ms())?,
        );
        Ok(())
    }

    fn note_appended(&self, bytes: usize, is_move: bool) {
        self.traffic().replicated(bytes, is_move);
    }

    fn set_high_watermark(&self, offset: i64) {
        // The log takes the lower one of the offset and its end.
        Log::set_high_watermark(self, offset);
    }

    fn move_start_offset(&self, offset: i64) -> Result<(), LogError> {
        let offset = offset.min(self.high_watermark());
        // Without this look, each answer would wait for the log's writer lock.
        if offset > Log::start_offset(self) {
            self.set_start_offset(offset)?;
        }
        Ok(())
    }
}
