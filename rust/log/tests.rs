//! One log against what it should do; the whole against a model and a breaking disk is in `faults/`.

use std::sync::Arc;

use super::log::OpenMode;
use super::opening::Hints;
use super::{AppendInfo, AppendOrigin, Home, Log, LogConfig, When};
use crate::records::batch::set_crc;
use crate::records::{
    BatchBuilder, BatchHeader, BatchOptions, HEADER_BYTES, Limits, Records, Scratch, validate,
};

pub fn batch(values: &[&str], timestamp_ms: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for (at, value) in values.iter().enumerate() {
        let key = format!("k{at}");
        builder
            .append(
                timestamp_ms + at as i64,
                Some(key.as_bytes()),
                Some(value.as_bytes()),
                &[],
            )
            .unwrap();
    }
    builder.finish().unwrap()
}

pub fn append(log: &Log, values: &[&str], timestamp_ms: i64) -> AppendInfo {
    log.append(
        &mut batch(values, timestamp_ms),
        0,
        AppendOrigin::Client,
        timestamp_ms,
    )
    .unwrap()
}

pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// On the disk that `path` is on: temporary files may be in memory alone.
    pub fn within(path: &str) -> Self {
        Self::of(tempfile::tempdir_in(path).unwrap())
    }

    fn of(folder: tempfile::TempDir) -> Self {
        let folder = Self(folder);
        std::fs::create_dir(folder.0.path().join("t-0")).unwrap();
        folder
    }

    pub fn open(&self, config: LogConfig, clean: bool) -> Arc<Log> {
        let home = Home::real(self.0.path());
        Log::open(
            &home,
            "t-0",
            config,
            Hints {
                clean,
                ..Hints::default()
            },
            OpenMode::Append,
        )
        .unwrap()
    }
}

#[test]
fn what_is_appended_is_read_and_survives_reopening() {
    let folder = Folder::new();
    for clean in [true, false] {
        let log = folder.open(LogConfig::default(), true);
        let start = log.end_offset();
        let first = append(&log, &["a", "b", "c"], 1000);
        assert_eq!((first.base_offset, first.last_offset), (start, start + 2));
        let second = append(&log, &["d"], 2000);
        assert_eq!(second.base_offset, start + 3);
        let info = log.read(start + 1, 1 << 20, i64::MAX, true).unwrap();
        let bytes = info.slice.unwrap().read().unwrap();
        let batches: Vec<_> = crate::records::Batches::new(&bytes)
            .map(Result::unwrap)
            .collect();
        assert_eq!(batches.len(), 2);
        assert_eq!(batches[0].header.base_offset, start);
        assert_eq!(
            log.offset_for_timestamp(1500)
                .unwrap()
                .unwrap()
                .timestamp_ms,
            2000
        );
        log.close(true).unwrap();
        let log = folder.open(LogConfig::default(), clean);
        assert_eq!(log.end_offset(), start + 4);
        log.close(true).unwrap();
    }
}

/// A clean stop writes producers where there are any: without a file there were none. What a crash leaves is read.
#[test]
fn a_log_without_producers_has_no_snapshot() {
    let folder = Folder::new();
    let snapshots = || {
        let files = std::fs::read_dir(folder.0.path().join("t-0")).unwrap();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".snapshot"))
            .collect::<Vec<_>>()
    };
    for end in [1, 2] {
        let log = folder.open(LogConfig::default(), true);
        append(&log, &["a"], 1000);
        log.close(true).unwrap();
        assert_eq!((snapshots(), log.end_offset()), (vec![], end));
    }
    let log = folder.open(LogConfig::default(), false);
    assert_eq!(log.end_offset(), 2);
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id: 7,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    });
    builder.append(0, None, Some(b"b"), &[]).unwrap();
    let mut sent = builder.finish().unwrap();
    let again = &mut sent.clone();
    log.append(&mut sent, 0, AppendOrigin::Client, 0).unwrap();
    log.close(true).unwrap();
    assert_eq!(snapshots(), ["00000000000000000003.snapshot"]);
    let log = folder.open(LogConfig::default(), true);
    assert!(
        log.append(again, 0, AppendOrigin::Client, 0)
            .unwrap()
            .is_duplicate
    );
    append(&log, &["c"], 1000);
    log.close(true).unwrap();
    assert_eq!(snapshots().len(), 2, "one that is there is not left behind");
}

