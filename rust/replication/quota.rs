//! How many bytes of throttled partitions a broker may send, or fetch, in a second (KIP-73).
//!
//! A broker has one quota for each side: what it sends as a leader, and what it fetches as a follower. Nothing is held back in the middle: before a
//! partition is read or asked for, somebody looks whether the quota [is exceeded](Quota::is_exceeded), and what went is [recorded](Quota::record)
//! afterwards. So one answer may exceed the quota, and the next wait until that is made up for.
//!
//! Kafka measures the rate over some samples of one second each, and compares it with the quota. That is too slow where answers come in bursts, since
//! a window that begins and ends with a burst has one too many, and too fast where one answer is more than the quota allows in all samples, since it is
//! forgotten with its sample. Here it is one time: until when what went is paid for, at the quota's rate. So the rate is kept however large answers
//! are and however seldom somebody asks.
//!
//! Kafka's settings of samples bound what is remembered. What was not used for the time of one sample is lost, and all of it after the time of all
//! samples without use. What went beyond the quota is made up for, but not for hours: in-sync replicas are never throttled, and may be above it for as
//! long as they like. A new quota begins without debts, for what went under another one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// For how many times the time of all samples somebody has to wait at most: at the default settings that pays for an answer of 10 MiB
/// (`replica.fetch.response.max.bytes`) at 100 KB/s, and leaves nobody waiting for longer than two minutes.
const DEBT_TIMES: u32 = 10;
/// However long samples are: a time that can be added to any other.
const DEBT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const NANOS: u128 = 1_000_000_000;

/// The time over which Kafka measures a rate: so many samples of such a length.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub samples: u32,
    pub size: Duration,
}

impl Window {
    fn whole(&self) -> Duration {
        self.size.saturating_mul(self.samples)
    }

    fn debt_max(&self) -> Duration {
        self.whole().saturating_mul(DEBT_TIMES).min(DEBT_MAX)
    }
}

/// Bytes that may go in a second. No clock: every call is told the time.
struct Rate {
    window: Window,
    /// None: as many as there are.
    bytes_per_second_max: Option<u64>,
    account: Option<Account>,
}

/// The account of bytes that went since the quota was used first, or used again after a while, kept
/// as the time that they cost.
struct Account {
    /// When that costs no waiting any more. In the past if more might have gone.
    paid_until: Instant,
    last_used: Instant,
}

impl Rate {
    fn new(window: Window) -> Self {
        Self {
            window,
            bytes_per_second_max: None,
            account: None,
        }
    }

    fn limit(&mut self, bytes_per_second_max: Option<u64>) {
        if self.bytes_per_second_max != bytes_per_second_max {
            self.bytes_per_second_max = bytes_per_second_max;
            self.account = None;
        }
    }

    fn record(&mut self, bytes: u64, now: Instant) {
        let Some(per_second) = self.bytes_per_second_max else {
            return;
        };
        let Window { size, .. } = self.window;
        let debt_max = self.window.debt_max();
        let cost = match u128::from(per_second) {
            0 => debt_max,
            per_second => {
                let nanos = (u128::from(bytes) * NANOS).div_ceil(per_second);
                u64::try_from(nanos).map_or(debt_max, Duration::from_nanos)
            }
        };
        let whole = self.window.whole();
        let idle = |account: &Account| now.saturating_duration_since(account.last_used);
        let paid_until = match &self.account {
            Some(account) if idle(account) < whole => account.paid_until,
            Some(account) => account.paid_until.max(now),
            None => now,
        };
        // Kept as an offset from now, since the clock may have begun less than a sample ago.
        let credit = now.saturating_duration_since(paid_until).min(size);
        let debt = paid_until.saturating_duration_since(now);
        let paid_until = match cost.checked_sub(credit) {
            Some(more) => now + debt.saturating_add(more).min(debt_max),
            None => now.checked_sub(credit - cost).unwrap_or(now),
        };
        self.account = Some(Account {
            paid_until,
            last_used: now,
        });
    }

    /// How long until more may go, if nothing is recorded; zero if it may now.
    fn until_room(&self, now: Instant) -> Duration {
        self.account.as_ref().map_or(Duration::ZERO, |account| {
            account.paid_until.saturating_duration_since(now)
        })
    }
}

