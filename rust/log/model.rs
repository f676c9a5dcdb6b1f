//! A log on a breaking disk against a list in memory.
//!
//! The list says what was appended; the log must agree after any sequence of appends, truncations, rolls, deletions, clean and unclean
//! reopenings, power cuts and failing operations. After a power cut the log may be shorter, but never shorter than what was flushed, and
//! never anything but a prefix of the list.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::append::When;
use super::log::OpenMode;
use super::model_transactions;
use super::opening::Hints;
use super::verification::NO_GUARD;
use super::{Home, Log, LogConfig, LogError, Origin};
use crate::records::{
    Batch, BatchBuilder, BatchOptions, Batches, Limits, Marker, Outcome, Records, Scratch,
};
use crate::storage::faulty::{Fault, Operation};
use crate::storage::{FaultyStorage, Mode, Storage};

#[derive(Clone, Debug)]
enum Step {
    /// Records of that many bytes each, by one of three producers, one of three in its transaction, or none.
    Append {
        records: usize,
        bytes: usize,
        producer: Option<i64>,
    },
    /// Small batches in one turn of the loop, which are written together; in the middle somebody else may take the log's writer.
    Turn {
        batches: Vec<(usize, Option<i64>)>,
        roll_at: usize,
    },
    /// The same while the disk is full: the first write that comes fails, or is torn, and the log goes on.
    FullTurn {
        batches: Vec<(usize, Option<i64>)>,
        tear: bool,
    },
    /// Ends a producer's transaction, if it has one or not.
    End {
        producer: i64,
        commit: bool,
    },
    /// The same while the disk is full: that write or the next one fails, and the log goes on.
    FullEnd {
        producer: i64,
        commit: bool,
        skip: u64,
    },
    /// Sends the producer's last batch again.
    Retry {
        producer: i64,
    },
    Truncate {
        part: u8,
    },
    DeleteBefore {
        part: u8,
    },
    Roll,
    Flush,
    NextEpoch,
    Reopen {
        clean: bool,
    },
    PowerCut {
        seed: u64,
    },
    Break {
        operation: Operation,
        skip: u64,
        tear: bool,
    },
}

/// Producers from this id on write in transactions.
const IN_TRANSACTIONS: i64 = 10;

fn in_transactions() -> std::ops::Range<i64> {
    IN_TRANSACTIONS..IN_TRANSACTIONS + 3
}

fn producer() -> impl Strategy<Value = i64> {
    prop_oneof![0..3i64, in_transactions()]
}

