//! Many logs are cut at once, and go on as another leader says: what a power cut leaves then.
//!
//! What the old leader sent and what the new one sends differ at every offset, so that a mixture shows.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::seeds::{self, choices};
use crate::log::checkpoint::{CLEANED_OFFSETS, RECOVERY_POINTS};
use crate::log::error::Result;
use crate::log::home::now_ms;
use crate::log::names::TopicPartition;
use crate::log::tests::batch;
use crate::log::verification::NO_GUARD;
use crate::log::verify::verify;
use crate::log::{AppendInfo, AppendOrigin, Home, Log, LogConfig, LogDirectory, When};
use crate::records::{Batches, stamp};
use crate::storage::faulty::{Fault, Operation};
use crate::storage::{FaultyStorage, RealStorage, Storage};

const LOGS: i32 = 2;
/// Where each log is cut, and where it ended before.
const CUT: i64 = 7;
const BEFORE: i64 = 40;

struct Follower {
    storage: FaultyStorage,
    /// A real folder of the same name: for the lock.
    real: tempfile::TempDir,
    directory: Option<Arc<LogDirectory>>,
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition::of("t", number)
}

fn all() -> impl Iterator<Item = TopicPartition> {
    (0..LOGS).map(partition)
}

/// A batch as the leader of `epoch` sends it.
fn sent(number: i64, offset: i64, epoch: i32) -> Vec<u8> {
    let value = format!("{offset} of {number} by {epoch}");
    let mut batch = batch(&[&value], 1000);
    stamp(&mut batch, offset, epoch, None);
    batch
}

/// The leader's log from `from` to `to`.
fn log_of(number: i64, epoch: i32, from: i64, to: i64) -> Vec<u8> {
    (from..to)
        .flat_map(|offset| sent(number, offset, epoch))
        .collect()
}

fn config() -> LogConfig {
    LogConfig {
        // Five batches.
        segment_bytes: 450,
        index_interval_bytes: 100,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    }
}

impl Follower {
    /// With logs that followed the leader of epoch 1 and are flushed, as their checkpoint says.
    fn new() -> Self {
        let (storage, real) = (FaultyStorage::new(), tempfile::tempdir().unwrap());
        let mut parts: Vec<_> = real.path().ancestors().collect();
        parts.pop();
        for part in parts.into_iter().rev() {
            let _ = storage.create_directory(part);
            storage.sync_directory(part.parent().unwrap()).unwrap();
        }
        let mut follower = Self {
            storage,
            real,
            directory: None,
        };
        follower.start();
        let directory = follower.directory();
        let logs: Vec<_> = all().collect();
        directory.create(&logs, &config(), 1).unwrap();
        follower.follow(1).unwrap();
        follower.fetch(1, 0, BEFORE).unwrap();
        follower.flush().unwrap();
        directory.checkpoint_recovery_points().unwrap();
        follower
    }

    fn start(&mut self) {
        self.directory = None;
        let home = Home::quiet(Arc::new(self.storage.clone()), self.real.path());
        // High watermarks are only written when somebody says so: the test must be repeatable.
        let directory = LogDirectory::open(home, Duration::from_secs(1_000_000)).unwrap();
        let (_, failed) = directory.load_all(1, |_| config()).unwrap();
        assert!(failed.is_empty());
        self.directory = Some(directory);
    }

    fn directory(&self) -> Arc<LogDirectory> {
        Arc::clone(self.directory.as_ref().unwrap())
    }

    fn logs(&self) -> Vec<Arc<Log>> {
        let directory = self.directory();
        all().map(|one| directory.get(&one).unwrap()).collect()
    }

    fn follow(&self, epoch: i32) -> Result<()> {
        let epochs: Vec<_> = all().map(|one| (one, epoch)).collect();
        self.directory().follow_many(&epochs).into_iter().collect()
    }

    fn cut(&self, epoch: i32) -> Result<()> {
        let cuts: Vec<_> = all().map(|one| (one, CUT, epoch)).collect();
        let results = self.directory().truncate_many(&cuts, 1);
        let went: Result<Vec<bool>> = results.into_iter().collect();
        assert_eq!(went?, [true; LOGS as usize]);
        Ok(())
    }

