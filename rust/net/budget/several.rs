//! Shortage as all hubs know it: each counts what its connections hold, and hears that others wait.
//!
//! A hub that has somebody waiting says so at each tick. Then all of them count their holders, and close those that
//! hold memory without need: a connection that waits at one hub is not kept from memory by those of another. A count
//! that is some ticks old counts no more: its hub has no shortage, or is held up.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::shortage::{Shares, TICK_MS};

/// For so long others act on what a hub has said or counted.
const LATELY_MS: u64 = 3 * TICK_MS;

/// Memory for which somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    Frames,
    Answers,
}

pub struct Shortages {
    /// By the numbers of the hubs.
    shares: Vec<Mutex<Shares>>,
    /// One more than the time at which a hub has said so last, for each kind; 0: never.
    said_ms: [AtomicU64; 2],
}

impl Shortages {
    /// Of so many hubs.
    pub fn of(hubs: usize) -> Self {
        Self {
            shares: (0..hubs).map(|_| Mutex::default()).collect(),
            said_ms: Default::default(),
        }
    }

    /// The memory of one hub's connections, by their addresses.
    pub fn own(&self, number: usize) -> MutexGuard<'_, Shares> {
        self.shares[number].lock()
    }

    /// How much the connections of an address hold at all hubs.
    pub fn held_by(&self, address: IpAddr, now_ms: u64) -> usize {
        let each = self.shares.iter().map(|shares| {
            let shares = shares.lock();
            match shares.is_younger(LATELY_MS, now_ms) {
                true => shares.of(address),
                false => 0,
            }
        });
        each.sum()
    }

    /// True if an address may have `bytes` more: up to `most` where others may have some too, as much as there is if
    /// it is alone.
    pub fn allow(&self, address: IpAddr, bytes: usize, most: usize, now_ms: u64) -> bool {
        let has_others = self.shares.iter().any(|shares| {
            let shares = shares.lock();
            shares.is_younger(LATELY_MS, now_ms) && shares.knows_others(address)
        });
        !has_others || self.held_by(address, now_ms) + bytes <= most
    }

    /// Somebody waits for memory. True if nobody did lately, so that the other hubs are to hear of it.
    pub fn say(&self, lack: Lack, now_ms: u64) -> bool {
        let was_known = self.is_short(lack, now_ms);
        self.said_ms[lack as usize].fetch_max(now_ms + 1, Ordering::Relaxed);
        !was_known
    }

    /// True if somebody at any hub waits for memory of a kind, or did lately.
    pub fn is_short(&self, lack: Lack, now_ms: u64) -> bool {
        match self.said_ms[lack as usize].load(Ordering::Relaxed) {
            0 => false,
            said_ms => said_ms + LATELY_MS > now_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_holds_at_all_hubs_counts() {
        let [one, other]: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let shortages = Shortages::of(3);
        shortages.own(1).count(1_000, [(one, 30)].into_iter());
        shortages.own(2).count(1_000, [(one, 15)].into_iter());
        // Alone it may have everything.
        assert!(shortages.allow(one, 90, 50, 1_000));
        shortages.own(2).add(other, 0);
        assert!(shortages.allow(one, 5, 50, 1_000));
        assert!(!shortages.allow(one, 6, 50, 1_000));
        assert!(shortages.allow(other, 50, 50, 1_000));
        assert_eq!(shortages.held_by(one, 1_000), 45);
        // What was counted long ago counts no more.
        shortages
            .own(1)
            .count(1_000 + LATELY_MS, [(one, 40)].into_iter());
        assert_eq!(shortages.held_by(one, 1_000 + LATELY_MS), 40);
        assert!(shortages.allow(one, 90, 50, 1_000 + LATELY_MS));
    }

    #[test]
    fn others_hear_of_a_shortage_once_and_for_a_while() {
        let shortages = Shortages::of(2);
        assert!(!shortages.is_short(Lack::Frames, 0));
        assert!(shortages.say(Lack::Frames, 0));
        assert!(!shortages.say(Lack::Frames, TICK_MS));
        assert!(shortages.is_short(Lack::Frames, TICK_MS + LATELY_MS));
        assert!(!shortages.is_short(Lack::Frames, TICK_MS + LATELY_MS + 1));
        assert!(!shortages.is_short(Lack::Answers, TICK_MS));
        assert!(shortages.say(Lack::Frames, TICK_MS + LATELY_MS + 1));
    }
}
