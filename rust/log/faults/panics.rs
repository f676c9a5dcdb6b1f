//! A mistake in our own code, at every place where a log comes to the disk: the work that met it fails, its thread and the other logs of the
//! directory go on, and the log it happened in takes nothing more until it is opened again. Then all that was answered is there.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::log::checkpoint::CLEAN_SHUTDOWN;
use crate::log::cleaner::{Cleaner, CleanerSettings};
use crate::log::names::TopicPartition;
use crate::log::tests::batch;
use crate::log::verification::NO_GUARD;
use crate::log::verify::verify;
use crate::log::{AppendInfo, AppendOrigin, Home, Log, LogConfig, LogDirectory, LogError, When};
use crate::records::Batches;
use crate::storage::faulty::{Fault, Operation, PANIC};
use crate::storage::{FaultyStorage, Storage};

const STORAGE_ERROR: i16 = 56;
/// So that a segment has two.
const BATCH_BYTES: usize = 200 << 10;

fn config(topic: &str) -> LogConfig {
    LogConfig {
        segment_bytes: 500 << 10,
        compact: topic == "compacted",
        ..LogConfig::default()
    }
}

struct Disk {
    storage: FaultyStorage,
    /// A real folder of the same name: for the lock.
    real: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let (storage, real) = (FaultyStorage::new(), tempfile::tempdir().unwrap());
        let mut folders: Vec<_> = real.path().ancestors().collect();
        folders.pop();
        for folder in folders.into_iter().rev() {
            storage.create_directory(folder).unwrap();
        }
        Self { storage, real }
    }

    fn open(&self) -> Arc<LogDirectory> {
        let home = Home::quiet(Arc::new(self.storage.clone()), self.real.path());
        let directory = LogDirectory::open(home, Duration::from_secs(1_000_000)).unwrap();
        let (_, failed) = directory.load_all(1, config).unwrap();
        assert!(failed.is_empty());
        directory
    }

    fn panic_at(&self, operation: Operation, skip: u64) {
        let operation = Some(operation);
        self.storage.break_at(operation, skip, Fault::Panic, false);
    }
}

fn create(directory: &LogDirectory, topic: &str) -> Arc<Log> {
    let partition = TopicPartition::of(topic, 0);
    let logs = directory.create(&[partition], &config(topic), 1).unwrap();
    let log = Arc::clone(&logs[0]);
    log.begin_epoch(0).unwrap();
    log
}

fn large(letter: &str) -> Vec<u8> {
    batch(&[&letter.repeat(BATCH_BYTES)], 1000)
}

/// Has a thread append some batches; what became of each, in their order.
fn append_on_thread(log: &Arc<Log>, letters: &[&str]) -> Vec<Result<AppendInfo, LogError>> {
    let (told, hears) = mpsc::channel();
    for letter in letters {
        let tell = told.clone();
        let done = move |appended| tell.send(appended).unwrap();
        let (epoch, origin) = (0, AppendOrigin::Client);
        let queued = log.append_or_queue(
            When::Quick,
            large(letter),
            epoch,
            origin,
            NO_GUARD,
            1000,
            done,
        );
        match queued {
            Ok(appended) => assert!(appended.is_none(), "it was not left to a thread"),
            Err(refused) => told.send(Err(refused)).unwrap(),
        }
    }
    // What is dropped and not called ends this too.
    drop(told);
    hears.iter().collect()
}

fn flush_on_thread(log: &Arc<Log>) -> Result<i64, LogError> {
    let (told, hears) = mpsc::channel();
    log.flush_async(Box::new(move |flushed| told.send(flushed).unwrap()));
    hears.recv().unwrap()
}

fn letters(log: &Log) -> String {
    let (mut offset, mut found) = (0, String::new());
    while let Some(slice) = log.read(offset, 1, i64::MAX, true).unwrap().slice {
        for batch in Batches::new(&slice.read().unwrap()) {
            let batch = batch.unwrap();
            offset = batch.header.last_offset() + 1;
            found.push(char::from(batch.bytes[batch.bytes.len() - 2]));
        }
    }
    found
}

fn check_broken(error: &LogError) {
    assert_eq!(error.code(), STORAGE_ERROR, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("t-0") && text.contains("faulty.rs:") && text.contains(PANIC),
        "{text}"
    );
}

/// As a broker stops and starts.
fn check_restart(disk: &Disk, directory: &Arc<LogDirectory>, answered: &str, is_broken: bool) {
    directory.close(true, 1).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk.storage.clone());
    let marker = disk.real.path().join(CLEAN_SHUTDOWN);
    assert_eq!(storage.exists(&marker).unwrap(), !is_broken);
    let directory = disk.open();
    let log = directory.get(&TopicPartition::of("t", 0)).unwrap();
    assert_eq!(verify(&storage, &log.directory()).unwrap().damage, []);
    // What nobody was told of may be there as well.
    assert!(letters(&log).starts_with(answered));
    log.begin_epoch(1).unwrap();
    let end_offset = log.end_offset();
    let info = log
        .append(&mut large("z"), 1, AppendOrigin::Client, 1000)
        .unwrap();
    assert_eq!(info.base_offset, end_offset);
    assert_eq!(log.flush().unwrap(), end_offset + 1);
}

