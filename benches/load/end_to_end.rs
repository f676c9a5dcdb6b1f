//! From the moment at which a record is sent until a consumer has decoded it, at a fixed rate.
//!
//! The producer sends one record a request and never waits for answers; another thread takes them, and the time until each is the
//! latency of the acknowledgement. A record that the server held up, because it did not take the one before, counts from when it
//! should have been sent: there is no coordinated omission. One that is late because this thread got its processor late counts from
//! when it was sent, for nobody who is measured did that; how late they were is told as well.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ottla_core::records::{BatchBuilder, BatchOptions, Batches, Limits, Records, Scratch};
use ottla_core::wire::fetch::{PartitionToFetch, RequestToSend, decode_response, encode_request};
use ottla_core::wire::headers::request_frame;
use ottla_core::wire::produce::{self, PartitionRecords};
use rustix::net::{SendFlags, send};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::check::FETCH;
use crate::latency::Latencies;
use crate::{process, socket};

#[derive(Deserialize)]
pub struct Options {
    address: String,
    /// With one partition and nothing in it from this offset on.
    topic: String,
    #[serde(default)]
    first_offset: i64,
    acks: i16,
    rate: f64,
    #[serde(default)]
    warm_up_s: f64,
    seconds: f64,
    record_bytes: usize,
    #[serde(default)]
    pids: Vec<u32>,
}

const PRODUCE: (i16, i16) = (0, 7);
const FETCH_BYTES: i32 = 4 << 20;
/// The end of each wait is spent awake: a processor of a virtual machine that slept is given back 60 to 100 µs late, one
/// time in a hundred 150 to 300. But most of the time it is free for others.
const AWAKE_MAX: Duration = Duration::from_micros(300);
const AWAKE_PART: f64 = 0.3;

/// When each record should be sent, and since when it counts.
struct Schedule {
    begun: Instant,
    gap_ns: f64,
    /// Nanoseconds after `begun`.
    since_ns: Vec<AtomicU64>,
}

impl Schedule {
    fn due(&self, index: u64) -> Instant {
        self.begun + Duration::from_nanos((index as f64 * self.gap_ns) as u64)
    }

    fn starts(&self, index: u64, since: Instant) {
        let since_ns = since.saturating_duration_since(self.begun).as_nanos() as u64;
        self.since_ns[index as usize].store(since_ns, Ordering::Release);
    }

    /// How long ago a record started.
    fn latency(&self, index: u64) -> Duration {
        let since_ns = self.since_ns[index as usize].load(Ordering::Acquire);
        self.begun
            .elapsed()
            .saturating_sub(Duration::from_nanos(since_ns))
    }
}

pub fn run(options: &Options) -> Value {
    let count = ((options.warm_up_s + options.seconds) * options.rate) as u64;
    let first = (options.warm_up_s * options.rate) as u64;
    let schedule = Schedule {
        begun: Instant::now() + Duration::from_millis(50),
        gap_ns: 1e9 / options.rate,
        since_ns: (0..count).map(|_| AtomicU64::new(0)).collect(),
    };
    let schedule = &schedule;
    let awake = AWAKE_MAX.min(Duration::from_nanos((schedule.gap_ns * AWAKE_PART) as u64));
    let failed = AtomicBool::new(false);
    let mut producer = socket::connect(&options.address);
    let answers = producer.try_clone().expect("a second handle");
    let mut late = Latencies::new();
    let (acknowledged, consumed, cpu_s) = thread::scope(|scope| {
        let consumer = scope.spawn(|| consume(options, count, first, schedule));
        let answers =
            scope.spawn(|| acknowledge(options, answers, count, first, schedule, &failed));
        let mut used = 0.0;
        let mut held_until = schedule.begun;
        for index in 0..count {
            if index == first {
                used = process::cpu_s(&options.pids);
            }
            let frame = frame(options, index);
            let due = schedule.due(index);
            wait_until(due, awake);
            let now = Instant::now();
            if index >= first {
                late.record(now - due);
            }
            schedule.starts(index, if due < held_until { due } else { now });
            if write(&mut producer, &frame) == Taken::AfterWaiting {
                held_until = Instant::now();
            }
        }
        let cpu_s = process::cpu_s(&options.pids) - used;
        let answers = answers.join().unwrap_or_else(|_| std::process::exit(1));
        let consumed = consumer.join().unwrap_or_else(|_| std::process::exit(1));
        (answers, consumed, cpu_s)
    });
    json!({
        "sent": count,
        "requests": count - first,
        "failed": failed.load(Ordering::Relaxed),
        "behind_s": schedule.begun.elapsed().as_secs_f64() - count as f64 / options.rate,
        "cpu_s": cpu_s,
        "late": late.summary(),
        "acknowledged": acknowledged.summary(),
        "latency": consumed.summary(),
    })
}