fn step() -> impl Strategy<Value = Step> {
    let operation = prop_oneof![
        4 => Just(Operation::Write),
        1 => Just(Operation::SetLength),
        2 => Just(Operation::SyncData),
        1 => Just(Operation::SyncDirectory),
        1 => Just(Operation::Rename),
        1 => Just(Operation::Open),
        1 => Just(Operation::Read),
    ];
    let batches = || prop::collection::vec((0..200usize, prop::option::of(producer())), 1..12);
    prop_oneof![
        10 => (batches(), 0..20usize).prop_map(|(batches, roll_at)| Step::Turn { batches, roll_at }),
        3 => (batches(), any::<bool>()).prop_map(|(batches, tear)| Step::FullTurn { batches, tear }),
        20 => (1..6usize, 0..200usize, prop::option::of(producer()))
            .prop_map(|(records, bytes, producer)| Step::Append { records, bytes, producer }),
        8 => (in_transactions(), any::<bool>()).prop_map(|(producer, commit)| Step::End { producer, commit }),
        2 => (in_transactions(), any::<bool>(), 0..3u64)
            .prop_map(|(producer, commit, skip)| Step::FullEnd { producer, commit, skip }),
        2 => (0..3i64).prop_map(|producer| Step::Retry { producer }),
        2 => any::<u8>().prop_map(|part| Step::Truncate { part }),
        2 => any::<u8>().prop_map(|part| Step::DeleteBefore { part }),
        1 => Just(Step::Roll),
        3 => Just(Step::Flush),
        1 => Just(Step::NextEpoch),
        3 => any::<bool>().prop_map(|clean| Step::Reopen { clean }),
        3 => any::<u64>().prop_map(|seed| Step::PowerCut { seed }),
        1 => (operation, 0..4u64, any::<bool>())
            .prop_map(|(operation, skip, tear)| Step::Break { operation, skip, tear }),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Plain,
    /// Of this producer's transaction.
    Transactional(i64),
    /// Ends it; true is a commit.
    Marker(i64, bool),
}

impl Content {
    fn of(producer: Option<(i64, i32)>) -> Self {
        match producer {
            Some((id, _)) if id >= IN_TRANSACTIONS => Self::Transactional(id),
            _ => Self::Plain,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub offset: i64,
    pub value: Vec<u8>,
    epoch: i32,
    producer: Option<(i64, i32)>,
    pub content: Content,
    /// The first and the last offset of its batch.
    pub batch: (i64, i64),
}

struct Model {
    storage: FaultyStorage,
    log: Arc<Log>,
    entries: Vec<Entry>,
    /// What was deleted from the front.
    deleted: Vec<Entry>,
    start: i64,
    /// What a power cut must not take.
    durable: i64,
    /// The durable start offset, as the directory's checkpoint would have it.
    epoch: i32,
    clock_ms: i64,
    unique: u64,
    /// An operation may have failed: the disk's errors are to be expected.
    broken: bool,
}

const ROOT: &str = "/data";

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 2000,
        index_interval_bytes: 300,
        segment_index_bytes: 120,
        file_delete_delay_ms: 0,
        producer_id_expiration_ms: i64::MAX,
        ..LogConfig::default()
    }
}

fn open(storage: &FaultyStorage, hints: Hints) -> super::error::Result<Arc<Log>> {
    let home = Home::quiet(Arc::new(storage.clone()), Path::new(ROOT));
    Log::open(&home, "t-0", config(), hints, OpenMode::Append)
}

impl Model {
    fn new() -> Self {
        let storage = FaultyStorage::new();
        storage.create_directory(Path::new(ROOT)).unwrap();
        storage
            .create_directory(&Path::new(ROOT).join("t-0"))
            .unwrap();
        storage.sync_directory(Path::new("/")).unwrap();
        storage.sync_directory(Path::new(ROOT)).unwrap();
        let log = open(
            &storage,
            Hints {
                clean: true,
                ..Hints::default()
            },
        )
        .unwrap();
        log.begin_epoch(0).unwrap();
        log.flush().unwrap();
        Self {
            storage,
            log,
            entries: Vec::new(),
            deleted: Vec::new(),
            start: 0,
            durable: 0,
            epoch: 0,
            clock_ms: 1_000_000,
            unique: 0,
            broken: false,
        }
    }

    fn end(&self) -> i64 {
        self.entries
            .last()
            .map_or(self.start, |last| last.offset + 1)
    }

    /// What the log knows: the producer's last sequence number, -1 if nothing.
    fn known_sequence(&self, id: i64) -> i32 {
        let writer = self.log.writer.lock();
        let producer = writer.producers.producers().find(|(other, _)| *other == id);
        producer
            .and_then(|(_, producer)| producer.last_batch().map(|last| last.last_sequence))
            .unwrap_or(-1)
    }

    fn last_sequence(&self, id: i64) -> Option<i32> {
        let mut of_producer = self.entries.iter().rev().filter_map(|entry| entry.producer);
        of_producer
            .find(|(other, _)| *other == id)
            .map(|(_, sequence)| sequence)
    }

    /// Of a producer whose records were all deleted from the front the log may know something or not: then it is asked.
    fn next_sequence(&self, id: i64) -> i32 {
        self.last_sequence(id)
            .unwrap_or_else(|| self.known_sequence(id))
            + 1
    }

    fn batch(
        &mut self,
        records: usize,
        bytes: usize,
        producer: Option<(i64, i32)>,
    ) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut options = BatchOptions::default();
        if let Some((id, sequence)) = producer {
            options.producer_id = id;
            options.producer_epoch = 0;
            options.base_sequence = sequence;
            options.transactional = id >= IN_TRANSACTIONS;
        }
        let mut builder = BatchBuilder::new(options);
        let mut values = Vec::new();
        for _ in 0..records {
            self.unique += 1;
            let mut value = self.unique.to_be_bytes().to_vec();
            value.resize(8 + bytes, self.unique as u8);
            self.clock_ms += (self.unique % 7) as i64 - 2;
            builder
                .append(self.clock_ms, None, Some(&value), &[])
                .unwrap();
            values.push(value);
        }
        (builder.finish().unwrap(), values)
    }

    /// True if the error is one that a broken disk explains; then the log is opened again, as a broker would.
    fn excused<T>(&mut self, result: super::error::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(
                error @ (LogError::Io { .. } | LogError::Offline { .. } | LogError::Corrupt { .. }),
            ) => {
                assert!(self.broken, "the disk works, but: {error}");
                self.storage.repair();
                self.broken = false;
                self.crash_and_reopen();
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Append {
                records,
                bytes,
                producer,
            } => {
                let producer = producer.map(|id| (id, self.next_sequence(id)));
                let (mut batch, values) = self.batch(records, bytes, producer);
                let before = self.end();
                let result = self
                    .log
                    .append(&mut batch, self.epoch, Origin::Client, self.clock_ms);
                let last = before + records as i64 - 1;
                for (at, value) in values.into_iter().enumerate() {
                    self.entries.push(Entry {
                        offset: before + at as i64,
                        value,
                        epoch: self.epoch,
                        producer: producer.map(|(id, sequence)| (id, sequence + at as i32)),
                        content: Content::of(producer),
                        batch: (before, last),
                    });
                }
                // On an error the batch may be there or not; what is opened again says which.
                if let Some(info) = self.excused(result) {
                    assert_eq!(
                        (info.base_offset, info.last_offset, info.is_duplicate),
                        (before, last, false)
                    );
                }
            }
            Step::Turn {
                ref batches,
                roll_at,
            } => {
                if let Some((_, error)) = self.turn(batches, roll_at) {
                    // What was lost is no longer in the log, or will not be when it is opened again.
                    self.excused::<()>(Err(error));
                }
            }
            Step::FullTurn { ref batches, tear } => {
                if self.broken {
                    return;
                }
                let fault = match tear {
                    true => Fault::Full,
                    false => Fault::Fail(std::io::ErrorKind::StorageFull),
                };
                self.storage
                    .break_at(Some(Operation::Write), 0, fault, false);
                self.broken = true;
                let lost = self.turn(batches, usize::MAX);
                let Some((from, error)) = lost else {
                    // Every write was put off, or none was needed.
                    panic!("a full disk takes nothing");
                };
                if self.log.home.failure().is_some() {
                    self.excused::<()>(Err(error));
                } else {
                    // The log works on, with exactly what was not lost.
                    self.storage.repair();
                    self.broken = false;
                    self.entries.retain(|entry| entry.offset < from);
                }
            }
            Step::End { producer, commit } => {
                let result = self.end_transaction(producer, commit);
                self.excused(result);
            }
            Step::FullEnd {
                producer,
                commit,
                skip,
            } => {
                if self.broken {
                    return;
                }
                let fault = Fault::Fail(std::io::ErrorKind::StorageFull);
                self.storage
                    .break_at(Some(Operation::Write), skip, fault, false);
                self.broken = true;
                let result = self.end_transaction(producer, commit);
                if result.is_err() && self.log.home.failure().is_none() {
                    self.entries.pop();
                } else {
                    self.excused(result);
                }
                self.storage.repair();
                self.broken = false;
            }
            Step::Retry { producer } => self.retry(producer),
            Step::Truncate { part } => {
                let offset = self.start + (self.end() - self.start) * i64::from(part) / 255;
                let result = self.log.truncate_to(offset);
                // By whole batches.
                let kept = self
                    .entries
                    .iter()
                    .position(|entry| entry.batch.1 >= offset)
                    .unwrap_or(self.entries.len());
                let kept = if offset >= self.end() {
                    self.entries.len()
                } else {
                    kept
                };
                if result.is_ok() {
                    self.entries.truncate(kept);
                    self.durable = self.durable.min(self.end());
                } else {
                    let kept_end = self
                        .entries
                        .get(kept)
                        .map_or(self.end(), |entry| entry.offset);
                    self.durable = self.durable.min(kept_end);
                }
                self.excused(result);
            }
            Step::DeleteBefore { part } => {
                let offset = self.start + (self.end() - self.start) * i64::from(part) / 255;
                self.log.set_high_watermark(self.end());
                let result = self
                    .log
                    .set_start_offset(offset)
                    .and_then(|_| self.log.delete_old_segments(self.clock_ms));
                // The checkpoint is the directory's; here it is as if it were written first.
                self.start = self.start.max(offset);
                self.durable = self.durable.max(self.start);
                self.excused(result);
                let kept = self.entries.iter().position(|entry| entry.offset >= offset);
                let kept = kept.unwrap_or(self.entries.len());
                self.deleted.extend(self.entries.drain(..kept));
            }
            Step::Roll => {
                let result = self.log.roll();
                self.excused(result);
            }
            Step::Flush => {
                let result = self.log.flush();
                if let Some(flushed) = self.excused(result) {
                    assert_eq!(flushed, self.end());
                    self.durable = flushed;
                }
            }
            Step::NextEpoch => {
                self.epoch += 1;
                let result = self.log.begin_epoch(self.epoch);
                self.excused(result);
            }
            Step::Reopen { clean } => {
                if !clean {
                    return self.crash_and_reopen();
                }
                let result = self.log.close(true);
                if self.excused(result).is_some() {
                    self.durable = self.end();
                    self.reopen(true);
                }
            }
            Step::PowerCut { seed } => {
                self.storage.repair();
                self.broken = false;
                let mut number = seed;
                self.storage.power_cut(&mut |below| {
                    number = number
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    (number >> 33) as usize % below
                });
                self.crash_and_reopen();
                // What is shown now was made durable first.
                self.durable = self.end();
            }
            Step::Break {
                operation,
                skip,
                tear,
            } => {
                let fault = if tear {
                    Fault::Tear
                } else {
                    Fault::Fail(std::io::ErrorKind::Other)
                };
                self.storage.break_at(Some(operation), skip, fault, false);
                self.broken = true;
            }
        }
    }

    /// Appends batches of one record as the loop does, and ends the turn. What was lost: from which offset on, and why.
    fn turn(
        &mut self,
        batches: &[(usize, Option<i64>)],
        roll_at: usize,
    ) -> Option<(i64, LogError)> {
        let mut refused = None;
        for (at, (bytes, producer)) in batches.iter().enumerate() {
            if at == roll_at {
                let result = self.log.roll();
                self.excused(result)?;
            }
            let producer = producer.map(|id| (id, self.next_sequence(id)));
            let (mut batch, mut values) = self.batch(1, *bytes, producer);
            let offset = self.end();
            let (epoch, now_ms) = (self.epoch, self.clock_ms);
            let appended = self.log.try_append(
                &mut batch,
                epoch,
                Origin::Client,
                NO_GUARD,
                now_ms,
                When::InTurn,
            );
            let appended = appended
                .unwrap_or_else(|| self.log.append(&mut batch, epoch, Origin::Client, now_ms));
            self.entries.push(Entry {
                offset,
                value: values.remove(0),
                epoch,
                producer,
                content: Content::of(producer),
                batch: (offset, offset),
            });
            match appended {
                Ok(info) => assert_eq!((info.base_offset, info.is_duplicate), (offset, false)),
                // It may be there or not, and so may those before it; the turn's end tells.
                Err(error) => {
                    assert!(self.broken, "the disk works, but: {error}");
                    refused = Some((offset, error));
                    break;
                }
            }
        }
        let turn = self.log.write_staged();
        assert_eq!(turn.end_offset, self.log.end_offset());
        let lost = turn.lost.or(refused);
        if lost.is_none() {
            assert_eq!(turn.end_offset, self.end());
        }
        lost
    }

    fn end_transaction(&mut self, producer: i64, commit: bool) -> super::error::Result<()> {
        let outcome = if commit {
            Outcome::Commit
        } else {
            Outcome::Abort
        };
        let marker = Marker {
            outcome,
            coordinator_epoch: self.epoch,
        };
        let mut batch = marker.batch(producer, 0, self.clock_ms)?;
        let offset = self.end();
        self.entries.push(Entry {
            offset,
            value: [&[0, 0], &self.epoch.to_be_bytes()[..]].concat(),
            epoch: self.epoch,
            producer: None,
            content: Content::Marker(producer, commit),
            batch: (offset, offset),
        });
        let appended =
            self.log
                .append(&mut batch, self.epoch, Origin::Coordinator, self.clock_ms)?;
        assert_eq!(appended.base_offset, offset);
        Ok(())
    }

    fn retry(&mut self, producer: i64) {
        let Some(last) = self
            .entries
            .iter()
            .rposition(|entry| entry.producer.is_some_and(|(id, _)| id == producer))
        else {
            return;
        };
        let batch = self.entries[last].batch;
        let first = self
            .entries
            .iter()
            .position(|entry| entry.offset == batch.0);
        let Some(first) = first else { return };
        let sequence = self.entries[first].producer.map(|(_, sequence)| sequence);
        let records = (batch.1 - batch.0 + 1) as usize;
        let (mut bytes, _) = self.batch(records, 0, sequence.map(|sequence| (producer, sequence)));
        let result = self
            .log
            .append(&mut bytes, self.epoch, Origin::Client, self.clock_ms);
        if let Some(info) = self.excused(result) {
            assert_eq!(
                (info.base_offset, info.last_offset, info.is_duplicate),
                (batch.0, batch.1, true)
            );
        }
    }

    /// The process ends without a word and starts again.
    fn crash_and_reopen(&mut self) {
        self.reopen(false);
    }

    fn reopen(&mut self, clean: bool) {
        let hints = Hints {
            clean,
            recovery_point: self.log.flushed_offset().min(self.durable),
            start_offset: self.start,
            high_watermark: 0,
            cleaned_offset: None,
        };
        let log = match open(&self.storage, hints) {
            Err(error) if self.broken => {
                drop(error);
                self.storage.repair();
                self.broken = false;
                open(
                    &self.storage,
                    Hints {
                        clean: false,
                        ..hints
                    },
                )
                .unwrap()
            }
            other => other.unwrap(),
        };
        self.log = log;
        let end = self.log.end_offset();
        assert!(
            end >= self.durable,
            "{end} records are left, {} were flushed",
            self.durable
        );
        assert!(
            end <= self.end(),
            "{end} records, {} were appended",
            self.end()
        );
        if clean {
            assert_eq!(end, self.end());
        }
        self.entries.retain(|entry| entry.offset < end);
        // What is exposed is durable.
        self.durable = self.durable.max(end);
        self.epoch += 1;
        let result = self.log.begin_epoch(self.epoch);
        self.excused(result);
    }

    /// Everything that can be asked.
    fn check(&mut self) {
        if self.broken {
            return;
        }
        let (log, entries) = (&self.log, &self.entries);
        assert_eq!(log.end_offset(), self.end());
        assert_eq!(log.start_offset(), self.start);
        assert!(log.flushed_offset() <= self.end());
        assert_eq!(&read_all(log, self.start), entries);
        for entry in entries.iter().step_by(3) {
            // The batch that contains the offset comes whole, even if it is larger than asked for.
            let info = log.read(entry.offset, 1, i64::MAX, true).unwrap();
            let bytes = info.slice.unwrap().read().unwrap();
            let first = Batches::new(&bytes).next().unwrap().unwrap();
            assert_eq!(
                (first.header.base_offset, first.header.last_offset()),
                entry.batch
            );
            // Nothing at or after the upper bound.
            let bounded = log.read(self.start, u64::MAX, entry.batch.0, true).unwrap();
            if let Some(slice) = bounded.slice {
                let bytes = slice.read().unwrap();
                let last = Batches::new(&bytes)
                    .last()
                    .unwrap()
                    .unwrap()
                    .header
                    .last_offset();
                assert!(
                    last < entry.batch.0,
                    "{last} is beyond the bound {}",
                    entry.batch.0
                );
            }
            assert_eq!(
                log.epoch_of(entry.offset),
                entry.epoch,
                "the epoch of {}",
                entry.offset
            );
        }
        model_transactions::check(log, &self.deleted, entries);
        for id in (0..3).chain(in_transactions()) {
            if let Some(last) = self.last_sequence(id) {
                assert_eq!(self.known_sequence(id), last, "producer {id}");
            }
        }
    }
}

