//! The state in which a power cut leaves a truncation, before anything is recovered.

use std::path::Path;
use std::sync::Arc;

use super::seeds::{self, choices};
use crate::log::log::OpenMode;
use crate::log::opening::Hints;
use crate::log::tests::append;
use crate::log::{Home, Log, LogConfig};
use crate::storage::{FaultyStorage, Storage};

fn open(storage: &FaultyStorage, hints: Hints) -> Arc<Log> {
    let home = Home::quiet(Arc::new(storage.clone()), Path::new("/"));
    let config = LogConfig {
        segment_bytes: 100,
        ..LogConfig::default()
    };
    Log::open(&home, "t-0", config, hints, OpenMode::Append).unwrap()
}

/// Of eight segments with one record each.
fn disk() -> FaultyStorage {
    let storage = FaultyStorage::new();
    storage.create_directory(Path::new("/t-0")).unwrap();
    storage.sync_directory(Path::new("/")).unwrap();
    let log = open(&storage, Hints::default());
    for number in 0..8 {
        append(&log, &["a value"], number);
    }
    log.close(true).unwrap();
    storage
}

fn segments(storage: &FaultyStorage) -> Vec<String> {
    let entries = storage.list(Path::new("/t-0")).unwrap();
    let mut names: Vec<_> = entries
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| name.ends_with(".log"))
        .collect();
    names.sort();
    names
}

/// A compacted log may have gaps: nobody would miss what was between.
#[test]
fn no_segment_is_left_behind_one_that_is_gone() {
    let before = segments(&disk());
    assert_eq!(before.len(), 8);
    seeds::each(10, |seed| {
        let mut lengths = Vec::new();
        for changes in 0.. {
            let storage = disk();
            let log = open(&storage, Hints::default());
            storage.lose_power_after(changes);
            let _ = log.truncate_to(2, None);
            drop(log);
            let is_done = !storage.is_dead();
            storage.repair();
            storage.power_cut(&mut choices(seed.wrapping_mul(1009).wrapping_add(changes)));
            let left = segments(&storage);
            assert!(
                before.starts_with(&left),
                "after {changes} changes: {left:?}"
            );
            lengths.push(left.len());
            if is_done {
                break;
            }
        }
        assert!(
            [8, 7, 6, 5, 4, 3]
                .iter()
                .all(|length| lengths.contains(length))
        );
    });
}

/// A crash within a truncation leaves the cleaner's checkpoint ahead of the end: what is appended there is dirty.
#[test]
fn a_cleaner_checkpoint_ahead_of_the_end_is_not_believed() {
    for (cleaned_offset, expected) in [(None, None), (Some(8), Some(8)), (Some(9), Some(0))] {
        let hints = Hints {
            cleaned_offset,
            ..Hints::default()
        };
        assert_eq!(open(&disk(), hints).cleaned_offset(), expected);
    }
}
