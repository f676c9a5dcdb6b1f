//! A consumer that is faster than any broker: partitions from their beginnings to their ends.
//!
//! It proves produce runs (count, a checksum that does not depend on the order, values that nobody sent) and is the load of consume
//! runs. Every batch's CRC is compared; records are walked (and compressed batches unpacked) unless `headers_only`.

use std::collections::HashSet;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ottla_core::checksum::crc32c;
use ottla_core::records::{Batches, ErrorKind, Limits, Records, Scratch, check_crc};
use ottla_core::wire::fetch::{PartitionToFetch, RequestToSend, decode_response, encode_request};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{process, socket};

pub const FETCH: (i16, i16) = (1, 11);

#[derive(Deserialize)]
pub struct Options {
    address: String,
    topic: String,
    /// Partitions 0 to N - 1.
    #[serde(default = "one")]
    partitions: i32,
    /// Each reads everything.
    #[serde(default = "one")]
    consumers: i32,
    /// Of one answer, and of one partition in it.
    #[serde(default = "fetch_bytes")]
    bytes_max: i32,
    #[serde(default = "partition_bytes")]
    partition_bytes_max: i32,
    #[serde(default)]
    headers_only: bool,
    /// Leaves out what was aborted and what is undecided.
    #[serde(default)]
    read_committed: bool,
    /// Reads until there are so many records, for producers that get no answers; else to the ends as they are.
    records: Option<u64>,
    /// Read from the beginning again until so much time is over.
    #[serde(default)]
    seconds: f64,
    /// CRC-32Cs of values that may occur.
    #[serde(default)]
    values: HashSet<u32>,
    #[serde(default)]
    pids: Vec<u32>,
}

fn one() -> i32 {
    1
}

fn fetch_bytes() -> i32 {
    16 << 20
}

fn partition_bytes() -> i32 {
    4 << 20
}

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Total {
    records: u64,
    value_bytes: u64,
    received_bytes: u64,
    requests: u64,
    /// The sum of the values' CRC-32Cs.
    checksum: u64,
    unknown: u64,
}

pub fn run(options: &Options) -> Value {
    let (begun, used) = (Instant::now(), process::cpu_s(&options.pids));
    let totals: Vec<Total> = std::thread::scope(|scope| {
        let work = || {
            let mut total = Total::default();
            loop {
                consume(options, &mut total);
                if begun.elapsed().as_secs_f64() >= options.seconds {
                    return total;
                }
            }
        };
        let threads: Vec<_> = (0..options.consumers).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| std::process::exit(1)))
            .collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let sum = |of: fn(&Total) -> u64| totals.iter().map(of).fold(0, u64::wrapping_add);
    json!({
        "seconds": seconds,
        "cpu_s": process::cpu_s(&options.pids) - used,
        "records": sum(|one| one.records),
        "value_bytes": sum(|one| one.value_bytes),
        "received_bytes": sum(|one| one.received_bytes),
        "requests": sum(|one| one.requests),
        "checksum": sum(|one| one.checksum),
        "unknown": sum(|one| one.unknown),
    })
}

fn consume(options: &Options, total: &mut Total) {
    let mut socket = socket::connect(&options.address);
    let mut left: Vec<(i32, i64)> = (0..options.partitions).map(|index| (index, 0)).collect();
    let (mut frame, mut scratch) = (Vec::new(), Scratch::default());
    let mut progress = Instant::now();
    while !left.is_empty() {
        let before = total.records;
        let ends = fetch(
            options,
            &mut socket,
            &mut left,
            &mut frame,
            &mut scratch,
            total,
        );
        if total.records > before {
            progress = Instant::now();
        }
        match options.records {
            Some(wanted) if total.records >= wanted || progress.elapsed() > PATIENCE => return,
            Some(_) => {}
            None => {
                left.retain(|(index, next)| ends.iter().all(|(of, end)| of != index || next < end))
            }
        }
        // Whoever was answered goes to the end: brokers fill answers from the front.
        if !left.is_empty() {
            left.rotate_left(1);
        }
    }
}

/// One request; moves the positions and gives the ends that were said.
fn fetch(
    options: &Options,
    socket: &mut TcpStream,
    left: &mut [(i32, i64)],
    frame: &mut Vec<u8>,
    scratch: &mut Scratch,
    total: &mut Total,
) -> Vec<(i32, i64)> {
    let asked: Vec<_> = left
        .iter()
        .map(|&(partition, fetch_offset)| PartitionToFetch {
            topic: &options.topic,
            partition,
            current_leader_epoch: -1,
            fetch_offset,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            bytes_max: options.partition_bytes_max,
        })
        .collect();
    let body = encode_request(FETCH.1, &request(options), &asked, &[]).expect("a fetch");
    let start = socket::call(socket, FETCH, &body, frame)
        .unwrap_or_else(|error| panic!("fetching: {error}"));
    let answer = decode_response(&frame[start..], FETCH.1).expect("an answer to a fetch");
    assert_eq!(answer.head.error_code, 0, "the fetch was refused");
    total.requests += 1;
    total.received_bytes += frame.len() as u64;
    let mut ends = Vec::new();
    for each in &answer.partitions {
        assert_eq!(
            each.error_code, 0,
            "partition {}: error {}",
            each.partition, each.error_code
        );
        let end = if options.read_committed {
            each.last_stable_offset
        } else {
            each.high_watermark
        };
        ends.push((each.partition, end));
        let records = each
            .records
            .clone()
            .map_or(&[][..], |range| &frame[start..][range]);
        let aborted = each.aborted_transactions.iter().flatten().count();
        assert_eq!(aborted, 0, "aborted transactions are not what is measured");
        let next = left.iter_mut().find(|(index, _)| *index == each.partition);
        walk(
            options,
            records,
            next.map(|(_, next)| next).expect("asked"),
            scratch,
            total,
        );
    }
    ends
}

fn request(options: &Options) -> RequestToSend<'static> {
    RequestToSend {
        cluster_id: None,
        replica_id: -1,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: options.bytes_max,
        isolation_level: i8::from(options.read_committed),
        session_id: 0,
        session_epoch: -1,
        rack_id: "",
    }
}

fn walk(
    options: &Options,
    records: &[u8],
    next: &mut i64,
    scratch: &mut Scratch,
    total: &mut Total,
) {
    for batch in Batches::new(records) {
        let batch = match batch {
            Ok(batch) => batch,
            // An answer's last batch may be cut off.
            Err(error) if error.kind == ErrorKind::Incomplete => return,
            Err(error) => panic!("a bad batch: {error}"),
        };
        check_crc(batch.bytes, &batch.header).expect("a checksum that is right");
        // Of the first batch, offsets before the one that was asked for may come along.
        let (from, last) = (*next, batch.header.last_offset());
        if last < from {
            continue;
        }
        *next = last + 1;
        if batch.header.is_control() {
            continue;
        }
        if options.headers_only {
            total.records += batch.header.record_count as u64;
            total.value_bytes += batch.bytes.len() as u64;
            continue;
        }
        for record in Records::new(&batch, &Limits::default(), scratch).expect("records") {
            let record = record.expect("a record");
            let value = record.value.unwrap_or_default();
            let sum = crc32c(value);
            total.records += 1;
            total.value_bytes += value.len() as u64;
            total.checksum = total.checksum.wrapping_add(u64::from(sum));
            total.unknown +=
                u64::from(!options.values.is_empty() && !options.values.contains(&sum));
        }
    }
}
