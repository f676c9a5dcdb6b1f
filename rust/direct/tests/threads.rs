//! Two threads that serve the requests of one hub at once, on a disk that fails or waits in the middle: nothing is acknowledged that is not
//! written.

use std::path::Path;

use super::*;
use crate::log::log::OpenMode;
use crate::log::opening::Hints;
use crate::log::{AppendOrigin, Home};
use crate::records::Batches;
use crate::storage::faulty::{Fault, Operation};
use crate::storage::{FaultyStorage, Storage};

const STORAGE_ERROR: i16 = 56;

/// Two partitions on a disk that breaks, served by one thread so far.
pub struct TwoThreads {
    pub storage: FaultyStorage,
    pub logs: [Arc<Log>; 2],
    pub rig: Rig,
}

impl TwoThreads {
    /// `is_watched`: somebody else ends all turns.
    fn new(is_watched: bool) -> Self {
        let two = Self::beside(0);
        for lease in two.rig.direct.leases.all() {
            lease.watch(is_watched);
        }
        two
    }

    /// With so many threads beside the loop.
    pub fn beside(threads: usize) -> Self {
        let storage = FaultyStorage::new();
        let home = Home::quiet(Arc::new(storage.clone()), Path::new("/"));
        let logs = ["t-0", "t-1"].map(|name| {
            storage
                .create_directory(&Path::new("/").join(name))
                .unwrap();
            let hints = Hints {
                clean: true,
                ..Hints::default()
            };
            let config = LogConfig::default();
            let log = Log::open(&home, name, config, hints, OpenMode::Append).unwrap();
            log.begin_epoch(EPOCH).unwrap();
            // The epoch is known from now on, so that what follows is staged.
            append_in_epoch(&log);
            log.advance_high_watermark();
            log
        });
        // However long that took.
        home.note_write(1, Duration::ZERO);
        let rig = Rig::of(Arc::clone(&logs[0]), None, threads);
        for (partition, log) in (0..).zip(&logs) {
            let lease = Lease::new(TOPIC, partition, Arc::clone(log), TERMS, "owner");
            rig.direct.grant(&rig.hub, lease);
        }
        Self { storage, logs, rig }
    }
}

pub fn of(partition: i32, value: &str) -> Produce {
    Produce {
        partitions: vec![(TOPIC, partition)],
        records: Some(batch(&[value], 1000)),
        ..Produce::default()
    }
}

/// The batch at an offset, as text with gaps.
fn stored(log: &Log, offset: i64) -> Option<String> {
    let slice = log.read(offset, 1, i64::MAX, true).ok()?.slice?;
    let bytes = slice.read().unwrap();
    let first = Batches::new(&bytes).next()?.unwrap();
    assert_eq!(first.header.base_offset, offset);
    Some(String::from_utf8_lossy(first.bytes).into_owned())
}

#[test]
fn the_end_of_a_turn_answers_nothing_of_another_threads() {
    for is_watched in [false, true] {
        let mut two = TwoThreads::new(is_watched);
        let (mut one, mut other) = (two.rig.connect(), two.rig.connect());
        let (first, second) = (two.storage.stop_at(0), two.storage.stop_at(1));
        one.send(PRODUCE, 8, &of(0, "one").body());
        first.wait_until_reached();
        two.rig.serve();
        // The second thread appends, and is about to write, while the first ends its turn.
        other.send(PRODUCE, 8, &of(1, "other").body());
        second.wait_until_reached();
        first.go_on();
        assert_eq!(one.produced(8), Some((0, 1)));
        let full = Fault::Full;
        two.storage.break_at(Some(Operation::Write), 0, full, false);
        second.go_on();
        assert_eq!(other.produced(8), Some((STORAGE_ERROR, -1)));
        assert_eq!(two.logs[1].end_offset(), 1);
    }
}

