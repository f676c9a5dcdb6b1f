//! Compaction against a model: the last value of each key, whatever is appended, cleaned, broken and opened again in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::{CleanReport, Cleaner, CleanerSettings};
use crate::log::error::Result;
use crate::log::faults::seeds::{self, choices};
use crate::log::log::OpenMode;
use crate::log::opening::Hints;
use crate::log::verify::verify;
use crate::log::{AppendOrigin, Home, Log, LogConfig, LogError};
use crate::records::compression::Compressor;
use crate::records::message_builder::MessageBuilder;
use crate::records::{
    AbortedTransaction, AbortedTransactions, BatchBuilder, BatchHeader, BatchOptions, Batches,
    Codec, Limits, Marker, Outcome, Records, Scratch,
};
use crate::storage::faulty::Fault;
use crate::storage::{FaultyStorage, Storage};

const ROOT: &str = "/data";
const FOLDER: &str = "/data/t-0";

pub fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 600,
        index_interval_bytes: 100,
        file_delete_delay_ms: 0,
        producer_id_expiration_ms: i64::MAX,
        compact: true,
        delete: false,
        delete_retention_ms: i64::MAX,
        ..LogConfig::default()
    }
}

fn settings() -> CleanerSettings {
    CleanerSettings {
        map_bytes: 1 << 20,
        map_load_factor: 0.9,
        io_bytes: 1000,
        bytes_per_second: f64::MAX,
    }
}

/// One record as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    offset: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp_ms: i64,
}

/// Keys with small numbers, so that they come again.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Append {
        keys: Vec<u8>,
        tombstones: bool,
        producer: Option<i64>,
        codec: Codec,
    },
    /// By one of two transactional producers.
    Transaction {
        keys: Vec<u8>,
        producer: i64,
    },
    End {
        producer: i64,
        outcome: Outcome,
    },
    Roll,
    /// With a map of so many keys at most. `forgets`: tombstones and markers have been kept for long enough.
    Clean {
        keys_max: usize,
        forgets: bool,
    },
    /// To a part of what was appended since the last cleaning: what is before was on all replicas. `deep`: to a part of all, as after an unclean election.
    Truncate {
        part: u8,
        deep: bool,
    },
    DeleteBefore {
        part: u8,
    },
    Reopen {
        clean: bool,
    },
    PowerCut {
        seed: u64,
    },
    /// The disk takes so many more changes; in the middle of whatever comes next, the power goes.
    PowerLoss {
        changes: u64,
        seed: u64,
    },
    Flush,
    /// Cleaning meets a failing disk after so many operations.
    Break {
        skip: u64,
        tear: bool,
        power_cut: u64,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let codec = prop_oneof![3 => Just(Codec::None), 1 => Just(Codec::Lz4), 1 => Just(Codec::Zstd)];
    let keys = || prop::collection::vec(0..12u8, 1..6);
    let outcome = prop_oneof![Just(Outcome::Abort), Just(Outcome::Commit)];
    let producer = prop::option::of(0..3i64);
    prop_oneof![
        12 => (keys(), prop::bool::weighted(0.2), producer, codec)
            .prop_map(|(keys, tombstones, producer, codec)| Step::Append { keys, tombstones, producer, codec }),
        5 => (keys(), 10..12i64).prop_map(|(keys, producer)| Step::Transaction { keys, producer }),
        4 => (10..12i64, outcome).prop_map(|(producer, outcome)| Step::End { producer, outcome }),
        1 => Just(Step::Roll),
        3 => (prop_oneof![1 => 1..6usize, 2 => Just(1000)], any::<bool>())
            .prop_map(|(keys_max, forgets)| Step::Clean { keys_max, forgets }),
        2 => (any::<u8>(), prop::bool::weighted(0.3)).prop_map(|(part, deep)| Step::Truncate { part, deep }),
        1 => any::<u8>().prop_map(|part| Step::DeleteBefore { part: part / 2 }),
        1 => any::<bool>().prop_map(|clean| Step::Reopen { clean }),
        1 => any::<u64>().prop_map(|seed| Step::PowerCut { seed }),
        2 => (0..40u64, any::<u64>()).prop_map(|(changes, seed)| Step::PowerLoss { changes, seed }),
        1 => Just(Step::Flush),
        1 => (0..60u64, any::<bool>(), any::<u64>())
            .prop_map(|(skip, tear, power_cut)| Step::Break { skip, tear, power_cut }),
    ]
}

pub(super) struct Model {
    pub storage: FaultyStorage,
    log: Arc<Log>,
    /// Everything that was ever appended and is not lost.
    entries: Vec<Entry>,
    /// Which of them are part of a transaction: offset to producer.
    transactional: BTreeMap<i64, i64>,
    /// The ends of transactions, by the marker's offset.
    markers: BTreeMap<i64, (i64, Outcome)>,
    durable: i64,
    /// No cleaning, not even one that failed, went further.
    attempted: i64,
    /// The high watermark of the last cleaning.
    committed: i64,
    /// A truncation took what was committed. A snapshot may tell of a producer's batch that was cleaned away, because another followed; and of a
    /// transaction that is open again.
    lost_committed: bool,
    sequences: BTreeMap<i64, i32>,
    clock_ms: i64,
    epoch: i32,
    /// The power is about to go; with this seed then.
    dying: Option<u64>,
    /// Where the cleaner's checkpoint stood when the log was opened.
    checkpointed: Option<i64>,
    /// The offset from which on the log was to be cut off.
    cut_from: i64,
}