fn read_all(log: &Log, start: i64) -> Vec<Entry> {
    let (mut entries, mut offset, mut scratch) = (Vec::new(), start, Scratch::default());
    while let Some(slice) = log.read(offset, 700, i64::MAX, true).unwrap().slice {
        let bytes = slice.read().unwrap();
        for batch in Batches::new(&bytes).map_while(Result::ok) {
            let Batch { header, .. } = batch;
            for record in Records::new(&batch, &Limits::default(), &mut scratch).unwrap() {
                let record = record.unwrap();
                if record.offset >= start {
                    let at = (record.offset - header.base_offset) as i32;
                    let content = match (header.is_control(), header.is_transactional()) {
                        (true, _) => {
                            Content::Marker(header.producer_id, record.key.unwrap()[3] == 1)
                        }
                        (false, true) => Content::Transactional(header.producer_id),
                        (false, false) => Content::Plain,
                    };
                    entries.push(Entry {
                        offset: record.offset,
                        value: record.value.unwrap().to_vec(),
                        epoch: header.leader_epoch,
                        content,
                        producer: (header.has_producer_id() && !header.is_control())
                            .then(|| (header.producer_id, header.base_sequence + at)),
                        batch: (header.base_offset, header.last_offset()),
                    });
                }
            }
            offset = header.last_offset() + 1;
        }
    }
    entries
}