/// Who waits at the end gets what was written last without a look at the batches between it and the last index entry.
#[test]
fn a_reader_at_the_end_scans_nothing_before_it() {
    let folder = Folder::new();
    let log = folder.open(LogConfig::default(), true);
    let sizes: Vec<u64> = (0..4)
        .map(|number| {
            append(&log, &["a", "b"], number);
            log.published().position
        })
        .collect();
    // A scan from the start would stop at these: a length that reaches beyond the file.
    let path = folder.0.path().join("t-0/00000000000000000000.log");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x7f; 4], 8).unwrap();
    for offset in [6, 7] {
        let slice = log.read(offset, 1 << 20, i64::MAX, true).unwrap().slice;
        let bytes = slice.unwrap().read().unwrap();
        assert_eq!(bytes.len() as u64, sizes[3] - sizes[2]);
        let header = BatchHeader::parse(&bytes).unwrap();
        assert_eq!(header.base_offset, 6);
    }
    assert!(log.read(5, 1 << 20, i64::MAX, true).is_err());
}

/// Where the last write began says nothing any more once the log was cut before it.
#[test]
fn a_reader_at_the_end_of_a_log_that_was_cut() {
    let folder = Folder::new();
    let log = folder.open(LogConfig::default(), true);
    for number in 0..4 {
        append(&log, &["a", "b"], number);
    }
    log.truncate_to(4, None).unwrap();
    for end in [6, 8] {
        append(&log, &["long enough to be elsewhere", "d"], 9);
        for offset in 0..end {
            let slice = log.read(offset, 1 << 20, i64::MAX, true).unwrap().slice;
            let header = BatchHeader::parse(&slice.unwrap().read().unwrap()).unwrap();
            assert_eq!(header.base_offset, offset & !1);
        }
    }
}

/// Runs `appends` large and small batches through `append_or_queue`; the results in the order in which they came.
/// Kafka does so with packed records (some clients cannot count), and stores others as they are, to be read under wrong offsets.
#[test]
fn records_that_a_client_did_not_count_are_numbered() {
    let (second, record_bytes) = (HEADER_BYTES + 3 + 10, 10);
    for deltas in [[0, 0, 0], [0, 2, 1], [0, 5, 9], [7, 7, 0]] {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        append(&log, &["x"], 1);
        let mut sent = batch(&["a", "b", "c"], 1);
        for (index, delta) in deltas.into_iter().enumerate() {
            sent[second - record_bytes + index * record_bytes] = 2 * delta;
        }
        set_crc(&mut sent);
        let info = log.append(&mut sent, 0, AppendOrigin::Client, 1).unwrap();
        assert_eq!(info.last_offset, 3);
        let read = log.read(1, 1 << 20, 4, true).unwrap();
        let stored = read.slice.unwrap().read().unwrap();
        let header = BatchHeader::parse(&stored).unwrap();
        let mut scratch = Scratch::default();
        let validated = validate(&stored, &Limits::default(), &mut scratch).unwrap();
        assert!(validated.consecutive, "{deltas:?}");
        let records = Records::validated(&stored, &header, &scratch);
        let seen: Vec<_> = records
            .map(|record| record.unwrap())
            .map(|record| (record.offset, record.value.unwrap()[0]))
            .collect();
        assert_eq!(seen, [(1, b'a'), (2, b'b'), (3, b'c')]);
    }
}

fn through_the_queue(
    log: &Arc<Log>,
    sizes: &[usize],
    epoch: i32,
) -> Vec<(usize, super::error::Result<AppendInfo>)> {
    let (sender, receiver) = std::sync::mpsc::channel();
    for (number, size) in sizes.iter().enumerate() {
        let (records, sender, later) = (
            batch(&["x".repeat(*size).as_str()], 1000),
            sender.clone(),
            sender.clone(),
        );
        let done = move |result| later.send((number, result)).unwrap();
        match log.append_or_queue(
            When::Quick,
            records,
            epoch,
            AppendOrigin::Client,
            0,
            1000,
            done,
        ) {
            Ok(None) => {}
            Ok(Some(info)) => sender.send((number, Ok(info))).unwrap(),
            Err(error) => sender.send((number, Err(error))).unwrap(),
        }
    }
    receiver.into_iter().take(sizes.len()).collect()
}