fn open(storage: &FaultyStorage, hints: Hints) -> Result<Arc<Log>> {
    let home = Home::quiet(Arc::new(storage.clone()), Path::new(ROOT));
    Log::open(&home, "t-0", config(), hints, OpenMode::Append)
}

impl Model {
    pub fn new() -> Self {
        let storage = FaultyStorage::new();
        for path in [ROOT, FOLDER] {
            storage.create_directory(Path::new(path)).unwrap();
        }
        for path in ["/", ROOT] {
            storage.sync_directory(Path::new(path)).unwrap();
        }
        let hints = Hints {
            clean: true,
            ..Hints::default()
        };
        let log = open(&storage, hints).unwrap();
        log.begin_epoch(0).unwrap();
        log.flush().unwrap();
        Self {
            storage,
            log,
            entries: Vec::new(),
            transactional: BTreeMap::new(),
            markers: BTreeMap::new(),
            durable: 0,
            attempted: 0,
            committed: 0,
            lost_committed: false,
            sequences: BTreeMap::new(),
            clock_ms: 1_000_000,
            epoch: 0,
            dying: None,
            checkpointed: None,
            cut_from: i64::MAX,
        }
    }

    /// An error if the power went in what was just done, even if that did not notice.
    fn alive(&self) -> Result<()> {
        if self.storage.is_dead() {
            return Err(LogError::CleaningStopped("the power went"));
        }
        Ok(())
    }

    fn append(&mut self, keys: &[u8], tombstones: bool, producer: Option<i64>, codec: Codec) {
        self.try_append(keys, tombstones, producer, codec).unwrap();
    }

    fn try_append(
        &mut self,
        keys: &[u8],
        tombstones: bool,
        producer: Option<i64>,
        codec: Codec,
    ) -> Result<()> {
        let mut options = BatchOptions {
            codec,
            ..BatchOptions::default()
        };
        if let Some(id) = producer {
            options.producer_id = id;
            options.producer_epoch = 0;
            options.transactional = id >= 10;
            options.base_sequence = *self.sequences.get(&id).unwrap_or(&0);
            self.sequences
                .insert(id, options.base_sequence + keys.len() as i32);
        }
        let mut builder = BatchBuilder::new(options);
        let first = self.log.end_offset();
        for (at, key) in keys.iter().enumerate() {
            self.clock_ms += 1;
            let offset = first + at as i64;
            let entry = Entry {
                offset,
                key: Some(vec![*key; 3]),
                value: (!tombstones).then(|| format!("{offset};").repeat(9).into_bytes()),
                timestamp_ms: self.clock_ms,
            };
            builder
                .append(
                    self.clock_ms,
                    entry.key.as_deref(),
                    entry.value.as_deref(),
                    &[],
                )
                .unwrap();
            if options.transactional {
                self.transactional.insert(offset, options.producer_id);
            }
            self.entries.push(entry);
        }
        let mut batch = builder.finish().unwrap();
        self.log
            .append(&mut batch, self.epoch, AppendOrigin::Client, self.clock_ms)?;
        Ok(())
    }

    fn end(&mut self, producer: i64, outcome: Outcome) {
        self.try_end(producer, outcome).unwrap();
    }

    fn try_end(&mut self, producer: i64, outcome: Outcome) -> Result<()> {
        let marker = Marker {
            outcome,
            coordinator_epoch: 0,
        };
        self.clock_ms += 1;
        let mut batch = marker.batch(producer, 0, self.clock_ms).unwrap();
        let offset = self.log.end_offset();
        // One that is not there afterwards is forgotten.
        self.markers.insert(offset, (producer, outcome));
        let (log, origin) = (&self.log, AppendOrigin::Coordinator);
        log.append(&mut batch, self.epoch, origin, self.clock_ms)?;
        Ok(())
    }

    /// The entries that readers of committed records should see: the records before the last stable
    /// offset that no transaction took back.
    fn committed(&self) -> Vec<Entry> {
        let stable = self.log.last_stable_offset();
        let is_aborted = |offset: i64| {
            let producer = self.transactional.get(&offset);
            let mut later = self.markers.range(offset..);
            producer
                .and_then(|producer| later.find(|(_, (other, _))| other == producer))
                .is_some_and(|(_, (_, outcome))| *outcome == Outcome::Abort)
        };
        let start = self.log.start_offset();
        let visible =
            |entry: &&Entry| (start..stable).contains(&entry.offset) && !is_aborted(entry.offset);
        self.entries.iter().filter(visible).cloned().collect()
    }

    /// Where the first transaction begins that has not ended.
    fn stable(&self) -> i64 {
        let is_open = |(offset, producer): &(&i64, &i64)| {
            let mut later = self.markers.range(**offset..);
            !later.any(|(_, (other, _))| other == *producer)
        };
        let open = self.transactional.iter().find(is_open);
        let start = self.log.start_offset();
        open.map_or(self.log.end_offset(), |(offset, _)| (*offset).max(start))
    }

