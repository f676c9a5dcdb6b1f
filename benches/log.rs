//! The costs of the log: `cargo bench --no-default-features --bench log
//! [append|lookup|hand-over|recovery|producers]`.
//!
//! `append`: one batch of 16 KiB appended by one thread. "own" is everything but the write: the same append on a disk that swallows
//! what is written to `.log` files. "write" is the write alone, "whole" both, on files in memory (/dev/shm) if there is such a place.
//! `lookup`: random offsets and timestamps in a segment of 1 GiB. `hand-over`: an append on the loop's thread against the time that
//! giving it to an I/O thread costs that thread, by size. `recovery`: opening a log after a kill, from its first byte. `producers`: the memory
//! of ten thousand of them in one log, and a retry's check among them.
//!
//! Each figure is the best of several rounds: whatever disturbs only adds.

use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_core::log::opening::Hints;
use ottla_core::log::{AppendOrigin, Home, Log, LogConfig, OpenMode};
use ottla_core::records::{BatchBuilder, BatchOptions, Marker, Outcome};
use ottla_core::storage::{Entry, FaultyStorage, File, Metadata, Mode, RealStorage, Storage};

const ROUNDS: usize = 15;

/// A disk in memory that forgets the content of `.log` files.
struct Swallowing(FaultyStorage);

struct Swallowed;

impl File for Swallowed {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }
    fn write_at(&self, bytes: &[u8], _: u64) -> io::Result<()> {
        black_box(bytes);
        Ok(())
    }
    fn set_length(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn length(&self) -> io::Result<u64> {
        Ok(0)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Storage for Swallowing {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let opened = self.0.open(path, mode)?;
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        Ok(if is_log { Arc::new(Swallowed) } else { opened })
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        self.0.list(directory)
    }
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.0.metadata(path)
    }
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.0.create_directory(path)
    }
    fn set_modified(&self, path: &Path, modified_ms: i64) -> io::Result<()> {
        self.0.set_modified(path, modified_ms)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.0.remove_directory(path)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.0.sync_directory(directory)
    }
    fn can_sync_all(&self) -> bool {
        self.0.can_sync_all()
    }
    fn sync_all(&self, directory: &Path) -> io::Result<()> {
        self.0.sync_all(directory)
    }
}

fn batch(batch_bytes: usize, value_bytes: usize, timestamp_ms: i64, producer_id: i64) -> Vec<u8> {
    let options = BatchOptions {
        producer_id,
        producer_epoch: if producer_id < 0 { -1 } else { 0 },
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options);
    let value: Vec<u8> = (0..value_bytes).map(|at| at as u8).collect();
    while builder.size_bytes() + value_bytes <= batch_bytes || builder.record_count() == 0 {
        builder
            .append(timestamp_ms, Some(b"key"), Some(&value), &[])
            .expect("a small record");
    }
    builder.finish().expect("a batch")
}

fn open(storage: Arc<dyn Storage>, root: &Path) -> Arc<Log> {
    storage
        .create_directory(&root.join("t-0"))
        .expect("a new folder");
    let home = Home::quiet(storage, root);
    let hints = Hints {
        clean: true,
        ..Hints::default()
    };
    Log::open(&home, "t-0", LogConfig::default(), hints, OpenMode::Append).expect("a log")
}