#[test]
fn while_an_append_waits_all_wait_and_keep_their_order() {
    let folder = Folder::new();
    let log = folder.open(LogConfig::default(), true);
    log.begin_epoch(1).unwrap();
    let large = super::pending::INLINE_BYTES_MAX;
    let results = through_the_queue(&log, &[10, large, 10, 10, large, 10], 1);
    let offsets: Vec<_> = results
        .iter()
        .map(|(number, result)| (*number, result.as_ref().unwrap().base_offset))
        .collect();
    // Whatever ran where, batch n has offset n.
    assert!(
        offsets
            .iter()
            .all(|(number, offset)| *number as i64 == *offset),
        "{offsets:?}"
    );
    while log.pending_appends() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(
        through_the_queue(&log, &[10], 1)[0]
            .1
            .as_ref()
            .unwrap()
            .base_offset,
        6
    );
}

#[test]
fn a_queued_append_is_refused_when_the_epoch_has_changed() {
    let folder = Folder::new();
    let log = folder.open(LogConfig::default(), true);
    log.begin_epoch(1).unwrap();
    log.fence(2).unwrap();
    for (_, result) in through_the_queue(&log, &[10, super::pending::INLINE_BYTES_MAX], 1) {
        assert_eq!(result.unwrap_err().code(), 6);
    }
    assert_eq!(log.end_offset(), 0);
}

#[test]
fn flushes_of_many_askers_are_few() {
    let folder = Folder::new();
    let log = folder.open(LogConfig::default(), true);
    let (sender, receiver) = std::sync::mpsc::channel();
    for number in 0..50 {
        append(&log, &["a"], 1000);
        let sender = sender.clone();
        log.flush_async(Box::new(move |result| {
            sender.send((number, result.unwrap())).unwrap()
        }));
    }
    drop(sender);
    let answers: Vec<(i64, i64)> = receiver.into_iter().collect();
    assert_eq!(answers.len(), 50);
    // Nobody is told less than what was there when it asked.
    assert!(answers.iter().all(|(number, flushed)| flushed > number));
    assert_eq!(log.flushed_offset(), 50);
}

#[test]
fn a_failed_fsync_takes_the_directory_out_of_use() {
    use crate::storage::faulty::{Fault, Operation};
    use crate::storage::{FaultyStorage, Storage};
    let storage = FaultyStorage::new();
    let root = std::path::Path::new("/");
    for folder in ["/t-0", "/t-1"] {
        storage.create_directory(folder.as_ref()).unwrap();
    }
    let home = Home::quiet(Arc::new(storage.clone()), root);
    let open = |name| {
        Log::open(
            &home,
            name,
            LogConfig::default(),
            Hints {
                clean: true,
                ..Hints::default()
            },
            OpenMode::Append,
        )
    };
    let (log, other) = (open("t-0").unwrap(), open("t-1").unwrap());
    append(&log, &["a"], 1000);
    storage.break_at(
        Some(Operation::SyncData),
        0,
        Fault::Fail(std::io::ErrorKind::Other),
        false,
    );
    assert_eq!(log.flush().unwrap_err().code(), 56);
    assert_eq!(log.flushed_offset(), 0);
    // A second fsync would succeed, and prove nothing.
    assert_eq!(log.flush().unwrap_err().code(), 56);
    assert_eq!(
        other
            .append(&mut batch(&["b"], 1), 0, AppendOrigin::Client, 1)
            .unwrap_err()
            .code(),
        56
    );
    assert!(home.failure().unwrap().contains("sync"));
    // Reading goes on.
    assert!(log.read(0, 100, i64::MAX, true).unwrap().slice.is_some());
}

