//! Offsets and times at both ends of their range, as a producer, a leader or a file may have them: no step of a log panics, whatever it makes
//! of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::seeds::{self, choices};
use crate::log::checkpoint::{
    CLEAN_SHUTDOWN, CLEANED_OFFSETS, HIGH_WATERMARKS, LEADER_EPOCHS, RECOVERY_POINTS, START_OFFSETS,
};
use crate::log::cleaner::{Cleaner, CleanerSettings};
use crate::log::conversion::{OldFetch, Room};
use crate::log::error::Result;
use crate::log::index::Entry;
use crate::log::names::{Kind, Suffix, TopicPartition, file_name};
use crate::log::offset_index::{OffsetPosition, fits};
use crate::log::producer_state::ProducerState;
use crate::log::time_index::TimestampOffset;
use crate::log::transaction_index::AbortedEntry;
use crate::log::verification::NO_GUARD;
use crate::log::verify::verify;
use crate::log::{AppendOrigin, Home, Log, LogConfig, LogDirectory, LogError, When};
use crate::records::batch::{OFFSET_MAX, set_crc};
use crate::records::{
    BatchBuilder, BatchHeader, BatchOptions, Codec, Compressor, Marker, MessageBuilder, Outcome,
    stamp,
};
use crate::storage::{FaultyStorage, Mode, Storage};

const ENDS: [i64; 14] = [
    i64::MIN,
    i64::MIN + 1,
    -OFFSET_MAX - 1,
    -1,
    0,
    1,
    3,
    1 << 31,
    OFFSET_MAX - 5,
    OFFSET_MAX,
    OFFSET_MAX + 1,
    i64::MAX - 5,
    i64::MAX - 1,
    i64::MAX,
];

fn config(message_format: i8) -> LogConfig {
    LogConfig {
        message_format,
        compact: true,
        segment_bytes: 400,
        index_interval_bytes: 1,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    }
}

fn partition() -> TopicPartition {
    TopicPartition::of("t", 0)
}

/// A data directory, in memory but for its lock.
struct Directory {
    storage: FaultyStorage,
    real: tempfile::TempDir,
    message_format: i8,
}

impl Directory {
    fn new(message_format: i8) -> Self {
        let (storage, real) = (FaultyStorage::new(), tempfile::tempdir().unwrap());
        let folder = real.path().join("t-0");
        let parts: Vec<_> = folder.ancestors().collect();
        for part in parts.into_iter().rev().skip(1) {
            storage.create_directory(part).unwrap();
        }
        Self {
            storage,
            real,
            message_format,
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.real.path().join(name);
        let file = self.storage.open(&path, Mode::Replace).unwrap();
        file.write_at(bytes, 0).unwrap();
    }

    fn open(&self) -> Result<(Arc<LogDirectory>, Arc<Log>)> {
        let home = Home::quiet(Arc::new(self.storage.clone()), self.real.path());
        let directory = LogDirectory::open(home, Duration::from_secs(1_000_000))?;
        let log = directory.load(&partition(), config(self.message_format))?;
        Ok((directory, log))
    }
}

fn batch(transactional: bool, timestamp_ms: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id: if transactional { 7 } else { -1 },
        producer_epoch: if transactional { 0 } else { -1 },
        base_sequence: if transactional { 0 } else { -1 },
        transactional,
        ..BatchOptions::default()
    });
    for key in [b"a", b"b"] {
        builder
            .append(timestamp_ms, Some(key), Some(b"v"), &[])
            .unwrap();
    }
    builder.finish().unwrap()
}

fn marker(timestamp_ms: i64) -> Vec<u8> {
    let marker = Marker {
        outcome: Outcome::Abort,
        coordinator_epoch: 0,
    };
    marker.batch(7, 0, timestamp_ms).unwrap()
}

fn messages(magic: i8, codec: Codec, timestamp_ms: i64) -> Vec<u8> {
    let mut builder = MessageBuilder::new(magic, codec, None).unwrap();
    for offset in 0..2 {
        builder
            .append(offset, timestamp_ms, Some(b"a"), Some(b"v"))
            .unwrap();
    }
    builder.finish(&mut Compressor::default())
}

