//! The cost of hot functions in instructions, which does not depend on who else runs:
//! `benches/guard.py` runs this under callgrind.
//!
//! `guard NAME` does one piece of work once to warm up, and then `TIMES` times inside `ottla_guard`, the only function whose instructions
//! are collected. Without a name it lists them.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use ottla_core::checksum::crc32c;
use ottla_core::log::opening::Hints;
use ottla_core::log::{AppendOrigin, Home, Log, LogConfig, OpenMode};
use ottla_core::records::{
    BatchBuilder, BatchOptions, Batches, Codec, ColumnDecoder, ColumnOptions, Limits, Pause,
    Records, Scratch, validate,
};
use ottla_core::storage::{FaultyStorage, Storage};
use ottla_core::wire::fetch::{self, PartitionToFetch, RequestToSend};
use ottla_core::wire::produce::{self, PartitionRecords, PartitionResult};

const TIMES: usize = 20;
const PRODUCE_VERSION: i16 = 7;
const FETCH_VERSION: i16 = 11;
const NOW_MS: i64 = 1_700_000_000_000;

/// Named in the binary, so that callgrind finds it.
// SAFETY: nobody else has a function of this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn ottla_guard(work: &mut dyn FnMut()) {
    for _ in 0..TIMES {
        work();
    }
}

fn batch(codec: Codec, batch_bytes: usize, value_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions {
        codec,
        ..BatchOptions::default()
    });
    let mut seed = 1u64;
    while builder.size_bytes() + value_bytes <= batch_bytes || builder.record_count() == 0 {
        // Letters: compressible, but not absurdly.
        let value: Vec<u8> = (0..value_bytes)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b'A' + (seed >> 59) as u8 % 26
            })
            .collect();
        builder
            .append(NOW_MS, None, Some(&value), &[])
            .expect("a small record");
    }
    builder.finish().expect("a batch")
}

fn validating(codec: Codec) -> Box<dyn FnMut()> {
    let (bytes, mut scratch) = (batch(codec, 16 << 10, 100), Scratch::default());
    Box::new(move || {
        black_box(validate(black_box(&bytes), &Limits::default(), &mut scratch).expect("valid"));
    })
}

fn log() -> Arc<Log> {
    let storage: Arc<dyn Storage> = Arc::new(FaultyStorage::new());
    storage
        .create_directory(Path::new("/t-0"))
        .expect("a new folder");
    let hints = Hints {
        clean: true,
        ..Hints::default()
    };
    let home = Home::quiet(storage, Path::new("/"));
    Log::open(&home, "t-0", LogConfig::default(), hints, OpenMode::Append).expect("a log")
}

fn appending(value_bytes: usize, batch_bytes: usize) -> Box<dyn FnMut()> {
    let (log, mut bytes) = (log(), batch(Codec::None, batch_bytes, value_bytes));
    Box::new(move || {
        bytes[..8].fill(0);
        log.append(&mut bytes, 0, AppendOrigin::Client, NOW_MS)
            .expect("an append");
    })
}

fn building() -> Box<dyn FnMut()> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    let value = vec![b'x'; 100];
    Box::new(move || {
        for _ in 0..100 {
            builder
                .append(NOW_MS, None, Some(&value), &[])
                .expect("a small record");
        }
        black_box(builder.finish().expect("a batch"));
    })
}

fn walking() -> Box<dyn FnMut()> {
    let (bytes, mut scratch) = (batch(Codec::None, 16 << 10, 100), Scratch::default());
    Box::new(move || {
        let batch = Batches::new(&bytes).next().expect("one").expect("valid");
        let records = Records::new(&batch, &Limits::default(), &mut scratch).expect("readable");
        black_box(
            records
                .map(|one| one.expect("readable").offset)
                .sum::<i64>(),
        );
    })
}

fn columns() -> Box<dyn FnMut()> {
    let bytes = batch(Codec::None, 16 << 10, 100);
    let mut decoder = ColumnDecoder::new(ColumnOptions {
        rows_max: 20_000,
        ..ColumnOptions::default()
    });
    Box::new(move || {
        decoder.start_buffer(None);
        decoder.seek(0);
        while decoder.decode(&bytes).expect("readable") == Pause::ChunkFull {
            black_box(decoder.take_chunk());
        }
    })
}

fn produce_request() -> Box<dyn FnMut()> {
    let records = batch(Codec::None, 0, 100);
    let partitions = [PartitionRecords {
        topic: "topic",
        partition: 0,
        records: Some(&records),
    }];
    let body =
        produce::encode_request(PRODUCE_VERSION, None, 1, 30_000, &partitions).expect("a request");
    Box::new(move || {
        black_box(produce::decode_request(black_box(&body), PRODUCE_VERSION).expect("a request"));
    })
}

fn produce_response() -> Box<dyn FnMut()> {
    let mut to = Vec::new();
    Box::new(move || {
        let result = PartitionResult {
            topic: b"topic",
            partition: 0,
            error_code: 0,
            base_offset: 1,
            log_append_time_ms: -1,
            log_start_offset: 0,
            record_errors: &[],
            error_message: None,
        };
        to.clear();
        produce::encode_response(&mut to, PRODUCE_VERSION, &[result], 0);
        black_box(&to);
    })
}

fn fetch_request() -> Box<dyn FnMut()> {
    let request = RequestToSend {
        cluster_id: None,
        replica_id: -1,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        isolation_level: 0,
        session_id: 0,
        session_epoch: -1,
        rack_id: "",
    };
    let partitions: Vec<_> = (0..10)
        .map(|partition| PartitionToFetch {
            topic: "topic",
            partition,
            current_leader_epoch: -1,
            fetch_offset: 0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            bytes_max: 1 << 20,
        })
        .collect();
    let body = fetch::encode_request(FETCH_VERSION, &request, &partitions, &[]).expect("a request");
    Box::new(move || {
        black_box(fetch::decode_request(black_box(&body), FETCH_VERSION).expect("a request"));
    })
}

fn checksum() -> Box<dyn FnMut()> {
    let bytes = vec![b'x'; 64 << 10];
    Box::new(move || {
        black_box(crc32c(black_box(&bytes)));
    })
}

type Prepare = fn() -> Box<dyn FnMut()>;

const WORK: [(&str, Prepare); 12] = [
    ("CRC-32C of 64 KiB", checksum),
    ("validate 16 KiB of 100-byte records", || {
        validating(Codec::None)
    }),
    ("validate the same, lz4", || validating(Codec::Lz4)),
    ("validate the same, snappy", || validating(Codec::Snappy)),
    ("walk 16 KiB of 100-byte records", walking),
    ("columns of 16 KiB of 100-byte records", columns),
    ("build a batch of 100 records", building),
    ("append one 100-byte record", || appending(100, 0)),
    ("append 16 KiB of 100-byte records", || {
        appending(100, 16 << 10)
    }),
    ("decode Produce of one batch", produce_request),
    ("encode its answer", produce_response),
    ("decode Fetch of ten partitions", fetch_request),
];

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|one| one != "--bench")
        .collect();
    let Some(name) = arguments.first() else {
        println!("{TIMES}");
        WORK.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let (_, prepare) = WORK
        .iter()
        .find(|(one, _)| one == name)
        .expect("one of the list");
    let mut work = prepare();
    work();
    ottla_guard(&mut *work);
}
