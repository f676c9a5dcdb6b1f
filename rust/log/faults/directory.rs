//! The power goes at every change of the disk while two data directories are at work: partitions are made, written, truncated, deleted from, cleaned,
//! moved between the directories, the checkpoints are written, and everything is stopped cleanly and opened again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::flips::flip;
use super::seeds::{self, choices};
use crate::log::checkpoint::{CLEANED_OFFSETS, HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS};
use crate::log::cleaner::{Cleaner, CleanerSettings};
use crate::log::deletion::{ByAge, remove_folder};
use crate::log::error::Result;
use crate::log::names::TopicPartition;
use crate::log::tests::batch;
use crate::log::verification::NO_GUARD;
use crate::log::verify::verify;
use crate::log::{AppendOrigin, Home, Log, LogConfig, LogDirectory, When, moving};
use crate::records::{Batches, stamp};
use crate::storage::faulty::{Fault, Operation};
use crate::storage::{FaultyStorage, Storage};

fn config(topic: &str) -> LogConfig {
    LogConfig {
        segment_bytes: 400,
        index_interval_bytes: 100,
        file_delete_delay_ms: 0,
        producer_id_expiration_ms: i64::MAX,
        compact: topic == "compacted",
        delete: topic != "compacted",
        ..LogConfig::default()
    }
}

/// The state of a partition that somebody was told.
#[derive(Clone, Debug, Default)]
struct Told {
    /// It exists, and everything before this offset is durable,
    end: i64,
    /// or was deleted, up to here.
    start: i64,
    exists: bool,
    /// The batches that were written, by offset.
    appended: Vec<Vec<u8>>,
}

const NEVER: usize = usize::MAX;

struct Broker {
    storage: FaultyStorage,
    /// Real folders of the same names: for the lock.
    real: tempfile::TempDir,
    directories: Vec<Arc<LogDirectory>>,
    /// How many unflushed logs a clean stop makes durable together.
    at_once: usize,
    plain: Told,
    compacted: Told,
}

fn plain() -> TopicPartition {
    TopicPartition::of("plain", 0)
}

fn compacted() -> TopicPartition {
    TopicPartition::of("compacted", 3)
}

impl Broker {
    fn new(at_once: usize) -> Self {
        let (storage, real) = (FaultyStorage::new(), tempfile::tempdir().unwrap());
        for name in ["a", "b"] {
            std::fs::create_dir(real.path().join(name)).unwrap();
            let path = real.path().join(name);
            for part in path
                .ancestors()
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .skip(1)
            {
                let _ = storage.create_directory(part);
                storage.sync_directory(part.parent().unwrap()).unwrap();
            }
        }
        Self {
            storage,
            real,
            directories: Vec::new(),
            at_once,
            plain: Told::default(),
            compacted: Told::default(),
        }
    }

    fn paths(&self) -> [PathBuf; 2] {
        ["a", "b"].map(|name| self.real.path().join(name))
    }

