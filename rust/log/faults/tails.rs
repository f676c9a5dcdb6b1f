//! Torn tails: what a power cut leaves of the last batches.

use std::path::Path;

use super::entries::read_all;
use super::model::{FOLDER, Model, ROOT, open};
use super::steps::{IN_TRANSACTIONS, Step};
use super::transactions;
use crate::log::opening::Hints;
use crate::storage::{FaultyStorage, Mode, Storage};

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
    let folder = Path::new(FOLDER);
    let files: Vec<_> = model
        .storage
        .list(folder)
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
        storage.create_directory(folder).unwrap();
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
        transactions::check(&log, &[], &left);
    }
}
