//! One bit flips, in any file of a data directory, after a clean stop and after a power cut.
//!
//! Whatever it hits, opening does not fail, nothing good is deleted, and a record that is served is the record that was written, or its
//! checksum is wrong, as a consumer notices. Where a format has no checksum (Kafka's texts and indexes), what the flip changes may be
//! believed, as far as it can be true at all: see [`Reach`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::model::{self, FOLDER, Model};
use super::seeds::{self, choices};
use super::steps::{IN_TRANSACTIONS, Step};
use crate::log::index::Entry;
use crate::log::opening::Hints;
use crate::log::time_index::TimestampOffset;
use crate::log::{Log, LogError};
use crate::records::{BatchHeader, Batches, check_crc};
use crate::storage::{FaultyStorage, Mode, Storage};

/// A batch as it was before the flip.
struct Written {
    header: BatchHeader,
    bytes: Vec<u8>,
    segment: i64,
    position: u64,
}

struct Directory {
    storage: FaultyStorage,
    batches: Vec<Written>,
    hints: Hints,
    /// (producer, last sequence, start of its open transaction)
    producers: BTreeSet<(i64, i32, Option<i64>)>,
}

fn producers(log: &Log) -> BTreeSet<(i64, i32, Option<i64>)> {
    let writer = log.writer.lock();
    let all = writer.producers.producers();
    all.map(|(id, of)| (id, of.last_sequence(), of.transaction_start))
        .collect()
}

/// A log of some segments with transactions, and a tail that is flushed.
fn prepared(clean: bool) -> Directory {
    let mut model = Model::new();
    for round in 0..30u64 {
        let producer = [
            None,
            Some(1),
            Some(IN_TRANSACTIONS),
            Some(IN_TRANSACTIONS + 1),
        ];
        model.run(&Step::Append {
            records: 1 + round as usize % 3,
            bytes: 20 + round as usize * 7 % 90,
            producer: producer[round as usize % 4],
        });
        if round % 5 == 4 {
            model.run(&Step::End {
                producer: IN_TRANSACTIONS + round as i64 % 2,
                commit: round % 10 == 4,
            });
        }
        if round == 17 {
            model.run(&Step::NextEpoch);
        }
    }
    model.run(&Step::Flush);
    let mut batches = Vec::new();
    for segment in model.log.segments().iter() {
        let path = segment.file.path();
        let content = (&model.storage as &dyn Storage)
            .read(&path, u64::MAX)
            .unwrap();
        for batch in Batches::new(&content).map(Result::unwrap) {
            batches.push(Written {
                header: batch.header,
                bytes: batch.bytes.to_vec(),
                segment: segment.base_offset,
                position: batch.position as u64,
            });
        }
    }
    assert!(model.log.segments().len() > 3);
    let hints = Hints {
        clean,
        recovery_point: model.log.flushed_offset(),
        ..Hints::default()
    };
    let producers = producers(&model.log);
    if clean {
        model.log.close(true).unwrap();
    }
    Directory {
        storage: model.storage.copy(),
        batches,
        hints,
        producers,
    }
}

pub fn flip(storage: &FaultyStorage, path: &Path, bit: usize) {
    let file = storage.open(path, Mode::Write).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, bit as u64 / 8).unwrap();
    byte[0] ^= 1 << (bit % 8);
    file.write_at(&byte, bit as u64 / 8).unwrap();
}

fn files(storage: &FaultyStorage, kind: &str) -> Vec<PathBuf> {
    let mut names: Vec<_> = storage
        .list(Path::new(FOLDER))
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| name.ends_with(kind))
        .collect();
    names.sort();
    names
        .iter()
        .map(|name| Path::new(FOLDER).join(name))
        .collect()
}

fn size(storage: &FaultyStorage, path: &Path) -> usize {
    storage.metadata(path).unwrap().length as usize
}

/// The outcome of a read at one offset.
#[derive(Debug, PartialEq, Eq)]
enum Served {
    Batch(Vec<u8>),
    /// A consumer notices.
    Damaged,
    /// The broker says so.
    Refused,
    Nothing,
}