    fn clean(&mut self, keys_max: usize) -> Result<Option<CleanReport>> {
        self.log.set_high_watermark(self.log.end_offset());
        let Some(cleanable) = self.log.cleanable(self.clock_ms)? else {
            return Ok(None);
        };
        let cleaner = Cleaner::new(CleanerSettings {
            // As many keys as asked for, and the room behind the end of the table; a byte of each is bits for offsets.
            map_bytes: 21 * (keys_max as u64 + 1024),
            map_load_factor: 1.0,
            ..settings()
        });
        let (from, to) = (
            cleanable.first_dirty_offset,
            cleanable.first_uncleanable_offset,
        );
        if from >= to {
            let before = self.log.size_bytes();
            let report = self.log.clean(&cleaner, from, to)?;
            assert_eq!((report.end_offset, report.segments_read), (from, 0));
            assert_eq!(self.log.size_bytes(), before);
            return Ok(None);
        }
        self.attempted = self.attempted.max(to);
        self.committed = self.log.end_offset();
        let report = self.log.clean(&cleaner, from, to)?;
        self.durable = self.durable.max(self.log.flushed_offset());
        assert_eq!(report.first_offset, from);
        assert!(
            report.end_offset > from && report.end_offset <= to,
            "{report:?}"
        );
        assert_eq!(self.log.cleaned_offset(), Some(report.end_offset));
        Ok(Some(report))
    }

    pub fn run(&mut self, step: &Step) {
        let done = self.take(step).and_then(|()| self.alive());
        if let Some(seed) = self.dying.filter(|_| self.storage.is_dead()) {
            self.dying = None;
            // What the log says of itself holds.
            self.durable = self
                .durable
                .max(self.log.flushed_offset().min(self.cut_from));
            self.storage.repair();
            let mut choice = choices(seed);
            self.storage.power_cut(&mut choice);
            // The directory's checkpoints may be older than what they are about.
            let cleaned = [self.checkpointed, self.log.cleaned_offset()][choice(2)];
            let recovery_point = [0, i64::MAX][choice(2)];
            self.open_again(false, recovery_point, cleaned).unwrap();
        } else {
            done.unwrap();
        }
        self.cut_from = i64::MAX;
        self.check();
        self.check_producers();
    }

    fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::PowerLoss { changes, seed } => {
                self.storage.lose_power_after(*changes);
                self.dying = Some(*seed);
            }
            Step::Flush => {
                self.log.flush()?;
                self.durable = self.log.end_offset();
            }
            Step::Append {
                keys,
                tombstones,
                producer,
                codec,
            } => self.try_append(keys, *tombstones, *producer, *codec)?,
            Step::Transaction { keys, producer } => {
                self.try_append(keys, false, Some(*producer), Codec::None)?;
            }
            Step::End { producer, outcome } => self.try_end(*producer, *outcome)?,
            Step::Roll => self.log.roll()?,
            Step::Clean { keys_max, forgets } => {
                self.log.update_config(LogConfig {
                    delete_retention_ms: if *forgets { 0 } else { i64::MAX },
                    ..config()
                });
                self.clean(*keys_max)?;
            }
            Step::Truncate { part, deep } => self.truncate(*part, *deep)?,
            Step::DeleteBefore { part } => {
                let (start, end) = (self.log.start_offset(), self.log.end_offset());
                let offset = start + (end - start) * i64::from(*part) / 255;
                self.log.set_high_watermark(end);
                self.log.set_start_offset(offset)?;
                self.log.delete_old_segments(self.clock_ms)?;
                self.durable = self.durable.max(offset);
            }
            Step::Reopen { clean } => {
                if *clean {
                    self.log.close(true)?;
                    self.alive()?;
                    self.durable = self.log.end_offset();
                }
                self.try_reopen(*clean)?;
            }
            Step::PowerCut { seed } => {
                self.storage.repair();
                self.dying = None;
                self.storage.power_cut(&mut choices(*seed));
                self.reopen(false);
            }
            Step::Break {
                skip,
                tear,
                power_cut,
            } => {
                self.log.flush()?;
                self.alive()?;
                self.durable = self.log.end_offset();
                let fault = if *tear {
                    Fault::Tear
                } else {
                    Fault::Fail(std::io::ErrorKind::Other)
                };
                self.storage.break_at(None, *skip, fault, true);
                if let Err(error) = self.clean(1000)
                    && !self.storage.is_dead()
                {
                    let expected = matches!(
                        error,
                        LogError::Io { .. } | LogError::Offline { .. } | LogError::Corrupt { .. }
                    );
                    assert!(expected, "{error}");
                }
                self.alive()?;
                self.storage.repair();
                self.dying = None;
                if power_cut % 2 == 0 {
                    self.storage.power_cut(&mut choices(*power_cut));
                }
                self.reopen(false);
            }
        }
        Ok(())
    }

    fn truncate(&mut self, part: u8, deep: bool) -> Result<()> {
        let (start, end) = (self.log.start_offset(), self.log.end_offset());
        let from = if deep {
            start
        } else {
            self.committed.max(start)
        };
        if from > end {
            return Ok(());
        }
        self.try_truncate_to(from + (end - from) * i64::from(part) / 255)
    }

    fn truncate_to(&mut self, offset: i64) {
        self.try_truncate_to(offset).unwrap();
    }

    fn try_truncate_to(&mut self, offset: i64) -> Result<()> {
        let (start, end) = (self.log.start_offset(), self.log.end_offset());
        let (_, batches) = read_all(&self.log, end);
        let mut before = batches.iter().filter(|batch| batch.last_offset() < offset);
        self.cut_from = before
            .next_back()
            .map_or(start, |batch| batch.last_offset() + 1);
        self.durable = self.durable.min(self.cut_from);
        self.log.truncate_to(offset, None)?;
        self.alive()?;
        let end = self.log.end_offset();
        // By whole batches. What is in no batch was cleaned away.
        let kept = batches.iter().filter(|batch| batch.last_offset() < offset);
        let kept_end = kept.map(|batch| batch.last_offset() + 1).max();
        assert!((kept_end.unwrap_or(start)..=offset).contains(&end));
        self.entries.retain(|entry| entry.offset < end);
        self.markers.retain(|offset, _| *offset < end);
        self.transactional.retain(|offset, _| *offset < end);
        self.durable = self.durable.min(end);
        assert!(self.log.cleaned_offset().unwrap_or(0) <= end);
        // Written by the directory before the truncation counts as done.
        self.checkpointed = self.log.cleaned_offset();
        self.attempted = self.attempted.min(end);
        self.lose_committed(end);
        self.note_sequences();
        Ok(())
    }

    /// The log ends earlier than what a cleaning counted on.
    fn lose_committed(&mut self, end: i64) {
        if end < self.committed {
            // What made older records needless is gone, and so are they. Of transactions that are open again their batches are left.
            let there = offsets(&self.log);
            self.entries.retain(|entry| there.contains(&entry.offset));
            let (_, batches) = read_all(&self.log, end);
            let batches = batches.iter();
            let transactional =
                batches.filter(|batch| batch.is_transactional() && !batch.is_control());
            self.transactional = transactional
                .flat_map(|batch| {
                    let offsets = batch.base_offset..=batch.last_offset();
                    offsets.map(|offset| (offset, batch.producer_id))
                })
                .collect();
            self.committed = end;
            self.lost_committed = true;
        }
    }

    /// Where the next batch of each producer goes on.
    fn note_sequences(&mut self) {
        self.sequences.clear();
        let writer = self.log.writer.lock();
        for (id, producer) in writer.producers.producers() {
            // Of some only a marker is known.
            if let Some(last) = producer.last_batch() {
                self.sequences.insert(id, last.last_sequence + 1);
            }
        }
    }

    fn reopen(&mut self, clean: bool) {
        self.try_reopen(clean).unwrap();
    }

    fn try_reopen(&mut self, clean: bool) -> Result<()> {
        self.open_again(clean, i64::MAX, self.log.cleaned_offset())
    }

    /// With a checkpoint that says of no more than `recovery_point` that it is on disk.
    fn open_again(
        &mut self,
        clean: bool,
        recovery_point: i64,
        cleaned_offset: Option<i64>,
    ) -> Result<()> {
        let flushed_offset = self.log.flushed_offset().min(self.durable);
        let hints = Hints {
            clean,
            start_offset: self.log.start_offset(),
            recovery_point: flushed_offset.min(recovery_point),
            cleaned_offset,
            ..Hints::default()
        };
        self.log = open(&self.storage, hints)?;
        self.alive()?;
        self.checkpointed = cleaned_offset;
        let end = self.log.end_offset();
        assert!(end >= self.durable, "{end} of {} are left", self.durable);
        // What was not flushed may be lost; and since a compacted log has gaps, not only from its end.
        let (_, there) = read_all(&self.log, end);
        let durable = self.durable;
        let is_there = |offset: i64| {
            let batch = there.partition_point(|batch| batch.last_offset() < offset);
            offset < durable
                || there
                    .get(batch)
                    .is_some_and(|batch| batch.base_offset <= offset)
        };
        self.entries.retain(|entry| is_there(entry.offset));
        self.markers.retain(|offset, _| is_there(*offset));
        self.transactional.retain(|offset, _| is_there(*offset));
        self.log.set_high_watermark(end);
        if self.cut_from < i64::MAX {
            self.attempted = self.attempted.min(end);
            self.lose_committed(end);
        }
        self.committed = self.committed.min(end);
        self.durable = end;
        self.note_sequences();
        self.epoch += 1;
        self.log.begin_epoch(self.epoch)
    }

    fn check(&self) {
        self.log.set_high_watermark(self.log.end_offset());
        // Of a transaction that began before the log's start a recovery may know or not.
        if !self.lost_committed && self.log.start_offset() == 0 {
            assert_eq!(self.log.last_stable_offset(), self.stable());
        }
        let (entries, _) = read_all(&self.log, self.log.last_stable_offset());
        let committed = self.committed();
        // Nothing is there that nobody wrote or that was taken back, or elsewhere, or twice.
        let mut written = committed.iter();
        for entry in &entries {
            assert!(written.any(|wrote| wrote == entry), "{entry:?}");
        }
        assert_eq!(
            last_values(&entries),
            last_values(&committed),
            "the last value of each key"
        );
        // What is clean holds one record of each key at most, what nobody cleaned everything.
        let clean = self.log.cleaned_offset().unwrap_or(0);
        let mut keys = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.offset < clean) {
            let twice = keys.insert(&entry.key, entry.offset);
            assert_eq!(twice, None, "{:?} below {clean}", entry.key);
        }
        let dirty = |entries: &[Entry]| {
            entries
                .iter()
                .filter(|entry| entry.offset >= clean.max(self.attempted))
                .count()
        };
        assert_eq!(dirty(&entries), dirty(&committed));
        for entry in entries.iter().step_by(3) {
            let found = self.log.offset_for_timestamp(entry.timestamp_ms).unwrap();
            assert_eq!(found.unwrap().offset, entry.offset);
        }
    }

    /// Checks that the producers which the log remembers are there for the next one that opens it.
    fn check_producers(&self) {
        if self.lost_committed {
            return;
        }
        let (_, batches) = read_all(&self.log, self.log.end_offset());
        let writer = self.log.writer.lock();
        for (id, producer) in writer.producers.producers() {
            let start = self.log.start_offset();
            let Some(last) = producer
                .last_batch()
                .filter(|last| last.last_offset >= start)
            else {
                continue;
            };
            let mut latest = batches.iter().rev().filter(|batch| !batch.is_control());
            let batch = latest.find(|batch| batch.producer_id == id);
            let batch = batch.unwrap_or_else(|| panic!("no batch of producer {id}"));
            assert_eq!(
                (batch.last_offset(), batch.last_sequence()),
                (last.last_offset, last.last_sequence)
            );
        }
    }

    /// The damage that a tool finds that reads the folder. Snapshots are written without an fsync:
    /// a power cut may take them.
    fn damage(&self) -> Vec<String> {
        let storage: Arc<dyn Storage> = Arc::new(self.storage.clone());
        let report = verify(&storage, Path::new(FOLDER)).unwrap();
        report
            .damage
            .iter()
            .map(|damage| format!("{damage:?}"))
            .filter(|damage| !damage.contains(".snapshot"))
            .collect()
    }
}

