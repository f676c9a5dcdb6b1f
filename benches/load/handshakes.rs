//! Handshakes of TLS, whole ones, by threads that each make one after the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::link::{Entrance, Opener};
use crate::process;

#[derive(Deserialize)]
pub struct Options {
    address: String,
    entrance: Entrance,
    #[serde(default = "one")]
    threads: usize,
    #[serde(default)]
    warm_up_s: f64,
    seconds: f64,
    /// So many a second over all threads; without it as many as there can be.
    rate: Option<f64>,
    /// Whose CPU is taken over the measured time.
    #[serde(default)]
    pids: Vec<u32>,
}

fn one() -> usize {
    1
}

pub fn run(options: &Options) -> Value {
    let opener = Opener::new(&options.entrance);
    let (count, stopping) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for index in 0..options.threads {
            let (opener, count, stopping) = (&opener, &count, &stopping);
            scope.spawn(move || repeat(options, index, opener, count, stopping));
        }
        std::thread::sleep(Duration::from_secs_f64(options.warm_up_s));
        let (begun, before, used) = (
            Instant::now(),
            count.load(Ordering::Relaxed),
            process::cpu_s(&options.pids),
        );
        std::thread::sleep(Duration::from_secs_f64(options.seconds));
        let seconds = begun.elapsed().as_secs_f64();
        let done = count.load(Ordering::Relaxed) - before;
        let used = process::cpu_s(&options.pids) - used;
        stopping.store(true, Ordering::Relaxed);
        json!({
            "handshakes": done,
            "handshakes_per_s": done as f64 / seconds,
            "cpu_us": used / done.max(1) as f64 * 1e6,
        })
    })
}

fn repeat(
    options: &Options,
    index: usize,
    opener: &Opener,
    count: &AtomicU64,
    stopping: &AtomicBool,
) {
    let gap = options
        .rate
        .map(|rate| Duration::from_secs_f64(options.threads as f64 / rate));
    let mut next = Instant::now();
    if let Some(gap) = gap {
        // At times that are spread evenly over those of all threads.
        next += gap.mul_f64(index as f64 / options.threads as f64);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    while !stopping.load(Ordering::Relaxed) {
        drop(opener.open(&options.address));
        count.fetch_add(1, Ordering::Relaxed);
        if let Some(gap) = gap {
            next += gap;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
}