    fn fetch(&self, epoch: i32, from: i64, to: i64) -> Result<()> {
        for (number, log) in self.logs().iter().enumerate() {
            let bytes = log_of(number as i64, epoch, from, to);
            log.append_as_follower(&bytes, epoch, 1000)?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let flush = |log: &Arc<Log>| log.flush().map(drop);
        self.logs().iter().try_for_each(flush)
    }

    fn cut_power(&mut self, seed: u64) {
        self.directory = None;
        self.storage.repair();
        self.storage.power_cut(&mut choices(seed));
        self.start();
    }

    /// Each log is the beginning of one leader's, and has what was flushed of it.
    fn check(&self, is_cut: bool, flushed: i64) -> Vec<i64> {
        let logs = self.logs().into_iter().enumerate();
        logs.map(|(number, log)| {
            let storage: Arc<dyn Storage> = Arc::new(self.storage.clone());
            let mut damage = verify(&storage, &log.directory()).unwrap().damage;
            let is_snapshot = |path: &Path| path.extension().is_some_and(|kind| kind == "snapshot");
            damage.retain(|damage| !is_snapshot(&damage.path));
            assert_eq!(damage, []);
            let (mut bytes, mut offset) = (Vec::new(), 0);
            while let Some(slice) = log.read(offset, 300, i64::MAX, true).unwrap().slice {
                let read = slice.read().unwrap();
                for found in Batches::new(&read).map_while(std::result::Result::ok) {
                    assert_eq!(found.header.base_offset, offset);
                    offset += 1;
                    bytes.extend_from_slice(found.bytes);
                }
            }
            assert_eq!(offset, log.end_offset());
            assert!(offset >= flushed, "{offset} of {flushed} are left");
            let number = number as i64;
            let after = [
                log_of(number, 1, 0, CUT),
                log_of(number, 2, CUT, offset.max(CUT)),
            ]
            .concat();
            let is_after = after.starts_with(&bytes);
            let is_before = log_of(number, 1, 0, BEFORE).starts_with(&bytes);
            assert!(
                is_after || is_before && !is_cut,
                "log {number} has {offset} batches and is a mixture, or not cut"
            );
            offset
        })
        .collect()
    }
}

/// The recovery point in the checkpoint was far behind the cut: what was appended since, and reached the disk only in part, lies before it.
#[test]
fn what_is_written_over_a_cut_is_recovered_from_there_on() {
    let mut ends = Vec::new();
    seeds::each(30, |seed| {
        let mut follower = Follower::new();
        follower.follow(2).unwrap();
        follower.cut(2).unwrap();
        follower.fetch(2, CUT, 2 * BEFORE).unwrap();
        for log in follower.logs() {
            // Names get to the disk without being asked for.
            follower.storage.sync_directory(&log.directory()).unwrap();
        }
        follower.cut_power(seed);
        ends.extend(follower.check(true, CUT));
    });
    // Else nothing is lost where a recovery that begins late would miss it.
    assert!(ends.iter().any(|end| (CUT + 5..BEFORE).contains(end)));
}

/// Also where an append comes before the checkpoint for all: then it makes the cut of its log durable.
#[test]
fn an_append_does_not_overtake_a_cut() {
    seeds::each(30, |seed| {
        let mut follower = Follower::new();
        follower.follow(2).unwrap();
        for log in follower.logs() {
            log.under_epoch(Some(2), |log, writer| log.cut(writer, CUT))
                .unwrap();
        }
        // They go into the segment that was cut, and what follows into new ones.
        follower.fetch(2, CUT, CUT + 2).unwrap();
        for log in follower.logs() {
            assert!(log.writer.lock().unsettled.is_none());
        }
        follower.fetch(2, CUT + 2, 2 * BEFORE).unwrap();
        for log in follower.logs() {
            follower.storage.sync_directory(&log.directory()).unwrap();
        }
        follower.cut_power(seed);
        follower.check(true, CUT);
    });
}

/// A new segment hides the one that was cut, and a leader's appends may be the loop's, which is not to wait for the disk.
#[test]
fn a_segment_does_not_overtake_a_cut() {
    let afterwards: [fn(&Log) -> Result<()>; 2] = [Log::roll, |log| log.begin_epoch(3)];
    for (seed, settles) in (0..20).zip(afterwards.into_iter().cycle()) {
        let mut follower = Follower::new();
        follower.follow(2).unwrap();
        for log in follower.logs() {
            log.under_epoch(Some(2), |log, writer| log.cut(writer, CUT))
                .unwrap();
            settles(&log).unwrap();
            assert!(log.writer.lock().unsettled.is_none());
        }
        follower.cut_power(seed);
        follower.check(true, CUT);
    }
}

#[test]
fn at_every_change_of_a_change_of_leaders() {
    let work = |follower: &Follower, done: &mut (bool, i64)| -> Result<()> {
        follower.follow(2)?;
        // From now on what was flushed of the rest may go.
        done.1 = CUT;
        follower.cut(2)?;
        done.0 = true;
        follower.fetch(2, CUT, CUT + 20)?;
        follower.flush()?;
        done.1 = CUT + 20;
        follower.directory().checkpoint_recovery_points()?;
        follower.fetch(2, CUT + 20, CUT + 30)
    };
    // Every fourth one: the next run begins elsewhere.
    seeds::each(1, |seed| {
        for changes in (seed % 4..).step_by(4) {
            let mut follower = Follower::new();
            follower.storage.lose_power_after(changes);
            let mut done = (false, BEFORE);
            let worked = work(&follower, &mut done);
            let is_done = worked.is_ok() && !follower.storage.is_dead();
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(changes);
            follower.cut_power(seed);
            let ends = follower.check(done.0, done.1);
            follower.cut_power(seed.wrapping_add(1));
            assert_eq!(follower.check(done.0, done.1), ends);
            if is_done {
                assert!(changes > 100, "only {changes} changes");
                break;
            }
        }
    });
}

#[test]
fn each_log_has_its_result_and_all_have_one_checkpoint() {
    let follower = Follower::new();
    let directory = follower.directory();
    follower.follow(2).unwrap();
    let none = TopicPartition::of("none", 0);
    directory
        .create_future(&TopicPartition::of("future", 0), config(), 7)
        .unwrap();
    let followed = directory.follow_many(&[
        (partition(0), 1),
        (none.clone(), 1),
        (partition(1), 3),
        (TopicPartition::of("future", 0), 1),
    ]);
    let codes = |results: Vec<Result<()>>| -> Vec<i16> {
        let code = |result: Result<()>| result.map_or_else(|error| error.code(), |()| 0);
        results.into_iter().map(code).collect()
    };
    assert_eq!(codes(followed), [6, 56, 0, 56]);
    let before = follower.storage.changes();
    directory
        .get(&partition(1))
        .unwrap()
        .truncate_to(BEFORE - 1, Some(3))
        .unwrap();
    let alone = follower.storage.changes() - before;
    let many: Vec<_> = (10..20).map(partition).collect();
    directory.create(&many, &config(), 1).unwrap();
    for one in &many {
        let log = directory.get(one).unwrap();
        let bytes = log_of(0, 1, 0, 5);
        log.append_as_follower(&bytes, 1, 1000).unwrap();
    }
    let cuts: Vec<_> = many.iter().map(|one| (one.clone(), 4, 1)).collect();
    let before = follower.storage.changes();
    let results = directory.truncate_many(&cuts, 4);
    let changes = follower.storage.changes() - before;
    assert!(results.into_iter().all(|went| went.is_ok_and(|went| went)));
    // A checkpoint is opened, written, synced, renamed, and its folder synced.
    assert!(
        changes <= 10 * alone - 9 * 4,
        "{changes} changes, alone {alone}"
    );
    let cuts = [
        (partition(0), CUT, 1),
        (none, CUT, 1),
        (partition(1), -1, 3),
        (partition(1), BEFORE - 1, 3),
        (partition(0), CUT, 2),
        (TopicPartition::of("future", 0), 0, 1),
        // The same once more, which finds it done.
        (partition(0), CUT, 2),
    ];
    let told: Vec<_> = directory
        .truncate_many(&cuts, 4)
        .into_iter()
        .map(|result| result.map_err(|error| error.code()))
        .collect();
    let (other_epoch, not_here, no_offset) = (Err(6), Err(56), Err(1));
    let (went, nothing) = (Ok(true), Ok(false));
    assert_eq!(
        told,
        [
            other_epoch,
            not_here,
            no_offset,
            nothing,
            went,
            not_here,
            nothing
        ]
    );
    let storage: Arc<dyn Storage> = Arc::new(follower.storage.clone());
    let path = directory.path().join(RECOVERY_POINTS);
    let text = String::from_utf8(storage.read(&path, 10_000).unwrap()).unwrap();
    assert!(text.contains(&format!("t 0 {CUT}\n")), "{text}");
    assert!(text.contains(&format!("t 1 {}\n", BEFORE - 1)), "{text}");
    assert!(
        !storage
            .exists(&directory.path().join(CLEANED_OFFSETS))
            .unwrap()
    );
    for log in directory.logs() {
        assert!(log.writer.lock().unsettled.is_none());
    }
}

/// This broker was away for longer than the retention, so all of its leaders' logs start later.
#[test]
fn logs_that_start_anew_have_one_checkpoint() {
    let mut follower = Follower::new();
    let directory = follower.directory();
    follower.follow(2).unwrap();
    let changes = |cuts: &[(TopicPartition, i64, i32)]| {
        let before = follower.storage.changes();
        let results = directory.start_many_anew(cuts, 1);
        assert!(results.into_iter().all(|went| went.unwrap()));
        follower.storage.changes() - before
    };
    let many: Vec<_> = (10..20).map(partition).collect();
    directory.create(&many, &config(), 1).unwrap();
    let anew = |one: &TopicPartition, offset| (one.clone(), offset, 1);
    let alone = changes(&[anew(&many[0], 90)]);
    let cuts: Vec<_> = many[1..].iter().map(|one| anew(one, 90)).collect();
    // A checkpoint is opened, written, synced, renamed, and its folder synced.
    let (all, most) = (changes(&cuts), 9 * alone - 8 * 4);
    assert!(all <= most, "{all} changes, alone {alone}");
    let none = TopicPartition::of("none", 0);
    let cuts = [
        (partition(0), 95, 1),
        (none, 95, 2),
        (partition(1), -1, 2),
        (partition(0), 95, 2),
        (partition(1), CUT, 2),
    ];
    let results = directory.start_many_anew(&cuts, 4).into_iter();
    let told: Vec<_> = results
        .map(|result| result.map_err(|error| error.code()))
        .collect();
    assert_eq!(told, [Err(6), Err(56), Err(1), Ok(true), Ok(true)]);
    for log in directory.logs() {
        assert!(log.writer.lock().unsettled.is_none());
    }
    let places = |follower: &Follower| -> Vec<_> {
        let logs = follower.logs().into_iter();
        logs.map(|log| (log.start_offset(), log.end_offset()))
            .collect()
    };
    assert_eq!(places(&follower), [(95, 95), (CUT, CUT)]);
    drop(directory);
    follower.cut_power(1);
    assert_eq!(places(&follower), [(95, 95), (CUT, CUT)]);
}

/// Records were deleted up to an offset that the new leader's log does not reach (it was behind when it was elected).
#[test]
fn a_log_that_is_cut_before_its_start_starts_there() {
    // In the segment that has the start, and in front of all segments.
    for (cut, start) in [(BEFORE - 9, BEFORE - 7), (CUT, BEFORE - 7)] {
        let mut follower = Follower::new();
        let directory = follower.directory();
        for log in follower.logs() {
            log.advance_high_watermark();
            log.set_start_offset(start).unwrap();
            log.delete_old_segments(1000).unwrap();
            assert_eq!(log.segments()[0].base_offset, BEFORE - 10);
        }
        directory.checkpoint_start_offsets().unwrap();
        follower.follow(2).unwrap();
        let cuts: Vec<_> = all().map(|one| (one, cut, 2)).collect();
        for result in directory.truncate_many(&cuts, 1) {
            assert!(result.unwrap());
        }
        let flushed = follower
            .fetch(2, cut, cut + 4)
            .and_then(|()| follower.flush());
        flushed.unwrap();
        drop(directory);
        follower.cut_power(1);
        for log in follower.logs() {
            assert_eq!((log.start_offset(), log.end_offset()), (cut, cut + 4));
        }
    }
}

/// Queued appends of the old epoch have all been answered when the logs are the follower's.
#[test]
fn queued_appends_end_before_logs_are_followed() {
    let follower = Follower::new();
    let logs = follower.logs();
    let (sender, ended) = std::sync::mpsc::channel();
    let mut held = Vec::new();
    for log in &logs {
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        log.queue(Box::new(move |_| woken.recv().unwrap())).unwrap();
        held.push(wake);
        let (records, sender) = (batch(&["late"], 1000), sender.clone());
        let done = move |result: Result<AppendInfo>| sender.send(result).unwrap();
        let (when, origin) = (When::Quick, AppendOrigin::Client);
        let queued = log.append_or_queue(when, records, 1, origin, NO_GUARD, 1000, done);
        assert!(queued.unwrap().is_none());
    }
    let (follows, followed) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| follows.send(follower.follow(2)).unwrap());
        for wake in held {
            let early = followed.recv_timeout(Duration::from_millis(50));
            assert!(early.is_err(), "not all appends have ended");
            wake.send(()).unwrap();
        }
        followed.recv().unwrap().unwrap();
    });
    let ended: Vec<i16> = ended
        .try_iter()
        .map(|late| late.unwrap_err().code())
        .collect();
    assert_eq!(ended, [6; LOGS as usize]);
    assert!(logs.iter().all(|log| log.end_offset() == BEFORE));
}

