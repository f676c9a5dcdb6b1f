//! Hearing of it when the high watermark moves: of a log that a fetcher writes to nobody else does.
//!
//! A Fetch that waits at a follower sets the watch first, and then looks whether the high watermark has moved since it read the log. So either it sees
//! that itself, or the thread that moves the high watermark afterwards sees the watch.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use parking_lot::Mutex;

use super::log::Log;

pub(super) type Notify = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct HighWatermarkWatch {
    is_set: AtomicBool,
    notify: Mutex<Option<Notify>>,
}

impl HighWatermarkWatch {
    fn set(&self, notify: Notify) {
        *self.notify.lock() = Some(notify);
        self.is_set.store(true, Ordering::SeqCst);
        // What the caller reads next is not older.
        fence(Ordering::SeqCst);
    }

    /// The high watermark was moved, in an order that all threads agree on.
    pub fn moved(&self) {
        if self.is_set.load(Ordering::SeqCst) {
            let notify = {
                let mut notify = self.notify.lock();
                self.is_set.store(false, Ordering::SeqCst);
                notify.take()
            };
            if let Some(notify) = notify {
                notify();
            }
        }
    }
}

impl Log {
    /// Calls `notify` once, by the thread that next moves the high watermark. It takes the place of one that was given before, and must not wait.
    pub fn watch_high_watermark(&self, notify: impl FnOnce() + Send + 'static) {
        self.high_watermark_watch.set(Box::new(notify));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use crate::log::tests::{Folder, batch};
    use crate::log::{AppendOrigin, Log, LogConfig};

    fn filled(log: &Log, records: usize) {
        log.begin_epoch(0).unwrap();
        for _ in 0..records {
            log.append(&mut batch(&["a"], 1000), 0, AppendOrigin::Client, 1000)
                .unwrap();
        }
    }

    #[test]
    fn one_move_of_the_high_watermark_is_told() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        filled(&log, 3);
        let told = Arc::new(AtomicUsize::new(0));
        let watch = || {
            let told = Arc::clone(&told);
            log.watch_high_watermark(move || {
                told.fetch_add(1, Ordering::AcqRel);
            });
        };
        log.set_high_watermark(1);
        watch();
        assert!(!log.set_high_watermark(1));
        assert_eq!(told.load(Ordering::Acquire), 0, "it did not move");
        log.set_high_watermark(2);
        assert_eq!(told.load(Ordering::Acquire), 1);
        log.set_high_watermark(3);
        assert_eq!(told.load(Ordering::Acquire), 1, "once");
        watch();
        watch();
        log.set_high_watermark(2);
        assert_eq!(told.load(Ordering::Acquire), 2, "the newer one alone");
    }

    /// Whoever sets the watch and then does not see the move is told of it.
    #[test]
    fn no_move_falls_between_the_watch_and_the_look() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        filled(&log, 1);
        for _ in 0..2_000 {
            log.set_high_watermark(0);
            let told = Arc::new(AtomicUsize::new(0));
            let other = Arc::clone(&log);
            let mover = thread::spawn(move || other.set_high_watermark(1));
            let notify = Arc::clone(&told);
            log.watch_high_watermark(move || {
                notify.fetch_add(1, Ordering::AcqRel);
            });
            let has_seen = log.high_watermark() == 1;
            mover.join().unwrap();
            assert!(has_seen || told.load(Ordering::Acquire) == 1);
            log.set_high_watermark(0);
        }
    }
}