/// A batch or message as somebody sent it, with times of his choice.
fn any_sent(choice: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let time = [-1, 0, 1, i64::MAX - 1, i64::MAX][choice(5)];
    match choice(7) {
        0 => messages(0, Codec::None, time),
        1 => messages(1, Codec::None, time),
        2 => messages(0, Codec::Gzip, time),
        3 => messages(1, Codec::Gzip, time),
        4 => marker(time),
        transactional => batch(transactional == 5, time),
    }
}

/// The same as a leader sends it, or as a file has it: with an offset, and with anything in its header.
fn any_stored(choice: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut bytes = any_sent(choice);
    let offset = ENDS[choice(ENDS.len())];
    if bytes[16] < 2 {
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        return bytes;
    }
    stamp(&mut bytes, offset, [0, 1, i32::MAX][choice(3)], None);
    if choice(3) == 0 {
        let header = BatchHeader::read(&bytes).unwrap();
        BatchHeader {
            last_offset_delta: [0, 1, 2, i32::MAX][choice(4)],
            base_timestamp: ENDS[choice(ENDS.len())],
            max_timestamp: ENDS[choice(ENDS.len())],
            base_sequence: [-1, 0, i32::MAX][choice(3)],
            ..header
        }
        .write(&mut bytes);
        set_crc(&mut bytes);
    }
    bytes
}

fn cleaner() -> Cleaner {
    Cleaner::new(CleanerSettings {
        map_bytes: 1 << 16,
        map_load_factor: 0.9,
        io_bytes: 1 << 16,
        bytes_per_second: f64::INFINITY,
    })
}

