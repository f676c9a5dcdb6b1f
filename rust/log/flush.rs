//! Making appends durable: one fdatasync for all that came since the last.
//!
//! `flushed_offset` is a prefix of the log. A flush covers every segment from there to the active one, the leader-epoch file if it changed,
//! and the folder if a file was created. Requests that come while one runs share the next one, which starts as soon as it ends: no timer,
//! and no request waits for more than two fsyncs.
//!
//! A flush that is due (`flush.messages`) is started by whoever appended. Until it is done,
//! [`settled_offset`](Log::settled_offset) holds back the answers to what it covers, and a follower asks for nothing
//! more: its next question says that it has the records.
//!
//! A failed fsync takes the directory out of use: see [`Home::fail`](super::home::Home::fail).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::checkpoint::LEADER_EPOCHS;
use super::config::LogConfig;
use super::deletion::reaper;
use super::error::{LogError, Result};
use super::log::{Log, Published};
use crate::io::IoPool;
use crate::io::panics::catching;

/// Called once with the flushed offset, from an I/O thread.
pub type FlushWaiter = Box<dyn FnOnce(Result<i64>) + Send>;

#[derive(Default)]
pub struct FlushState {
    running: bool,
    waiters: Vec<FlushWaiter>,
    /// Counts truncations: a flush that one overtook proves nothing about what was appended since.
    pub(super) truncations: u64,
    /// Files were created in the folder since the last flush.
    created: bool,
    /// The leader-epoch file changed since the last flush.
    epochs_changed: bool,
}

/// Threads that wait for fsyncs; started at the first flush. Several, since fsyncs of different files share the disk's queue.
fn pool() -> std::io::Result<&'static IoPool> {
    static POOL: OnceLock<std::io::Result<IoPool>> = OnceLock::new();
    POOL.get_or_init(|| IoPool::new("ottla-flush", 4))
        .as_ref()
        .map_err(|error| error.kind().into())
}

impl Log {
    /// Asks for everything appended so far to be made durable; `waiter` is called when it is, or cannot be. Never blocks.
    pub fn flush_async(self: &Arc<Self>, waiter: FlushWaiter) {
        if let Err(error) = self.check_writable() {
            return waiter(Err(error));
        }
        let mut state = self.flush.lock();
        state.waiters.push(waiter);
        if state.running {
            return;
        }
        state.running = true;
        drop(state);
        let log = Arc::clone(self);
        match pool() {
            Ok(pool) => pool.submit(move || log.run_flushes()),
            Err(_) => log.run_flushes(),
        }
    }

