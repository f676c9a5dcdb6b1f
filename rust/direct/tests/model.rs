//! [`gate`], in every order in which a thread that serves under a lease and one that ends it can take their steps.
//!
//! The log is a model: a lock, an end, a high watermark.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicI64, Ordering};
use loom::thread;

#[expect(
    clippy::duplicate_mod,
    reason = "once more, with the types of the model"
)]
#[path = "../gate.rs"]
mod gate;

mod sync {
    pub use loom::sync::atomic::{AtomicBool, Ordering};

    /// With the interface of parking_lot's.
    #[derive(Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

#[derive(Default)]
struct Log {
    /// Holds the log's end.
    writer: sync::Mutex<i64>,
    high_watermark: AtomicI64,
}

#[derive(Default)]
struct Leased {
    gate: gate::Gate,
    log: Log,
}

impl Leased {
    /// As [`Lease::append`](super::Lease::append). Returns the offset.
    fn append(&self) -> Option<i64> {
        let mut end = self.log.writer.lock();
        if self.gate.is_over() {
            return None;
        }
        *end += 1;
        Some(*end - 1)
    }

    /// As the end of a turn. Returns whether acks=all is acknowledged.
    fn end_turn(&self, offset: i64) -> bool {
        let end = *self.log.writer.lock();
        let high_watermark = &self.log.high_watermark;
        let advance = || high_watermark.store(end, Ordering::SeqCst);
        let moved = self.gate.decide(advance).is_some();
        moved || offset < high_watermark.load(Ordering::SeqCst)
    }
}

#[test]
fn a_follower_that_joins_behind_the_end_has_what_was_acknowledged() {
    loom::model(|| {
        let leased: Arc<Leased> = Arc::default();
        let serving = {
            let leased = Arc::clone(&leased);
            thread::spawn(move || {
                leased
                    .append()
                    .is_some_and(|offset| leased.end_turn(offset))
            })
        };
        // A follower has nothing yet. It comes into the ISR if that is all there is below the high watermark.
        leased.gate.end();
        let joins = leased.log.high_watermark.load(Ordering::SeqCst) == 0;
        let is_acknowledged = serving.join().unwrap();
        assert!(!(joins && is_acknowledged));
    });
}

#[test]
fn nothing_is_appended_behind_the_end() {
    loom::model(|| {
        let leased: Arc<Leased> = Arc::default();
        let serving = {
            let leased = Arc::clone(&leased);
            thread::spawn(move || leased.append())
        };
        leased.gate.end();
        // As all that depends on the log's end takes the writer.
        let end = *leased.log.writer.lock();
        let appended = serving.join().unwrap();
        assert_eq!(*leased.log.writer.lock(), end);
        assert_eq!(appended.is_some(), end == 1);
    });
}

#[test]
fn who_begins_to_wait_sees_what_is_moved_or_is_told() {
    loom::model(|| {
        let leased: Arc<Leased> = Arc::default();
        let is_watched = Arc::new(sync::AtomicBool::new(false));
        let serving = {
            let (leased, is_watched) = (Arc::clone(&leased), Arc::clone(&is_watched));
            thread::spawn(move || {
                // As `Lease::raise`. True if whoever waits is told.
                let moved = leased.gate.decide(|| {
                    if is_watched.load(Ordering::Acquire) {
                        return false;
                    }
                    leased.log.high_watermark.store(1, Ordering::Release);
                    true
                });
                moved == Some(false)
            })
        };
        // As `Lease::watch`, and a look behind it.
        let watch = || is_watched.store(true, Ordering::Release);
        leased.gate.exclude(watch);
        let is_seen = leased.log.high_watermark.load(Ordering::Acquire) == 1;
        let is_told = serving.join().unwrap();
        assert!(is_seen || is_told);
    });
}
