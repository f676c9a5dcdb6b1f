//! The part of a log that a fetcher needs.

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

    /// Appends whole batches as the leader of `leader_epoch` sent them, and has them flushed if that is due. An error
    /// changes nothing, but that of a flush.
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

/// Waits for the disk if a flush is due. The leader takes the next question for the word that this replica has the
/// records.
fn flush_if_due(log: &Arc<Log>, appended: AppendInfo) -> Result<(), LogError> {
    if appended.flush_due {
        log.flush()?;
    }
    Ok(())
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
        let appended = self.append_as_follower(records, leader_epoch, now_ms())?;
        flush_if_due(self, appended)
    }

    fn append_of_any_epoch(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError> {
        let appended = Log::append_of_any_epoch(self, records, leader_epoch, now_ms())?;
        flush_if_due(self, appended)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::config::LogConfig;
    use crate::log::tests::{Folder, batch};
    use crate::records::stamp;

    /// The leader is told next that the records are here: that is true of the disk then.
    #[test]
    fn a_flush_that_is_due_is_done_when_an_append_returns() {
        let config = LogConfig {
            flush_messages: 2,
            ..LogConfig::default()
        };
        type Take = fn(&Arc<Log>, &[u8]) -> Result<(), LogError>;
        let ways: [Take; 2] = [
            |log, records| Replica::append(log, records, 1),
            |log, records| Replica::append_of_any_epoch(log, records, 1),
        ];
        for take in ways {
            let folder = Folder::new();
            let log = folder.open(config.clone(), true);
            log.fence(1).unwrap();
            for (offset, flushed) in [(0, 0), (1, 2), (2, 2), (3, 4)] {
                let mut records = batch(&["a"], 1000);
                stamp(&mut records, offset, 1, None);
                take(&log, &records).unwrap();
                assert_eq!(
                    (log.end_offset(), log.flushed_offset()),
                    (offset + 1, flushed)
                );
                assert_eq!(log.settled_offset(), i64::MAX);
            }
        }
    }
}