/// Key to the offset of its value.
fn last_values(entries: &[Entry]) -> BTreeMap<Vec<u8>, i64> {
    let mut last = BTreeMap::new();
    for entry in entries {
        let key = entry.key.clone().unwrap();
        match &entry.value {
            Some(_) => last.insert(key, entry.offset),
            None => last.remove(&key),
        };
    }
    last
}

/// The committed records before `upper_bound`, and the headers of all batches there, as a reader sees them that is told of aborted transactions.
fn read_all(log: &Log, upper_bound: i64) -> (Vec<Entry>, Vec<BatchHeader>) {
    let (mut entries, mut headers) = (Vec::new(), Vec::new());
    let (mut offset, mut scratch) = (log.start_offset(), Scratch::default());
    let limits = Limits::default();
    loop {
        let info = log.read(offset, 700, upper_bound, true).unwrap();
        let aborted: Vec<_> = log
            .aborted_transactions(offset, &info)
            .unwrap()
            .iter()
            .map(|aborted| AbortedTransaction {
                producer_id: aborted.producer_id,
                first_offset: aborted.first_offset,
            })
            .collect();
        let mut aborted = AbortedTransactions::new(&aborted);
        let Some(slice) = info.slice else {
            return (entries, headers);
        };
        let bytes = slice.read().unwrap();
        for batch in Batches::new(&bytes).map_while(std::result::Result::ok) {
            crate::records::check_crc(batch.bytes, &batch.header).unwrap();
            headers.push(batch.header);
            offset = batch.header.last_offset() + 1;
            if !aborted.is_visible(&batch, &limits, &mut scratch).unwrap() {
                continue;
            }
            for record in Records::new(&batch, &limits, &mut scratch).unwrap() {
                let record = record.unwrap();
                if record.offset < log.start_offset() {
                    continue;
                }
                entries.push(Entry {
                    offset: record.offset,
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.value.map(<[u8]>::to_vec),
                    timestamp_ms: record.timestamp_ms,
                });
            }
        }
    }
}

/// Of all records, whoever may see them.
fn offsets(log: &Log) -> BTreeSet<i64> {
    let (mut offset, mut scratch, mut offsets) =
        (log.start_offset(), Scratch::default(), BTreeSet::new());
    while let Some(slice) = log.read(offset, 700, i64::MAX, true).unwrap().slice {
        let bytes = slice.read().unwrap();
        for batch in Batches::new(&bytes).map_while(std::result::Result::ok) {
            let records = Records::new(&batch, &Limits::default(), &mut scratch).unwrap();
            offsets.extend(records.map(|record| record.unwrap().offset));
            offset = batch.header.last_offset() + 1;
        }
    }
    offsets
}

/// All of a log without transactions.
fn all_of(model: &Model) -> Vec<Entry> {
    read_all(&model.log, model.log.end_offset()).0
}

fn run(steps: &[Step]) {
    let mut model = Model::new();
    for step in steps {
        model.run(step);
    }
    // A loss that did not come any more.
    model.storage.repair();
    model.log.close(true).unwrap();
    assert_eq!(model.damage(), Vec::<String>::new());
}

#[test]
fn a_compacted_log_is_its_model() {
    seeds::property(100, prop::collection::vec(step(), 1..80), |steps| {
        run(&steps);
    });
}

