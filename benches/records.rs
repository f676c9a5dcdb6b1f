//! The cost of a batch on the hot path: `cargo bench --no-default-features --bench records
//! [FILTER]`.
//!
//! Each line is the best of several rounds on one thread (the best, because whatever disturbs only adds), with the time per
//! batch and per record and the rate over the batch's bytes.

use std::hint::black_box;
use std::time::Instant;

use ottla_core::checksum::crc32c;
use ottla_core::records::compression::Codec;
use ottla_core::records::{
    BatchBuilder, BatchHeader, BatchOptions, Batches, ColumnDecoder, ColumnOptions, Limits, Pause,
    Records, Scratch, validate,
};

const ROUNDS: usize = 15;
const ROUND_MS: u128 = 30;

struct Work {
    name: &'static str,
    batch: Vec<u8>,
    records: usize,
}

/// A batch of about `batch_bytes`, whose values have the given lengths in turn.
fn work(
    name: &'static str,
    codec: Codec,
    batch_bytes: usize,
    mut value_bytes: impl FnMut(usize) -> usize,
) -> Work {
    let mut builder = BatchBuilder::new(BatchOptions {
        codec,
        ..BatchOptions::default()
    });
    let mut text = Vec::new();
    let mut records = 0;
    while builder.size_bytes() < batch_bytes {
        text.clear();
        while text.len() < value_bytes(records) {
            text.extend_from_slice(
                format!("{:x} /page/{} ", noise(records + text.len()), records % 50).as_bytes(),
            );
        }
        text.truncate(value_bytes(records));
        builder
            .append(
                1_700_000_000_000 + (records / 4) as i64,
                None,
                Some(&text),
                &[],
            )
            .expect("a small record");
        records += 1;
    }
    Work {
        name,
        batch: builder.finish().expect("a batch"),
        records,
    }
}

fn noise(seed: usize) -> usize {
    (seed as u64)
        .wrapping_mul(6_364_136_223_846_793_005)
        .rotate_left(29)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize
        >> 40
}

fn measure(what: &str, work: &Work, mut run: impl FnMut(&[u8])) {
    let name = format!("{what} {}", work.name);
    if std::env::args()
        .skip(1)
        .any(|argument| !argument.starts_with("--") && !name.contains(&argument))
    {
        return;
    }
    let mut best_ns = f64::MAX;
    for _ in 0..ROUNDS {
        let (start, mut runs) = (Instant::now(), 0);
        while start.elapsed().as_millis() < ROUND_MS {
            for _ in 0..20 {
                run(black_box(&work.batch));
            }
            runs += 20;
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(runs));
    }
    let (batch_bytes, records) = (work.batch.len() as f64, work.records as f64);
    println!(
        "{name:44} {:9.3} us/batch {:8.2} ns/record {:8.2} M records/s {:7.2} GB/s",
        best_ns / 1e3,
        best_ns / records,
        1e3 * records / best_ns,
        batch_bytes / best_ns,
    );
}

fn main() {
    let lengths = |seed: usize| 20 + noise(seed) % 180;
    let works = [
        work("16 KiB of 100 B", Codec::None, 16 << 10, |_| 100),
        work("16 KiB of 20-200 B", Codec::None, 16 << 10, lengths),
        work("16 KiB of 1 KiB", Codec::None, 16 << 10, |_| 1024),
        work("1 MiB of 100 B", Codec::None, 1 << 20, |_| 100),
        work("gzip 16 KiB of 100 B", Codec::Gzip, 16 << 10, |_| 100),
        work("snappy 16 KiB of 100 B", Codec::Snappy, 16 << 10, |_| 100),
        work("lz4 16 KiB of 100 B", Codec::Lz4, 16 << 10, |_| 100),
        work("zstd 16 KiB of 100 B", Codec::Zstd, 16 << 10, |_| 100),
    ];
    let limits = Limits::default();
    for work in &works {
        let header = BatchHeader::parse(&work.batch).expect("a batch");
        let options = BatchOptions {
            codec: header.compression().expect("known"),
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        let mut unpacked = Scratch::default();
        measure("build", work, |batch| {
            let batch = Batches::new(batch).next().expect("one").expect("valid");
            for record in Records::new(&batch, &limits, &mut unpacked).expect("readable") {
                let record = record.expect("readable");
                builder
                    .append(record.timestamp_ms, record.key, record.value, &[])
                    .expect("small");
            }
            black_box(builder.finish().expect("records"));
        });
        let mut scratch = Scratch::default();
        measure("crc", work, |batch| {
            black_box(crc32c(batch));
        });
        measure("validate", work, |batch| {
            black_box(validate(batch, &limits, &mut scratch).expect("valid"));
        });
        measure("iterate", work, |batch| {
            let batch = Batches::new(batch).next().expect("one").expect("valid");
            let records = Records::new(&batch, &limits, &mut scratch).expect("readable");
            black_box(
                records
                    .map(|record| record.expect("readable").value.map_or(0, <[u8]>::len))
                    .sum::<usize>(),
            );
        });
        for (what, check_crc) in [("columns", true), ("columns, no crc,", false)] {
            let options = ColumnOptions {
                check_crc,
                rows_max: 20_000,
                ..ColumnOptions::default()
            };
            let mut decoder = ColumnDecoder::new(options);
            measure(what, work, |batch| {
                // The same batch again and again, as if its offsets went on; chunks are taken when they are full.
                decoder.start_buffer(None);
                decoder.seek(0);
                while decoder.decode(batch).expect("readable") == Pause::ChunkFull {
                    black_box(decoder.take_chunk());
                }
            });
        }
    }
}
