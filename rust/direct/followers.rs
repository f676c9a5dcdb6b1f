//! The followers of a partition as their leader knows them, in one leader epoch.
//!
//! Each Fetch of a follower says what it has. Python knows the followers, and decides who is in sync
//! (`replication/in_sync.py` has the rules); a lease knows them too, so that Fetches under it are heard of. There is one
//! truth: both ask and tell the same [`Follower`].

use parking_lot::{Mutex, MutexGuard};

/// A follower has not fetched in this leader epoch.
pub const UNKNOWN_OFFSET: i64 = -1;

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