/// A log of several segments, of which some were cleaned before.
fn prepared() -> Model {
    let mut model = Model::new();
    for turn in 0..44u8 {
        let keys = [turn % 5, turn % 7, 7 + turn % 3];
        let codec = if turn % 3 == 0 {
            Codec::Zstd
        } else {
            Codec::None
        };
        model.append(&keys, turn % 11 == 0, Some(i64::from(turn % 2)), codec);
        if turn % 4 == 0 {
            model.append(&[turn % 5], false, Some(10), Codec::None);
        }
        if turn % 8 == 0 {
            let outcome = if turn % 16 == 0 {
                Outcome::Abort
            } else {
                Outcome::Commit
            };
            model.end(10, outcome);
        }
        if turn == 20 {
            model.clean(1000).unwrap();
        }
    }
    model.log.flush().unwrap();
    model.durable = model.log.end_offset();
    model
}

/// The crash points: every operation of the disk in a cleaning is the last one, in turn, with and without a power cut after it.
#[test]
fn a_crash_at_any_point_of_a_cleaning_loses_nothing() {
    let mut completed = 0;
    for skip in 0..10_000 {
        let mut model = prepared();
        let fault = Fault::Fail(std::io::ErrorKind::Other);
        model.storage.break_at(None, skip, fault, true);
        let done = model.clean(1000).is_ok();
        model.storage.repair();
        for seed in [None, Some(skip), Some(skip + 77)] {
            if let Some(seed) = seed {
                model.storage.power_cut(&mut choices(seed));
            }
            model.reopen(false);
            model.check();
            model.check_producers();
        }
        // And the next cleaning goes on from there.
        model.append(&[1], false, None, Codec::None);
        model.log.roll().unwrap();
        model.clean(1000).unwrap();
        model.check();
        model.log.close(true).unwrap();
        assert_eq!(
            model.damage(),
            Vec::<String>::new(),
            "after operation {skip}"
        );
        completed += usize::from(done);
        if completed > 2 {
            assert!(skip > 50, "only {skip} operations");
            return;
        }
    }
    panic!("a cleaning does not end");
}

#[test]
fn tombstones_go_when_the_part_that_holds_them_was_clean_for_long_enough() {
    let mut model = Model::new();
    let tombstones = |model: &Model| {
        let entries = all_of(model);
        entries.iter().filter(|entry| entry.value.is_none()).count()
    };
    model.append(&[1, 2, 3], false, None, Codec::None);
    model.append(&[1, 2], true, None, Codec::None);
    model.log.roll().unwrap();
    model.clean(1000).unwrap();
    assert_eq!(tombstones(&model), 2, "a first cleaning keeps them");
    model.append(&[4], false, None, Codec::None);
    model.log.roll().unwrap();
    model.clean(1000).unwrap();
    assert_eq!(
        tombstones(&model),
        2,
        "and so does the next while delete.retention.ms lasts"
    );
    model.log.update_config(LogConfig {
        delete_retention_ms: 0,
        ..config()
    });
    model.append(&[5], false, None, Codec::None);
    model.log.roll().unwrap();
    model.clean(1000).unwrap();
    assert_eq!(tombstones(&model), 0);
    let entries = all_of(&model);
    let keys: Vec<u8> = entries
        .iter()
        .map(|entry| entry.key.as_ref().unwrap()[0])
        .collect();
    assert_eq!(keys, [3, 4, 5]);
}

/// A snapshot from the middle of a transaction calls it open. When its batches and its marker were cleaned away, nothing in the log says
/// otherwise, and a recovery from that snapshot would keep readers of committed records waiting for ever.
#[test]
fn no_snapshot_outlives_the_marker_of_a_transaction_that_it_calls_open() {
    let mut model = Model::new();
    model.log.update_config(LogConfig {
        delete_retention_ms: 0,
        ..config()
    });
    // Too much for one segment even after the cleaning, so that the marker's stays the first of its own.
    for key in 50..53 {
        model.append(&[key], false, None, Codec::None);
    }
    model.append(&[1], false, Some(10), Codec::None);
    model.log.roll().unwrap();
    let second = model.log.end_offset();
    model.end(10, Outcome::Commit);
    for key in 20..40 {
        model.append(&[key], false, None, Codec::None);
    }
    // Nobody remembers the producer any more: nothing of it has to stay.
    model.log.update_config(LogConfig {
        producer_id_expiration_ms: 0,
        delete_retention_ms: 0,
        ..config()
    });
    model.log.expire_producers(i64::MAX);
    for _ in 0..3 {
        model.append(&[1, 2], false, None, Codec::None);
        model.log.roll().unwrap();
        model.clean(1000).unwrap();
    }
    let (_, batches) = read_all(&model.log, model.log.end_offset());
    assert!(
        !batches.iter().any(BatchHeader::has_producer_id),
        "{batches:?}"
    );
    let end = model.log.end_offset();
    let segments = model.log.segments();
    assert!(segments.iter().any(|segment| segment.base_offset == second));
    for segment in segments.iter() {
        let hints = Hints {
            recovery_point: segment.base_offset,
            cleaned_offset: model.log.cleaned_offset(),
            ..Hints::default()
        };
        let storage = model.storage.copy();
        let log = open(&storage, hints).unwrap();
        log.set_high_watermark(end);
        assert_eq!(
            log.last_stable_offset(),
            end,
            "from {}",
            segment.base_offset
        );
    }
}

