//! A directory of an old broker, with a segment whose offsets no index can hold.

use std::path::Path;
use std::sync::Arc;

use super::entries::{Entry, read_all};
use super::model::{self, FOLDER, ROOT};
use super::seeds::{self, choices};
use super::steps::IN_TRANSACTIONS;
use crate::log::cleaner::{Cleaner, CleanerSettings};
use crate::log::error::Result;
use crate::log::log::OpenMode;
use crate::log::offset_index::fits;
use crate::log::opening::Hints;
use crate::log::transaction_index::AbortedEntry;
use crate::log::verify::verify;
use crate::log::{AppendOrigin, Home, Log, LogConfig, LogError};
use crate::records::batch::stamp;
use crate::records::{BatchBuilder, BatchOptions, Marker, Outcome};
use crate::storage::{FaultyStorage, Mode, Storage};

/// The first offset that does not fit into a segment that begins at 0.
const BEYOND: i64 = 1 << 31;

/// The segment's place, last or not, and what the directory's checkpoints know.
#[derive(Clone, Copy, Debug)]
struct Case {
    is_last: bool,
    hints: Hints,
}

fn config() -> LogConfig {
    LogConfig {
        compact: true,
        delete: false,
        segment_bytes: 1 << 20,
        ..model::config()
    }
}

fn open(storage: &FaultyStorage, hints: Hints) -> Result<Arc<Log>> {
    let home = Home::quiet(Arc::new(storage.clone()), Path::new(ROOT));
    Log::open(&home, "t-0", config(), hints, OpenMode::Append)
}

fn batch(offset: i64, records: i32, producer: Option<i64>) -> Vec<u8> {
    let mut options = BatchOptions::default();
    if let Some(id) = producer {
        options.producer_id = id;
        options.producer_epoch = 0;
        options.base_sequence = 0;
        options.transactional = id >= IN_TRANSACTIONS;
    }
    let mut builder = BatchBuilder::new(options);
    for record in 0..records {
        let key = (offset + i64::from(record)).to_be_bytes();
        let value = [7; 40];
        let time = 1_000_000 + i64::from(record);
        builder.append(time, Some(&key), Some(&value), &[]).unwrap();
    }
    let mut batch = builder.finish().unwrap();
    stamp(&mut batch, offset, 0, None);
    batch
}

fn marker(offset: i64, producer: i64, outcome: Outcome) -> Vec<u8> {
    let marker = Marker {
        outcome,
        coordinator_epoch: 0,
    };
    let mut batch = marker.batch(producer, 0, 1_000_010).unwrap();
    stamp(&mut batch, offset, 0, None);
    batch
}

fn overflowed() -> Vec<Vec<u8>> {
    let (one, other) = (IN_TRANSACTIONS, IN_TRANSACTIONS + 1);
    let mut batches = vec![
        batch(3, 3, None),
        batch(10, 2, Some(one)),
        batch(BEYOND - 3, 3, Some(1)),
        batch(BEYOND, 1, Some(other)),
        marker(BEYOND + 50, one, Outcome::Abort),
    ];
    for at in 0..30 {
        batches.push(batch(5_000_000_000 + 5 * at, 2, None));
    }
    batches.push(marker(5_000_000_500, other, Outcome::Commit));
    batches.push(batch(9_000_000_000, 2, Some(2)));
    batches
}

/// Indexes as somebody wrote them who did not mind: what does not fit was cut off.
fn create(storage: &FaultyStorage, base_offset: i64, batches: &[Vec<u8>]) {
    let write = |kind: &str, bytes: &[u8]| {
        let path = Path::new(FOLDER).join(format!("{base_offset:020}.{kind}"));
        let file = storage.open(&path, Mode::Replace).unwrap();
        file.write_at(bytes, 0).unwrap();
        file.sync_data().unwrap();
    };
    let (mut index, mut position) = (Vec::new(), 0);
    for batch in batches {
        let offset = i64::from_be_bytes(batch[..8].try_into().unwrap());
        index.extend(((offset - base_offset) as i32).to_be_bytes());
        index.extend((position as u32).to_be_bytes());
        position += batch.len();
    }
    write("log", &batches.concat());
    write("index", &index);
    write("timeindex", &[]);
}

fn directory(case: Case) -> FaultyStorage {
    let storage = FaultyStorage::new();
    storage.create_directory(Path::new(ROOT)).unwrap();
    storage.create_directory(Path::new(FOLDER)).unwrap();
    create(&storage, 0, &overflowed());
    if !case.is_last {
        create(&storage, 9_000_000_100, &[batch(9_000_000_100, 4, None)]);
    }
    storage.copy()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for is_last in [true, false] {
        for (clean, recovery_point) in [(true, i64::MAX >> 1), (false, i64::MAX >> 1), (false, 0)] {
            let recovery_point = recovery_point.min(if is_last {
                9_000_000_002
            } else {
                9_000_000_104
            });
            let hints = Hints {
                clean,
                recovery_point,
                ..Hints::default()
            };
            cases.push(Case { is_last, hints });
        }
    }
    cases
}