/// Which partitions of a topic are throttled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Throttled {
    All,
    /// None of them where this is empty.
    These(HashSet<i32>),
}

impl Throttled {
    fn has(&self, partition: i32) -> bool {
        match self {
            Self::All => true,
            Self::These(partitions) => partitions.contains(&partition),
        }
    }
}

/// The quota of one side, and what it holds for. All methods may be called from any thread.
pub struct Quota {
    /// True if anything is throttled; a look at it costs nothing.
    is_used: AtomicBool,
    /// Ever recorded.
    bytes: AtomicU64,
    state: Mutex<State>,
}

struct State {
    rate: Rate,
    throttled: HashMap<Arc<str>, Throttled>,
}

impl Quota {
    pub fn new(window: Window) -> Self {
        let state = State {
            rate: Rate::new(window),
            throttled: HashMap::new(),
        };
        Self {
            is_used: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    /// From now on so many bytes may go in a second; None: as many as there are.
    pub fn limit(&self, bytes_per_second_max: Option<u64>) {
        self.state.lock().rate.limit(bytes_per_second_max);
    }

    /// From now on these partitions of a topic are throttled, and no others of it.
    pub fn throttle(&self, topic: &str, throttled: Throttled) {
        let mut state = self.state.lock();
        if matches!(&throttled, Throttled::These(partitions) if partitions.is_empty()) {
            state.throttled.remove(topic);
        } else {
            state.throttled.insert(topic.into(), throttled);
        }
        let is_used = !state.throttled.is_empty();
        self.is_used.store(is_used, Ordering::Relaxed);
    }

    /// True if any partition is throttled.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    pub fn is_throttled(&self, topic: &str, partition: i32) -> bool {
        self.is_used() && {
            let state = self.state.lock();
            let throttled = state.throttled.get(topic);
            throttled.is_some_and(|throttled| throttled.has(partition))
        }
    }

    /// True if more went than may, so that throttled partitions have to wait.
    pub fn is_exceeded(&self) -> bool {
        !self.until_room().is_zero()
    }

    /// How long until it is not exceeded any more, if nothing is recorded; zero if it is not.
    pub fn until_room(&self) -> Duration {
        if !self.is_used() {
            return Duration::ZERO;
        }
        self.state.lock().rate.until_room(Instant::now())
    }

    /// Bytes of throttled partitions went.
    pub fn record(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.state.lock().rate.record(bytes, Instant::now());
    }

    /// Bytes that went for throttled partitions, ever.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        samples: 11,
        size: Duration::from_secs(1),
    };

    /// A rate, and its clock.
    struct Timed {
        rate: Rate,
        now: Instant,
    }

    impl Timed {
        fn new(bytes_per_second_max: u64) -> Self {
            let mut rate = Rate::new(WINDOW);
            rate.limit(Some(bytes_per_second_max));
            Self {
                rate,
                now: Instant::now(),
            }
        }

        fn after(&mut self, milliseconds: u64) -> &mut Self {
            self.now += Duration::from_millis(milliseconds);
            self
        }

        fn record(&mut self, bytes: u64) {
            self.rate.record(bytes, self.now);
        }

        fn until_room_ms(&mut self) -> u128 {
            self.rate.until_room(self.now).as_millis()
        }

        /// Sends answers of `bytes` for as long as it may, looking each `milliseconds`; returns the bytes of a second.
        fn sends(&mut self, bytes: u64, milliseconds: u64, seconds: u64) -> f64 {
            let mut sent = 0;
            for _ in 0..seconds * 1000 / milliseconds {
                self.after(milliseconds);
                while self.rate.until_room(self.now).is_zero() {
                    self.record(bytes);
                    sent += bytes;
                }
            }
            sent as f64 / seconds as f64
        }
    }