#[test]
fn a_full_disk_refuses_the_append_and_nothing_else() {
    use crate::storage::faulty::{Fault, Operation};
    use crate::storage::{FaultyStorage, Storage};
    let storage = FaultyStorage::new();
    storage.create_directory("/t-0".as_ref()).unwrap();
    let home = Home::quiet(Arc::new(storage.clone()), std::path::Path::new("/"));
    let hints = Hints {
        clean: true,
        ..Hints::default()
    };
    let log = Log::open(&home, "t-0", LogConfig::default(), hints, OpenMode::Append).unwrap();
    append(&log, &["a"], 1000);
    let size = log.size_bytes();
    storage.break_at(
        Some(Operation::Write),
        0,
        Fault::Fail(std::io::ErrorKind::StorageFull),
        false,
    );
    assert!(
        log.append(&mut batch(&["b"], 1), 0, AppendOrigin::Client, 1)
            .is_err()
    );
    assert_eq!((log.end_offset(), log.size_bytes()), (1, size));
    assert_eq!(append(&log, &["c"], 1000).base_offset, 1);
    // Unless somebody else can lead: then the directory goes, with its reason told once, and what is on disk is as whole as before.
    let told = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&told);
    home.on_failure(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    home.fail_when_full();
    let size = log.size_bytes();
    storage.break_at(
        Some(Operation::Write),
        0,
        Fault::Fail(std::io::ErrorKind::StorageFull),
        true,
    );
    for _ in 0..2 {
        assert!(
            log.append(&mut batch(&["d"], 1), 0, AppendOrigin::Client, 1)
                .is_err()
        );
    }
    assert!(home.failure().is_some());
    assert_eq!(told.load(std::sync::atomic::Ordering::Relaxed), 1);
    storage.repair();
    let home = Home::quiet(Arc::new(storage.clone()), std::path::Path::new("/"));
    let log = Log::open(
        &home,
        "t-0",
        LogConfig::default(),
        Hints::default(),
        OpenMode::Append,
    )
    .unwrap();
    assert_eq!((log.end_offset(), log.size_bytes()), (2, size));
}

#[test]
fn a_broken_device_fails_the_directory_also_for_readers() {
    let home = Home::quiet(
        Arc::new(crate::storage::FaultyStorage::new()),
        std::path::Path::new("/"),
    );
    let error = |errno: i32| -> super::error::Result<()> {
        use super::error::Context;
        Err(std::io::Error::from_raw_os_error(errno)).context("read", "/t-0".as_ref())
    };
    // A file that is gone may have been deleted meanwhile.
    assert!(home.guard_read(error(libc_errno::ENOENT)).is_err());
    assert_eq!(home.failure(), None);
    assert!(home.guard_read(error(libc_errno::EIO)).is_err());
    assert!(home.failure().is_some());
}

mod libc_errno {
    pub const ENOENT: i32 = 2;
    pub const EIO: i32 = 5;
}

#[test]
fn the_files_not_used_for_longest_are_closed() {
    use super::files::{FileCache, Folder as Files, SegmentFile};
    let folder = tempfile::tempdir().unwrap();
    let (cache, files) = (
        FileCache::new(3),
        Files::new(Arc::new(crate::storage::RealStorage), folder.path()),
    );
    let segments: Vec<_> = (0..6)
        .map(|base| {
            std::fs::write(
                folder.path().join(super::names::file_name(
                    base,
                    super::names::Kind::Log,
                    super::names::Suffix::None,
                )),
                [base as u8],
            )
            .unwrap();
            SegmentFile::new(
                Arc::clone(&files),
                base,
                super::names::Suffix::None,
                true,
                Arc::clone(&cache),
            )
        })
        .collect();
    let read = |at: usize| {
        let mut byte = [9];
        segments[at].file().unwrap().read_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [at as u8]);
    };
    for at in [0, 1, 2, 0, 3, 0, 4, 0, 5] {
        read(at);
        assert!(cache.open() <= 3);
    }
    assert!(segments[0].is_open() && segments[5].is_open());
    // What is held stays readable whatever the cache does; what is pinned even without a name.
    let held = segments[1].file().unwrap();
    segments[2].pin().unwrap();
    for at in [3, 4, 5] {
        read(at);
    }
    std::fs::remove_file(segments[2].path()).unwrap();
    let mut byte = [9];
    assert_eq!((held.read_at(&mut byte, 0).unwrap(), byte), (1, [1]));
    read(2);
    drop(segments);
    assert_eq!(cache.open(), 0);
}