/// The entries in the directory, whoever reads it.
fn expected(case: Case) -> Vec<Entry> {
    let home = Home::quiet(Arc::new(directory(case)), Path::new(ROOT));
    let log = Log::open(&home, "t-0", config(), Hints::default(), OpenMode::Read).unwrap();
    let entries = read_all(&log, 0);
    let records = 3 + 2 + 3 + 1 + 1 + 30 * 2 + 1 + 2 + if case.is_last { 0 } else { 4 };
    assert_eq!(entries.len(), records);
    entries
}

/// Each segment holds what it can, and nothing of the work is left.
fn check_parts(storage: &FaultyStorage, log: &Arc<Log>) {
    let segments = log.segments();
    let ends = segments.iter().skip(1).map(|next| next.base_offset);
    for (segment, end) in segments.iter().zip(ends.chain([log.end_offset()])) {
        let next = segment.next_offset().unwrap();
        assert!(fits(segment.base_offset, (next - 1).max(segment.base_offset)) && next <= end);
    }
    let dynamic: Arc<dyn Storage> = Arc::new(storage.clone());
    assert_eq!(verify(&dynamic, Path::new(FOLDER)).unwrap().damage, []);
    let entries = storage.list(Path::new(FOLDER)).unwrap();
    let left = |name: &str| name.ends_with(".cleaned") || name.ends_with(".swap");
    assert!(!entries.iter().any(|entry| left(&entry.name)));
}

fn check(storage: &FaultyStorage, log: &Arc<Log>, case: Case, expected: &[Entry]) {
    check_parts(storage, log);
    let segments = log.segments();
    assert_eq!(segments.len(), 4 + usize::from(!case.is_last));
    assert_eq!(read_all(log, 0), expected);
    for entry in expected.iter().step_by(5) {
        let read = log.read(entry.offset, 1, i64::MAX, true).unwrap();
        let aborted = log.aborted_transactions(entry.offset, &read).unwrap();
        let is_aborted = (10..=BEYOND + 50).contains(&entry.offset);
        assert_eq!(!aborted.is_empty(), is_aborted, "at {}", entry.offset);
    }
}

#[test]
fn it_is_split() {
    for case in cases() {
        let (storage, expected) = (directory(case), expected(case));
        let log = open(&storage, case.hints).unwrap();
        check(&storage, &log, case, &expected);
        // It goes on, and is compacted like any other.
        log.begin_epoch(1).unwrap();
        let end = log.end_offset();
        let mut next = batch(0, 3, None);
        let appended = log
            .append(&mut next, 1, AppendOrigin::Client, 1_000_100)
            .unwrap();
        assert_eq!(appended.base_offset, end);
        log.roll().unwrap();
        log.set_high_watermark(log.end_offset());
        log.clean(&cleaner(), 0, log.end_offset()).unwrap();
        let kept = read_all(&log, 0);
        let of_transaction = |entry: &&Entry| entry.producer.is_some_and(|(id, _)| id == 10);
        assert_eq!(kept.iter().filter(of_transaction).count(), 0);
        assert_eq!(kept.len(), expected.len() + 3 - 2);
    }
}

fn cleaner() -> Cleaner {
    Cleaner::new(CleanerSettings {
        map_bytes: 1 << 20,
        map_load_factor: 0.9,
        io_bytes: 1 << 16,
        bytes_per_second: f64::INFINITY,
    })
}

/// A log whose closed segment reaches too far, although its opening found nothing: somebody joined segments below it.
fn joined_while_open() -> (FaultyStorage, Arc<Log>) {
    let storage = FaultyStorage::new();
    storage.create_directory(Path::new(ROOT)).unwrap();
    storage.create_directory(Path::new(FOLDER)).unwrap();
    create(&storage, 0, &[batch(3, 3, None)]);
    create(&storage, 9_000_000_100, &[batch(9_000_000_100, 4, None)]);
    let storage = storage.copy();
    let log = open(&storage, Hints::default()).unwrap();
    let path = Path::new(FOLDER).join("00000000000000000000.log");
    let file = storage.open(&path, Mode::Write).unwrap();
    let bytes = overflowed().concat();
    file.write_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
    let segment = &log.segments()[0];
    segment.set_size_bytes(bytes.len() as u64);
    let (one, last) = (IN_TRANSACTIONS, BEYOND + 50);
    let aborted = AbortedEntry {
        producer_id: one,
        first_offset: 10,
        last_offset: last,
        last_stable_offset: 10,
    };
    segment.transaction_index.replace(&[aborted]).unwrap();
    segment.transaction_index.sync().unwrap();
    log.set_high_watermark(log.end_offset());
    (storage, log)
}

