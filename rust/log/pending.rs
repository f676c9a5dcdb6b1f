//! Appends that may not run on the loop's thread.
//!
//! The loop appends small batches itself: a write into the page cache costs a few microseconds, a hand-over to a thread and back about
//! as much. An append goes to an I/O thread instead if it is large (see [`INLINE_BYTES_MAX`]), also when it is unpacked, if it would start a new
//! segment (for its size, its time, a full index, or offsets that an index cannot count), if the disk was slow just
//! now (the kernel makes writers wait when too much is dirty), or if somebody else is writing to the log.
//!
//! Order: while a log has a pending append, all its appends queue. Checks, sequence numbers and offsets are done when an append is the next,
//! under the leader epoch that it names: a role change in between refuses it. A log that takes another's place takes its queue over too: what
//! comes to the one stands behind what came to the other.

use std::collections::VecDeque;
use std::ops::DerefMut;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::append::{AppendInfo, AppendOrigin, When};
use super::error::{LogError, Result};
use super::log::Log;
use super::rewrite::is_quick_to_store;
use super::verification::NO_GUARD;
use crate::io::IoPool;
use crate::io::panics::catching;

/// Larger appends go to an I/O thread. Measured with `benches/log.rs`: writing this much takes about ten times the hand-over.
pub const INLINE_BYTES_MAX: usize = 128 << 10;

pub(super) type Job = Box<dyn FnOnce(&Log) + Send>;

#[derive(Default)]
pub struct Pending {
    jobs: VecDeque<Job>,
    running: bool,
}

fn pool() -> Option<&'static IoPool> {
    static POOL: OnceLock<Option<IoPool>> = OnceLock::new();
    POOL.get_or_init(|| IoPool::new("ottla-append", 2).ok())
        .as_ref()
}

impl Log {
    /// [`append`](Log::append) now, or later on an I/O thread: then None, and `done` is called from there once.
    ///
    /// [`When::InTurn`] is for whoever ends the turn afterwards: what is appended now may be [staged](super::staged). It must not be
    /// acknowledged before [`write_staged`](Log::write_staged), nor if that says that it was lost.
    #[allow(clippy::too_many_arguments)]
    pub fn append_or_queue<B>(
        self: &Arc<Self>,
        when: When,
        mut records: B,
        leader_epoch: i32,
        origin: AppendOrigin,
        guard: u64,
        now_ms: i64,
        done: impl FnOnce(Result<AppendInfo>) + Send + 'static,
    ) -> Result<Option<AppendInfo>>
    where
        B: DerefMut<Target = [u8]> + Send + 'static,
    {
        let appended =
            self.append_at_once(when, &mut records, leader_epoch, origin, guard, now_ms)?;
        if appended.is_some() {
            return Ok(appended);
        }
        // Else the turn's end might have to wait for the I/O thread.
        if self.has_staged.load(Ordering::Acquire)
            && let Some(mut writer) = self.writer.try_lock()
        {
            self.write_staged_by(&mut writer);
        }
        self.queue(Box::new(move |log| {
            done(
                log.outcome(|| log.append_with(&mut records, leader_epoch, origin, guard, now_ms)),
            );
        }))?;
        Ok(None)
    }

    /// As [`append_or_queue`](Log::append_or_queue), but None, with nothing done, if it would queue.
    pub fn append_at_once(
        &self,
        when: When,
        records: &mut [u8],
        leader_epoch: i32,
        origin: AppendOrigin,
        guard: u64,
        now_ms: i64,
    ) -> Result<Option<AppendInfo>> {
        if !self.appends_at_once(records) {
            return Ok(None);
        }
        self.try_append(records, leader_epoch, origin, guard, now_ms, when)
            .transpose()
    }

    /// As [`append_at_once`](Log::append_at_once) of a client's batch [in a turn](When::InTurn). None, with nothing
    /// done, if `is_over` is true when nobody else writes to the log any more, or if somebody else does for longer than
    /// `patience`.
    pub fn append_unless(
        &self,
        is_over: impl FnOnce() -> bool,
        patience: Duration,
        records: &mut [u8],
        leader_epoch: i32,
        now_ms: i64,
    ) -> Result<Option<AppendInfo>> {
        if !self.appends_at_once(records) {
            return Ok(None);
        }
        let Some(mut writer) = self.writer.try_lock_for(patience) else {
            return Ok(None);
        };
        if is_over() {
            return Ok(None);
        }
        self.append_in(
            &mut writer,
            records,
            leader_epoch,
            AppendOrigin::Client,
            NO_GUARD,
            self.home.at(now_ms),
            When::InTurn,
        )
    }

