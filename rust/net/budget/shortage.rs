//! Who holds memory without need, and who may not have more, while memory is short.
//!
//! Nothing here binds while there is enough. When somebody waits, the hub counts every `TICK_MS` what each connection holds, and
//!
//! * closes those that do nothing with it, the largest first, until there is room: a begun frame that has not moved for `STALL_MS` or is past
//!   its deadline, or answers that are not read, or as slowly;
//! * lets an address have a part of the common room, half by default, if others hold or want any.
//!
//! To move is to come in, or to go out, by `MOVED_BYTES` in `STALL_MS`. The clock of a frame stands still while the hub does not read it.

use std::collections::HashMap;
use std::net::IpAddr;

/// How often holders are looked at while somebody waits.
pub const TICK_MS: u64 = 100;
/// For how long a holder may stand still while others wait.
pub const STALL_MS: u64 = 400;
/// What counts as a move: less is a trickle that only looks like one.
const MOVED_BYTES: u64 = 16 << 10;
/// Waiters that are let try again at a time: each costs a visit.
pub const WAITERS_MAX: usize = 64;
/// What a begun frame has besides a second for each megabyte.
const GRACE_MS: u64 = 30_000;
const BYTES_PER_MS: usize = 1000;

/// How long a frame of this length may take to come in while memory is short.
pub fn deadline_ms(length: usize) -> u64 {
    GRACE_MS + (length / BYTES_PER_MS) as u64
}

/// How something comes in or goes out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moves {
    began_ms: u64,
    /// The last move, and what came since.
    moved_ms: u64,
    bytes: u64,
    /// What came in all.
    total: u64,
    /// Since when the clock stands still.
    stopped_ms: Option<u64>,
}

impl Moves {
    pub fn begin(now_ms: u64) -> Self {
        Self {
            began_ms: now_ms,
            moved_ms: now_ms,
            bytes: 0,
            total: 0,
            stopped_ms: None,
        }
    }

    pub fn add(&mut self, bytes: u64, now_ms: u64) {
        self.bytes += bytes;
        self.total += bytes;
        if self.bytes >= MOVED_BYTES {
            self.bytes = 0;
            self.moved_ms = now_ms;
        }
    }

    /// The clock stands still from now on.
    pub fn stop(&mut self, now_ms: u64) {
        self.stopped_ms.get_or_insert(now_ms);
    }

    /// The clock goes on.
    pub fn go_on(&mut self, now_ms: u64) {
        if let Some(stopped_ms) = self.stopped_ms.take() {
            let pause_ms = now_ms.saturating_sub(stopped_ms);
            self.began_ms += pause_ms;
            self.moved_ms += pause_ms;
        }
    }

    /// For how long it has taken, without pauses.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        self.stopped_ms
            .unwrap_or(now_ms)
            .saturating_sub(self.began_ms)
    }

    /// Whether what came, and `left` that is to come, should have been over by now.
    pub fn is_late(&self, left: usize, now_ms: u64) -> bool {
        self.age_ms(now_ms) > deadline_ms(left.saturating_add(self.total as usize))
    }

    /// Whether it stands still although nobody holds it up; `bytes` are seen to be on their way.
    pub fn is_still(&self, bytes: u64, now_ms: u64) -> bool {
        self.stopped_ms.is_none()
            && self.moved_ms + STALL_MS <= now_ms
            && self.bytes + bytes < MOVED_BYTES
    }
}

/// A connection that holds memory and does nothing with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub connection: u64,
    pub bytes: usize,
}

/// What is to be freed.
#[derive(Clone, Copy, Debug)]
pub struct Relief {
    pub bytes: usize,
}

/// Those to close: the largest first, as few as free what is needed.
pub fn victims(mut idle: Vec<Holder>, relief: Relief) -> Vec<Holder> {
    idle.sort_unstable_by_key(|holder| std::cmp::Reverse((holder.bytes, holder.connection)));
    let mut left = relief.bytes;
    idle.into_iter()
        .take_while(|holder| {
            let is_needed = left > 0;
            left = left.saturating_sub(holder.bytes);
            is_needed
        })
        .collect()
}

/// What each address holds, as counted at a tick and added to since: too much rather than too little.
#[derive(Debug, Default)]
pub struct Shares {
    by_address: HashMap<IpAddr, usize>,
    counted_ms: Option<u64>,
}

impl Shares {
    pub fn is_old(&self, now_ms: u64) -> bool {
        !self.is_younger(TICK_MS, now_ms)
    }

    /// True if it was counted less than so long ago.
    pub fn is_younger(&self, age_ms: u64, now_ms: u64) -> bool {
        self.counted_ms.is_some_and(|at| at + age_ms > now_ms)
    }

    pub fn count(&mut self, now_ms: u64, held: impl Iterator<Item = (IpAddr, usize)>) {
        self.by_address.clear();
        self.counted_ms = Some(now_ms);
        for (address, bytes) in held {
            self.add(address, bytes);
        }
    }

    /// An address that only wants memory is known with 0 bytes.
    pub fn add(&mut self, address: IpAddr, bytes: usize) {
        *self.by_address.entry(address.to_canonical()).or_default() += bytes;
    }

    pub fn of(&self, address: IpAddr) -> usize {
        let held = self.by_address.get(&address.to_canonical());
        held.copied().unwrap_or(0)
    }

    /// True if another address has memory, or wants some.
    pub fn knows_others(&self, address: IpAddr) -> bool {
        let known = self.by_address.contains_key(&address.to_canonical());
        self.by_address.len() > usize::from(known)
    }
}