    /// As [`flush_async`](Self::flush_async), for whoever may wait.
    pub fn flush(self: &Arc<Self>) -> Result<i64> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.flush_async(Box::new(move |result| {
            let _ = sender.send(result);
        }));
        receiver
            .recv()
            .unwrap_or_else(|_| Err(LogError::Closed(self.partition.to_string())))
    }

    /// Whether files were created, and whether the leader-epoch file changed, since the last flush; forgets both.
    pub(super) fn take_unflushed(&self) -> (bool, bool) {
        let mut state = self.flush.lock();
        (
            std::mem::take(&mut state.created),
            std::mem::take(&mut state.epochs_changed),
        )
    }

    /// After an append: with `flush.ms` set, a flush follows that long after the first record that waits for one.
    pub(super) fn flush_later(&self, config: &LogConfig) {
        let Ok(delay_ms) = u64::try_from(config.flush_ms) else {
            return;
        };
        if config.flush_ms == i64::MAX
            || !self.home.background
            || self.flush_timer.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let this = Weak::clone(&self.this);
        reaper().later(Duration::from_millis(delay_ms), move || {
            if let Some(log) = this.upgrade() {
                log.flush_timer.store(false, Ordering::Release);
                log.flush_async(Box::new(drop));
            }
        });
    }

    /// Looks whether `flush.messages` records wait for a flush, now that the log ends at `end_offset`.
    pub(super) fn is_flush_due(&self, config: &LogConfig, end_offset: i64) -> bool {
        let is_due = end_offset - self.flushed_offset() >= config.flush_messages;
        if is_due {
            self.flush_due_to.fetch_max(end_offset, Ordering::AcqRel);
        }
        is_due
    }

    /// The offset below which nothing waits for a flush that is due (`flush.messages`): `i64::MAX` if none is. Kafka
    /// has such a flush done before an append returns.
    pub fn settled_offset(&self) -> i64 {
        let due_to = self.flush_due_to.load(Ordering::Acquire);
        let flushed = self.flushed_offset();
        if flushed < due_to { flushed } else { i64::MAX }
    }

    pub(super) fn has_unflushed_files(&self) -> bool {
        let state = self.flush.lock();
        state.created || state.epochs_changed
    }

    pub(super) fn note_created(&self) {
        self.flush.lock().created = true;
    }

    pub(super) fn note_epochs_changed(&self) {
        self.flush.lock().epochs_changed = true;
    }

    /// What is at or after `offset` is gone.
    pub(super) fn note_truncated(&self, offset: i64) {
        let mut state = self.flush.lock();
        state.truncations += 1;
        self.flush_due_to.fetch_min(offset, Ordering::AcqRel);
        self.flushed_offset.fetch_min(offset, Ordering::AcqRel);
    }

    fn run_flushes(&self) {
        loop {
            let waiters = {
                let mut state = self.flush.lock();
                if state.waiters.is_empty() {
                    state.running = false;
                    return;
                }
                std::mem::take(&mut state.waiters)
            };
            let result = self.flush_all();
            for waiter in waiters {
                // It has been told of; the other waiters have nothing to do with it.
                let _ = catching(|| waiter(result.clone()));
            }
        }
    }

    /// A flush that panics proves nothing, nor does one that comes after it: what was to be synced is forgotten.
    fn flush_all(&self) -> Result<i64> {
        catching(|| self.flush_once()).unwrap_or_else(|panicked| Err(self.break_by(panicked)))
    }

    pub(super) fn flush_once(&self) -> Result<i64> {
        self.home.check()?;
        loop {
            let (target, truncations, created, epochs_changed) = {
                let mut state = self.flush.lock();
                let created = std::mem::take(&mut state.created);
                let epochs_changed = std::mem::take(&mut state.epochs_changed);
                (self.published(), state.truncations, created, epochs_changed)
            };
            let synced = self.guard(self.sync_to(target, created, epochs_changed));
            if let Some(next) = self.successor.get() {
                // All of it is there, and was durable before the one took the place of the other.
                return Ok(next.flushed_offset());
            }
            synced?;
            let state = self.flush.lock();
            if state.truncations == truncations {
                self.flushed_offset
                    .fetch_max(target.end_offset, Ordering::AcqRel);
                return Ok(target.end_offset);
            }
        }
    }

    /// Makes everything up to `target` durable.
    pub(super) fn sync_to(
        &self,
        target: Published,
        created: bool,
        epochs_changed: bool,
    ) -> Result<()> {
        let from = self.flushed_offset();
        let segments = self.segments();
        // The segment before `from`, even if it ends there: it may have been closed since, which changed its indexes.
        let first = segments
            .partition_point(|segment| segment.base_offset < from)
            .saturating_sub(1);
        for segment in &segments[first..] {
            if segment.base_offset > target.segment {
                break;
            }
            if segment.base_offset == target.segment && from >= target.end_offset && !created {
                break;
            }
            if segment.base_offset < target.segment {
                // Recovery does not look at segments before the recovery point: their indexes must be whole on disk.
                segment.sync_closed()?;
            } else {
                segment.sync()?;
            }
        }
        // A log that never had a leader has no such file.
        if epochs_changed && self.leader_epoch() >= 0 {
            self.folder.sync_file(&self.folder.join(LEADER_EPOCHS))?;
        }
        if created || epochs_changed {
            self.folder.sync()?;
        }
        Ok(())
    }
}
