//! Moving a log between data directories while it is in use (KIP-113).
//!
//! A *future* log (`orders-3.<unique>-future`) in the other directory is filled by [`copy`], a piece at a time, as a follower is. When it has caught
//! up, [`replace`] holds appends back for a moment, copies what is left, and puts it in the place of the current one.
//!
//! **What a crash leaves.** Before the first rename: the current log, and a future one that goes on. Between the renames: two current logs, of which
//! the old one is a beginning of the new one. After the second: the new one. The first rename is durable before the second is done, since the
//! two directories are on different disks: without that a power cut could leave neither. Kafka renames in the same order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::deletion::{reaper, remove_folder};
use super::directory::LogDirectory;
use super::error::{Context, Result};
use super::home::now_ms;
use super::leader_epochs::{LeaderEpochs, NO_EPOCH};
use super::log::Log;

/// The most bytes that are copied while appends are held back.
const LOCKED_BYTES_MAX: u64 = 1 << 20;

impl Log {
    /// True if the log is being copied into another directory.
    pub fn is_moving(&self) -> bool {
        self.moving.load(Ordering::Acquire)
    }

    /// From now on the log is not cleaned, and no cleaning is at work. A record that was copied and whose tombstone was cleaned away before it
    /// could be copied would be back for ever.
    pub fn begin_move(&self) {
        if !self.is_moving() {
            let _idle = self.cleaning.lock();
            self.moving.store(true, Ordering::Release);
        }
    }

    /// The move was given up.
    pub fn end_move(&self) {
        self.moving.store(false, Ordering::Release);
    }
}

/// Copies up to `bytes_max` bytes, at least a batch if there is one, from the current log to the future one. First the future log gives up what the current
/// one does not have any more. The number of bytes copied; 0 says that it has caught up.
pub fn copy(current: &Log, future: &Log, bytes_max: u64) -> Result<u64> {
    part_ways(current, future)?;
    // What is appended at once must fit into a segment; the settings may have changed since it was written.
    let bytes_max = bytes_max.min(u64::from(future.config().segment_bytes));
    let mut copied = 0;
    loop {
        let end = future.end_offset();
        let read = current.read(end, bytes_max, i64::MAX, true)?;
        let Some(slice) = read.slice else {
            break;
        };
        let bytes = current
            .home
            .guard_read(slice.read().context("read", &slice.file.path()))?;
        if take(current, future, &bytes)? {
            copied = bytes.len() as u64;
            break;
        }
    }
    future.set_high_watermark(current.high_watermark());
    let start = current.start_offset();
    if start > future.start_offset() && start <= future.high_watermark() {
        future.set_start_offset(start)?;
    }
    Ok(copied)
}

/// Appends what was read of the current log behind the future one. False, with the future log cut instead, if the current one was truncated
/// before that, and perhaps has gone on otherwise.
fn take(current: &Log, future: &Log, bytes: &[u8]) -> Result<bool> {
    let parted = part_ways(current, future)?;
    if !parted {
        future.append_copied(bytes, now_ms())?;
    }
    Ok(!parted)
}

/// Cuts the future log back to what both have in common: the current one may have been truncated since. True if it had more.
fn part_ways(current: &Log, future: &Log) -> Result<bool> {
    // The end before the epochs: a log that goes on says first under which epoch.
    let current_end = current.end_offset();
    let common = common_end(
        &current.leader_epochs(),
        current_end,
        future.leader_epochs(),
        future.end_offset(),
    );
    let start = current.start_offset();
    if common < start {
        future.truncate_fully_and_start_at(start, None)?;
        return Ok(true);
    }
    if common == future.end_offset() {
        return Ok(false);
    }
    future.truncate_to(common, None)?;
    Ok(true)
}

