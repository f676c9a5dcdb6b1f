//! How much there was in the last second, and how long a thread that serves has worked in it: the time that its turns
//! took.
//!
//! Its owner alone changes it, and others read it without a lock. It is exact to a tenth of a second. A turn that goes
//! on counts, so that a thread that waits for a disk is no idle one.

use std::sync::atomic::{AtomicU64, Ordering};

const SECOND_US: u64 = 1_000_000;
const PARTS: u64 = 10;
const PART_US: u64 = SECOND_US / PARTS;
/// A place has the number of its part above these bits, and the sum below.
const SUM_BITS: u32 = 32;
const NEVER: u64 = u64::MAX;

/// A sum of what was added in the last second. If several threads add at once, some of it may be missing.
#[derive(Debug, Default)]
pub(super) struct LastSecond {
    /// The last parts of a second, each in the place that its number says.
    parts: [AtomicU64; PARTS as usize],
}

impl LastSecond {
    pub fn add(&self, now_us: u64, value: u64) {
        let number = now_us / PART_US;
        let place = &self.parts[(number % PARTS) as usize];
        let before = place.load(Ordering::Relaxed);
        let sum = match before >> SUM_BITS == number {
            true => sum_of(before) + value,
            false => value,
        };
        place.store(number << SUM_BITS | sum, Ordering::Relaxed);
    }

    pub fn sum(&self, now_us: u64) -> u64 {
        let number = now_us / PART_US;
        let parts = self.parts.iter().map(|place| place.load(Ordering::Relaxed));
        let is_young = |part: &u64| (part >> SUM_BITS) + PARTS > number;
        parts.filter(is_young).map(sum_of).sum()
    }
}

fn sum_of(part: u64) -> u64 {
    part & ((1 << SUM_BITS) - 1)
}

#[derive(Debug)]
pub(super) struct Work {
    turns_us: LastSecond,
    /// When the turn began that goes on.
    began_us: AtomicU64,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            turns_us: LastSecond::default(),
            began_us: AtomicU64::new(NEVER),
        }
    }
}

impl Work {
    pub fn begins(&self, now_us: u64) {
        self.began_us.store(now_us, Ordering::Relaxed);
    }

    pub fn ends(&self, now_us: u64) {
        let began_us = self.began_us.swap(NEVER, Ordering::Relaxed);
        if began_us == NEVER {
            return;
        }
        let took_us = now_us.saturating_sub(began_us).min(SECOND_US);
        self.turns_us.add(now_us, took_us);
    }

    /// The time that turns took in the last second, in microseconds.
    pub fn last_second_us(&self, now_us: u64) -> u64 {
        let goes_on_us = now_us.saturating_sub(self.began_us.load(Ordering::Relaxed));
        (self.turns_us.sum(now_us) + goes_on_us).min(SECOND_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_the_last_second_count() {
        let work = Work::default();
        assert_eq!(work.last_second_us(50), 0);
        for at_us in [50, 600, 250_000] {
            work.begins(at_us);
            work.ends(at_us + 100);
        }
        assert_eq!(work.last_second_us(250_200), 300);
        assert_eq!(work.last_second_us(999_999), 300);
        assert_eq!(work.last_second_us(1_000_000), 100);
        assert_eq!(work.last_second_us(1_300_000), 0);
        // Its place is used again.
        work.begins(2_050_000);
        work.ends(2_050_007);
        assert_eq!(work.last_second_us(2_100_000), 7);
        // Nothing goes on, and nothing is counted twice.
        work.ends(2_090_000);
        assert_eq!(work.last_second_us(2_100_000), 7);
    }

    #[test]
    fn a_turn_that_goes_on_counts() {
        let work = Work::default();
        work.begins(1_000_000);
        assert_eq!(work.last_second_us(1_400_000), 400_000);
        assert_eq!(work.last_second_us(9_000_000), SECOND_US);
        work.ends(9_000_000);
        assert_eq!(work.last_second_us(9_000_000), SECOND_US);
        assert_eq!(work.last_second_us(10_000_000), 0);
    }
}
