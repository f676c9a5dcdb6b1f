//! How many connections came lately, and how long to accept no more (KIP-612). No clock: every call is told the time.
//!
//! The numbers are Kafka's (metrics/stats/Rate.java): sums of windows, the current one included. As long as there are fewer windows than are
//! kept, all but one of them count as having passed: one connection is no rate yet.

use std::collections::VecDeque;

/// What a rate is measured over (`quota.window.num`, `quota.window.size.seconds`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub samples: usize,
    pub size_ms: u64,
}

/// Events per second, and their bound.
#[derive(Debug)]
pub struct Rate {
    window: Window,
    per_second_max: f64,
    /// Begin and count, oldest first.
    samples: VecDeque<(u64, u64)>,
}

impl Rate {
    pub fn new(window: Window, per_second_max: u32) -> Self {
        Self {
            window,
            per_second_max: f64::from(per_second_max),
            samples: VecDeque::new(),
        }
    }

    /// Another bound for what is counted already.
    pub fn limit(&mut self, per_second_max: u32) {
        self.per_second_max = f64::from(per_second_max);
    }

    /// One more event; returns for how long there should be no further one, at most one window.
    pub fn record(&mut self, now_ms: u64) -> u64 {
        let Window { samples, size_ms } = self.window;
        if self
            .samples
            .back()
            .is_none_or(|(begin_ms, _)| now_ms - begin_ms >= size_ms)
        {
            self.samples.push_back((now_ms, 0));
        }
        if let Some((_, count)) = self.samples.back_mut() {
            *count += 1;
        }
        while let Some((begin_ms, _)) = self.samples.front()
            && (now_ms - begin_ms >= samples as u64 * size_ms || self.samples.len() > samples)
        {
            self.samples.pop_front();
        }
        let elapsed_ms = self
            .samples
            .front()
            .map_or(0, |(begin_ms, _)| now_ms - begin_ms);
        let missing = (samples as u64 - 1).saturating_sub(elapsed_ms / size_ms);
        let window_ms = (elapsed_ms + missing * size_ms).max(1) as f64;
        let count: u64 = self.samples.iter().map(|(_, count)| count).sum();
        let rate = count as f64 / window_ms * 1000.0;
        if rate <= self.per_second_max {
            return 0;
        }
        // With a bound of nothing this is infinite, and the conversion ends at the largest number.
        let wait_ms = (rate - self.per_second_max) / self.per_second_max * window_ms;
        (wait_ms.round() as u64).min(size_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        samples: 11,
        size_ms: 1000,
    };

    #[test]
    fn what_a_whole_window_allows_comes_at_once() {
        let mut rate = Rate::new(WINDOW, 5);
        let waits: Vec<u64> = (0..51).map(|_| rate.record(7_000)).collect();
        assert_eq!(&waits[..50], &[0; 50]);
        assert_eq!(waits[50], 200, "51 in ten seconds are one too many");
    }

    #[test]
    fn nobody_waits_longer_than_a_window() {
        let mut rate = Rate::new(WINDOW, 1);
        assert_eq!((0..100).map(|_| rate.record(0)).max(), Some(1000));
        rate.limit(0);
        assert_eq!(rate.record(0), 1000);
        rate.limit(1000);
        assert_eq!(rate.record(0), 0);
    }

    #[test]
    fn what_is_older_than_the_windows_is_forgotten() {
        let mut rate = Rate::new(WINDOW, 5);
        for _ in 0..60 {
            rate.record(0);
        }
        assert!(rate.record(10_999) > 0);
        assert_eq!(rate.record(11_000), 0);
        for second in 12..40 {
            for _ in 0..4 {
                assert_eq!(rate.record(second * 1000), 0);
            }
        }
    }
}