/// Where two logs part, by their leader epochs: the rule by which a follower is cut (KIP-101, KIP-279; `replication/truncation.py`), asked until
/// both agree. What has no epochs (formats 0 and 1) is compared by its end alone.
fn common_end(
    current: &LeaderEpochs,
    current_end: i64,
    mut future: LeaderEpochs,
    future_end: i64,
) -> i64 {
    let mut end = future_end.min(current_end);
    while future.latest() != NO_EPOCH {
        let Some((known, known_end)) = last_at_most(current, future.latest(), current_end) else {
            break;
        };
        // Where the future log goes on after that epoch, it goes on with one that the current log never had.
        let Some((own, own_end)) = last_at_most(&future, known, end) else {
            break;
        };
        end = end.min(own_end);
        if own == known {
            return end.min(known_end);
        }
        future.truncate_from_end(end);
    }
    end
}

/// The largest epoch that is at most `epoch`, and where it ends; `epoch` itself, before the first record, if all are larger. None without epochs.
fn last_at_most(epochs: &LeaderEpochs, epoch: i32, end_offset: i64) -> Option<(i32, i64)> {
    let entries = epochs.entries();
    let larger = entries.partition_point(|entry| entry.epoch <= epoch);
    let last = larger.checked_sub(1).map(|at| entries[at].epoch);
    let end = entries
        .get(larger)
        .map_or(end_offset, |next| next.start_offset);
    entries.first().map(|_| (last.unwrap_or(epoch), end))
}

/// Puts the future log in the place of the current one, which is renamed `-delete` and removed later. False, with nothing changed, if there is
/// too much left to copy while appends wait. An error before the future log has its new name leaves everything as it was; what fails afterwards
/// takes the old directory out of use, and the move is done.
pub fn replace(
    current: &Arc<Log>,
    from: &LogDirectory,
    future: &Arc<Log>,
    to: &LogDirectory,
    unique_id: u128,
) -> Result<bool> {
    future.flush()?;
    let mut writer = current.writer();
    current.check_writable()?;
    // If the power brought back what was cut off, a crash between the renames would leave an old log that is the longer one.
    current.settle(&mut writer)?;
    let mut total = 0;
    loop {
        let copied = copy(current, future, LOCKED_BYTES_MAX)?;
        total += copied;
        if copied == 0 {
            break;
        }
        if total > LOCKED_BYTES_MAX {
            return Ok(false);
        }
    }
    if future.end_offset() != current.end_offset() {
        return Ok(false);
    }
    future.flush()?;
    {
        let mut next = future.writer();
        // What deleted segments said of producers is in no batch that was copied.
        let snapshot_offset = next.producers.snapshot_offset;
        next.producers = writer.producers.clone();
        next.producers.snapshot_offset = snapshot_offset;
        next.epoch = -1;
        *future.epochs.write() = current.leader_epochs();
        future.save_epochs(&mut next)?;
        *future.verifications.lock() = current.verifications.lock().clone();
        future.note_unstable(&next);
        let epoch = current.expected_epoch.load(Ordering::Acquire);
        let since = current.led_since.load(Ordering::Acquire);
        future.led_since.store(since, Ordering::Release);
        future.expected_epoch.store(epoch, Ordering::Release);
    }
    if current.cleaned_offset().is_some() {
        // Batches may have been copied before they were cleaned.
        future.note_cleaned(future.start_offset());
        to.checkpoint_cleaned_offsets()?;
    }
    // Before its name says that it is the log: deleted records must not come back.
    to.checkpoint_start_offsets()?;
    to.take_place(future)?;
    // Whoever waits for the writer's lock goes on there, and before what comes to the new one.
    future.pending.store(current.pending.load_full());
    let _ = current.successor.set(Arc::clone(future));
    drop(writer);
    if let Err(error) = retire(current, from, unique_id) {
        current.home.fail(&error);
    }
    let _ = to
        .checkpoint_recovery_points()
        .and_then(|()| to.checkpoint_high_watermarks());
    Ok(true)
}