#[test]
fn every_thread_hears_of_what_was_lost() {
    for is_watched in [false, true] {
        let mut two = TwoThreads::new(is_watched);
        let (mut one, mut other) = (two.rig.connect(), two.rig.connect());
        let first = two.storage.stop_at(0);
        // One turn with a batch for either partition, which waits in the write of the first.
        let frames = [of(0, "zero"), of(1, "one")]
            .map(|asked| request_frame(PRODUCE, 8, false, 7, Some("test"), &asked.body()).unwrap());
        one.socket.write_all(&frames.concat()).unwrap();
        first.wait_until_reached();
        two.rig.serve();
        two.storage
            .break_at(Some(Operation::Write), 0, Fault::Full, false);
        assert_eq!(other.produce(&of(1, "other")), Some((STORAGE_ERROR, -1)));
        // The offset is given again.
        append_in_epoch(&two.logs[1]);
        assert_eq!(two.logs[1].end_offset(), 2);
        first.go_on();
        assert_eq!(one.produced(8), Some((0, 1)));
        assert_eq!(one.produced(8), Some((STORAGE_ERROR, -1)));
        assert!(stored(&two.logs[0], 1).unwrap().contains("zero"));
    }
}

/// What became of a Produce.
struct Outcome {
    value: String,
    partition: usize,
    code: i16,
    offset: i64,
}

fn produce_all(two: &TwoThreads, client: usize) -> Vec<Outcome> {
    let mut connection = two.rig.connect();
    let mut outcomes = Vec::new();
    for number in 0..300 {
        let partition = (client + number) % 2;
        let value = format!("<{client} {number}>");
        let asked = of(i32::try_from(partition).unwrap(), &value);
        match connection.produce(&asked) {
            Some((code, offset)) => outcomes.push(Outcome {
                value,
                partition,
                code,
                offset,
            }),
            // After a failed write everything is handed on, until an append on another thread finds the disk quick.
            None => {
                let mut records = batch(&["other"], 1000);
                let _ = two.logs[partition].append(&mut records, EPOCH, AppendOrigin::Client, 1000);
            }
        }
    }
    outcomes
}

#[test]
fn what_is_acknowledged_is_written_and_what_is_refused_is_not() {
    for is_watched in [false, true] {
        let mut two = TwoThreads::new(is_watched);
        two.rig.serve();
        let is_over = AtomicBool::new(false);
        let outcomes: Vec<Outcome> = thread::scope(|scope| {
            let (two, is_over) = (&two, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    let full = Fault::Full;
                    two.storage.break_at(Some(Operation::Write), 5, full, false);
                    thread::sleep(Duration::from_millis(2));
                }
            });
            let clients = [0, 1, 2, 3].map(|client| scope.spawn(move || produce_all(two, client)));
            let outcomes = clients.map(thread::ScopedJoinHandle::join);
            is_over.store(true, Ordering::Release);
            outcomes.into_iter().flat_map(Result::unwrap).collect()
        });
        two.storage.repair();
        let contents = two.logs.each_ref().map(|log| {
            let slice = log.read(0, u64::MAX, i64::MAX, true).unwrap().slice;
            String::from_utf8_lossy(&slice.unwrap().read().unwrap()).into_owned()
        });
        for outcome in &outcomes {
            let Outcome {
                value,
                partition,
                code,
                offset,
            } = outcome;
            if *code == 0 {
                let found = stored(&two.logs[*partition], *offset);
                assert!(found.unwrap().contains(value), "{value} is not there");
            } else {
                assert_eq!((*code, *offset), (STORAGE_ERROR, -1));
                let found = contents[*partition].contains(value);
                assert!(!found, "{value} was refused");
            }
        }
        assert!(outcomes.iter().any(|one| one.code == 0));
    }
}

#[test]
fn an_append_waits_for_no_other_partition() {
    let mut two = TwoThreads::new(false);
    let (mut one, mut other) = (two.rig.connect(), two.rig.connect());
    let first = two.storage.stop_at(0);
    // Too large to be staged: the append itself writes.
    let large = "v".repeat(8 << 10);
    one.send(PRODUCE, 8, &of(0, &large).body());
    first.wait_until_reached();
    two.rig.serve();
    for offset in 1..20 {
        assert_eq!(other.produce(&of(1, "other")), Some((0, offset)));
    }
    // Nor does the end of the lease.
    let lease = two.rig.direct.leases.get(TOPIC.as_bytes(), 0).unwrap();
    assert!(two.rig.direct.end(&two.rig.hub, &lease).is_empty());
    assert_eq!((two.rig.handed_on(), two.rig.turns()), (0, 0));
    first.go_on();
    assert_eq!(one.produced(8), Some((0, 1)));
    // The turn is ended by somebody who knows why the lease has ended.
    assert_eq!(two.rig.turns(), 1);
}
