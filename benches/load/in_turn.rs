//! A producer that waits for each answer before it sends the next record: to partitions in turns, which several servers lead.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ottla_core::wire::produce;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::latency::Latencies;
use crate::{process, socket};

#[derive(Deserialize)]
pub struct Options {
    /// Files of Produce requests, which are sent in turns.
    frames: Vec<String>,
    /// Of each frame its server.
    addresses: Vec<String>,
    #[serde(default)]
    warm_up_s: f64,
    seconds: f64,
    /// The servers never answer (acks=0).
    #[serde(default)]
    unanswered: bool,
    /// Whose CPU is taken over the measured time.
    #[serde(default)]
    pids: Vec<u32>,
}

const PRODUCE_VERSION: i16 = 7;

pub fn run(options: &Options) -> Value {
    let frames: Vec<_> = options
        .frames
        .iter()
        .map(|path| std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}")))
        .collect();
    let mut connected: Vec<(&str, TcpStream)> = Vec::new();
    let of_frames: Vec<usize> = options
        .addresses
        .iter()
        .map(|address| {
            let known = connected.iter().position(|(other, _)| other == address);
            known.unwrap_or_else(|| {
                connected.push((address, socket::connect(address)));
                connected.len() - 1
            })
        })
        .collect();
    assert_eq!(of_frames.len(), frames.len(), "an address for each frame");
    let (mut sent, mut failed) = (vec![0u64; frames.len()], 0u64);
    let (mut latencies, mut answer) = (Latencies::new(), Vec::new());
    let (start, warm_up) = (Instant::now(), Duration::from_secs_f64(options.warm_up_s));
    let length = Duration::from_secs_f64(options.seconds);
    // Since when it is measured, and the CPU of the servers then.
    let mut measured: Option<(Instant, f64)> = None;
    let mut requests = 0u64;
    for index in (0..frames.len()).cycle() {
        let begun = Instant::now();
        match measured {
            None if begun - start >= warm_up => {
                measured = Some((begun, process::cpu_s(&options.pids)));
            }
            Some((since, _)) if begun - since >= length => break,
            _ => {}
        }
        let server = &mut connected[of_frames[index]].1;
        server.write_all(&frames[index]).expect("sending");
        sent[index] += 1;
        if !options.unanswered {
            socket::read_frame(server, &mut answer).expect("an answer");
            let found = produce::decode_response(&answer[4..], PRODUCE_VERSION)
                .expect("an answer to Produce");
            failed += u64::from(found.results.iter().any(|one| one.error_code != 0));
        }
        if measured.is_some() {
            latencies.record(begun.elapsed());
            requests += 1;
        }
    }
    let (since, used) = measured.expect("it was measured");
    let seconds = since.elapsed().as_secs_f64();
    json!({
        "seconds": seconds,
        "requests": requests,
        "requests_per_s": requests as f64 / seconds,
        "failed": failed,
        "sent": sent,
        "cpu_s": process::cpu_s(&options.pids) - used,
        "latency": latencies.summary(),
    })
}
