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
use super::log::Log;

/// What is copied at most while appends are held back.
const LOCKED_BYTES_MAX: u64 = 1 << 20;

impl Log {
    /// Whether it is being copied into another directory.
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
    let read = current.read(future.end_offset(), bytes_max, i64::MAX, true)?;
    let mut copied = 0;
    if let Some(slice) = read.slice {
        let bytes = current
            .home
            .guard_read(slice.read().context("read", &slice.file.path()))?;
        future.append_copied(&bytes, now_ms())?;
        copied = bytes.len() as u64;
    }
    future.set_high_watermark(current.high_watermark());
    let start = current.start_offset();
    if start > future.start_offset() && start <= future.high_watermark() {
        future.set_start_offset(start)?;
    }
    Ok(copied)
}

/// Cuts the future log back to what both have in common, by their leader epochs (KIP-101): the current one may have been truncated since.
fn part_ways(current: &Log, future: &Log) -> Result<()> {
    if future.end_offset() < current.start_offset() {
        return future.truncate_fully_and_start_at(current.start_offset(), None);
    }
    if future.end_offset() > current.end_offset() {
        future.truncate_to(current.end_offset(), None)?;
    }
    loop {
        let epoch = future.leader_epoch();
        match current.epoch_end_offset(epoch) {
            Some((_, end)) if end < future.end_offset() => {
                future.truncate_to(end.max(future.start_offset()), None)?;
                if future.leader_epoch() == epoch {
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
    }
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
        let unstable = current.unstable_offset.load(Ordering::Acquire);
        future.unstable_offset.store(unstable, Ordering::Release);
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
