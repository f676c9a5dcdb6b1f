//! The followers of a partition as their leader knows them, in one leader epoch.
//!
//! Each Fetch of a follower says what it has. Python knows the followers, and decides who is in sync
//! (`replication/in_sync.py` has the rules); a lease knows them too, so that Fetches under it are heard of. There is
//! one truth: both ask and tell the same [`Follower`].

use parking_lot::{Mutex, MutexGuard};
use rustix::time::{ClockId, clock_gettime};

/// A follower has not fetched in this leader epoch.
pub const UNKNOWN_OFFSET: i64 = -1;

/// The clock of everything about followers: it never goes back. Python's `time.monotonic` reads the same.
pub fn now_ms() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// One follower, as its Fetches tell.
pub struct Follower(Mutex<Known>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Where its log ended and started at its last Fetch.
    pub end_offset: i64,
    pub start_offset: i64,
    /// When it last had all that the leader had; None: never in this epoch.
    pub caught_up_ms: Option<i64>,
    /// When it last fetched, and where the leader's log ended then.
    pub fetched_ms: Option<i64>,
    pub leader_end_offset: i64,
    /// It is in the ISR, or may be in it by now: the high watermark waits for it.
    pub is_member: bool,
    /// It caught up within the time that followers may lag, as far as was looked: the high watermark waits for it, too.
    pub is_near: bool,
    /// The controller did not take it in a moment ago: it is not near, whatever it fetches.
    pub is_refused: bool,
}

impl Known {
    /// It asked for records from `end_offset` on, while the leader's log ended at `leader_end_offset`.
    pub fn fetched(
        &mut self,
        end_offset: i64,
        start_offset: i64,
        leader_end_offset: i64,
        now_ms: i64,
    ) {
        if end_offset >= leader_end_offset {
            self.caught_up(now_ms);
        } else if let Some(fetched_ms) = self.fetched_ms
            && end_offset >= self.leader_end_offset
        {
            // It has all that there was when it asked the last time.
            self.caught_up(fetched_ms);
        }
        self.end_offset = end_offset;
        self.start_offset = start_offset;
        self.leader_end_offset = leader_end_offset;
        self.fetched_ms = Some(now_ms);
    }

    /// It had all that the leader had at `at_ms`.
    pub fn caught_up(&mut self, at_ms: i64) {
        if self.is_refused {
            return;
        }
        self.caught_up_ms = Some(self.caught_up_ms.map_or(at_ms, |before| before.max(at_ms)));
        self.is_near = true;
    }

    /// It is not near until it catches up again.
    pub fn went_away(&mut self) {
        (self.caught_up_ms, self.is_near) = (None, false);
    }

    /// Notes and returns whether it is near.
    pub fn look(&mut self, now_ms: i64, lag_max_ms: i64) -> bool {
        let caught_up_ms = self.caught_up_ms;
        self.is_near = caught_up_ms.is_some_and(|at_ms| now_ms - at_ms <= lag_max_ms);
        self.is_near
    }

    /// True if its log has an offset, or ends there, as far as it has told.
    pub fn has(&self, offset: i64) -> bool {
        let known = self.start_offset..=self.end_offset;
        self.end_offset != UNKNOWN_OFFSET && known.contains(&offset)
    }
}

/// Where the log of the slowest follower ends that the high watermark waits for, and whether one of them is a member:
/// else this replica is alone in sync. `i64::MAX` if none is waited for.
pub fn end_of_all<'a>(followers: impl Iterator<Item = &'a Follower>) -> (i64, bool) {
    let mut has_members = false;
    let mut end_offset = i64::MAX;
    for one in followers {
        let known = *one.known();
        has_members |= known.is_member;
        if known.is_member || known.is_near {
            end_offset = end_offset.min(known.end_offset);
        }
    }
    (end_offset, has_members)
}

impl Follower {
    pub fn new(caught_up_ms: Option<i64>) -> Self {
        Self(Mutex::new(Known {
            end_offset: UNKNOWN_OFFSET,
            start_offset: UNKNOWN_OFFSET,
            caught_up_ms,
            fetched_ms: None,
            leader_end_offset: UNKNOWN_OFFSET,
            is_member: false,
            is_near: false,
            is_refused: false,
        }))
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG_MS: i64 = 100;

    #[test]
    fn it_is_near_as_long_as_it_may_lag() {
        let one = Follower::new(None);
        let mut known = one.known();
        known.fetched(5, 0, 10, 1);
        assert!(!known.is_near && !known.look(1, LAG_MS));
        // It has all that there was when it asked before.
        known.fetched(10, 0, 20, 50);
        assert_eq!((known.is_near, known.caught_up_ms), (true, Some(1)));
        assert!(known.look(101, LAG_MS));
        assert!(!known.look(102, LAG_MS) && !known.is_near);
        known.fetched(20, 0, 20, 103);
        assert!(known.is_near);
        known.went_away();
        assert!(!known.look(103, LAG_MS));
    }

    #[test]
    fn one_that_is_refused_is_not_near() {
        let one = Follower::new(None);
        let mut known = one.known();
        known.is_refused = true;
        known.fetched(10, 0, 10, 1);
        assert_eq!((known.is_near, known.caught_up_ms), (false, None));
        assert_eq!((known.end_offset, known.fetched_ms), (10, Some(1)));
    }

    #[test]
    fn it_has_what_it_told() {
        let one = Follower::new(Some(0));
        let mut known = one.known();
        assert!(!known.has(-1) && !known.has(0));
        known.fetched(10, 5, 20, 0);
        let found = [4, 5, 10, 11].map(|offset| known.has(offset));
        assert_eq!(found, [false, true, true, false]);
    }
}
