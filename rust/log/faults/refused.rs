//! An append that the disk refuses, tried again with the same bytes.
//!
//! The hub tries an append first, and hands what was refused to Python, which tries again: it must find the bytes as the
//! producer sent them. Else the second attempt calls the batch invalid, which no producer sends again.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::log::append::When;
use crate::log::config::TimestampType;
use crate::log::log::OpenMode;
use crate::log::opening::Hints;
use crate::log::tests::batch;
use crate::log::verification::NO_GUARD;
use crate::log::{AppendInfo, AppendOrigin, Home, Log, LogConfig, LogError};
use crate::records::batch::set_max_timestamp;
use crate::storage::faulty::{Fault, Operation};
use crate::storage::{FaultyStorage, Storage};

const NOW_MS: i64 = 5000;
const STORAGE_ERROR: i16 = 56;

/// Errors after which the directory serves on, and one that takes it out of use.
const ERRORS: [Errno; 6] = [
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::MFILE,
    Errno::NFILE,
    Errno::NOMEM,
    Errno::IO,
];

fn log(config: LogConfig) -> (FaultyStorage, Arc<Log>) {
    let storage = FaultyStorage::new();
    storage.create_directory(Path::new("/t-0")).unwrap();
    let home = Home::quiet(Arc::new(storage.clone()), Path::new("/"));
    let hints = Hints {
        clean: true,
        ..Hints::default()
    };
    let log = Log::open(&home, "t-0", config, hints, OpenMode::Append).unwrap();
    log.begin_epoch(0).unwrap();
    (storage, log)
}

fn try_append(log: &Log, records: &mut [u8], when: When) -> Result<Option<AppendInfo>, LogError> {
    log.try_append(records, 0, AppendOrigin::Client, NO_GUARD, NOW_MS, when)
        .transpose()
}

fn configs() -> [LogConfig; 2] {
    [TimestampType::CreateTime, TimestampType::LogAppendTime].map(|message_timestamp_type| {
        LogConfig {
            message_timestamp_type,
            ..LogConfig::default()
        }
    })
}

/// Larger than what is staged.
fn large() -> Vec<u8> {
    batch(&["x".repeat(10_000).as_str()], 1000)
}

/// With another maximum timestamp than its records have: the log corrects it.
fn miscounted() -> Vec<u8> {
    let mut bytes = large();
    set_max_timestamp(&mut bytes, 4000);
    bytes
}

#[test]
fn what_the_disk_refuses_stays_as_it_came() {
    for (errno, config) in ERRORS.iter().flat_map(|e| configs().map(|c| (*e, c))) {
        for (sent, when) in [large(), miscounted(), batch(&["small"], 1000)]
            .iter()
            .flat_map(|sent| [(sent, When::Now), (sent, When::Quick), (sent, When::InTurn)])
        {
            let (storage, log) = log(config.clone());
            log.append(
                &mut batch(&["first"], 1000),
                0,
                AppendOrigin::Client,
                NOW_MS,
            )
            .unwrap();
            let fault = Fault::Errno(errno.raw_os_error());
            storage.break_at(Some(Operation::Write), 0, fault, false);
            let mut records = sent.clone();
            let is_staged = when == When::InTurn && sent.len() < 1000;
            let error = match try_append(&log, &mut records, when) {
                Ok(_) if is_staged => log.write_staged().lost.unwrap().1,
                other => other.unwrap_err(),
            };
            assert_eq!(error.code(), STORAGE_ERROR, "{errno:?} {error}");
            if !is_staged {
                assert_eq!(&records, sent, "{errno:?}");
            }
            if errno == Errno::IO {
                assert!(log.home.failure().is_some());
                continue;
            }
            if !is_staged {
                // Whoever is next finds nothing wrong with it.
                let info = log
                    .append(&mut records, 0, AppendOrigin::Client, NOW_MS)
                    .unwrap();
                assert_eq!((info.base_offset, log.end_offset()), (1, 2));
            }
        }
    }
}

#[test]
fn what_comes_behind_a_lost_turn_stays_as_it_came() {
    for config in configs() {
        let (storage, log) = log(config);
        log.append(
            &mut batch(&["first"], 1000),
            0,
            AppendOrigin::Client,
            NOW_MS,
        )
        .unwrap();
        try_append(&log, &mut batch(&["staged"], 1000), When::InTurn).unwrap();
        storage.break_at(Some(Operation::Write), 0, Fault::Full, false);
        for sent in [large(), batch(&["small"], 1000)] {
            let mut records = sent.clone();
            let error = try_append(&log, &mut records, When::InTurn).unwrap_err();
            assert_eq!((error.code(), &records), (STORAGE_ERROR, &sent));
        }
        assert_eq!(log.write_staged().lost.unwrap().0, 1);
    }
}

#[test]
fn a_segment_that_cannot_be_started_changes_nothing() {
    for (errno, config) in ERRORS.iter().flat_map(|e| configs().map(|c| (*e, c))) {
        let (storage, log) = log(LogConfig {
            segment_bytes: 15_000,
            ..config
        });
        log.append(&mut large(), 0, AppendOrigin::Client, NOW_MS)
            .unwrap();
        storage.break_at(
            Some(Operation::Open),
            0,
            Fault::Errno(errno.raw_os_error()),
            false,
        );
        let sent = large();
        let mut records = sent.clone();
        let error = log
            .append(&mut records, 0, AppendOrigin::Client, NOW_MS)
            .unwrap_err();
        assert_eq!(
            (error.code(), &records),
            (STORAGE_ERROR, &sent),
            "{errno:?}"
        );
    }
}
