//! A log on a breaking disk against a list in memory.
//!
//! The list says what was appended; the log must agree after any sequence of appends, truncations, rolls, deletions, clean and unclean
//! reopenings, power cuts and failing operations. After a power cut the log may be shorter, but never shorter than what was flushed, and
//! never anything but a prefix of the list.

use std::path::Path;
use std::sync::Arc;

use super::entries::{Content, Entry, read_all};
use super::seeds::{self, choices};
use super::steps::{IN_TRANSACTIONS, Sent, Step, in_transactions, step};
use super::{rebuilt, transactions};
use crate::log::append::When;
use crate::log::error::Result;
use crate::log::leader_epochs::EpochStart;
use crate::log::log::{OpenMode, Writer};
use crate::log::opening::Hints;
use crate::log::verification::NO_GUARD;
use crate::log::verify::verify;
use crate::log::{AppendOrigin, Home, Log, LogConfig, LogError};
use crate::records::{BatchBuilder, BatchOptions, Batches, Marker, Outcome, stamp};
use crate::storage::faulty::{Fault, Operation};
use crate::storage::{FaultyStorage, Storage};

pub struct Model {
    pub storage: FaultyStorage,
    pub log: Arc<Log>,
    pub entries: Vec<Entry>,
    /// The entries that were deleted from the front.
    deleted: Vec<Entry>,
    /// The entries that were cut off while the disk may not know of it: a power cut may bring them
    /// back.
    cut_off: Vec<Entry>,
    start: i64,
    /// The offset before which a power cut must not take anything.
    durable: i64,
    /// The durable start offset, as the directory's checkpoint would have it.
    epoch: i32,
    clock_ms: i64,
    unique: u64,
    /// An operation may have failed: the disk's errors are to be expected.
    broken: bool,
    /// The power is about to go; with this seed then.
    dying: Option<u64>,
    /// How often it went.
    pub power_cuts: usize,
}

/// How a log stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Clean,
    /// The process ended without a word.
    Crash,
    PowerCut {
        seed: u64,
    },
}

pub const ROOT: &str = "/data";
pub const FOLDER: &str = "/data/t-0";

pub fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 2000,
        index_interval_bytes: 300,
        segment_index_bytes: 120,
        file_delete_delay_ms: 0,
        producer_id_expiration_ms: i64::MAX,
        ..LogConfig::default()
    }
}

pub fn open(storage: &FaultyStorage, hints: Hints) -> Result<Arc<Log>> {
    let home = Home::quiet(Arc::new(storage.clone()), Path::new(ROOT));
    Log::open(&home, "t-0", config(), hints, OpenMode::Append)
}

