//! Compaction: how fast one thread cleans a log, and what its map takes. The budget is 300 MB/s a core, and 24 bytes a key.
//!
//! `cargo bench --no-default-features --bench cleaner [-- FOLDER [CASE ...]]`; the folder's file system is part of what is measured (default:
//! the system's temporary folder), a case is named by a part of its name. MB/s count every byte of the log once, although a log that is dirty as a whole is read twice.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ottla_core::log::cleaner::{Cleaner, CleanerSettings};
use ottla_core::log::log::OpenMode;
use ottla_core::log::opening::Hints;
use ottla_core::log::{AppendOrigin, Home, Log, LogConfig};
use ottla_core::records::{BatchBuilder, BatchOptions, Codec};
use rustix::time::{ClockId, clock_gettime};

const LOG_BYTES: usize = 400 << 20;

struct Case {
    name: &'static str,
    value_bytes: usize,
    keys: u64,
    records_per_batch: usize,
    codec: Codec,
}

const CASES: [Case; 6] = [
    case("100-byte records, each key 4 times", 80, 4, 100),
    case("1000-byte records, each key 4 times", 980, 4, 20),
    case("1000-byte records, all keys different", 980, 1, 20),
    case("100-byte records, all keys different", 80, 1, 100),
    case("100-byte records, one a batch", 80, 4, 1),
    Case {
        codec: Codec::Lz4,
        ..case("100-byte records, lz4", 80, 4, 100)
    },
];

const fn case(
    name: &'static str,
    value_bytes: usize,
    versions: u64,
    records_per_batch: usize,
) -> Case {
    Case {
        name,
        value_bytes,
        keys: LOG_BYTES as u64 / (value_bytes as u64 + 30) / versions,
        records_per_batch,
        codec: Codec::None,
    }
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'));
    let folder = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let wanted: Vec<String> = arguments.collect();
    for case in &CASES {
        if wanted.is_empty() || wanted.iter().any(|part| case.name.contains(part.as_str())) {
            run(&folder, case);
        }
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn run(folder: &std::path::Path, case: &Case) {
    let root = tempfile::tempdir_in(folder).unwrap();
    std::fs::create_dir(root.path().join("t-0")).unwrap();
    let config = LogConfig {
        segment_bytes: 100 << 20,
        compact: true,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    };
    let home = Home::real(root.path());
    let log = Log::open(&home, "t-0", config, Hints::default(), OpenMode::Append).unwrap();
    fill(&log, case);
    log.flush().unwrap();
    log.set_high_watermark(log.end_offset());
    let cleaner = Cleaner::new(CleanerSettings {
        map_bytes: 128 << 20,
        map_load_factor: 0.9,
        io_bytes: 512 << 10,
        bytes_per_second: f64::MAX,
    });
    let cleanable = log.cleanable(0).unwrap().unwrap();
    let (begin, cpu_begin) = (Instant::now(), cpu());
    let (from, to) = (
        cleanable.first_dirty_offset,
        cleanable.first_uncleanable_offset,
    );
    let report = log.clean(&cleaner, from, to).unwrap();
    let (seconds, cpu_seconds) = (
        begin.elapsed().as_secs_f64(),
        (cpu() - cpu_begin).as_secs_f64(),
    );
    let megabytes = report.bytes_read as f64 / 1e6;
    println!(
        "{:40} {:7.0} MB/s a core  {:7.0} MB/s elapsed  {:6.1} ns a record  {:4.1} bytes a key ({} keys)  {:3.0} % left",
        case.name,
        megabytes / cpu_seconds,
        megabytes / seconds,
        cpu_seconds * 1e9 / report.records_read as f64,
        report.map_bytes as f64 / report.map_keys as f64,
        report.map_keys,
        100.0 * report.bytes_written as f64 / report.bytes_read as f64,
    );
    log.close(false).unwrap();
}

fn fill(log: &Log, case: &Case) {
    let mut seed = 1u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let distinct = case.keys * (case.value_bytes as u64 + 30) * 2 > LOG_BYTES as u64;
    let (mut number, mut value) = (0, vec![0; case.value_bytes]);
    while log.size_bytes() < LOG_BYTES as u64 {
        let mut builder = BatchBuilder::new(BatchOptions {
            codec: case.codec,
            ..BatchOptions::default()
        });
        for _ in 0..case.records_per_batch {
            number += 1;
            let key = if distinct {
                number
            } else {
                random() % case.keys
            };
            let key = format!("key-{key:012}");
            for chunk in value.chunks_mut(8) {
                chunk.copy_from_slice(
                    &(random() & 0x0f0f_0f0f_0f0f_0f0f).to_le_bytes()[..chunk.len()],
                );
            }
            builder
                .append(number as i64, Some(key.as_bytes()), Some(&value), &[])
                .unwrap();
        }
        log.append(&mut builder.finish().unwrap(), 0, AppendOrigin::Client, 0)
            .unwrap();
    }
    log.roll().unwrap();
}