fn serve(log: &Log, offset: i64) -> Served {
    let slice = match log.read(offset, 1, i64::MAX, true) {
        Err(LogError::Corrupt { .. } | LogError::OffsetOutOfRange { .. }) => {
            return Served::Refused;
        }
        other => other.unwrap().slice,
    };
    let Some(slice) = slice else {
        return Served::Nothing;
    };
    let bytes = slice.read().unwrap();
    match Batches::new(&bytes).next() {
        Some(Ok(batch)) if check_crc(batch.bytes, &batch.header).is_ok() => {
            Served::Batch(batch.bytes.to_vec())
        }
        _ => Served::Damaged,
    }
}

/// Every batch but those that `is_hit` is served as it was written.
fn check_batches(
    log: &Log,
    batches: &[Written],
    is_unprotected: bool,
    is_hit: impl Fn(&Written) -> bool,
) {
    for written in batches {
        let first = written.header.base_offset;
        for offset in [first, written.header.last_offset()] {
            let served = serve(log, offset);
            if is_hit(written) {
                let noticed = !matches!(served, Served::Batch(_));
                let as_written = matches!(&served, Served::Batch(bytes)
                    if batches.iter().any(|other| (is_hit(other) || other.segment > written.segment) && &other.bytes == bytes));
                assert!(
                    noticed || as_written || is_unprotected,
                    "at {offset}: {served:?}"
                );
            } else {
                assert_eq!(served, Served::Batch(written.bytes.clone()), "at {offset}");
            }
        }
    }
}

fn open(directory: &Directory, storage: &FaultyStorage) -> Arc<Log> {
    model::open(storage, directory.hints).unwrap()
}

/// A number of flips in the files that end in `kind`, each in a copy of the directory.
fn each_flip(kind: &str, mut test: impl FnMut(&Directory, &FaultyStorage, &Path, usize)) {
    for clean in [true, false] {
        let directory = prepared(clean);
        let paths = files(&directory.storage, kind);
        assert!(!paths.is_empty(), "no {kind}");
        seeds::each(20, |seed| {
            let mut choice = choices(seed);
            for _ in 0..8 {
                let path = &paths[choice(paths.len())];
                let bits = size(&directory.storage, path) * 8;
                if bits == 0 {
                    continue;
                }
                let (storage, bit) = (directory.storage.copy(), choice(bits));
                flip(&storage, path, bit);
                test(&directory, &storage, path, bit);
            }
        });
    }
}

/// An index is a hint: no reader misses a record because of it.
#[test]
fn in_an_offset_index() {
    each_flip(".index", |directory, storage, _, _| {
        let log = open(directory, storage);
        check_batches(&log, &directory.batches, false, |_| false);
        assert_eq!(producers(&log), directory.producers);
    });
}

#[test]
fn in_a_time_index() {
    let whole = prepared(true);
    let log = open(&whole, &whole.storage.copy());
    let times: Vec<_> = whole
        .batches
        .iter()
        .map(|batch| batch.header.max_timestamp)
        .collect();
    let found = |log: &Log, time| {
        log.offset_for_timestamp(time)
            .unwrap()
            .map(|found| found.offset)
    };
    let expected: Vec<_> = times.iter().map(|time| found(&log, *time)).collect();
    each_flip(".timeindex", |directory, storage, path, bit| {
        let bytes = (storage as &dyn Storage).read(path, u64::MAX).unwrap();
        let at = bit / 8 / TimestampOffset::BYTES * TimestampOffset::BYTES;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let entry = TimestampOffset::decode(
            &bytes[at..at + TimestampOffset::BYTES],
            name.parse().unwrap(),
        );
        // Another batch of the same time: that nobody can tell.
        if directory.batches.iter().any(|batch| {
            (batch.header.base_offset..=batch.header.last_offset()).contains(&entry.offset)
                && batch.header.max_timestamp == entry.timestamp_ms
        }) {
            return;
        }
        let log = open(directory, storage);
        check_batches(&log, &directory.batches, false, |_| false);
        let answers: Vec<_> = times.iter().map(|time| found(&log, *time)).collect();
        assert_eq!(answers, expected);
    });
}