/// Of two cuts by two role changes each is made durable by who made it.
#[test]
fn a_later_cut_is_not_taken_for_an_earlier_one() {
    let follower = Follower::new();
    let log = &follower.logs()[0];
    let cut = |offset| {
        log.under_epoch(Some(1), |log, writer| {
            log.cut(writer, offset)?;
            Ok(writer.unsettled.clone().unwrap())
        })
    };
    let first = cut(20).unwrap();
    let second = cut(CUT).unwrap();
    log.note_settled(&first);
    assert!(log.writer.lock().unsettled.is_some());
    log.note_settled(&second);
    assert!(log.writer.lock().unsettled.is_none());
}

/// The logs are cut, but somebody has to make that durable: whoever comes next tries.
#[test]
fn a_checkpoint_that_cannot_be_written_is_told_and_tried_again() {
    let follower = Follower::new();
    follower.follow(2).unwrap();
    let full = Fault::Fail(std::io::ErrorKind::StorageFull);
    let storage = &follower.storage;
    let logs = follower.logs();
    for log in &logs {
        log.under_epoch(Some(2), |log, writer| log.cut(writer, CUT))
            .unwrap();
    }
    storage.break_at(Some(Operation::Write), 0, full, false);
    let cuts: Vec<_> = all().map(|one| (one, CUT, 2)).collect();
    for result in follower.directory().truncate_many(&cuts, 1) {
        assert!(result.unwrap_err().to_string().contains(RECOVERY_POINTS));
    }
    assert_eq!(follower.directory().failure(), None);
    assert!(logs.iter().all(|log| log.writer.lock().unsettled.is_some()));
    storage.break_at(Some(Operation::Write), 0, full, false);
    assert!(follower.fetch(2, CUT, BEFORE).is_err());
    follower.fetch(2, CUT, BEFORE).unwrap();
    assert!(logs.iter().all(|log| log.writer.lock().unsettled.is_none()));
}