/// A folder in memory where there is such a place; removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let shm = Path::new("/dev/shm");
        let root = if shm.is_dir() {
            shm.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = root.join(format!("ottla-bench-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The best time of one call.
fn best(calls: usize, mut round: impl FnMut(usize)) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for call in 0..calls {
            round(call);
        }
        best = best.min(started.elapsed());
    }
    best.as_secs_f64() * 1e6 / calls as f64
}

fn append() {
    println!("append of a 16 KiB batch, us: own (budget), write alone, whole");
    for (name, value_bytes, budget) in [("100 B records", 100, 1.6), ("1 KiB records", 1024, 0.6)] {
        let template = batch(16 << 10, value_bytes, 1_700_000_000_000, -1);
        let mut bytes = template.clone();
        let mut once = |log: &Log| {
            // What a request's frame has: base offset 0.
            bytes[..8].fill(0);
            log.append(&mut bytes, 0, AppendOrigin::Client, 1_700_000_000_000)
                .expect("an append");
        };
        let swallowing = Swallowing(FaultyStorage::new());
        let log = open(Arc::new(swallowing), Path::new("/"));
        let own = best(2_000, |_| once(&log));
        let scratch = Scratch::new();
        let log = open(Arc::new(RealStorage), &scratch.0);
        let whole = best(500, |_| once(&log));
        let path = scratch.0.join("plain");
        let file = RealStorage.open(&path, Mode::Create).expect("a file");
        let mut position = 0;
        let write = best(500, |_| {
            file.write_at(&template, position).expect("a write");
            position += template.len() as u64;
        });
        println!("  {name}: own {own:.2} ({budget}), write {write:.2}, whole {whole:.2}");
    }
}

fn lookup() {
    let scratch = Scratch::new();
    let log = open(Arc::new(RealStorage), &scratch.0);
    println!("lookup in a segment of 1 GiB, us (budget 5): offset, timestamp; by batch size");
    for batch_bytes in [16 << 10, 1 << 10] {
        log.truncate_to(0, None).expect("an empty log");
        let template = batch(batch_bytes, 100, 0, -1);
        let mut timestamp_ms = 1_700_000_000_000i64;
        while log.segments().len() == 1 && log.size_bytes() + 2 * (batch_bytes as u64) < 1 << 30 {
            let mut bytes = template.clone();
            // A timestamp of its own: base and greatest.
            bytes[27..35].copy_from_slice(&timestamp_ms.to_be_bytes());
            bytes[35..43].copy_from_slice(&timestamp_ms.to_be_bytes());
            let crc = ottla_core::checksum::crc32c(&bytes[21..]);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
            log.append(&mut bytes, 0, AppendOrigin::Client, timestamp_ms)
                .expect("an append");
            timestamp_ms += 10;
        }
        let (end, first_ms) = (log.end_offset(), 1_700_000_000_000i64);
        let mut number = 1u64;
        let mut random = |below: i64| {
            number = number
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (number >> 33) as i64 % below
        };
        let by_offset = best(2_000, |_| {
            black_box(
                log.read(random(end), 1 << 20, i64::MAX, true)
                    .expect("a slice"),
            );
        });
        let by_timestamp = best(2_000, |_| {
            black_box(
                log.offset_for_timestamp(first_ms + random(timestamp_ms - first_ms - 10))
                    .expect("a match"),
            );
        });
        let tail = best(2_000, |_| {
            black_box(log.read(end - 1, 1 << 20, i64::MAX, true).expect("a slice"));
        });
        println!(
            "  {batch_bytes} B batches, {end} records: {by_offset:.2}, {by_timestamp:.2}; the last offset {tail:.2}"
        );
    }
}

fn hand_over() {
    println!("append on the loop, us against what handing it over costs the loop");
    for kib in [16, 64, 128, 256, 1000] {
        let scratch = Scratch::new();
        let log = open(Arc::new(RealStorage), &scratch.0);
        let template = batch(kib << 10, 1000, 1_700_000_000_000, -1);
        let mut bytes = template.clone();
        let inline = best(200, |_| {
            bytes[..8].fill(0);
            log.append(&mut bytes, 0, AppendOrigin::Client, 0)
                .expect("an append");
        });
        let pool = ottla_core::io::IoPool::new("bench", 1).expect("a thread");
        let handed = best(200, |_| {
            let records = black_box(template.as_ptr() as usize);
            pool.submit(move || {
                black_box(records);
            });
        });
        println!("  {kib} KiB: {inline:.1} against {handed:.2}");
    }
}

/// Batches of 16 KiB by nobody, by ten thousand producers, or in transactions of ten batches of which every second is aborted.
fn recovery() {
    println!("opening a log of 512 MiB after a kill, GB/s (budget 1)");
    const BYTES: u64 = 512 << 20;
    for (name, producers, transactional) in [
        ("no producers", 0, false),
        ("10,000 producers", 10_000, false),
        ("transactions", 1000, true),
    ] {
        let scratch = Scratch::new();
        let log = open(Arc::new(RealStorage), &scratch.0);
        let mut sequences = vec![(0, 0); producers.max(1) as usize];
        let mut round = 0;
        while log.size_bytes() < BYTES {
            let producer = if producers == 0 {
                -1
            } else {
                round % producers
            };
            let (sequence, batches) = &mut sequences[producer.max(0) as usize];
            let mut bytes = numbered_batch(16 << 10, producer, *sequence, transactional);
            let info = log
                .append(&mut bytes, 0, AppendOrigin::Client, 0)
                .expect("an append");
            *sequence += (info.last_offset - info.base_offset + 1) as i32;
            *batches += 1;
            if transactional && *batches % 10 == 0 {
                let outcome = [Outcome::Commit, Outcome::Abort][*batches / 10 % 2];
                let marker = Marker {
                    outcome,
                    coordinator_epoch: 0,
                };
                let mut bytes = marker.batch(producer, 0, 0).expect("a marker");
                log.append(&mut bytes, 0, AppendOrigin::Coordinator, 0)
                    .expect("an append");
            }
            round += 1;
        }
        let size = log.size_bytes() as f64;
        drop(log);
        let mut best = Duration::MAX;
        for _ in 0..4 {
            let home = Home::quiet(Arc::new(RealStorage), &scratch.0);
            let started = Instant::now();
            let config = LogConfig::default();
            Log::open(&home, "t-0", config, Hints::default(), OpenMode::Append).expect("a log");
            best = best.min(started.elapsed());
        }
        println!("  {name}: {:.2}", size / best.as_secs_f64() / 1e9);
    }
}

fn numbered_batch(bytes: usize, producer_id: i64, sequence: i32, transactional: bool) -> Vec<u8> {
    let has_producer = producer_id >= 0;
    let mut builder = BatchBuilder::new(BatchOptions {
        producer_id,
        producer_epoch: if has_producer { 0 } else { -1 },
        base_sequence: if has_producer { sequence } else { -1 },
        transactional,
        ..BatchOptions::default()
    });
    while builder.size_bytes() + 100 <= bytes || builder.record_count() == 0 {
        builder
            .append(0, Some(b"key"), Some(&[7; 100]), &[])
            .expect("a small record");
    }
    builder.finish().expect("a batch")
}

/// Resident memory of this process.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

fn producers() {
    println!(
        "ten thousand producers with five batches each, MiB (budget 30); and an append among them, us"
    );
    for transactional in [false, true] {
        let scratch = Scratch::new();
        let log = open(Arc::new(RealStorage), &scratch.0);
        let before = resident_kib();
        for sequence in 0..5 {
            for producer in 0..10_000 {
                let mut bytes = numbered_batch(0, producer, sequence, transactional);
                log.append(&mut bytes, 0, AppendOrigin::Client, 0)
                    .expect("an append");
            }
        }
        let grown = resident_kib().saturating_sub(before) as f64 / 1024.0;
        let mut sequence = 5;
        let mut producer = 0;
        let append = best(1000, |_| {
            let mut bytes = numbered_batch(0, producer, sequence, transactional);
            log.append(&mut bytes, 0, AppendOrigin::Client, 0)
                .expect("an append");
            producer += 1;
            if producer == 10_000 {
                (producer, sequence) = (0, sequence + 1);
            }
        });
        let stable = best(1000, |_| {
            black_box(log.last_stable_offset());
        });
        let name = if transactional {
            "with open transactions"
        } else {
            "idempotent"
        };
        println!("  {name}: {grown:.1}; append {append:.2}, last stable offset {stable:.3}");
    }
}

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let runs: [(&str, fn()); 5] = [
        ("append", append),
        ("lookup", lookup),
        ("hand-over", hand_over),
        ("recovery", recovery),
        ("producers", producers),
    ];
    for (name, run) in runs {
        if filter.as_deref().is_none_or(|filter| name.contains(filter)) {
            run();
        }
    }
}
