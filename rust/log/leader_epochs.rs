//! Which leader epoch wrote which offsets (KIP-101): (epoch, first offset) for every epoch of the log, in `leader-epoch-checkpoint`.
//!
//! A follower asks its leader where an epoch ended and truncates there, instead of to a high watermark that may lag. So the table must hold
//! an epoch from the moment its leader starts, even before its first record, and must lose entries with the records it loses.
//!
//! The file is replaced at every change but only fsynced with the next flush of the log: what a power cut takes from it is either found
//! again in the batches (recovery re-reads everything that was not flushed) or is an epoch without a record, which nobody needs to
//! reconcile with.

use std::fmt::Write;
use std::sync::Arc;

use super::checkpoint::{self, LEADER_EPOCHS};
use super::error::{Context, LogError, Result};
use super::files::Folder;

pub const NO_EPOCH: i32 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: i32,
    pub start_offset: i64,
}

/// The table; both columns ascend strictly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Vec<EpochStart>,
}

impl LeaderEpochs {
    /// Reads the file. Entries out of order are dropped as Kafka drops them: a later line wins over what it contradicts.
    pub fn load(folder: &Arc<Folder>) -> Result<Self> {
        let path = folder.join(LEADER_EPOCHS);
        let lines = checkpoint::read(&*folder.storage, &path, |fields| {
            let [epoch, start_offset] = fields else {
                return None;
            };
            Some(EpochStart {
                epoch: epoch.parse().ok()?,
                start_offset: start_offset.parse().ok()?,
            })
        })?;
        let mut epochs = Self::default();
        for line in lines {
            epochs.assign(line.epoch, line.start_offset);
        }
        Ok(epochs)
    }

    pub fn save(&self, folder: &Folder) -> Result<()> {
        let path = folder.join(LEADER_EPOCHS);
        let text = checkpoint::encode(self.entries.len(), |text| {
            for entry in &self.entries {
                let _ = writeln!(text, "{} {}", entry.epoch, entry.start_offset);
            }
        });
        folder
            .storage
            .replace_unsynced(&path, text.as_bytes(), false)
            .context("replace", &path)
    }

    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// The current epoch; -1 in a log that never had a leader.
    pub fn latest(&self) -> i32 {
        self.entries.last().map_or(NO_EPOCH, |entry| entry.epoch)
    }

    /// The epoch that wrote `offset`.
    pub fn epoch_of(&self, offset: i64) -> i32 {
        let after = self
            .entries
            .partition_point(|entry| entry.start_offset <= offset);
        after
            .checked_sub(1)
            .map_or(NO_EPOCH, |at| self.entries[at].epoch)
    }

    /// Notes that `epoch` starts at `start_offset`; true if that changed the table. Entries that contradict it go.
    pub fn assign(&mut self, epoch: i32, start_offset: i64) -> bool {
        if epoch < 0 || start_offset < 0 {
            return false;
        }
        if self
            .entries
            .last()
            .is_some_and(|last| last.epoch == epoch && last.start_offset <= start_offset)
        {
            return false;
        }
        while self
            .entries
            .last()
            .is_some_and(|last| last.epoch >= epoch || last.start_offset >= start_offset)
        {
            self.entries.pop();
        }
        self.entries.push(EpochStart {
            epoch,
            start_offset,
        });
        true
    }

    /// The largest epoch that is at most `epoch`, and where it ends; `end_offset` is the log's. None if `epoch` is unknown or newer than
    /// every other (OffsetsForLeaderEpoch answers (-1, -1)).
    pub fn end_offset(&self, epoch: i32, end_offset: i64) -> Option<(i32, i64)> {
        if epoch < 0 {
            return None;
        }
        if epoch == self.latest() {
            return Some((epoch, end_offset));
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let next = self.entries.get(higher)?;
        // Older than everything here: what it wrote is gone, the follower may keep what is before our first epoch.
        let floor = higher
            .checked_sub(1)
            .map_or(epoch, |at| self.entries[at].epoch);
        Some((floor, next.start_offset))
    }

    /// Forgets epochs that start at `end_offset` or later; true if there were any.
    pub fn truncate_from_end(&mut self, end_offset: i64) -> bool {
        let kept = self
            .entries
            .partition_point(|entry| entry.start_offset < end_offset);
        let changed = kept < self.entries.len();
        self.entries.truncate(kept);
        changed
    }

    /// Forgets what is before `start_offset`; the epoch that contains it starts there now. True if anything changed.
    pub fn truncate_from_start(&mut self, start_offset: i64) -> bool {
        let before = self
            .entries
            .partition_point(|entry| entry.start_offset <= start_offset);
        let Some(first) = before.checked_sub(1) else {
            return false;
        };
        let changed = first > 0 || self.entries[first].start_offset != start_offset;
        self.entries.drain(..first);
        self.entries[0].start_offset = start_offset;
        changed
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

/// True if the error tells of a file out of shape, which is good for nothing. Recovery rebuilds it
/// from the batches.
pub fn is_damaged(error: &LogError) -> bool {
    matches!(error, LogError::Corrupt { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        for (epoch, start_offset) in entries {
            assert!(epochs.assign(*epoch, *start_offset));
        }
        epochs
    }

    fn table(epochs: &LeaderEpochs) -> Vec<(i32, i64)> {
        epochs
            .entries()
            .iter()
            .map(|entry| (entry.epoch, entry.start_offset))
            .collect()
    }

    #[test]
    fn a_later_assignment_wins_over_what_it_contradicts() {
        let mut cache = epochs(&[(0, 0), (2, 10), (5, 20)]);
        assert!(!cache.assign(5, 25));
        assert!(cache.assign(5, 15));
        assert_eq!(table(&cache), [(0, 0), (2, 10), (5, 15)]);
        assert!(cache.assign(6, 10));
        assert_eq!(table(&cache), [(0, 0), (6, 10)]);
        assert!(cache.assign(3, 12));
        assert_eq!(table(&cache), [(0, 0), (3, 12)]);
        assert!(!cache.assign(-1, 12));
    }

    #[test]
    fn end_offsets_as_the_protocol_defines_them() {
        let cache = epochs(&[(2, 10), (4, 20), (7, 30)]);
        assert_eq!(cache.end_offset(7, 99), Some((7, 99)));
        assert_eq!(cache.end_offset(8, 99), None);
        assert_eq!(cache.end_offset(5, 99), Some((4, 30)));
        assert_eq!(cache.end_offset(4, 99), Some((4, 30)));
        assert_eq!(cache.end_offset(3, 99), Some((2, 20)));
        assert_eq!(cache.end_offset(1, 99), Some((1, 10)));
        assert_eq!(cache.end_offset(-1, 99), None);
        assert_eq!(LeaderEpochs::default().end_offset(0, 99), None);
        assert_eq!(
            [
                cache.epoch_of(9),
                cache.epoch_of(10),
                cache.epoch_of(29),
                cache.epoch_of(99)
            ],
            [-1, 2, 4, 7]
        );
    }

    #[test]
    fn truncation_from_both_ends() {
        let mut cache = epochs(&[(2, 10), (4, 20), (7, 30)]);
        assert!(!cache.truncate_from_end(31));
        assert!(cache.truncate_from_end(30));
        assert_eq!(table(&cache), [(2, 10), (4, 20)]);
        assert!(!cache.truncate_from_start(9));
        assert!(cache.truncate_from_start(15));
        assert_eq!(table(&cache), [(2, 15), (4, 20)]);
        assert!(cache.truncate_from_start(50));
        assert_eq!(table(&cache), [(4, 50)]);
        assert!(!cache.truncate_from_start(50));
    }
}