impl Model {
    pub fn new() -> Self {
        let storage = FaultyStorage::new();
        storage.create_directory(Path::new(ROOT)).unwrap();
        storage.create_directory(Path::new(FOLDER)).unwrap();
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
            cut_off: Vec::new(),
            start: 0,
            durable: 0,
            epoch: 0,
            clock_ms: 1_000_000,
            unique: 0,
            broken: false,
            dying: None,
            power_cuts: 0,
        }
    }

    fn end(&self) -> i64 {
        self.entries
            .last()
            .map_or(self.start, |last| last.offset + 1)
    }

    /// The last sequence number that the log knows of a producer; -1 if it knows none.
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
    fn excused<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(
                error @ (LogError::Io { .. } | LogError::Offline { .. } | LogError::Corrupt { .. }),
            ) => {
                assert!(self.broken, "the disk works, but: {error}");
                self.reopen(Stop::Crash);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub fn run(&mut self, step: &Step) {
        self.take(step);
        if self.log.writer.lock().unsettled.is_none() {
            self.cut_off.clear();
        }
        // Producers, aborted transactions and epochs are what the batches that are left give, however they came to be left.
        let takes_away = matches!(
            step,
            Step::Truncate { .. }
                | Step::CutOfMany { .. }
                | Step::DeleteBefore { .. }
                | Step::Reopen { .. }
        );
        if takes_away && !self.broken {
            let hints = Hints {
                start_offset: self.start,
                ..Hints::default()
            };
            rebuilt::check(&self.storage, &self.log, hints);
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Append {
                records,
                bytes,
                producer,
            } => {
                let producer = producer.map(|id| (id, self.next_sequence(id)));
                let (mut batch, values) = self.batch(records, bytes, producer);
                let before = self.end();
                let result =
                    self.log
                        .append(&mut batch, self.epoch, AppendOrigin::Client, self.clock_ms);
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
            Step::Fetch { ref batches } => self.fetch(batches),
            Step::Follow => {
                self.epoch += 1;
                self.log.fence(self.epoch).unwrap();
            }
            Step::CutOfMany { part } => {
                let (offset, kept) = self.kept(part);
                let cut = |log: &Log, writer: &mut Writer| log.cut(writer, offset);
                let result = self.log.under_epoch(Some(self.epoch), cut);
                if result.is_ok() {
                    let mut cut_off = self.entries.split_off(kept);
                    cut_off.append(&mut self.cut_off);
                    self.cut_off = cut_off;
                }
                let kept_end = self
                    .entries
                    .get(kept)
                    .map_or(self.end(), |entry| entry.offset);
                self.durable = self.durable.min(kept_end);
                self.excused(result);
            }
            Step::Truncate { part } => {
                let (offset, kept) = self.kept(part);
                if !self.broken {
                    let refused = self.log.truncate_to(offset, Some(self.epoch - 1));
                    assert!(matches!(refused, Err(LogError::OtherEpoch { .. })));
                }
                let result = self.log.truncate_to(offset, Some(self.epoch));
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
                    return self.reopen(Stop::Crash);
                }
                let result = self.log.close(true);
                if self.excused(result).is_some() {
                    self.durable = self.end();
                    self.reopen(Stop::Clean);
                }
            }
            Step::PowerCut { seed } => {
                self.reopen(Stop::PowerCut { seed });
            }
            Step::PowerLoss { changes, seed } => {
                if !self.broken {
                    self.storage.lose_power_after(changes);
                    self.dying = Some(seed);
                    self.broken = true;
                }
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

    /// Where a cut is made, and how many entries are left: it goes by whole batches.
    fn kept(&self, part: u8) -> (i64, usize) {
        let offset = self.start + (self.end() - self.start) * i64::from(part) / 255;
        let mut entries = self.entries.iter();
        let first = entries.position(|entry| entry.batch.1 >= offset);
        let kept = first.filter(|_| offset < self.end());
        (offset, kept.unwrap_or(self.entries.len()))
    }

    /// Appends batches as a follower: the first as old as what is there, the others of this epoch.
    fn fetch(&mut self, batches: &[Sent]) {
        let first = self.end();
        // What its table has of newer ones a follower has cut off before it fetches. No leader sends an older epoch than that
        // of records before these, also where they were deleted since and the table is empty.
        let before = self.deleted.last().map_or(0, |entry| entry.epoch);
        let mut epoch = self.log.leader_epoch().max(before);
        let mut bytes = Vec::new();
        for sent in batches {
            let producer = sent.producer.map(|id| (id, self.next_sequence(id)));
            let (mut batch, values) = self.batch(sent.records, sent.bytes, producer);
            let base = self.end();
            stamp(&mut batch, base, epoch, None);
            bytes.append(&mut batch);
            let last = base + sent.records as i64 - 1;
            let numbered = |at: usize| producer.map(|(id, sequence)| (id, sequence + at as i32));
            let entries = values.into_iter().enumerate().map(|(at, value)| Entry {
                offset: base + at as i64,
                value,
                epoch,
                producer: numbered(at),
                content: Content::of(producer),
                batch: (base, last),
            });
            self.entries.extend(entries);
            epoch = self.epoch;
            if let Some((id, commit)) = sent.producer.zip(sent.commit)
                && id >= IN_TRANSACTIONS
            {
                let mut marker = self.marker(id, commit);
                stamp(&mut marker, last + 1, epoch, None);
                bytes.append(&mut marker);
            }
        }
        let (now_ms, epoch) = (self.clock_ms, self.epoch);
        if !self.broken {
            for (named, refused) in [(epoch - 1, 6), (epoch + 1, 6)] {
                let appended = self.log.append_as_follower(&bytes, named, now_ms);
                assert_eq!(appended.unwrap_err().code(), refused);
            }
            assert_eq!(self.log.end_offset(), first);
        }
        let result = self.log.append_as_follower(&bytes, epoch, now_ms);
        let last = self.end() - 1;
        if let Some(info) = self.excused(result) {
            assert_eq!((info.base_offset, info.last_offset), (first, last));
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
                AppendOrigin::Client,
                NO_GUARD,
                now_ms,
                When::InTurn,
            );
            let appended = appended.unwrap_or_else(|| {
                self.log
                    .append(&mut batch, epoch, AppendOrigin::Client, now_ms)
            });
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

    fn end_transaction(&mut self, producer: i64, commit: bool) -> Result<()> {
        let offset = self.end();
        let mut batch = self.marker(producer, commit);
        let appended = self.log.append(
            &mut batch,
            self.epoch,
            AppendOrigin::Coordinator,
            self.clock_ms,
        )?;
        assert_eq!(appended.base_offset, offset);
        Ok(())
    }

    /// The marker that ends a transaction, noted as the next entry.
    fn marker(&mut self, producer: i64, commit: bool) -> Vec<u8> {
        let outcome = if commit {
            Outcome::Commit
        } else {
            Outcome::Abort
        };
        let marker = Marker {
            outcome,
            coordinator_epoch: self.epoch,
        };
        let batch = marker.batch(producer, 0, self.clock_ms).unwrap();
        let offset = self.end();
        self.entries.push(Entry {
            offset,
            value: [&[0, 0], &self.epoch.to_be_bytes()[..]].concat(),
            epoch: self.epoch,
            producer: None,
            content: Content::Marker(producer, commit),
            batch: (offset, offset),
        });
        batch
    }

    /// Everything that may have been in flight is sent again: the last five batches.
    fn retry(&mut self, producer: i64) {
        let mut batches: Vec<((i64, i64), i32)> = Vec::new();
        for entry in &self.entries {
            match entry.producer {
                Some((id, sequence)) if id == producer && entry.offset == entry.batch.0 => {
                    batches.push((entry.batch, sequence));
                }
                _ => {}
            }
        }
        for (batch, sequence) in batches.split_off(batches.len().saturating_sub(5)) {
            let records = (batch.1 - batch.0 + 1) as usize;
            let (mut bytes, _) = self.batch(records, 0, Some((producer, sequence)));
            let result =
                self.log
                    .append(&mut bytes, self.epoch, AppendOrigin::Client, self.clock_ms);
            let Some(info) = self.excused(result) else {
                return;
            };
            assert_eq!(
                (info.base_offset, info.last_offset, info.is_duplicate),
                (batch.0, batch.1, true)
            );
        }
    }

    /// Repairs what is broken; if the power is gone, or about to go, it goes and comes back.
    fn repair(&mut self) -> Option<Stop> {
        let dying = self.dying.take();
        let is_dead = self.storage.is_dead();
        self.storage.repair();
        self.broken = false;
        dying.filter(|_| is_dead).map(|seed| {
            self.cut(seed);
            Stop::PowerCut { seed }
        })
    }

    fn cut(&mut self, seed: u64) {
        self.storage.power_cut(&mut choices(seed));
        self.power_cuts += 1;
    }

    fn reopen(&mut self, stop: Stop) {
        let mut stop = stop;
        // A failure of the disk may have kept a crash from being the end of what was appended, and a clean stop from being one.
        let was_broken = self.broken;
        match stop {
            Stop::PowerCut { seed } => {
                self.dying = None;
                self.repair();
                self.cut(seed);
            }
            Stop::Crash if was_broken => stop = self.repair().unwrap_or(stop),
            Stop::Clean | Stop::Crash => {}
        }
        let hints = Hints {
            clean: stop == Stop::Clean,
            recovery_point: self.log.flushed_offset().min(self.durable),
            start_offset: self.start,
            high_watermark: 0,
            cleaned_offset: None,
        };
        let unclean = Hints {
            clean: false,
            ..hints
        };
        let log = match open(&self.storage, hints) {
            Err(error) if self.broken => {
                drop(error);
                stop = self.repair().unwrap_or(stop);
                open(&self.storage, unclean).unwrap()
            }
            other => other.unwrap(),
        };
        let may_be_back =
            matches!(stop, Stop::PowerCut { .. }) && self.log.writer.lock().unsettled.is_some();
        let cut_off = std::mem::take(&mut self.cut_off);
        if let Some(first) = cut_off.first().filter(|_| may_be_back) {
            // Nothing was written over it: that would have made the cut durable first.
            self.entries.retain(|entry| entry.offset < first.offset);
            self.entries.extend(cut_off);
        }
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
        if !was_broken && !matches!(stop, Stop::PowerCut { .. }) {
            assert_eq!(end, self.end(), "only the power takes what was appended");
        }
        self.entries.retain(|entry| entry.offset < end);
        // What is exposed is durable.
        self.durable = self.durable.max(end);
        if let Stop::PowerCut { seed } = stop {
            self.expose_and_cut_again(seed, unclean);
        }
        self.epoch += 1;
        let result = self.log.begin_epoch(self.epoch);
        self.excused(result);
    }

    /// Checks that entries which were shown after a recovery stay, whatever the next power cut
    /// takes (KAFKA-10101).
    fn expose_and_cut_again(&mut self, seed: u64, hints: Hints) {
        if self.broken {
            return;
        }
        let shown = self.shown();
        self.check_files();
        rebuilt::check(&self.storage, &self.log, hints);
        self.cut(seed.wrapping_add(1));
        self.log = open(&self.storage, hints).unwrap();
        assert_eq!(self.shown(), shown, "a second power cut changed it");
        self.check_files();
    }

    /// The state that anybody can learn of the log: entries, start offset, and producers.
    #[allow(clippy::type_complexity)]
    fn shown(&self) -> (Vec<Entry>, i64, Vec<(i64, i16, i32, Option<i64>)>) {
        let writer = self.log.writer.lock();
        let producers = writer.producers.producers();
        let mut producers: Vec<_> = producers
            .map(|(id, of)| (id, of.epoch, of.last_sequence(), of.transaction_start))
            .collect();
        producers.sort_unstable();
        drop(writer);
        let (start, end) = (self.log.start_offset(), self.log.end_offset());
        (read_all(&self.log, start), end, producers)
    }

    /// A tool that reads the folder finds nothing wrong. Snapshots are written without an fsync: a power cut may take them.
    fn check_files(&self) {
        let storage: Arc<dyn Storage> = Arc::new(self.storage.clone());
        let mut damage = verify(&storage, Path::new(FOLDER)).unwrap().damage;
        damage.retain(|damage| {
            damage
                .path
                .extension()
                .is_none_or(|kind| kind != "snapshot")
        });
        assert_eq!(damage, []);
    }

    /// Everything that can be asked.
    pub fn check(&mut self) {
        if self.broken {
            return;
        }
        let (log, entries) = (&self.log, &self.entries);
        assert_eq!(log.end_offset(), self.end());
        assert_eq!(log.start_offset(), self.start);
        assert!(log.flushed_offset() <= self.end());
        let epochs = log.leader_epochs();
        let beyond = |of: &EpochStart| of.start_offset > self.end();
        assert!(!epochs.entries().iter().any(beyond), "{epochs:?}");
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
        transactions::check(log, &self.deleted, entries);
        for id in (0..3).chain(in_transactions()) {
            if let Some(last) = self.last_sequence(id) {
                assert_eq!(self.known_sequence(id), last, "producer {id}");
            }
        }
    }
}

pub fn run(steps: &[Step]) {
    let mut model = Model::new();
    for step in steps {
        model.run(step);
        model.check();
    }
}

#[test]
fn the_log_is_its_model() {
    seeds::property(200, proptest::collection::vec(step(), 1..60), |steps| {
        run(&steps);
    });
}