#[test]
fn records_without_key_from_before_the_topic_was_compacted_go() {
    let mut model = Model::new();
    model.log.update_config(LogConfig {
        compact: false,
        ..config()
    });
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(1, None, Some(b"no key"), &[]).unwrap();
    builder.append(2, Some(b"k"), Some(b"v"), &[]).unwrap();
    let mut batch = builder.finish().unwrap();
    model
        .log
        .append(&mut batch, 0, AppendOrigin::Client, 0)
        .unwrap();
    model.log.roll().unwrap();
    assert_eq!(model.log.cleanable(0).unwrap(), None, "it is not compacted");
    model.log.update_config(config());
    let report = model.clean(1000).unwrap().unwrap();
    assert_eq!((report.records_keyless, report.records_written), (1, 1));
    let entries = all_of(&model);
    assert_eq!(
        entries.iter().map(|entry| entry.offset).collect::<Vec<_>>(),
        [1]
    );
    model.entries = entries;
    model.check();
}

#[test]
fn small_segments_become_one_and_readers_go_on_in_what_they_hold() {
    let mut model = prepared();
    let held: Vec<_> = (0..model.log.end_offset())
        .step_by(7)
        .map(|offset| {
            let slice = model.log.read(offset, 1, i64::MAX, true).unwrap().slice;
            let slice = slice.unwrap();
            let bytes = slice.read().unwrap();
            (slice, bytes)
        })
        .collect();
    for (slice, _) in &held {
        slice.file.close();
    }
    let before = model.log.segments().len();
    for _ in 0..3 {
        model.append(&[1], false, None, Codec::None);
        model.log.roll().unwrap();
        model.clean(1000).unwrap();
    }
    let after = model.log.segments().len();
    assert!(after < before / 2, "{before} segments became {after}");
    for (slice, bytes) in &held {
        assert_eq!(&slice.read().unwrap(), bytes);
    }
    // Only what is in use is there: no file of the old segments, no snapshot of theirs.
    let names: Vec<_> = model.storage.list(Path::new(FOLDER)).unwrap();
    let logs = names
        .iter()
        .filter(|entry| entry.name.ends_with(".log"))
        .count();
    let snapshots = names
        .iter()
        .filter(|entry| entry.name.ends_with(".snapshot"))
        .count();
    assert_eq!(logs, after);
    assert!(snapshots <= after + 1, "{names:?}");
    let odd = |entry: &&crate::storage::Entry| {
        [".cleaned", ".swap", ".deleted"]
            .iter()
            .any(|end| entry.name.ends_with(end))
    };
    assert_eq!(names.iter().find(odd), None);
    model.check();
}