    /// As a broker starts.
    fn start(&mut self) -> Result<()> {
        for path in self.paths() {
            let home = Home::quiet(Arc::new(self.storage.clone()), &path);
            // High watermarks are only written when somebody says so: the test must be repeatable.
            let directory = LogDirectory::open(home, Duration::from_secs(1_000_000))?;
            self.directories.push(Arc::clone(&directory));
            let (_, failed) = directory.load_all(1, config)?;
            if let Some((_, error)) = failed.into_iter().next() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn find(&self, partition: &TopicPartition) -> Vec<(usize, Arc<Log>)> {
        let numbered = self.directories.iter().enumerate();
        numbered
            .filter_map(|(at, directory)| Some((at, directory.get(partition)?)))
            .filter(|(_, log)| !log.is_future())
            .collect()
    }

    fn log(&self, partition: &TopicPartition) -> (usize, Arc<Log>) {
        self.find(partition).remove(0)
    }

    fn append(&mut self, partition: &TopicPartition, keys: &[&str], flush: bool) -> Result<()> {
        let (_, log) = self.log(partition);
        let told = self.told(partition);
        for key in keys {
            let offset = told.appended.len();
            let value = format!("{key}{offset} ").repeat(6);
            told.appended.push(value.clone().into_bytes());
            let epoch = log.leader_epoch();
            log.append(
                &mut batch(&[&value], 1000),
                epoch,
                AppendOrigin::Client,
                1000,
            )?;
        }
        if flush {
            let end = log.flush()?;
            self.told(partition).end = end;
        }
        log.advance_high_watermark();
        Ok(())
    }

    fn told(&mut self, partition: &TopicPartition) -> &mut Told {
        if *partition == plain() {
            &mut self.plain
        } else {
            &mut self.compacted
        }
    }

    /// Everything that a broker does, in some order. An error is the power's.
    fn work(&mut self) -> Result<()> {
        self.start()?;
        for (directory, partition) in [(0, plain()), (1, compacted())] {
            let directory = Arc::clone(&self.directories[directory]);
            let partitions = [partition.clone()];
            directory.create(&partitions, &config(&partition.topic), 1)?;
            directory
                .begin_epochs(&[(partition.clone(), 0)], 1)
                .into_iter()
                .collect::<Result<()>>()?;
            self.append(&partition, &["x"], true)?;
            self.told(&partition).exists = true;
        }
        let keys = ["a", "b", "c", "a", "b", "c", "a", "d"];
        self.append(&plain(), &keys, true)?;
        self.append(&compacted(), &keys, false)?;
        for directory in &self.directories {
            directory.checkpoint_recovery_points()?;
            directory.checkpoint_high_watermarks()?;
        }
        self.append(&plain(), &keys, false)?;
        self.clean()?;
        // DeleteRecords.
        let (at, log) = self.log(&plain());
        log.set_start_offset(4)?;
        self.directories[at].checkpoint_start_offsets()?;
        self.plain.start = 4;
        log.delete_old_segments(1000)?;
        // A follower's truncation.
        self.plain.end = self.plain.end.min(12);
        log.truncate_to(12, None)?;
        self.plain.appended.truncate(12);
        self.append(&plain(), &["t", "u"], true)?;
        self.restart()?;
        self.append(&plain(), &keys, true)?;
        self.append(&compacted(), &keys, true)?;
        self.directories[0].checkpoint_recovery_points()?;
        self.clean()?;
        self.relocate()?;
        self.append(&plain(), &["m", "n"], true)?;
        // Closed and loaded again, as when a broker stops to have a partition and gets it back.
        let (at, _) = self.log(&compacted());
        self.directories[at].close_log(&compacted())?;
        self.directories[at].load(&compacted(), config("compacted"))?;
        self.append(&compacted(), &["z"], false)?;
        self.restart()?;
        self.append(&plain(), &["e"], true)?;
        self.follow(3)?;
        self.append(&plain(), &["l"], true)
    }

    /// A follower's part: its logs are fenced and cut, and go on as the leader says.
    fn follow(&mut self, epoch: i32) -> Result<()> {
        for partition in [plain(), compacted()] {
            let (at, log) = self.log(&partition);
            let directory = Arc::clone(&self.directories[at]);
            let followed = directory.follow_many(&[(partition.clone(), epoch)]);
            followed.into_iter().collect::<Result<()>>()?;
            let told = self.told(&partition);
            let offset = told.appended.len() as i64 - 2;
            let kept = end_before(&log, offset);
            told.end = told.end.min(kept);
            let cut = directory.truncate_many(&[(partition.clone(), offset, epoch)], 1);
            cut.into_iter().collect::<Result<Vec<bool>>>()?;
            let offset = log.end_offset();
            assert_eq!(offset, kept);
            told.appended.truncate(offset as usize);
            let mut sent = Vec::new();
            for offset in offset..offset + 5 {
                let value = format!("f{offset} ").repeat(6);
                let mut batch = batch(&[&value], 1000);
                stamp(&mut batch, offset, epoch, None);
                sent.extend(batch);
                told.appended.push(value.into_bytes());
            }
            log.append_as_follower(&sent, epoch, 1000)?;
            self.told(&partition).end = log.flush()?;
            log.advance_high_watermark();
        }
        Ok(())
    }

    fn clean(&mut self) -> Result<()> {
        let (at, log) = self.log(&compacted());
        log.roll()?;
        if let Some(cleanable) = log.cleanable(1000)? {
            let cleaner = Cleaner::new(CleanerSettings {
                map_bytes: 1 << 20,
                map_load_factor: 0.9,
                io_bytes: 1000,
                bytes_per_second: f64::MAX,
            });
            let (from, to) = (
                cleanable.first_dirty_offset,
                cleanable.first_uncleanable_offset,
            );
            if from < to {
                self.directories[at].clean(&compacted(), &cleaner, from, to)?;
            }
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        for directory in std::mem::take(&mut self.directories) {
            directory.close_from(true, 1, self.at_once)?;
        }
        self.plain.end = self.plain.appended.len() as i64;
        self.compacted.end = self.compacted.appended.len() as i64;
        self.start()
    }

    /// Moves the plain log into the other directory.
    fn relocate(&mut self) -> Result<()> {
        let (at, log) = self.log(&plain());
        let (from, to) = (&self.directories[at], &self.directories[1 - at]);
        let future = to.create_future(&plain(), config("plain"), 7)?;
        log.begin_move();
        while moving::copy(&log, &future, 300)? > 0 {}
        assert!(moving::replace(&log, from, &future, to, 8)?);
        Ok(())
    }

    /// The power goes and comes back; everything that was told is so.
    fn cut_and_check(&mut self, seed: u64) {
        self.directories.clear();
        self.storage.power_cut(&mut choices(seed));
        self.start().unwrap();
        let shown = self.check();
        // And it stays so.
        self.directories.clear();
        self.storage.power_cut(&mut choices(seed.wrapping_add(1)));
        self.start().unwrap();
        assert_eq!(self.check(), shown, "a second power cut changed it");
        // It goes on from there.
        for (partition, shown) in [plain(), compacted()].into_iter().zip(shown) {
            if let Some((start, end, _)) = shown {
                let told = self.told(&partition);
                told.appended.resize(end as usize, Vec::new());
                (told.start, told.end) = (start, end);
                self.append(&partition, &["g"], true).unwrap();
            }
        }
        self.restart().unwrap();
    }

    #[allow(clippy::type_complexity)]
    fn check(&mut self) -> Vec<Option<(i64, i64, Vec<(i64, Vec<u8>)>)>> {
        [plain(), compacted()]
            .into_iter()
            .map(|partition| {
                let told = self.told(&partition).clone();
                let mut found = self.find(&partition);
                assert!(!found.is_empty() || !told.exists, "{partition} is gone");
                if found.len() == 2 {
                    // Power between the two renames of a move: the broker removes the beginning that is the shorter.
                    found.sort_by_key(|(_, log)| log.end_offset());
                    found.remove(0);
                }
                let (_, log) = found.pop()?;
                Some(self.check_log(&log, &told))
            })
            .collect()
    }

    fn check_log(&self, log: &Log, told: &Told) -> (i64, i64, Vec<(i64, Vec<u8>)>) {
        let (start, end) = (log.start_offset(), log.end_offset());
        assert!(
            end >= told.end,
            "{end} of {} are left: {}",
            told.end,
            log.partition
        );
        assert!(
            start >= told.start,
            "what was deleted is back: {start} < {}",
            told.start
        );
        let storage: Arc<dyn Storage> = Arc::new(self.storage.clone());
        let mut damage = verify(&storage, &log.directory()).unwrap().damage;
        damage.retain(|damage| {
            damage
                .path
                .extension()
                .is_none_or(|kind| kind != "snapshot")
        });
        assert_eq!(damage, []);
        let (mut records, mut offset) = (Vec::new(), start);
        while let Some(slice) = log.read(offset, 500, i64::MAX, true).unwrap().slice {
            for found in Batches::new(&slice.read().unwrap()).map_while(std::result::Result::ok) {
                crate::records::check_crc(found.bytes, &found.header).unwrap();
                offset = found.header.last_offset() + 1;
                records.push((found.header.base_offset, found.bytes[61..].to_vec()));
            }
        }
        if !log.config().compact {
            let offsets: Vec<_> = records.iter().map(|(offset, _)| *offset).collect();
            assert_eq!(offsets, (start..end).collect::<Vec<_>>());
        }
        for (offset, bytes) in &records {
            // Of the second life nobody noted the content.
            if let Some(value) = told
                .appended
                .get(*offset as usize)
                .filter(|value| !value.is_empty())
            {
                let there = bytes.windows(value.len()).any(|window| window == value);
                assert!(there, "another record at {offset}");
            }
        }
        (start, end, records)
    }
}

/// Where a log ends that is cut at `offset`: there may have been nothing just before that since a cleaning.
fn end_before(log: &Log, offset: i64) -> i64 {
    let segments = log.segments();
    let bases = segments.iter().map(|segment| segment.base_offset);
    let mut end = bases.filter(|base| *base <= offset).max().unwrap();
    loop {
        let read = log.read(end, 1, i64::MAX, true).unwrap();
        let bytes = read.slice.unwrap().read().unwrap();
        let first = Batches::new(&bytes).next().unwrap().unwrap();
        let last_offset = first.header.last_offset();
        if last_offset >= offset {
            return end;
        }
        end = last_offset + 1;
    }
}

#[test]
fn at_every_change_of_two_directories() {
    for at_once in [NEVER, 1] {
        cut_at_every_change(at_once);
    }
}

fn cut_at_every_change(at_once: usize) {
    let mut whole = Broker::new(at_once);
    let before = whole.storage.changes();
    whole.work().unwrap();
    let changes_total = whole.storage.changes() - before;
    assert!(changes_total > 200, "only {changes_total} changes");
    drop(whole);
    let mut deaths = 0;
    // Every third one: the next run begins elsewhere. That takes 7 s; of further seeds every tenth, so that thousands are a matter of minutes.
    let mut step = 3;
    seeds::each(1, |seed| {
        for changes in (seed % step..changes_total).step_by(step as usize) {
            let mut broker = Broker::new(at_once);
            broker.storage.lose_power_after(changes);
            let died = broker.work();
            if died.is_ok() && !broker.storage.is_dead() {
                // The thread that writes high watermarks found less to do than in the whole run.
                continue;
            }
            deaths += 1;
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(changes);
            broker.cut_and_check(seed);
        }
        step = 10;
    });
    assert!(deaths > 60, "{deaths} deaths");
}

/// A clean stop that could not make the disk durable says so and leaves no mark: nothing else had made durable what came last.
#[test]
fn all_at_once_fails() {
    let mut broker = Broker::new(1);
    broker.work().unwrap();
    broker.append(&plain(), &["last"], false).unwrap();
    let (at, log) = broker.log(&plain());
    let end = log.end_offset();
    broker.storage.break_at(
        Some(Operation::SyncAll),
        0,
        Fault::Fail(ErrorKind::Other),
        false,
    );
    let error = broker.directories[at].close_from(true, 1, 1).unwrap_err();
    assert!(error.to_string().contains("sync the file system"));
    drop(log);
    broker.directories.clear();
    // Nothing unsynced comes through.
    broker
        .storage
        .power_cut(&mut |below| usize::from(below == 3));
    broker.start().unwrap();
    let (at, log) = broker.log(&plain());
    assert!(!broker.directories[at].was_clean());
    assert!(log.end_offset() < end);
    broker.check();
}

/// One bit flips in a table of the directory, or in what marks a clean stop. It has no checksum; but what it says is either believed where it can be
/// true, or costs a longer recovery. No partition of the other directory is touched, and no record is lost.
#[test]
fn a_bit_flips_in_a_checkpoint() {
    for clean in [true, false] {
        let mut whole = Broker::new(NEVER);
        whole.work().unwrap();
        let shown = whole.check();
        if clean {
            for directory in &whole.directories {
                directory.close(true, 1).unwrap();
            }
        }
        whole.directories.clear();
        let saved = whole.storage.copy();
        seeds::each(20, |seed| {
            let mut choice = choices(seed);
            for name in [
                HIGH_WATERMARKS,
                RECOVERY_POINTS,
                START_OFFSETS,
                CLEANED_OFFSETS,
            ] {
                let path = whole.paths()[choice(2)].join(name);
                let bytes = (&saved as &dyn Storage).read(&path, 10_000);
                let Ok(bytes) = bytes else { continue };
                whole.storage = saved.copy();
                flip(&whole.storage, &path, choice(bytes.len() * 8));
                whole.start().unwrap();
                for (partition, shown) in [plain(), compacted()].iter().zip(&shown) {
                    let (at, log) = whole.log(partition);
                    // A larger start looks like a deletion of records, a smaller one brings some back: nobody can tell.
                    let is_start =
                        name == START_OFFSETS && path.starts_with(whole.directories[at].path());
                    if !is_start {
                        let told = Told::default();
                        assert_eq!(Some(whole.check_log(&log, &told)), *shown, "{name}");
                    }
                }
                whole.directories.clear();
            }
        });
    }
}

/// Whoever still holds a log that moved away or was deleted may come after its files are gone, which is no failure of the disk.
#[test]
fn a_folder_that_went_on_purpose_takes_no_directory_out_of_use() {
    type Late = fn(&Arc<Log>);
    let flushed: Late = |old| {
        old.note_epochs_changed();
        assert_eq!(old.flush_once().unwrap(), old.end_offset());
    };
    let cleared: Late = |old| assert!(old.delete_segments(i64::MAX, &[&ByAge]).is_err());
    let closed: Late = |old| old.close(false).unwrap();
    let flushed_though_deleted: Late = |old| {
        old.note_epochs_changed();
        assert!(old.flush_once().is_err());
    };
    for (moves, late) in [
        (true, flushed),
        (true, cleared),
        (true, closed),
        (false, flushed_though_deleted),
    ] {
        let mut broker = Broker::new(NEVER);
        broker.work().unwrap();
        let (at, old) = broker.log(&plain());
        old.update_config(LogConfig {
            file_delete_delay_ms: 1_000_000_000,
            ..config("plain")
        });
        if moves {
            broker.relocate().unwrap();
        } else {
            broker.directories[at].delete(&plain(), 8).unwrap();
        }
        remove_folder(&broker.storage, &old.directory()).unwrap();
        late(&old);
        assert_eq!(broker.directories[at].failure(), None);
        if moves {
            broker.append(&plain(), &["a"], true).unwrap();
        }
    }
}

/// An append that waited while the log's place was taken comes before one that found the new log: else a producer's sequence numbers, and the
/// records of one that has none, would be out of order.
#[test]
fn appends_keep_their_order_when_the_log_moves() {
    let mut broker = Broker::new(NEVER);
    broker.work().unwrap();
    let (_, old) = broker.log(&plain());
    let (wake, woken) = std::sync::mpsc::channel::<()>();
    old.queue(Box::new(move |_| woken.recv().unwrap())).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let append = |log: &Arc<Log>, value: &str| {
        let sender = sender.clone();
        let queued = log.append_or_queue(
            When::Now,
            batch(&[value], 1000),
            log.leader_epoch(),
            AppendOrigin::Client,
            NO_GUARD,
            1000,
            move |result| sender.send(result.unwrap().base_offset).unwrap(),
        );
        assert!(queued.unwrap().is_none(), "{value} overtook");
    };
    append(&old, "first");
    broker.relocate().unwrap();
    let (_, new) = broker.log(&plain());
    assert!(!Arc::ptr_eq(&old, &new));
    append(&new, "second");
    append(&old, "third");
    let end = new.end_offset();
    wake.send(()).unwrap();
    let offsets: Vec<i64> = receiver.iter().take(3).collect();
    assert_eq!(offsets, [end, end + 1, end + 2]);
}

/// A clean stop that the power overtakes right behind it was clean, and one before it was not.
#[test]
fn a_marker_of_a_clean_stop_is_gone_before_anything_is_written() {
    let mut broker = Broker::new(NEVER);
    broker.work().unwrap();
    broker.restart().unwrap();
    assert!(
        broker
            .directories
            .iter()
            .all(|directory| directory.was_clean())
    );
    broker.append(&plain(), &["a", "b"], false).unwrap();
    // Nothing unsynced comes through.
    broker
        .storage
        .power_cut(&mut |below| usize::from(below == 3));
    broker.directories.clear();
    let marker = Path::new(".kafka_cleanshutdown");
    for path in broker.paths() {
        assert!(
            !(&broker.storage as &dyn Storage)
                .exists(&path.join(marker))
                .unwrap()
        );
    }
    broker.start().unwrap();
    assert!(
        !broker
            .directories
            .iter()
            .any(|directory| directory.was_clean())
    );
    broker.check();
}