fn kept(log: &Log) -> Vec<Entry> {
    let mut entries = read_all(log, 0);
    // Records of the aborted transaction, and what an interrupted cleaning had not come to.
    entries.retain(|entry| entry.producer.is_none_or(|(id, _)| id != IN_TRANSACTIONS));
    entries
}

/// Cleaning splits it too, and no power cut in the middle of that takes anything.
#[test]
fn a_cleaning_splits_it() {
    let case = Case {
        is_last: false,
        hints: Hints::default(),
    };
    let mut expected = expected(case);
    expected.retain(|entry| entry.producer.is_none_or(|(id, _)| id != IN_TRANSACTIONS));
    let (storage, log) = joined_while_open();
    let before = storage.changes();
    let report = log.clean(&cleaner(), 0, 9_000_000_100).unwrap();
    assert_eq!((report.segments_read, report.segments_written), (1, 4));
    let changes_total = storage.changes() - before;
    check_parts(&storage, &log);
    assert_eq!(kept(&log), expected);
    seeds::each(2, |seed| {
        for changes in 0..changes_total {
            let mut choice = choices(seed.wrapping_mul(1_000_003).wrapping_add(changes));
            let (storage, log) = joined_while_open();
            storage.lose_power_after(changes);
            let _ = log.clean(&cleaner(), 0, 9_000_000_100);
            drop(log);
            storage.repair();
            storage.power_cut(&mut choice);
            // Whether by the cleaning or by this.
            let hints = Hints {
                recovery_point: 9_000_000_100,
                ..Hints::default()
            };
            let log = open(&storage, hints).unwrap();
            check_parts(&storage, &log);
            assert_eq!(kept(&log), expected, "after {changes} changes");
        }
    });
}

/// Of what reaches too far, nothing but damage is left alone: an offset with a bit too many, which the next segment does not confirm.
#[test]
fn a_cleaning_does_not_split_at_damage() {
    let (storage, log) = joined_while_open();
    let path = Path::new(FOLDER).join("00000000000000000000.log");
    let file = storage.open(&path, Mode::Write).unwrap();
    let mut last = batch(9_000_000_000, 2, Some(2));
    let position = log.segments()[0].size_bytes() - last.len() as u64;
    last[1] ^= 1;
    file.write_at(&last, position).unwrap();
    let error = log.clean(&cleaner(), 0, 9_000_000_100).unwrap_err();
    assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
    assert_eq!(log.segments().len(), 2);
    let entries = storage.list(Path::new(FOLDER)).unwrap();
    assert!(!entries.iter().any(|entry| entry.name.ends_with(".cleaned")));
}

/// Whatever the power or the process leaves, the next opening has everything; also when that is interrupted too.
#[test]
fn with_the_power_going_at_every_change() {
    let mut total = 0;
    for case in cases() {
        let whole = directory(case);
        let expected = expected(case);
        let before = whole.changes();
        open(&whole, case.hints).unwrap();
        let changes_total = whole.changes() - before;
        total += changes_total;
        seeds::each(2, |seed| {
            for changes in 0..changes_total {
                let mut choice = choices(seed.wrapping_mul(1_000_003).wrapping_add(changes));
                let storage = directory(case);
                for changes in [changes, choice(changes_total as usize) as u64] {
                    storage.lose_power_after(changes);
                    let _ = open(&storage, case.hints);
                    storage.repair();
                    if choice(4) == 0 {
                        // Only the process ended: what it did is there.
                        storage.power_cut(&mut |below| if below == 3 { 0 } else { below - 1 });
                    } else {
                        storage.power_cut(&mut choice);
                    }
                }
                // No clean stop.
                let hints = Hints {
                    clean: false,
                    ..case.hints
                };
                let log = open(&storage, hints).unwrap();
                check(&storage, &log, case, &expected);
            }
        });
    }
    assert!(total > 150, "only {total} changes");
}

/// A bit of an offset that no checksum covers makes no segment, and does not move the log's end.
#[test]
fn an_offset_that_nothing_confirms_is_damage() {
    for at in [2, 5] {
        let storage = FaultyStorage::new();
        storage.create_directory(Path::new(ROOT)).unwrap();
        storage.create_directory(Path::new(FOLDER)).unwrap();
        let mut batches: Vec<_> = (0..6).map(|offset| batch(offset, 1, None)).collect();
        batches[at][2] ^= 1;
        create(&storage, 0, &batches);
        let log = open(&storage, Hints::default()).unwrap();
        assert_eq!((log.segments().len(), log.end_offset()), (1, at as i64));
        assert_eq!(read_all(&log, 0).len(), at);
    }
}