/// A power cut may leave any part of the last batches: cut off at every byte, the log is the batches that are whole.
#[test]
fn a_log_of_transactions_cut_at_every_byte() {
    let mut model = Model::new();
    for round in 0..14 {
        model.run(&Step::Append {
            records: 1 + round % 2,
            bytes: round,
            producer: Some(IN_TRANSACTIONS + round as i64 % 3),
        });
        if round % 2 == 1 {
            model.run(&Step::End {
                producer: IN_TRANSACTIONS + round as i64 * 2 % 3,
                commit: round % 4 == 1,
            });
        }
    }
    model.check();
    let segments = model.log.segments();
    assert_eq!(segments.len(), 1);
    model.log.close(true).unwrap();
    let folder = Path::new(ROOT).join("t-0");
    let files: Vec<_> = model
        .storage
        .list(&folder)
        .unwrap()
        .into_iter()
        .map(|file| {
            let path = folder.join(file.name);
            let bytes = (&model.storage as &dyn Storage)
                .read(&path, u64::MAX)
                .unwrap();
            (path, bytes)
        })
        .collect();
    for cut in 0..=segments[0].size_bytes() {
        let storage = FaultyStorage::new();
        storage.create_directory(Path::new(ROOT)).unwrap();
        storage.create_directory(&folder).unwrap();
        for (path, bytes) in &files {
            let is_log = path.extension().is_some_and(|extension| extension == "log");
            let length = if is_log { cut as usize } else { bytes.len() };
            let file = storage.open(path, Mode::Create).unwrap();
            file.write_at(&bytes[..length], 0).unwrap();
        }
        let log = open(&storage, Hints::default()).unwrap();
        let end = log.end_offset();
        let left = model.entries.iter().filter(|entry| entry.offset < end);
        let left: Vec<_> = left.cloned().collect();
        assert_eq!(read_all(&log, 0), left);
        let whole = left.last().map_or(0, |last| last.batch.1 + 1);
        assert_eq!(end, whole, "cut at {cut}");
        model_transactions::check(&log, &[], &left);
    }
}

