//! A disk without space, and one that fails, at every write.
//!
//! Two directories, each on a disk of its own; the first one's disk refuses one write, whole or in the middle, and all that come after it. Without space
//! the append is refused and was never there, and the log goes on when there is room again. With any other error (and without space, where other
//! brokers can take over) the directory is out of use. The other directory notices nothing, and the next opening finds what was acknowledged.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::seeds;
use crate::log::error::Result;
use crate::log::log::OpenMode;
use crate::log::opening::Hints;
use crate::log::tests::batch;
use crate::log::verify::verify;
use crate::log::{AppendOrigin, Home, Log, LogConfig};
use crate::records::Batches;
use crate::storage::faulty::{Fault, Operation};
use crate::storage::{FaultyStorage, Storage};

struct One {
    storage: FaultyStorage,
    home: Arc<Home>,
    log: Arc<Log>,
    /// The batches that were answered with success.
    answered: Vec<Vec<u8>>,
}

fn open(storage: &FaultyStorage, recovery_point: i64) -> (Arc<Home>, Arc<Log>) {
    let home = Home::quiet(Arc::new(storage.clone()), Path::new("/"));
    let config = LogConfig {
        segment_bytes: 500,
        index_interval_bytes: 100,
        ..LogConfig::default()
    };
    let hints = Hints {
        recovery_point,
        ..Hints::default()
    };
    let log = Log::open(&home, "t-0", config, hints, OpenMode::Append).unwrap();
    (home, log)
}

impl One {
    fn new() -> Self {
        let storage = FaultyStorage::new();
        storage.create_directory(Path::new("/t-0")).unwrap();
        let (home, log) = open(&storage, 0);
        log.begin_epoch(0).unwrap();
        Self {
            storage,
            home,
            log,
            answered: Vec::new(),
        }
    }

    fn append(&mut self, number: usize) -> Result<()> {
        let value = format!("value {number} ").repeat(1 + number % 5);
        let mut bytes = batch(&[&value], 1000);
        let info = self.log.append(&mut bytes, 0, AppendOrigin::Client, 1000)?;
        assert_eq!(info.base_offset, self.answered.len() as i64);
        self.answered.push(bytes);
        if number % 4 == 3 {
            self.log.flush()?;
        }
        Ok(())
    }

    fn check(&self) {
        let (mut offset, mut found) = (0, Vec::new());
        while let Some(slice) = self.log.read(offset, 1000, i64::MAX, true).unwrap().slice {
            for batch in Batches::new(&slice.read().unwrap()).map_while(std::result::Result::ok) {
                offset = batch.header.last_offset() + 1;
                found.push(batch.bytes.to_vec());
            }
        }
        assert_eq!(found, self.answered);
    }

    /// As a broker starts again, without a power cut.
    fn reopen(&mut self) {
        let recovery_point = self.log.flushed_offset();
        (self.home, self.log) = open(&self.storage, recovery_point);
        let storage: Arc<dyn Storage> = Arc::new(self.storage.clone());
        assert_eq!(verify(&storage, Path::new("/t-0")).unwrap().damage, []);
        // A batch of which only an index could not be written is there, though its producer was told that it is not.
        let end = self.log.end_offset();
        assert!(end >= self.answered.len() as i64);
        self.log
            .truncate_to(self.answered.len() as i64, None)
            .unwrap();
        self.check();
    }
}

const APPENDS: usize = 24;

fn run(operation: Operation, skip: u64, fault: Fault, others_can_lead: bool) -> bool {
    let (mut broken, mut other) = (One::new(), One::new());
    if others_can_lead {
        broken.home.fail_when_full();
    }
    let is_full = matches!(fault, Fault::Full | Fault::Fail(ErrorKind::StorageFull));
    broken.storage.break_at(Some(operation), skip, fault, true);
    let mut refused = false;
    for number in 0..APPENDS {
        let result = broken.append(number);
        refused |= result.is_err();
        if refused {
            assert!(result.is_err() || broken.home.failure().is_none());
        }
        other.append(number).unwrap();
    }
    if refused && (!is_full || others_can_lead || operation == Operation::SyncData) {
        assert!(
            broken.home.failure().is_some(),
            "{operation:?} {skip} {fault:?}"
        );
    }
    assert!(other.home.failure().is_none());
    other.check();
    broken.storage.repair();
    if broken.home.failure().is_none() {
        // There is room again: it goes on where it was.
        broken.check();
        broken.append(APPENDS).unwrap();
        broken.check();
    }
    broken.reopen();
    broken.append(APPENDS + 1).unwrap();
    broken.log.flush().unwrap();
    broken.reopen();
    refused
}

#[test]
fn at_every_write_and_fsync() {
    for operation in [
        Operation::Write,
        Operation::SyncData,
        Operation::Rename,
        Operation::SyncDirectory,
    ] {
        for fault in [
            Fault::Full,
            Fault::Fail(ErrorKind::StorageFull),
            Fault::Tear,
            Fault::Fail(ErrorKind::Other),
        ] {
            for others_can_lead in [false, true] {
                let mut skip = 0;
                while run(operation, skip, fault, others_can_lead) {
                    skip += 1;
                }
                assert!(
                    skip > 0 || operation == Operation::Rename,
                    "{operation:?} never failed"
                );
            }
        }
    }
}

/// As above, with the disk failing for a while only.
#[test]
fn at_random_writes() {
    seeds::property(
        20,
        (0..60u64, proptest::prelude::any::<bool>(), 1..4usize),
        |(skip, torn, times)| {
            let mut one = One::new();
            let fault = if torn {
                Fault::Full
            } else {
                Fault::Fail(ErrorKind::StorageFull)
            };
            for _ in 0..times {
                one.storage
                    .break_at(Some(Operation::Write), skip, fault, false);
            }
            for number in 0..APPENDS {
                let _ = one.append(number);
                if one.home.failure().is_some() {
                    one.reopen();
                }
                one.check();
            }
            one.storage.repair();
            one.reopen();
        },
    );
}