    #[test]
    fn the_rate_is_kept_whatever_one_answer_has_and_however_seldom_somebody_asks() {
        for (per_second, answer, looks_ms, seconds) in [
            (10_000_000, 1 << 20, 1, 60),
            (10_000_000, 1 << 20, 500, 60),
            (10_000_000, 1 << 20, 990, 60),
            (1_000_000, 1 << 20, 500, 120),
            // Each answer takes longer than all samples.
            (100_000, 10 << 20, 500, 7200),
            (10_000_000, 10_000, 250, 60),
        ] {
            let rate = Timed::new(per_second).sends(answer, looks_ms, seconds);
            let ratio = rate / per_second as f64;
            assert!(
                (0.97..=1.03).contains(&ratio),
                "{ratio} of {per_second} with answers of {answer} and a look each {looks_ms} ms"
            );
        }
    }

    #[test]
    fn what_is_not_used_may_be_used_within_the_time_of_a_sample() {
        let mut timed = Timed::new(1000);
        timed.record(500);
        assert_eq!(timed.until_room_ms(), 500);
        assert_eq!(timed.after(500).until_room_ms(), 0);
        timed.after(900).record(1000);
        assert_eq!(timed.until_room_ms(), 100);
        timed.after(5000).record(1500);
        assert_eq!(timed.until_room_ms(), 500);
        // After as much time as all samples have it begins anew.
        timed.after(11_500).record(1);
        assert_eq!(timed.until_room_ms(), 1);
        timed.after(900).record(10);
        assert_eq!(timed.until_room_ms(), 0);
        // Debts stay.
        timed.after(20_000).record(20_000);
        timed.after(12_000).record(1000);
        assert_eq!(timed.until_room_ms(), 9000);
    }

    #[test]
    fn nothing_goes_where_nothing_may() {
        let mut nothing = Timed::new(0);
        assert_eq!(nothing.until_room_ms(), 0);
        nothing.record(1);
        assert_eq!(nothing.until_room_ms(), 110_000);
        let window = Window {
            samples: u32::MAX,
            size: Duration::MAX,
        };
        let mut nothing = Timed::new(0);
        nothing.rate.window = window;
        nothing.record(u64::MAX);
        assert_eq!(nothing.until_room_ms(), DEBT_MAX.as_millis());
    }

    #[test]
    fn a_new_quota_begins_without_debts() {
        let mut timed = Timed::new(1000);
        timed.record(10_000);
        timed.rate.limit(Some(1000));
        assert_eq!(timed.until_room_ms(), 10_000);
        timed.rate.limit(Some(2000));
        assert_eq!(timed.until_room_ms(), 0);
        timed.record(10_000);
        assert_eq!(timed.until_room_ms(), 5000);
        timed.rate.limit(None);
        assert_eq!(timed.until_room_ms(), 0);
        timed.record(u64::MAX);
        assert_eq!(timed.until_room_ms(), 0);
    }

    /// In-sync replicas are not throttled; what they take counts, but not for hours.
    #[test]
    fn what_goes_though_the_quota_is_exceeded_is_forgotten_in_the_end() {
        let mut timed = Timed::new(1000);
        for _ in 0..3600 {
            timed.after(1000).record(50_000);
            assert!(timed.until_room_ms() > 1000);
        }
        assert_eq!(timed.until_room_ms(), 110_000);
        timed.record(u64::MAX);
        assert_eq!(timed.until_room_ms(), 110_000);
    }

    #[test]
    fn which_partitions_are_throttled() {
        let quota = Quota::new(WINDOW);
        quota.limit(Some(0));
        quota.record(10);
        assert!(!quota.is_used() && !quota.is_exceeded());
        assert_eq!(quota.until_room(), Duration::ZERO);
        quota.throttle("a", Throttled::These(HashSet::from([1, 3])));
        quota.throttle("b", Throttled::All);
        assert!(quota.is_used() && quota.is_exceeded());
        let is = |topic| [0, 1, 3].map(|partition| quota.is_throttled(topic, partition));
        assert_eq!(is("a"), [false, true, true]);
        assert_eq!(is("b"), [true, true, true]);
        assert_eq!(is("c"), [false, false, false]);
        quota.throttle("b", Throttled::These(HashSet::from([0])));
        assert_eq!(is("b"), [true, false, false]);
        quota.throttle("a", Throttled::These(HashSet::new()));
        quota.throttle("b", Throttled::These(HashSet::new()));
        assert_eq!(is("b"), [false, false, false]);
        assert!(!quota.is_used());
        assert_eq!(quota.bytes(), 10);
    }
}