fn run(steps: &[Step]) {
    let mut model = Model::new();
    for step in steps {
        model.run(step);
        model.check();
    }
}

/// `OTTLA_CASES=100000 cargo test ... the_log_is_its_model` for a long run.
fn cases() -> u32 {
    let given = std::env::var("OTTLA_CASES").ok();
    given.map_or(200, |cases| cases.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(),
        failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_log_is_its_model(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps);
    }
}

/// Runs that once showed a fault, as they shrank.
mod found {
    use super::{Step, run};

    /// The marker of a transaction was deleted with the log's front; a snapshot from before it stayed, and called the transaction open.
    #[test]
    fn a_snapshot_from_before_the_start() {
        run(&[
            Step::Turn {
                batches: vec![(8, None), (68, None), (0, None)],
                roll_at: 2,
            },
            Step::PowerCut {
                seed: 5950297720529727247,
            },
            Step::Append {
                records: 4,
                bytes: 91,
                producer: None,
            },
            Step::End {
                producer: 10,
                commit: false,
            },
            Step::Turn {
                batches: vec![(159, None), (146, None), (188, None)],
                roll_at: 3,
            },
            Step::Reopen { clean: false },
            Step::Turn {
                batches: vec![(163, Some(10)), (72, None), (6, None), (40, None)],
                roll_at: 3,
            },
            Step::End {
                producer: 10,
                commit: false,
            },
            Step::Flush,
            Step::PowerCut { seed: 0 },
            Step::PowerCut {
                seed: 55831177487560954,
            },
            Step::Append {
                records: 1,
                bytes: 2,
                producer: None,
            },
            Step::Reopen { clean: true },
            Step::Append {
                records: 5,
                bytes: 29,
                producer: None,
            },
            Step::Append {
                records: 2,
                bytes: 171,
                producer: None,
            },
            Step::FullTurn {
                batches: vec![(0, None), (0, None)],
                tear: false,
            },
            Step::DeleteBefore { part: 189 },
            Step::Append {
                records: 5,
                bytes: 173,
                producer: None,
            },
            Step::PowerCut {
                seed: 3209718930591513839,
            },
        ]);
    }