/// It has a checksum: without it, the batches tell.
#[test]
fn in_a_producer_snapshot() {
    each_flip(".snapshot", |directory, storage, _, _| {
        let log = open(directory, storage);
        check_batches(&log, &directory.batches, false, |_| false);
        assert_eq!(producers(&log), directory.producers);
    });
}

/// The numbers in its entries cannot be checked, but nothing else suffers.
#[test]
fn in_an_index_of_aborted_transactions() {
    each_flip(".txnindex", |directory, storage, _, _| {
        let log = open(directory, storage);
        check_batches(&log, &directory.batches, false, |_| false);
        assert_eq!(producers(&log), directory.producers);
        for batch in &directory.batches {
            let read = log
                .read(batch.header.base_offset, 1, i64::MAX, true)
                .unwrap();
            log.aborted_transactions(batch.header.base_offset, &read)
                .unwrap();
        }
    });
}

#[test]
fn in_the_leader_epochs() {
    each_flip("leader-epoch-checkpoint", |directory, storage, _, _| {
        let log = open(directory, storage);
        check_batches(&log, &directory.batches, false, |_| false);
        assert_eq!(producers(&log), directory.producers);
    });
}

/// In what was flushed: it is served as it is, and everything else of the log too.
#[test]
fn in_a_segment() {
    each_flip(".log", |directory, storage, path, bit| {
        let before = size(storage, path);
        let log = open(directory, storage);
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (segment, byte) = (name.parse::<i64>().unwrap(), bit as u64 / 8);
        let hit = directory
            .batches
            .iter()
            .rev()
            .find(|batch| batch.segment == segment && batch.position <= byte)
            .unwrap();
        let field = byte - hit.position;
        let active = directory.batches.last().unwrap().segment;
        // Base offset, length, leader epoch and magic: where the next batch is, and what follows what.
        let walk = field < 17;
        if !walk {
            // A batch that seems to end earlier is not found by its last offset, in Kafka neither.
            let is_shorter = (23..27).contains(&field);
            check_batches(&log, &directory.batches, is_shorter, |batch| {
                std::ptr::eq(batch, hit)
            });
            assert_eq!(log.end_offset(), directory.hints.recovery_point);
            assert_eq!(size(storage, path), before);
        } else {
            // The others of this segment may be out of reach, but are there; of the last segment, where Kafka cuts too, what is before.
            // Base offset and leader epoch are in no checksum: here Kafka's readers would not notice either.
            let is_unprotected = field < 8 || (12..16).contains(&field);
            check_batches(&log, &directory.batches, is_unprotected, |batch| {
                batch.segment == segment
            });
            if segment != active {
                assert_eq!(size(storage, path), before);
            }
        }
        drop(log);
    });
}

/// Somebody, or a crash, took what stands beside the batches.
#[test]
fn what_was_taken_from_beside_a_segment_is_made_again() {
    for clean in [true, false] {
        let directory = prepared(clean);
        let answers = |log: &Log| -> Vec<_> {
            let offsets = directory
                .batches
                .iter()
                .map(|batch| batch.header.base_offset);
            offsets
                .map(|offset| {
                    let read = log.read(offset, 1, i64::MAX, true).unwrap();
                    let aborted = log.aborted_transactions(offset, &read).unwrap();
                    aborted
                        .iter()
                        .map(|aborted| (aborted.producer_id, aborted.first_offset))
                        .collect::<Vec<_>>()
                })
                .collect()
        };
        let expected = answers(&open(&directory, &directory.storage.copy()));
        assert!(expected.iter().any(|aborted| !aborted.is_empty()));
        for index in [".index", ".timeindex"] {
            let storage = directory.storage.copy();
            for path in [files(&storage, index), files(&storage, ".txnindex")].concat() {
                storage.remove_file(&path).unwrap();
            }
            let log = open(&directory, &storage);
            assert_eq!(answers(&log), expected, "without any {index}");
            check_batches(&log, &directory.batches, false, |_| false);
            assert_eq!(producers(&log), directory.producers);
        }
    }
}
