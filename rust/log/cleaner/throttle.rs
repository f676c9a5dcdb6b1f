//! A limit on bytes a second that all cleaning threads share (`log.cleaner.io.max.bytes.per.second`).

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Who waits looks this often whether it still should.
const STEP: Duration = Duration::from_millis(20);
/// The time after which unused bytes are lost: a rest must not be followed by a rush.
const BURST: Duration = Duration::from_millis(300);

pub struct Throttle {
    bytes_per_second: f64,
    /// When the bytes that were taken so far are paid for.
    paid_at: Mutex<Option<Instant>>,
}

impl Throttle {
    pub fn new(bytes_per_second: f64) -> Self {
        Self {
            bytes_per_second,
            paid_at: Mutex::new(None),
        }
    }

    /// How long whoever takes `bytes` now has to wait.
    fn wait_for(&self, bytes: u64, now: Instant) -> Duration {
        let seconds = bytes as f64 / self.bytes_per_second;
        // More than a day is no limit that anybody means.
        let cost = Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0));
        if cost.is_zero() {
            return cost;
        }
        let mut paid_at = self.paid_at.lock();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let begin = paid_at.map_or(earliest, |paid_at| paid_at.max(earliest));
        let end = begin + cost;
        *paid_at = Some(end);
        end.saturating_duration_since(now)
    }

    /// Takes `bytes` and waits until they are paid for, or until `go_on` fails, which it is asked now and then.
    pub fn take<E>(&self, bytes: u64, mut go_on: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let now = Instant::now();
        let until = now + self.wait_for(bytes, now);
        loop {
            go_on()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_paid_for_in_the_long_run() {
        let throttle = Throttle::new(1000.0);
        let start = Instant::now();
        // The burst is free.
        assert_eq!(throttle.wait_for(300, start), Duration::ZERO);
        assert_eq!(throttle.wait_for(500, start), Duration::from_millis(500));
        assert_eq!(
            throttle.wait_for(100, start + Duration::from_millis(200)),
            Duration::from_millis(400)
        );
        // After a long rest only the burst is free again.
        let later = start + Duration::from_secs(100);
        assert_eq!(throttle.wait_for(1300, later), Duration::from_secs(1));
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let throttle = Throttle::new(f64::MAX);
        assert_eq!(throttle.wait_for(u64::MAX, Instant::now()), Duration::ZERO);
        assert_eq!(throttle.take(1, || Err::<(), _>("stop")), Err("stop"));
    }
}