/// On a real disk: `cargo test --release --no-default-features -- --ignored --nocapture many_logs`.
#[test]
#[ignore = "a measurement"]
fn how_long_many_logs_take() {
    const MANY: i32 = 5_000;
    let root = tempfile::tempdir_in("target").unwrap();
    let home = Home::new(
        Arc::new(RealStorage),
        crate::log::files::FileCache::new(10_000),
        root.path(),
    );
    let directory = LogDirectory::open(home, Duration::from_millis(200)).unwrap();
    let partitions: Vec<_> = (0..MANY).map(partition).collect();
    let config = LogConfig::default();
    directory.create(&partitions, &config, 16).unwrap();
    for round in 1..4 {
        let timed = |what: &str, work: &mut dyn FnMut()| {
            let began = Instant::now();
            work();
            println!("round {round}: {what} {:?}", began.elapsed());
        };
        let epochs: Vec<_> = partitions.iter().map(|one| (one.clone(), round)).collect();
        timed("following", &mut || {
            let followed: Result<()> = directory.follow_many(&epochs).into_iter().collect();
            followed.unwrap();
        });
        timed("appending 10 batches", &mut || {
            for one in &partitions {
                let log = directory.get(one).unwrap();
                let end = log.end_offset();
                let bytes = log_of(0, round, end, end + 10);
                log.append_as_follower(&bytes, round, now_ms()).unwrap();
            }
        });
        let of = |offset: i64, one: &TopicPartition| (one.clone(), offset, round);
        let end = directory.get(&partitions[0]).unwrap().end_offset();
        let nothing: Vec<_> = partitions.iter().map(|one| of(end, one)).collect();
        let cuts: Vec<_> = partitions.iter().map(|one| of(end - 3, one)).collect();
        timed("truncating nothing", &mut || {
            let mut results = directory.truncate_many(&nothing, 16).into_iter();
            assert!(results.all(|went| !went.unwrap()));
        });
        timed("truncating", &mut || {
            let mut results = directory.truncate_many(&cuts, 16).into_iter();
            assert!(results.all(|went| went.unwrap()));
        });
    }
    directory.close(false, 16).unwrap();
}