    /// True if the loop's thread may append `records` itself, unless the log is busy.
    fn appends_at_once(&self, records: &[u8]) -> bool {
        let is_inline =
            records.len() <= INLINE_BYTES_MAX && is_quick_to_store(records, &self.config());
        is_inline && !self.home.is_slow() && !self.has_pending()
    }

    fn has_pending(&self) -> bool {
        self.pending.load().lock().running
    }

    pub(super) fn queue(self: &Arc<Self>, job: Job) -> Result<()> {
        let pool = pool().ok_or_else(|| LogError::Offline {
            path: self.home.path.clone(),
            reason: "no thread for appends can be started".to_owned(),
        })?;
        let queue = self.pending.load_full();
        let mut pending = queue.lock();
        pending.jobs.push_back(job);
        if !pending.running {
            pending.running = true;
            drop(pending);
            let log = Arc::clone(self);
            pool.submit(move || log.run_pending());
        }
        Ok(())
    }

    fn run_pending(&self) {
        let queue = self.pending.load_full();
        loop {
            let mut pending = queue.lock();
            let Some(job) = pending.jobs.pop_front() else {
                pending.running = false;
                return;
            };
            drop(pending);
            // It has been told of; the next append is to go on.
            let _ = catching(|| job(self));
        }
    }

    /// Has the thread panic in the middle of the next append: what tests do to a log in use.
    pub fn panic_in_append(self: &Arc<Self>) -> Result<()> {
        self.queue(Box::new(|log| {
            let _writer = log.writer();
            panic!("an append that was asked to");
        }))
    }

    /// Waits until every append that is queued or runs now has ended; not for those that come later. After a [`fence`](Log::fence) the queued ones
    /// end at once, for they name an older epoch.
    pub(super) fn wait_for_queued(&self) {
        let (ended, queue_reached) = std::sync::mpsc::channel();
        {
            let queue = self.pending.load_full();
            let mut pending = queue.lock();
            if !pending.running {
                return;
            }
            pending.jobs.push_back(Box::new(move |_| drop(ended)));
        }
        // It ends when the sender is dropped.
        let _ = queue_reached.recv() as std::result::Result<(), _>;
    }

    /// How many appends wait or run on an I/O thread.
    pub fn pending_appends(&self) -> usize {
        let queue = self.pending.load();
        let pending = queue.lock();
        pending.jobs.len() + usize::from(pending.running)
    }