/// Appends with one operation that panics. True if it came to the panic.
fn append_with_a_panic(operation: Operation, skip: u64) -> bool {
    let disk = Disk::new();
    let directory = disk.open();
    let (log, other) = (create(&directory, "t"), create(&directory, "other"));
    disk.panic_at(operation, skip);
    let batches = ["a", "b", "c", "d", "e"];
    let results = append_on_thread(&log, &batches);
    disk.storage.repair();
    assert_eq!(results.len(), batches.len(), "an append was not answered");
    let count = results.iter().take_while(|result| result.is_ok()).count();
    for result in &results[count..] {
        check_broken(result.as_ref().unwrap_err());
    }
    let answered = batches[..count].concat();
    assert_eq!(letters(&log), answered);
    let is_broken = count < batches.len();
    assert_eq!(log.is_broken(), is_broken);
    if is_broken {
        check_broken(&flush_on_thread(&log).unwrap_err());
        check_broken(&log.truncate_to(0, None).unwrap_err());
    }
    assert_eq!(directory.failure(), None);
    assert!(append_on_thread(&other, &batches).iter().all(Result::is_ok));
    assert_eq!(flush_on_thread(&other).unwrap(), 5);
    check_restart(&disk, &directory, &answered, is_broken);
    is_broken
}

#[test]
fn an_append_that_panics_takes_its_log_out_of_use_and_no_other() {
    for operation in [Operation::Write, Operation::Open] {
        let mut skip = 0;
        while append_with_a_panic(operation, skip) {
            skip += 1;
        }
        assert!(skip > 1, "{operation:?}: {skip}");
    }
}

#[test]
fn a_flush_that_panics_proves_nothing_from_then_on() {
    let disk = Disk::new();
    let directory = disk.open();
    let (log, other) = (create(&directory, "t"), create(&directory, "other"));
    assert!(append_on_thread(&log, &["a"]).iter().all(Result::is_ok));
    disk.panic_at(Operation::SyncData, 0);
    check_broken(&flush_on_thread(&log).unwrap_err());
    disk.storage.repair();
    assert_eq!(log.flushed_offset(), 0);
    check_broken(&flush_on_thread(&log).unwrap_err());
    check_broken(append_on_thread(&log, &["b"])[0].as_ref().unwrap_err());
    assert_eq!(letters(&log), "a");
    other.flush_async(Box::new(|_| panic!("who waits is mistaken")));
    assert_eq!(flush_on_thread(&other).unwrap(), 0);
    check_restart(&disk, &directory, "a", true);
}

/// Cleans with one operation that panics. True if it came to the panic.
fn clean_with_a_panic(operation: Operation, skip: u64) -> bool {
    let disk = Disk::new();
    let directory = disk.open();
    let partition = TopicPartition::of("compacted", 0);
    let log = create(&directory, "compacted");
    for letter in ["a", "b", "c", "d", "e"] {
        log.append(&mut large(letter), 0, AppendOrigin::Client, 1000)
            .unwrap();
    }
    log.advance_high_watermark();
    log.flush().unwrap();
    let cleaner = Cleaner::new(CleanerSettings {
        map_bytes: 1 << 20,
        map_load_factor: 0.9,
        io_bytes: 1 << 20,
        bytes_per_second: f64::INFINITY,
    });
    let until = log.segments().last().unwrap().base_offset;
    disk.panic_at(operation, skip);
    let cleaned = directory.clean(&partition, &cleaner, 0, until);
    disk.storage.repair();
    let Err(error) = cleaned else {
        assert_eq!(letters(&log), "de");
        return false;
    };
    // It is not tried again and again, and all others read on.
    assert!(error.to_string().contains(PANIC), "{error}");
    assert!(log.uncleanable().unwrap().contains(PANIC));
    assert!(letters(&log).ends_with("de"));
    directory.close(true, 1).unwrap();
    let directory = disk.open();
    let log = directory.get(&partition).unwrap();
    assert!(letters(&log).ends_with("de"));
    let storage: Arc<dyn Storage> = Arc::new(disk.storage.clone());
    assert_eq!(verify(&storage, &log.directory()).unwrap().damage, []);
    true
}

#[test]
fn a_cleaning_that_panics_is_not_begun_again() {
    for operation in [Operation::Write, Operation::Rename] {
        let mut skip = 0;
        while clean_with_a_panic(operation, skip) {
            skip += 1;
        }
        assert!(skip > 1, "{operation:?}: {skip}");
    }
}
