//! Where a log is, and how far each kind of reader may see of it.
//!
//! **The last stable offset** is the start of the oldest transaction that is open, or whose marker is not yet below the
//! high watermark; without one, the high watermark. A transaction whose start was deleted counts from the log's start.

use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use super::log::{Log, Writer};
use super::producer_state::ProducerState;

/// The transactions that hold readers of committed records back, as whoever wrote to the log last has noted it.
pub(super) struct Unstable {
    /// As `Noted::first`, for those who find nothing.
    first: AtomicI64,
    /// Held for a moment.
    noted: Mutex<Noted>,
}

/// Offsets; `i64::MAX`: there is none.
#[derive(Clone, Copy)]
struct Noted {
    /// The first one that they may not see.
    first: i64,
    /// The same from this high watermark on: then no transaction is left that has ended, and holds them back.
    settled_first: i64,
    settled_at: i64,
}

impl Noted {
    fn of(producers: &ProducerState) -> Self {
        Self {
            first: producers.first_unstable_offset().unwrap_or(i64::MAX),
            settled_first: producers.first_open_offset().unwrap_or(i64::MAX),
            settled_at: producers.replicated_at(),
        }
    }
}

impl Unstable {
    pub fn of(producers: &ProducerState) -> Self {
        let noted = Noted::of(producers);
        Self {
            first: AtomicI64::new(noted.first),
            noted: Mutex::new(noted),
        }
    }

    fn note(&self, producers: &ProducerState) -> i64 {
        let noted = Noted::of(producers);
        if noted.first != i64::MAX || !self.is_nothing() {
            *self.noted.lock() = noted;
            self.first.store(noted.first, Ordering::Release);
        }
        noted.first
    }

    /// The first offset that they may not see, at a high watermark. Before all that has ended is below that, it may be
    /// an earlier one.
    fn first(&self, high_watermark: i64) -> i64 {
        let noted = *self.noted.lock();
        if high_watermark >= noted.settled_at {
            noted.settled_first
        } else {
            noted.first
        }
    }

    fn is_nothing(&self) -> bool {
        self.first.load(Ordering::Acquire) == i64::MAX
    }
}

/// A kind of reader of a log (Kafka's FetchIsolation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Replica,
    Consumer,
    /// A consumer of committed records.
    Committed,
}

/// Where a log was at one look. A reader that may see no further than what it is told can wait for the log to move on:
/// were the one older than the other, it would wait for offsets that it was told of already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub high_watermark: i64,
    pub last_stable_offset: i64,
    pub log_start_offset: i64,
    pub log_end_offset: i64,
}

impl Head {
    /// The offset before which a reader may see records.
    pub fn bound(&self, reader: Reader) -> i64 {
        match reader {
            Reader::Replica => self.log_end_offset,
            Reader::Consumer => self.high_watermark,
            Reader::Committed => self.last_stable_offset,
        }
    }
}

impl Log {
    /// Where the log is. Never waits, as [`first_unstable_offset`](Self::first_unstable_offset) does not.
    pub fn head(&self) -> Head {
        let high_watermark = self.high_watermark();
        Head {
            high_watermark,
            // Another thread may have moved the high watermark in between.
            last_stable_offset: self.last_stable_offset().min(high_watermark),
            log_start_offset: self.start_offset(),
            log_end_offset: self.end_offset(),
        }
    }

    /// The offset before which a reader may see records now.
    pub fn bound(&self, reader: Reader) -> i64 {
        self.head().bound(reader)
    }

    /// The first offset that a reader of committed records may not see; None if no transaction is open. Never waits:
    /// while the log is being written to, the answer may be that of the last append. It is not once the high watermark
    /// has passed all markers, so that nobody who looks whenever that moves waits for what is there.
    pub fn first_unstable_offset(&self) -> Option<i64> {
        if self.unstable.is_nothing() {
            return None;
        }
        let offset = match self.writer.try_lock() {
            Some(mut writer) => {
                writer.producers.on_high_watermark(self.high_watermark());
                self.note_unstable(&writer)
            }
            None => self.unstable.first(self.high_watermark()),
        };
        (offset != i64::MAX).then(|| offset.max(self.start_offset()))
    }

    /// Where readers of committed records stop.
    pub fn last_stable_offset(&self) -> i64 {
        // The high watermark first: a transaction that begins after it was asked for is behind it.
        let high_watermark = self.high_watermark();
        self.first_unstable_offset()
            .map_or(high_watermark, |unstable| unstable.min(high_watermark))
    }

    /// To be called whenever producers changed.
    pub(super) fn note_unstable(&self, writer: &Writer) -> i64 {
        self.unstable.note(&writer.producers)
    }
}

#[cfg(test)]
mod tests {
    use crate::log::tests::Folder;
    use crate::log::{AppendOrigin, Log, LogConfig, Reader};
    use crate::records::{BatchBuilder, BatchOptions, Marker, Outcome};

    fn begin(log: &Log, producer_id: i64) {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            transactional: true,
            ..BatchOptions::default()
        });
        builder.append(1000, None, Some(b"v"), &[]).unwrap();
        let mut batch = builder.finish().unwrap();
        log.append(&mut batch, 0, AppendOrigin::Client, 1000)
            .unwrap();
    }

    fn commit(log: &Log, producer_id: i64) {
        let marker = Marker {
            outcome: Outcome::Commit,
            coordinator_epoch: 0,
        };
        let mut batch = marker.batch(producer_id, 0, 1000).unwrap();
        log.append(&mut batch, 0, AppendOrigin::Coordinator, 1000)
            .unwrap();
    }

    #[test]
    fn a_marker_below_the_high_watermark_is_seen_while_somebody_writes() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        for producer_id in 1..=3 {
            begin(&log, producer_id);
        }
        commit(&log, 1);
        commit(&log, 2);
        let writer = log.writer.lock();
        let stable = || log.bound(Reader::Committed);
        log.set_high_watermark(4);
        assert_eq!(stable(), 0, "the end of the second is not replicated");
        log.set_high_watermark(5);
        assert_eq!(stable(), 2, "the third is open");
        drop(writer);
        commit(&log, 3);
        log.set_high_watermark(6);
        let _writer = log.writer.lock();
        assert_eq!(stable(), 6);
        assert_eq!(log.first_unstable_offset(), None);
    }

    #[test]
    fn all_that_an_answer_tells_is_of_one_look() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        begin(&log, 1);
        commit(&log, 1);
        begin(&log, 2);
        log.set_high_watermark(2);
        let head = log.head();
        log.set_high_watermark(3);
        commit(&log, 2);
        let bounds = [Reader::Committed, Reader::Consumer, Reader::Replica];
        assert_eq!(bounds.map(|reader| head.bound(reader)), [2, 2, 3]);
        assert_eq!(bounds.map(|reader| log.bound(reader)), [2, 3, 4]);
    }
}