    /// The append, unless that needs the disk for more than a write, or the log's writer is busy.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn try_append(
        &self,
        records: &mut [u8],
        leader_epoch: i32,
        origin: AppendOrigin,
        guard: u64,
        now_ms: i64,
        when: When,
    ) -> Option<Result<AppendInfo>> {
        let mut writer = self.writer.try_lock()?;
        self.append_in(
            &mut writer,
            records,
            leader_epoch,
            origin,
            guard,
            now_ms,
            when,
        )
        .transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::log::LogConfig;
    use crate::log::home::now_ms;
    use crate::log::tests::{Folder, append, batch};
    use crate::log::verification::NO_GUARD;

    /// Why a new segment is needed for the second of two batches.
    fn reasons() -> [(&'static str, LogConfig, i64); 4] {
        let config = LogConfig::default;
        [
            (
                "size",
                LogConfig {
                    segment_bytes: 120,
                    ..config()
                },
                1000,
            ),
            (
                "time",
                LogConfig {
                    segment_ms: 5000,
                    ..config()
                },
                7000,
            ),
            (
                "a full offset index",
                LogConfig {
                    index_interval_bytes: 0,
                    segment_index_bytes: 8,
                    ..config()
                },
                1000,
            ),
            (
                "a full time index",
                LogConfig {
                    index_interval_bytes: 0,
                    segment_index_bytes: 24,
                    ..config()
                },
                1000,
            ),
        ]
    }

    /// Appends as the loop does, or as a thread does if the loop may not. Whether it may not.
    fn is_handed_over(log: &Log, mut records: Vec<u8>, when: When) -> bool {
        let sent = records.clone();
        let origin = AppendOrigin::Client;
        let tried = log.try_append(&mut records, 0, origin, NO_GUARD, 1000, when);
        if let Some(appended) = tried {
            appended.unwrap();
            assert!(log.write_staged().lost.is_none());
            return false;
        }
        assert_eq!(records, sent);
        log.append(&mut records, 0, origin, 1000).unwrap();
        true
    }

    #[test]
    fn nothing_is_appended_once_it_is_over() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        let append = |is_over: bool| {
            let mut records = batch(&["v"], 1000);
            let appended = log.append_unless(|| is_over, Duration::ZERO, &mut records, 0, 1000);
            appended.unwrap().map(|info| info.base_offset)
        };
        assert_eq!([false, true, false].map(append), [Some(0), None, Some(1)]);
    }

    #[test]
    fn a_log_that_somebody_writes_to_is_waited_for_a_moment() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        let append = |patience: Duration| {
            let mut records = batch(&["v"], 1000);
            let appended = log.append_unless(|| false, patience, &mut records, 0, 1000);
            appended.unwrap().map(|info| info.base_offset)
        };
        let held = log.writer.lock();
        assert_eq!(append(Duration::ZERO), None);
        thread::scope(|scope| {
            let appended = scope.spawn(|| append(Duration::from_secs(60)));
            // Who does not wait is done by then.
            for _ in 0..10_000 {
                if appended.is_finished() {
                    break;
                }
                thread::yield_now();
            }
            drop(held);
            assert_eq!(appended.join().unwrap(), Some(0));
        });
    }

    #[test]
    fn a_segment_is_started_on_a_thread_whatever_the_reason() {
        for (reason, config, timestamp_ms) in reasons() {
            for when in [When::Quick, When::InTurn] {
                let folder = Folder::new();
                let log = folder.open(config.clone(), true);
                append(&log, &["a"], 1000);
                let mut handed_over = 0;
                for at in 1..6 {
                    let (segments, end) = (log.segments().len(), log.end_offset());
                    let timestamp_ms = timestamp_ms * at;
                    let by_thread = is_handed_over(&log, batch(&["b"], timestamp_ms), when);
                    assert_eq!(log.end_offset(), end + 1);
                    let has_rolled = log.segments().len() > segments;
                    assert_eq!(by_thread, has_rolled, "{reason}, append {at}");
                    handed_over += usize::from(by_thread);
                }
                assert!(handed_over > 1, "{reason}: {handed_over}");
                assert_eq!(log.segments().len(), 1 + handed_over, "{reason}");
            }
        }
    }

    #[test]
    fn offsets_that_an_index_cannot_count_start_a_segment_on_a_thread() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        append(&log, &["a"], 1000);
        let mut far = batch(&["far"], 1000);
        crate::records::stamp(&mut far, i64::from(i32::MAX), 0, None);
        log.append_as_follower(&far, 0, 1000).unwrap();
        assert_eq!(log.segments().len(), 1);
        for when in [When::Quick, When::InTurn] {
            assert!(is_handed_over(&log, batch(&["next"], 1000), when));
            assert_eq!(log.segments().len(), 2);
            assert!(!is_handed_over(&log, batch(&["there"], 1000), when));
            log.truncate_to(i64::from(i32::MAX) + 1, None).unwrap();
            log.truncate_to(1, None).unwrap();
            log.append_as_follower(&far, 0, 1000).unwrap();
        }
    }

    /// Without timestamps a segment's age goes by the clock, which moves on between an append and the end of its turn.
    #[test]
    fn a_turn_that_outlives_its_segment_is_written_where_it_was_staged() {
        let began_ms = now_ms();
        let folder = Folder::new();
        let config = LogConfig {
            segment_ms: 1,
            ..LogConfig::default()
        };
        let log = folder.open(config, true);
        for _ in 0..2 {
            let mut records = batch(&["v"], -1);
            let staged = log.try_append(
                &mut records,
                0,
                AppendOrigin::Client,
                NO_GUARD,
                began_ms,
                When::InTurn,
            );
            assert!(staged.unwrap().is_ok());
            let staged_ms = now_ms();
            while now_ms() < staged_ms + 3 {
                std::hint::spin_loop();
            }
            assert!(log.write_staged().lost.is_none());
        }
        assert_eq!(log.segments().len(), 1);
    }
}