#[derive(PartialEq)]
enum Taken {
    AtOnce,
    /// The server had not taken what was sent before.
    AfterWaiting,
}

fn write(socket: &mut TcpStream, frame: &[u8]) -> Taken {
    // Only this call does not wait: a thread reads answers from the same socket.
    let sent = send(&*socket, frame, SendFlags::DONTWAIT).unwrap_or(0);
    if sent == frame.len() {
        return Taken::AtOnce;
    }
    // An error that is not the full buffer's comes again.
    socket.write_all(&frame[sent..]).expect("sending");
    Taken::AfterWaiting
}

fn wait_until(time: Instant, awake: Duration) {
    loop {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > awake {
            thread::sleep(left - awake);
        }
    }
}

/// A Produce request of one record that begins with its number.
fn frame(options: &Options, index: u64) -> Vec<u8> {
    let mut value = vec![b'x'; options.record_bytes.max(8)];
    value[..8].copy_from_slice(&index.to_be_bytes());
    let mut builder = BatchBuilder::new(BatchOptions::default());
    // Of now: a broker may delete older records by their age before they are counted.
    let now_ms = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_millis() as i64);
    builder
        .append(now_ms, None, Some(&value), &[])
        .expect("a small record");
    let batch = builder.finish().expect("a batch");
    let records = [PartitionRecords {
        topic: &options.topic,
        partition: 0,
        records: Some(&batch),
    }];
    let body = produce::encode_request(PRODUCE.1, None, options.acks, 30_000, &records)
        .expect("a request");
    request_frame(
        PRODUCE.0,
        PRODUCE.1,
        false,
        index as i32,
        Some(socket::CLIENT_ID),
        &body,
    )
    .expect("a frame")
}

fn acknowledge(
    options: &Options,
    mut socket: TcpStream,
    count: u64,
    first: u64,
    schedule: &Schedule,
    failed: &AtomicBool,
) -> Latencies {
    let (mut latencies, mut frame) = (Latencies::new(), Vec::new());
    for index in 0..if options.acks == 0 { 0 } else { count } {
        socket::read_frame(&mut socket, &mut frame).expect("an answer");
        let answer =
            produce::decode_response(&frame[4..], PRODUCE.1).expect("an answer to Produce");
        if answer.results.iter().any(|one| one.error_code != 0) {
            failed.store(true, Ordering::Relaxed);
        }
        if index >= first {
            latencies.record(schedule.latency(index));
        }
    }
    latencies
}

fn consume(options: &Options, count: u64, first: u64, schedule: &Schedule) -> Latencies {
    let mut socket = socket::connect(&options.address);
    let (mut latencies, mut frame, mut scratch) =
        (Latencies::new(), Vec::new(), Scratch::default());
    let request = RequestToSend {
        cluster_id: None,
        replica_id: -1,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: FETCH_BYTES,
        isolation_level: 0,
        session_id: 0,
        session_epoch: -1,
        rack_id: "",
    };
    let mut next = options.first_offset;
    let end = next + count as i64;
    while next < end {
        let asked = PartitionToFetch {
            topic: &options.topic,
            partition: 0,
            current_leader_epoch: -1,
            fetch_offset: next,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            bytes_max: FETCH_BYTES,
        };
        let body = encode_request(FETCH.1, &request, &[asked], &[]).expect("a fetch");
        let start = socket::call(&mut socket, FETCH, &body, &mut frame).expect("an answer");
        let answer = decode_response(&frame[start..], FETCH.1).expect("an answer to a fetch");
        let records = answer.partitions[0].records.clone();
        for batch in Batches::new(records.map_or(&[], |range| &frame[start..][range])) {
            let Ok(batch) = batch else { break };
            if batch.header.last_offset() < next {
                continue;
            }
            next = batch.header.last_offset() + 1;
            for record in Records::new(&batch, &Limits::default(), &mut scratch).expect("records") {
                let value = record.expect("a record").value.unwrap_or_default();
                let index = u64::from_be_bytes(*value.first_chunk().expect("its number"));
                if index >= first {
                    latencies.record(schedule.latency(index));
                }
            }
        }
    }
    latencies
}
