//! How much went through each topic, for metrics: counted where it happens, read when somebody asks.
//!
//! The counters belong to a broker and not to a log: a log that moves to another directory, or a partition that leaves, must not turn a count
//! back, since a program that computes rates from it takes that for a restart. A topic's row lives as long as any of its logs; what it had is
//! then added to what the topics of the past had, so the sum over all topics never falls.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The things that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Count {
    /// Offsets given out by appends of a leader, and bytes of the batches as they are stored.
    RecordsIn,
    BytesIn,
    /// Bytes of batches in answers to consumers.
    BytesOut,
    /// Partitions named in requests that were answered, and those of them that failed for a reason that is not the client's daily life.
    ProduceRequests,
    FetchRequests,
    FailedProduceRequests,
    FailedFetchRequests,
    /// Records that were stored in another form than they came in, or sent in another than they are stored in.
    ProduceConversions,
    FetchConversions,
    /// Bytes of batches that were fetched from leaders and appended, and that were sent to followers.
    ReplicationBytesIn,
    ReplicationBytesOut,
    /// Of those that were fetched: for replicas that a reassignment adds.
    ReassignmentBytesIn,
}

pub const COUNTS: usize = Count::ReassignmentBytesIn as usize + 1;

#[derive(Debug, Default)]
pub struct Traffic([AtomicU64; COUNTS]);

impl Traffic {
    pub fn add(&self, count: Count, more: u64) {
        self.0[count as usize].fetch_add(more, Ordering::Relaxed);
    }

    /// An append as leader.
    pub fn appended(&self, records: i64, bytes: usize) {
        self.add(Count::RecordsIn, u64::try_from(records).unwrap_or(0));
        self.add(Count::BytesIn, bytes as u64);
    }

    /// An append of what a leader sent, `is_move` to a replica that a reassignment adds.
    pub fn replicated(&self, bytes: usize, is_move: bool) {
        self.add(Count::ReplicationBytesIn, bytes as u64);
        if is_move {
            self.add(Count::ReassignmentBytesIn, bytes as u64);
        }
    }

    pub fn counts(&self) -> [u64; COUNTS] {
        std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed))
    }
}

/// The traffic of one broker's topics.
#[derive(Default)]
pub struct Topics(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    rows: HashMap<Box<str>, Arc<Traffic>>,
    /// Of topics that are no more.
    past: [u64; COUNTS],
    /// At this many rows it is looked for those that nobody has.
    look_at: usize,
}

impl Rows {
    fn forget_unused(&mut self) {
        let past = &mut self.past;
        self.rows.retain(|_, row| {
            let is_used = Arc::strong_count(row) > 1;
            if !is_used {
                add(past, &row.counts());
            }
            is_used
        });
        self.look_at = (self.rows.len() * 2).max(64);
    }
}

fn add(sum: &mut [u64; COUNTS], more: &[u64; COUNTS]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

impl Topics {
    /// The row of a topic for one of its logs.
    pub fn of(&self, topic: &str) -> Arc<Traffic> {
        let mut topics = self.0.lock();
        if let Some(row) = topics.rows.get(topic) {
            return Arc::clone(row);
        }
        if topics.rows.len() >= topics.look_at {
            topics.forget_unused();
        }
        let row = Arc::<Traffic>::default();
        topics.rows.insert(topic.into(), Arc::clone(&row));
        row
    }

    /// Calls `each` with the row of every topic that has one; names of topics that have no log here count nowhere.
    pub fn note<'a>(
        &self,
        topics: impl Iterator<Item = &'a [u8]>,
        mut each: impl FnMut(usize, &Traffic),
    ) {
        let known = self.0.lock();
        for (index, topic) in topics.enumerate() {
            if let Some(row) = std::str::from_utf8(topic)
                .ok()
                .and_then(|topic| known.rows.get(topic))
            {
                each(index, row);
            }
        }
    }

    /// Every topic that has a log, and the sum over these and those of the past.
    pub fn all(&self) -> (Vec<(String, [u64; COUNTS])>, [u64; COUNTS]) {
        let mut topics = self.0.lock();
        topics.forget_unused();
        let mut sum = topics.past;
        let rows = topics.rows.iter().map(|(topic, row)| {
            let counts = row.counts();
            add(&mut sum, &counts);
            (topic.to_string(), counts)
        });
        (rows.collect(), sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_counts_as_long_as_it_has_a_log() {
        let topics = Topics::default();
        let (first, second) = (topics.of("a"), topics.of("a"));
        first.appended(3, 100);
        second.appended(2, 50);
        drop(first);
        let (rows, sum) = topics.all();
        assert_eq!(rows, [("a".to_owned(), sum)]);
        assert_eq!(sum[..2], [5, 150]);
        drop(second);
        assert_eq!(topics.all(), (Vec::new(), sum));
        let again = topics.of("a");
        assert_eq!(again.counts(), [0; COUNTS], "a new topic of the same name");
        assert_eq!(topics.all().1, sum);
    }

    #[test]
    fn what_has_no_log_here_is_not_counted() {
        let topics = Topics::default();
        let known = topics.of("a");
        let names: [&[u8]; 3] = [b"nowhere", b"a", b"\xff"];
        topics.note(names.into_iter(), |index, row| {
            row.add(Count::BytesOut, index as u64)
        });
        assert_eq!(known.counts()[Count::BytesOut as usize], 1);
        assert_eq!(topics.all().0.len(), 1);
    }
}