#[test]
fn a_truncation_or_the_logs_end_stops_a_cleaning() {
    let model = prepared();
    model.log.set_high_watermark(model.log.end_offset());
    let cleanable = model.log.cleanable(0).unwrap().unwrap();
    let (from, to) = (
        cleanable.first_dirty_offset,
        cleanable.first_uncleanable_offset,
    );
    let cleaner = Cleaner::new(settings());
    cleaner.stop();
    let stopped = |result: Result<CleanReport>| match result {
        Err(LogError::CleaningStopped(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        stopped(model.log.clean(&cleaner, from, to)),
        "the cleaner stops"
    );
    let cleaner = Cleaner::new(settings());
    {
        let _busy = model.log.cleaning.lock();
        assert_eq!(model.log.cleanable(0).unwrap(), None);
        assert_eq!(
            stopped(model.log.clean(&cleaner, from, to)),
            "another thread cleans it"
        );
    }
    model.check();
    model.log.clean(&cleaner, from, to).unwrap();
    model.log.close(true).unwrap();
    assert!(matches!(
        model.log.clean(&cleaner, from, to),
        Err(LogError::Closed(_))
    ));
    assert_eq!(model.log.cleanable(0).unwrap(), None);
}

#[test]
fn what_was_cut_off_is_dirty_again() {
    let mut model = prepared();
    model.log.set_high_watermark(model.log.end_offset());
    model.clean(1000).unwrap();
    let cleaned = model.log.cleaned_offset().unwrap();
    model.truncate_to(cleaned / 2);
    assert!(model.log.cleaned_offset().unwrap() <= cleaned / 2);
    for turn in 0..20 {
        model.append(&[turn % 3], false, None, Codec::None);
    }
    model.log.roll().unwrap();
    model.clean(1000).unwrap();
    model.check();
}

#[test]
fn the_ratio_and_the_lags_say_what_is_due() {
    let mut model = prepared();
    let end = model.log.end_offset();
    model.log.set_high_watermark(end);
    let now_ms = model.clock_ms;
    let cleanable = model.log.cleanable(now_ms).unwrap().unwrap();
    let active = model.log.segments().last().unwrap().base_offset;
    assert_eq!(
        cleanable.first_dirty_offset,
        model.log.cleaned_offset().unwrap()
    );
    assert_eq!(cleanable.first_uncleanable_offset, active);
    let bytes = |range: std::ops::Range<i64>| -> u64 {
        let segments = model.log.segments();
        let inside = segments
            .iter()
            .filter(|segment| range.contains(&segment.base_offset));
        inside.map(|segment| segment.size_bytes()).sum()
    };
    let dirty = cleanable.first_dirty_offset;
    assert_eq!(cleanable.clean_bytes, bytes(0..dirty));
    assert_eq!(cleanable.cleanable_bytes, bytes(dirty..active));
    assert_eq!((cleanable.overdue_ms, cleanable.dirty_ratio_min), (0, 0.5));
    // Below the high watermark only, by whole segments.
    let segments = model.log.segments();
    let third = segments[segments.len() - 3].base_offset;
    model.log.set_high_watermark(third + 1);
    let lower = model.log.cleanable(now_ms).unwrap().unwrap();
    assert_eq!(lower.first_uncleanable_offset, third);
    model.log.set_high_watermark(end);
    // What is too young waits.
    model.log.update_config(LogConfig {
        min_compaction_lag_ms: 10,
        ..config()
    });
    let young = model.log.cleanable(now_ms).unwrap().unwrap();
    assert!(young.first_uncleanable_offset < active);
    let later = model.log.cleanable(now_ms + 1000).unwrap().unwrap();
    assert_eq!(later.first_uncleanable_offset, active);
    // What is too old does not.
    model.log.update_config(LogConfig {
        max_compaction_lag_ms: 50,
        ..config()
    });
    let first = segments
        .iter()
        .find(|segment| segment.base_offset >= dirty)
        .unwrap();
    let overdue = model
        .log
        .cleanable(now_ms + 1000)
        .unwrap()
        .unwrap()
        .overdue_ms;
    assert_eq!(
        overdue,
        now_ms + 1000 - 50 - first.first_timestamp_ms().unwrap()
    );
    model.clean(1000).unwrap();
    let clean = model.log.cleanable(now_ms + 1000).unwrap().unwrap();
    assert_eq!(clean.first_dirty_offset, clean.first_uncleanable_offset);
    assert_eq!(
        clean.cleanable_bytes, 0,
        "else it would be cleaned for ever"
    );
    assert_eq!(
        model
            .log
            .cleanable(now_ms + 1000)
            .unwrap()
            .unwrap()
            .overdue_ms,
        0
    );
}

#[test]
fn a_log_that_cannot_be_cleaned_is_set_aside_with_the_reason() {
    let mut model = prepared();
    let segments = model.log.segments();
    let path = segments[segments.len() - 3].file.path();
    let file = model
        .storage
        .open(&path, crate::storage::Mode::Write)
        .unwrap();
    file.write_at(b"?", 80).unwrap();
    let error = model.clean(1000).unwrap_err();
    model.log.set_aside(&LogError::CleaningStopped("not this"));
    assert_eq!(model.log.uncleanable(), None);
    model.log.set_aside(&error);
    let reason = model.log.uncleanable().unwrap();
    assert!(
        reason.contains("checksum") && reason.contains(".log"),
        "{reason}"
    );
    assert_eq!(model.log.cleanable(0).unwrap(), None);
}

#[test]
fn messages_of_old_formats_are_cleaned_in_their_format() {
    for (magic, codec) in [
        (0, Codec::Gzip),
        (1, Codec::Snappy),
        (1, Codec::Lz4),
        (0, Codec::None),
    ] {
        let mut model = Model::new();
        let mut append = |codec: Codec, keys: &[u8]| {
            let mut builder = MessageBuilder::new(magic, codec, None).unwrap();
            for key in keys {
                let offset = model.entries.len() as i64;
                let timestamp_ms = if magic == 0 { -1 } else { 1000 + offset };
                let entry = Entry {
                    offset,
                    key: Some(vec![*key]),
                    value: Some(vec![*key; 20]),
                    timestamp_ms,
                };
                let (key, value) = (entry.key.as_deref(), entry.value.as_deref());
                builder.append(offset, timestamp_ms, key, value).unwrap();
                model.entries.push(entry);
            }
            let set = builder.finish(&mut Compressor::default());
            model.log.append_as_follower(&set, 0, 0).unwrap();
        };
        append(codec, &[1, 2, 1, 3, 4]);
        append(codec, &[5, 6]);
        append(Codec::None, &[2]);
        append(codec, &[7, 3, 1]);
        model.log.roll().unwrap();
        model.log.flush().unwrap();
        let report = model.clean(1000).unwrap().unwrap();
        assert_eq!((report.records_read, report.records_written), (11, 7));
        let entries = all_of(&model);
        let offsets: Vec<_> = entries.iter().map(|entry| entry.offset).collect();
        assert_eq!(offsets, [4, 5, 6, 7, 8, 9, 10]);
        let kept = |entry: &&Entry| offsets.contains(&entry.offset);
        let wanted: Vec<_> = model.entries.iter().filter(kept).cloned().collect();
        assert_eq!(entries, wanted);
        let (_, headers) = read_all(&model.log, model.log.end_offset());
        assert!(headers.iter().all(|header| header.magic == magic));
        model.reopen(false);
        assert_eq!(all_of(&model), wanted);
        model.log.close(true).unwrap();
        assert_eq!(model.damage(), Vec::<String>::new());
    }
}
