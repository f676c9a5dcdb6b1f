//! Torn tails: what a power cut leaves of the last batches.

use std::path::Path;

use super::entries::read_all;
use super::model::{FOLDER, Model, ROOT, open};
use super::seeds::{self, choices};
use super::steps::{IN_TRANSACTIONS, Step};
use super::{rebuilt, transactions};
use crate::log::opening::Hints;
use crate::log::{AppendOrigin, Log};
use crate::records::compression::Compressor;
use crate::records::message_builder::MessageBuilder;
use crate::records::{BatchBuilder, BatchOptions, Codec, Marker, Outcome};
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

/// The last batch of a log, in every form that there is.
#[derive(Clone, Copy, Debug)]
enum Last {
    Batch(BatchOptions),
    Marker(Outcome),
    Messages(i8, Codec),
}

fn every_form() -> Vec<Last> {
    let plain = BatchOptions::default();
    let of = |producer_id, base_sequence| BatchOptions {
        producer_id,
        producer_epoch: 0,
        base_sequence,
        transactional: producer_id >= IN_TRANSACTIONS,
        ..plain
    };
    let mut all = vec![
        Last::Batch(plain),
        // Producers 1 and 11 have written two records each, 12 nothing.
        Last::Batch(of(1, 2)),
        Last::Batch(of(11, 2)),
        Last::Batch(of(12, 0)),
        Last::Marker(Outcome::Commit),
        Last::Marker(Outcome::Abort),
    ];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        all.push(Last::Batch(BatchOptions { codec, ..of(1, 2) }));
    }
    for (magic, codec) in [
        (0, Codec::None),
        (1, Codec::None),
        (0, Codec::Gzip),
        (1, Codec::Lz4),
    ] {
        all.push(Last::Messages(magic, codec));
    }
    all
}

fn append_last(log: &Log, last: Last, epoch: i32) {
    let (key, value) = (Some(&b"key"[..]), Some(&b"some value, some value"[..]));
    let mut bytes = match last {
        Last::Batch(options) => {
            let mut builder = BatchBuilder::new(options);
            builder.append(1_000_100, key, value, &[]).unwrap();
            builder.append(1_000_101, key, value, &[]).unwrap();
            builder.finish().unwrap()
        }
        Last::Marker(outcome) => {
            let marker = Marker {
                outcome,
                coordinator_epoch: epoch,
            };
            let mut batch = marker.batch(11, 0, 1_000_100).unwrap();
            log.append(&mut batch, epoch, AppendOrigin::Coordinator, 0)
                .unwrap();
            return;
        }
        Last::Messages(magic, codec) => {
            let mut builder = MessageBuilder::new(magic, codec, None).unwrap();
            let time = if magic == 0 { -1 } else { 1_000_100 };
            builder.append(log.end_offset(), time, key, value).unwrap();
            let set = builder.finish(&mut Compressor::default());
            log.append_as_follower(&set, 0, 0).unwrap();
            return;
        }
    };
    log.append(&mut bytes, epoch, AppendOrigin::Client, 0)
        .unwrap();
}

/// Bytes that may stand where the rest of a batch should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    /// The file got its length, and its blocks did not come.
    Zeros,
    Garbage(u64),
}

/// Whatever the form of the last batch, whichever byte is the last that reached the disk, and whatever follows it: the log is what came before.
#[test]
fn a_last_batch_of_every_form_torn_at_every_byte() {
    seeds::each(1, |seed| {
        for last in every_form() {
            let mut model = Model::new();
            for producer in [Some(1), None, Some(11)] {
                model.run(&Step::Append {
                    records: 2,
                    bytes: 10,
                    producer,
                });
            }
            model.run(&Step::Flush);
            let (before, end) = (model.log.segments()[0].size_bytes(), model.log.end_offset());
            append_last(&model.log, last, 0);
            let path = model.log.segments()[0].file.path();
            let whole = (&model.storage as &dyn Storage)
                .read(&path, u64::MAX)
                .unwrap();
            for cut in before as usize..whole.len() {
                for rest in [Rest::Nothing, Rest::Zeros, Rest::Garbage(seed)] {
                    let mut torn = whole[..cut].to_vec();
                    match rest {
                        Rest::Nothing => {}
                        Rest::Zeros => torn.resize(whole.len(), 0),
                        Rest::Garbage(seed) => {
                            let mut choice = choices(seed.wrapping_add(cut as u64));
                            torn.resize_with(whole.len(), || choice(256) as u8);
                        }
                    }
                    // Nothing was lost: the bytes happen to be the same.
                    if torn == whole {
                        continue;
                    }
                    let storage = model.storage.copy();
                    let file = storage.open(&path, Mode::Replace).unwrap();
                    file.write_at(&torn, 0).unwrap();
                    let hints = Hints {
                        recovery_point: if cut % 2 == 0 { end } else { 0 },
                        ..Hints::default()
                    };
                    let log = open(&storage, hints).unwrap();
                    assert_eq!(
                        log.end_offset(),
                        end,
                        "{last:?} cut at {cut}, then {rest:?}"
                    );
                    assert_eq!(log.size_bytes(), before);
                    assert_eq!(read_all(&log, 0), model.entries);
                    assert_eq!(log.epoch_of(0), 0);
                    rebuilt::check(&storage, &log, hints);
                    transactions::check(&log, &[], &model.entries);
                    // What was torn can be written again.
                    append_last(&log, last, 0);
                    assert!(log.end_offset() > end);
                }
            }
        }
    });
}
