//! Where random tests get their randomness from, so that what failed can be run again.
//!
//! `OTTLA_SEED` is the seed of the first case, by default the time. `OTTLA_CASES` says how many there are; 20 is what a test does by itself, so
//! that 200 means ten times that. A failing test prints what runs it again.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};

fn from_environment(name: &str) -> Option<u64> {
    let given = std::env::var(name).ok()?;
    Some(
        given
            .parse()
            .unwrap_or_else(|_| panic!("{name}={given:?} is no number")),
    )
}

/// The seed of the first case.
fn first() -> u64 {
    from_environment("OTTLA_SEED").unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // Short enough to be typed.
        since.map_or(0, |since| since.as_micros() as u64 % 1_000_000_000)
    })
}

fn cases(by_default: u64) -> u64 {
    let given = from_environment("OTTLA_CASES");
    given.map_or(by_default, |cases| (cases * by_default / 20).max(1))
}

/// Runs `test` with each of a number of seeds.
pub fn each(by_default: u64, mut test: impl FnMut(u64)) {
    let first = first();
    for seed in (first..).take(cases(by_default) as usize) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            eprintln!("seed {seed}: run it alone with OTTLA_SEED={seed} OTTLA_CASES=1");
            resume_unwind(panic);
        }
    }
}

/// Runs `test` with random values, and shrinks those that make it fail.
pub fn property<S: Strategy>(by_default: u32, strategy: S, test: impl Fn(S::Value)) {
    let (seed, cases) = (first(), cases(by_default.into()) as u32);
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    });
    let result = runner.run(&strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(error) = result {
        let given = from_environment("OTTLA_CASES").unwrap_or(20);
        panic!("with OTTLA_SEED={seed} OTTLA_CASES={given}: {error}");
    }
}

/// A choice below a number, again and again: what [`FaultyStorage::power_cut`](crate::storage::FaultyStorage::power_cut) asks for.
pub fn choices(seed: u64) -> impl FnMut(usize) -> usize {
    let mut number = seed;
    move |below| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) as usize % below
    }
}
