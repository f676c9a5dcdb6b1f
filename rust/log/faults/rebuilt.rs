//! Checks that all that stands beside the batches (indexes, producer state, aborted transactions,
//! epochs) is what the batches alone give.

use std::path::Path;
use std::sync::Arc;

use super::entries::read_all;
use super::model::{FOLDER, open};
use crate::log::Log;
use crate::log::opening::Hints;
use crate::log::producer_state::Producer;
use crate::log::scan::Reach;
use crate::log::transaction_index::AbortedEntry;
use crate::storage::{FaultyStorage, Storage};

/// Compares `log` with what is opened from its `.log` files without anything else. What was deleted from the front only `log` may know.
pub fn check(storage: &FaultyStorage, log: &Arc<Log>, hints: Hints) {
    let copy = storage.copy();
    for entry in copy.list(Path::new(FOLDER)).unwrap() {
        if !entry.name.ends_with(".log") {
            copy.remove_file(&Path::new(FOLDER).join(entry.name))
                .unwrap();
        }
    }
    let nothing = Hints {
        clean: false,
        recovery_point: 0,
        ..hints
    };
    let rebuilt = open(&copy, nothing).unwrap();
    assert_eq!(rebuilt.end_offset(), log.end_offset());
    if log.start_offset() == log.end_offset() {
        // What is left lies before the start: the next opening removes it.
        return;
    }
    let first = log.segments()[0].base_offset;
    check_producers(log, &rebuilt, first);
    let known = aborted(log);
    for (entry, known) in aborted(&rebuilt).iter().zip(&known) {
        assert_eq!(
            (entry.producer_id, entry.last_offset),
            (known.producer_id, known.last_offset)
        );
        let deleted = log.start_offset().max(first);
        assert!(entry.first_offset == known.first_offset || known.first_offset < deleted);
    }
    assert_eq!(aborted(&rebuilt).len(), known.len());
    let start = log.start_offset();
    for entry in read_all(&rebuilt, start) {
        assert_eq!(log.epoch_of(entry.offset), rebuilt.epoch_of(entry.offset));
    }
    for timestamp_ms in (999_990..1_000_300).step_by(7) {
        let found = |log: &Log| log.offset_for_timestamp(timestamp_ms).unwrap();
        assert_eq!(
            found(log).map(|found| found.offset),
            found(&rebuilt).map(|found| found.offset),
            "at {timestamp_ms}"
        );
    }
}

fn aborted(log: &Log) -> Vec<AbortedEntry> {
    let mut found = Vec::new();
    for segment in log.segments().iter() {
        let index = &segment.transaction_index;
        index
            .collect(Reach::Disk, segment.base_offset, i64::MAX, &mut found)
            .unwrap();
    }
    found.sort_by_key(|entry| entry.last_offset);
    found.dedup();
    found
}

fn check_producers(log: &Log, rebuilt: &Log, first: i64) {
    let writer = log.writer.lock();
    for (id, expected) in rebuilt.writer.lock().producers.producers() {
        let mut known = writer.producers.producers();
        let (_, known) = known
            .find(|(other, _)| *other == id)
            .unwrap_or_else(|| panic!("producer {id} is forgotten"));
        assert_eq!(known.epoch, expected.epoch, "producer {id}");
        // A snapshot has one timestamp for the last batch and the last marker.
        let last = |producer: &Producer| {
            let last = producer.last_batch();
            last.map(|last| (last.last_sequence, last.last_offset, last.offset_delta))
        };
        let deleted = last(known).is_some_and(|(_, last_offset, _)| last_offset < first);
        assert!(
            last(known) == last(expected) || (deleted && last(expected).is_none()),
            "producer {id} wrote {:?}, the log knows {:?}",
            last(expected),
            last(known)
        );
        assert!([known.coordinator_epoch, -1].contains(&expected.coordinator_epoch));
        let (open, began) = (known.transaction_start, expected.transaction_start);
        assert!(
            open == began || open.is_some_and(|open| open < log.start_offset().max(first)),
            "producer {id}: its transaction began at {open:?}, by its batches at {began:?}"
        );
    }
    let held = writer.producers.producers();
    for (id, known) in held.filter(|(_, known)| known.last_batch().is_some()) {
        let last = known.last_batch().map_or(0, |last| last.last_offset);
        let mut expected = Vec::new();
        if last >= first {
            let writer = rebuilt.writer.lock();
            expected.extend(writer.producers.producers().map(|(id, _)| id));
            assert!(expected.contains(&id), "nobody wrote as producer {id}");
        }
    }
}