/// A mistake of ours is caught where it is met: here it fails the test.
fn declared<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error @ (LogError::Panicked(_) | LogError::Broken { .. })) => panic!("{error}"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// Reads as readers do.
fn read(log: &Arc<Log>) {
    for offset in ENDS {
        for upper_bound in [0, offset, i64::MAX] {
            let Some(read) = declared(log.read(offset, 500, upper_bound, true)) else {
                continue;
            };
            declared(log.aborted_transactions(offset, &read));
            declared(log.read_cached(offset, 500, upper_bound, true));
            for (magic, slice) in [0, 1].into_iter().zip(read.slice.iter().cycle()) {
                let asked = OldFetch {
                    log,
                    offset,
                    bytes_max: 500,
                    upper_bound,
                    magic,
                    may_convert: true,
                };
                let mut room = Room {
                    bytes: 1000,
                    is_empty: true,
                };
                declared(asked.convert(slice, &mut room));
            }
        }
        declared(log.offset_for_timestamp(offset));
        log.epoch_of(offset);
        let epoch = (offset >> 32) as i32;
        log.epoch_end_offset(epoch);
    }
    let _ = (log.first_unstable_offset(), log.last_stable_offset());
    let _ = log.producers();
}

fn step(directory: &LogDirectory, log: &Arc<Log>, choice: &mut impl FnMut(usize) -> usize) {
    let (offset, now_ms) = (ENDS[choice(ENDS.len())], ENDS[choice(ENDS.len())]);
    match choice(12) {
        0..3 => {
            let mut sent = any_sent(choice);
            let origin = if choice(4) == 0 {
                AppendOrigin::Coordinator
            } else {
                AppendOrigin::Client
            };
            let epoch = log.leader_epoch().max(0);
            declared(log.append(&mut sent, epoch, origin, now_ms.max(0)));
        }
        3..6 => {
            let stored = [any_stored(choice), any_stored(choice)].concat();
            declared(log.append_as_follower(&stored, i32::MAX, now_ms.max(0)));
        }
        6 => {
            let mut sent = batch(false, 1);
            let (epoch, origin) = (log.leader_epoch().max(0), AppendOrigin::Client);
            let turn = When::InTurn;
            if let Some(staged) = log.try_append(&mut sent, epoch, origin, NO_GUARD, 1000, turn) {
                declared(staged);
            }
            declared(
                log.write_staged()
                    .lost
                    .map_or(Ok(()), |(_, error)| Err(error)),
            );
        }
        7 => drop(declared(log.truncate_to(offset, None))),
        8 => drop(declared(log.truncate_fully_and_start_at(offset, None))),
        9 => {
            log.set_high_watermark(offset);
            declared(log.set_start_offset(offset));
        }
        10 => {
            declared(log.roll());
            log.set_high_watermark(log.end_offset());
            declared(log.clean(&cleaner(), log.start_offset(), log.end_offset()));
            directory.cleanable(now_ms);
        }
        _ => {
            log.expire_producers(now_ms);
            declared(log.flush());
            declared(directory.checkpoint_recovery_points());
            declared(directory.checkpoint_start_offsets());
            declared(directory.checkpoint_high_watermarks());
        }
    }
}

fn live(directory: &Directory, steps: usize, choice: &mut impl FnMut(usize) -> usize) {
    for clean in [false, true] {
        let Some((open, log)) = declared(directory.open()) else {
            return;
        };
        read(&log);
        for _ in 0..steps {
            step(&open, &log, choice);
        }
        read(&log);
        declared(open.close(clean, 1));
        let storage: Arc<dyn Storage> = Arc::new(directory.storage.clone());
        declared(verify(&storage, &directory.real.path().join("t-0")));
    }
}

#[test]
fn what_a_log_is_told() {
    seeds::each(100, |seed| {
        let mut choice = choices(seed);
        let directory = Directory::new(choice(3) as i8);
        live(&directory, 30, &mut choice);
    });
}

/// A data directory in which every number may be at an end of its range.
fn any_directory(choice: &mut impl FnMut(usize) -> usize) -> Directory {
    let directory = Directory::new(2);
    let mut end = |least: usize| ENDS[least + choice(ENDS.len() - least)];
    let checkpoint = |lines: &[String]| format!("0\n{}\n{}", lines.len(), lines.concat());
    for name in [
        RECOVERY_POINTS,
        START_OFFSETS,
        HIGH_WATERMARKS,
        CLEANED_OFFSETS,
    ] {
        if end(0) > 0 {
            let lines = [format!("t 0 {}\n", end(0))];
            directory.write(name, checkpoint(&lines).as_bytes());
        }
    }
    if end(0) > 0 {
        directory.write(CLEAN_SHUTDOWN, b"");
    }
    let lines = [0, 1, 2].map(|epoch| format!("{epoch} {}\n", end(0)));
    let folder = |name: String| format!("t-0/{name}");
    directory.write(
        &folder(LEADER_EPOCHS.to_owned()),
        checkpoint(&lines).as_bytes(),
    );
    for _ in 0..2 {
        let (base_offset, suffix) = (end(4), Suffix::None);
        let mut entries = Vec::new();
        for _ in 0..2 {
            let entry = AbortedEntry {
                producer_id: 7,
                first_offset: end(0),
                last_offset: end(0),
                last_stable_offset: end(0),
            };
            entries.extend(entry.encode());
        }
        let transactions = file_name(base_offset, Kind::TransactionIndex, suffix);
        directory.write(&folder(transactions), &entries);
        let entry = |number: i64| [number as u32, 0].map(u32::to_be_bytes).concat();
        let index = [entry(1), entry(end(0))].concat();
        directory.write(
            &folder(file_name(base_offset, Kind::OffsetIndex, suffix)),
            &index,
        );
        let times = [end(0).to_be_bytes().to_vec(), vec![0; 4]].concat();
        directory.write(
            &folder(file_name(base_offset, Kind::TimeIndex, suffix)),
            &times,
        );
        let snapshot = snapshot(&mut end);
        directory.write(
            &folder(file_name(base_offset, Kind::Snapshot, suffix)),
            &snapshot,
        );
    }
    for _ in 0..1 + choice(3) {
        let suffix = [Suffix::None, Suffix::None, Suffix::Swap][choice(3)];
        let base_offset = ENDS[4 + choice(ENDS.len() - 4)];
        let batches: Vec<u8> = (0..choice(4)).flat_map(|_| any_stored(choice)).collect();
        let name = file_name(base_offset, Kind::Log, suffix);
        directory.write(&folder(name), &batches);
    }
    directory
}

/// One entry, whose checksum is right.
fn snapshot(end: &mut impl FnMut(usize) -> i64) -> Vec<u8> {
    let mut body = 1i32.to_be_bytes().to_vec();
    body.extend(7i64.to_be_bytes());
    body.extend(0i16.to_be_bytes());
    body.extend((end(0) as i32).to_be_bytes());
    body.extend(end(0).to_be_bytes());
    body.extend(((end(0) >> 32) as i32).to_be_bytes());
    body.extend(end(0).to_be_bytes());
    body.extend(0i32.to_be_bytes());
    body.extend(end(0).to_be_bytes());
    let crc = crate::checksum::crc32c(&body);
    [&1i16.to_be_bytes()[..], &crc.to_be_bytes(), &body].concat()
}

/// A snapshot with numbers that cannot be is none: what is counted back from its last batch is an offset and a sequence.
#[test]
fn what_a_snapshot_says() {
    seeds::each(2000, |seed| {
        let mut choice = choices(seed);
        let snapshot = snapshot(&mut |least| ENDS[least + choice(ENDS.len() - least)]);
        let Some(state) = ProducerState::from_snapshot(&snapshot, 5) else {
            return;
        };
        for last in state
            .producers()
            .filter_map(|(_, known)| known.last_batch())
        {
            assert!(last.first_offset() >= 0 && last.first_sequence() >= 0);
        }
        assert!(state.first_unstable_offset() <= Some(OFFSET_MAX));
    });
}

#[test]
fn what_an_index_is_told() {
    for offset in ENDS {
        for base_offset in [0, 5, OFFSET_MAX] {
            let mut bytes = [0; 12];
            let position = OffsetPosition {
                offset,
                position: 7,
            };
            position.encode(&mut bytes[..8], base_offset);
            let read = OffsetPosition::decode(&bytes[..8], base_offset);
            assert!(read == position || !fits(base_offset, offset));
            let time = TimestampOffset {
                timestamp_ms: offset,
                offset,
            };
            time.encode(&mut bytes, base_offset);
            let read = TimestampOffset::decode(&bytes, base_offset);
            assert!(read == time || !fits(base_offset, offset));
        }
    }
}

#[test]
fn what_the_files_of_a_log_say() {
    seeds::each(300, |seed| {
        let mut choice = choices(seed);
        let directory = any_directory(&mut choice);
        let storage: Arc<dyn Storage> = Arc::new(directory.storage.clone());
        let folder = directory.real.path().join("t-0");
        declared(verify(&storage, &folder));
        look(&directory.storage, directory.real.path());
        live(&directory, 10, &mut choice);
    });
}

/// As a reader beside the broker.
fn look(storage: &FaultyStorage, path: &Path) {
    use crate::log::log::OpenMode;
    use crate::log::opening::Hints;
    let home = Home::quiet(Arc::new(storage.clone()), path);
    let opened = Log::open(&home, "t-0", config(2), Hints::default(), OpenMode::Read);
    if let Some(log) = declared(opened) {
        read(&log);
    }
}

/// Offsets run out in order: what is there stays, the next append is refused and says why.
#[test]
fn the_last_offset_of_a_log() {
    for (message_format, magic) in [(2, 2), (1, 1), (0, 0), (1, 2), (0, 2)] {
        for codec in [Codec::None, Codec::Gzip] {
            let directory = Directory::new(message_format);
            let (open, log) = directory.open().unwrap();
            log.truncate_fully_and_start_at(OFFSET_MAX - 3, None)
                .unwrap();
            let mut refused = None;
            for _ in 0..4 {
                let mut sent = match magic {
                    2 => batch(false, 1000),
                    magic => messages(magic, codec, 1000),
                };
                let end = log.end_offset();
                if let Err(error) = log.append(&mut sent, 0, AppendOrigin::Client, 1000) {
                    assert_eq!((error.code(), log.end_offset()), (87, end), "{error}");
                    assert!(error.to_string().contains("offset"), "{error}");
                    refused = Some(end);
                }
            }
            let end = refused.expect("an error at the end");
            assert!((OFFSET_MAX - 1..=OFFSET_MAX + 2).contains(&end));
            open.close(true, 1).unwrap();
            let (_, log) = directory.open().unwrap();
            assert_eq!(log.end_offset(), end);
        }
    }
    let directory = Directory::new(2);
    let (_open, log) = directory.open().unwrap();
    for offset in [OFFSET_MAX + 1, i64::MAX, -1, i64::MIN] {
        let error = log.truncate_fully_and_start_at(offset, None).unwrap_err();
        assert_eq!((error.code(), log.end_offset()), (1, 0), "{error}");
    }
}