    /// A truncation forgot what stood before the log's start, a recovery remembered it: a new batch was taken for an old one.
    #[test]
    fn producers_from_before_the_start() {
        run(&[
            Step::Turn {
                batches: vec![(0, Some(0)), (0, Some(0))],
                roll_at: 0,
            },
            Step::Append {
                records: 1,
                bytes: 0,
                producer: None,
            },
            Step::DeleteBefore { part: 170 },
            Step::Truncate { part: 0 },
            Step::Turn {
                batches: vec![(0, Some(0))],
                roll_at: 0,
            },
            Step::Reopen { clean: false },
            Step::Turn {
                batches: vec![(0, Some(0))],
                roll_at: 0,
            },
        ]);
    }

    /// A clean stop left a truncation of the transaction index to the operating system, and a power cut undid it.
    #[test]
    fn a_truncation_before_a_clean_stop() {
        run(&[
            Step::NextEpoch,
            Step::End {
                producer: 10,
                commit: false,
            },
            Step::Reopen { clean: false },
            Step::Truncate { part: 0 },
            Step::Reopen { clean: true },
            Step::Append {
                records: 5,
                bytes: 101,
                producer: None,
            },
            Step::Turn {
                batches: vec![(162, None), (175, None), (35, None)],
                roll_at: 0,
            },
            Step::Turn {
                batches: vec![(0, None)],
                roll_at: 0,
            },
            Step::Reopen { clean: true },
            Step::PowerCut {
                seed: 8049101134475641555,
            },
        ]);
    }
}