fn retire(current: &Arc<Log>, from: &LogDirectory, unique_id: u128) -> Result<()> {
    // A cleaning that is at work sees that the log has moved, and stops.
    let _cleaning = current.cleaning.lock();
    from.forget(&current.partition);
    current.leaving.store(true, Ordering::Release);
    let path = current.folder.path();
    let deleted = path.with_file_name(current.partition.deleted_folder_name(unique_id));
    current.folder.rename(&deleted).context("rename", &path)?;
    from.checkpoint_recovery_points()?;
    from.checkpoint_start_offsets()?;
    from.checkpoint_high_watermarks()?;
    if current.cleaned_offset().is_some() {
        from.checkpoint_cleaned_offsets()?;
    }
    let delay = Duration::from_millis(current.config().file_delete_delay_ms);
    let (home, folder) = (Arc::clone(&current.home), Arc::clone(&current.folder));
    reaper().later(delay, move || {
        let _ = remove_folder(&*home.storage, &folder.path());
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogConfig;
    use crate::log::faults::seeds::{self, choices};
    use crate::log::tests::{Folder, batch};
    use crate::records::stamp;

    /// The log that the leader of an epoch has, or had: an epoch for each offset. A record is its
    /// epoch and its offset, since each epoch has one leader.
    type History = Vec<i32>;

    fn record(offset: i64, epoch: i32) -> Vec<u8> {
        let mut sent = batch(&[&format!("{epoch}-{offset}")], 1000);
        stamp(&mut sent, offset, epoch, None);
        sent
    }

    fn append(log: &Log, epochs: &[i32]) {
        for epoch in epochs {
            let sent = record(log.end_offset(), *epoch);
            log.append_copied(&sent, 1000).unwrap();
        }
    }

    fn bytes(log: &Log) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in log.segments().iter() {
            bytes.extend(std::fs::read(segment.file.path()).unwrap());
        }
        bytes
    }

    fn expected(history: &[i32]) -> Vec<u8> {
        let records = history.iter().enumerate();
        records
            .flat_map(|(offset, epoch)| record(offset as i64, *epoch))
            .collect()
    }

    /// As it follows the leader that has `history`: what they do not share is cut off, then it fetches up to `end`.
    fn follow(log: &Log, has: &mut History, history: &[i32], end: usize) {
        let common = has
            .iter()
            .zip(history)
            .take_while(|(one, other)| one == other);
        let common = common.count();
        if common < has.len() {
            log.truncate_to(common as i64, None).unwrap();
            has.truncate(common);
        }
        let more = history.get(common..end).unwrap_or_default();
        append(log, more);
        has.extend(more);
    }

    fn table(history: &[i32]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        for (offset, epoch) in history.iter().enumerate() {
            epochs.assign(*epoch, offset as i64);
        }
        epochs
    }

    /// The next leader: it has a part of what an earlier one had, and goes on under its own epoch.
    fn next_leader(leaders: &[History], choice: &mut impl FnMut(usize) -> usize) -> History {
        let epoch = leaders.len() as i32;
        let mut history = leaders
            .get(choice(leaders.len().max(1)))
            .cloned()
            .unwrap_or_default();
        history.truncate(choice(history.len() + 1));
        history.extend(vec![epoch; choice(4)]);
        history
    }

    fn two_logs(config: LogConfig) -> ([Folder; 2], [Arc<Log>; 2]) {
        let folders = [Folder::new(), Folder::new()];
        let logs = folders
            .each_ref()
            .map(|folder| folder.open(config.clone(), true));
        (folders, logs)
    }

    #[test]
    fn an_epoch_that_the_current_log_never_had() {
        for piece in [1, 1 << 20] {
            let (_folders, [current, future]) = two_logs(LogConfig::default());
            append(&current, &[4, 4, 4, 5, 5, 5]);
            while copy(&current, &future, piece).unwrap() > 0 {}
            current.truncate_to(3, None).unwrap();
            // Nothing of the leader's own epoch yet: the future log has a later one than the current.
            append(&current, &[4, 4, 4, 4, 4]);
            assert!(part_ways(&current, &future).unwrap());
            assert_eq!(future.end_offset(), 3);
            append(&current, &[6, 6]);
            while copy(&current, &future, piece).unwrap() > 0 {}
            assert_eq!(bytes(&future), bytes(&current));
            assert_eq!(future.leader_epochs(), current.leader_epochs());
        }
    }

    #[test]
    fn what_was_read_of_another_history_is_not_taken() {
        let (_folders, [current, future]) = two_logs(LogConfig::default());
        append(&current, &[4, 4, 4, 5, 5, 5]);
        while copy(&current, &future, 1 << 20).unwrap() > 0 {}
        current.truncate_to(3, None).unwrap();
        append(&current, &[4, 4, 4, 4, 4, 6, 6]);
        let read = current.read(6, 1 << 20, i64::MAX, true).unwrap();
        let read = read.slice.unwrap().read().unwrap();
        assert!(!take(&current, &future, &read).unwrap());
        assert_eq!(future.end_offset(), 3);
    }

    #[test]
    fn where_histories_part_is_where_their_records_do() {
        seeds::each(300, |seed| {
            let mut choice = choices(seed);
            let mut leaders: Vec<History> = Vec::new();
            for _ in 0..8 {
                leaders.push(next_leader(&leaders, &mut choice));
            }
            for one in &leaders {
                for other in &leaders {
                    let same = one
                        .iter()
                        .zip(other)
                        .take_while(|(one, other)| one == other);
                    let (ends, same) = ([one.len() as i64, other.len() as i64], same.count());
                    let found = common_end(&table(one), ends[0], table(other), ends[1]);
                    assert_eq!(found, same as i64, "{one:?} {other:?}");
                }
            }
        });
    }

    #[test]
    fn a_copy_has_the_records_of_its_log_whatever_became_of_it() {
        seeds::each(50, |seed| {
            let mut choice = choices(seed);
            let config = LogConfig {
                segment_bytes: 300 + 100 * choice(10) as u32,
                ..LogConfig::default()
            };
            let (_folders, [current, future]) = two_logs(config);
            let (mut leaders, mut has): (Vec<History>, _) = (Vec::new(), History::new());
            for _ in 0..12 {
                let next = next_leader(&leaders, &mut choice);
                let fetched = choice(next.len() + 1);
                follow(&current, &mut has, &next, fetched);
                leaders.push(next);
                for _ in 0..choice(3) {
                    copy(&current, &future, 1 + choice(300) as u64).unwrap();
                }
            }
            while copy(&current, &future, 200).unwrap() > 0 {}
            assert_eq!(bytes(&current), expected(&has));
            assert_eq!(bytes(&future), expected(&has));
            assert_eq!(future.leader_epochs(), table(&has));
        });
    }

    /// The current log is truncated and goes on while it is being copied.
    #[test]
    fn a_log_changes_while_it_is_copied() {
        seeds::each(10, |seed| {
            let (_folders, [current, future]) = two_logs(LogConfig::default());
            let has = std::thread::scope(|scope| {
                let follows = scope.spawn(|| {
                    let mut choice = choices(seed);
                    let (mut leaders, mut has): (Vec<History>, _) = (Vec::new(), History::new());
                    for _ in 0..50 {
                        let next = next_leader(&leaders, &mut choice);
                        follow(&current, &mut has, &next, next.len());
                        leaders.push(next);
                    }
                    has
                });
                while !follows.is_finished() {
                    // Offsets that are gone when they are asked for: the mover tries again.
                    let _ = copy(&current, &future, 100);
                }
                follows.join().unwrap()
            });
            while copy(&current, &future, 100).unwrap() > 0 {}
            assert_eq!(bytes(&future), expected(&has));
            assert_eq!(bytes(&current), expected(&has));
        });
    }
}
