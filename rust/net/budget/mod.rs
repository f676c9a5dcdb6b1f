//! Accounts of the hub's memory: what frames and answers may hold, derived from the settings.
//!
//! | account | bound | who |
//! |---|---|---|
//! | frames | `common` | any frame, from its first bytes until nobody uses it |
//! | | `common + small` | frames below 64 KiB of connections that hold little |
//! | | `common + small + brokers` | frames on the listeners of brokers and of the controller |
//! | lane | `lane` | the one frame that goes on when `common` is full: a frame of the largest size always completes |
//! | answers | `answers` | answers that are not sent, and large ones that are being made |
//!
//! A frame is charged when its memory is taken, at first 64 KiB and more as it comes in; an announced length alone costs nothing. The lane
//! lies inside `queued.max.request.bytes`, so the frames of both accounts stay below that setting and one read, or, where the setting is
//! less than two frames of the largest size, below 6/10 of it and one such frame.
//!
//! An answer that may have many rows takes its memory before they are made (`reservations`), any other is charged when it is made. No request
//! whose answer may be large starts while `answers` is reached. So answers that take their memory before exceed the bound by one of them at
//! most. Others exceed it by those whose requests started before it was reached and run at the same time, in tasks: each of these answers has
//! as many rows as its request, and what such requests are decoded to has a sum of its own (`broker/request_memory.py`). An answer of many
//! rows is no larger than a frame may be.
//!
//! Values and atomic numbers only: the hub asks, and does what follows. `shortage` says who holds memory without need.

mod reservations;
mod several;
mod shortage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub use reservations::{Answer, Reservations, Unsent, Wanted};
pub use several::{Lack, Shortages};
pub use shortage::{
    Holder, Moves, Relief, STALL_MS, Shares, TICK_MS, WAITERS_MAX, deadline_ms, victims,
};

use super::limits::SMALL_FRAME_BYTES;
use crate::io::Wake;

/// The parts of the memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub common: usize,
    pub small: usize,
    pub brokers: usize,
    pub lane: usize,
    pub answers: usize,
}

impl Bounds {
    /// `queued_bytes_max`: `queued.max.request.bytes`; `frame_bytes_max`: `socket.request.max.bytes`.
    pub fn new(queued_bytes_max: usize, frame_bytes_max: usize) -> Self {
        let reserve = queued_bytes_max / 20;
        let beside_lane = queued_bytes_max.saturating_sub(frame_bytes_max + 2 * reserve);
        Self {
            common: beside_lane.max(queued_bytes_max / 2),
            small: reserve,
            brokers: reserve,
            lane: frame_bytes_max,
            answers: queued_bytes_max / 4,
        }
    }

    /// What a frame of this kind may have the account of frames come to.
    fn of(&self, kind: Kind) -> usize {
        match kind {
            Kind::Large => self.common,
            Kind::Small => self.common + self.small,
            Kind::Broker => self.common + self.small + self.brokers,
        }
    }
}

/// Whose frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Large,
    Small,
    Broker,
}

/// What a frame's memory is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    Frames,
    Lane,
}

/// The accounts, which all threads share.
pub struct Budget {
    bounds: Bounds,
    frames: AtomicUsize,
    lane: AtomicUsize,
    /// The hub whose connection has the lane, and one more than its number; 0: nobody.
    lane_holder: AtomicUsize,
    answers: AtomicUsize,
    /// A hub waits for memory.
    wanted: AtomicBool,
    /// Those of all hubs.
    wakes: Vec<Arc<Wake>>,
}

impl Budget {
    pub fn new(bounds: Bounds, wake: Arc<Wake>) -> Self {
        Self::shared(bounds, vec![wake])
    }

    /// For the hubs of these wakes.
    pub fn shared(bounds: Bounds, wakes: Vec<Arc<Wake>>) -> Self {
        Self {
            bounds,
            frames: AtomicUsize::new(0),
            lane: AtomicUsize::new(0),
            lane_holder: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            wanted: AtomicBool::new(false),
            wakes,
        }
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    fn account(&self, account: Account) -> &AtomicUsize {
        match account {
            Account::Frames => &self.frames,
            Account::Lane => &self.lane,
        }
    }

    /// All accounts together.
    pub fn used(&self) -> usize {
        self.frames() + self.lane.load(Ordering::Relaxed) + self.answers()
    }

    pub fn answers(&self) -> usize {
        self.answers.load(Ordering::Relaxed)
    }

    pub fn frames(&self) -> usize {
        self.frames.load(Ordering::Relaxed)
    }

    /// Whether nobody needs to ask further before `bytes` more are taken: the plain path.
    pub fn is_plentiful(&self, bytes: usize) -> bool {
        self.frames() + bytes <= self.bounds.common / 2
    }

    /// Whether a frame of this kind may take so much more. The first frame of all may whatever the bounds are.
    pub fn has_room(&self, kind: Kind, bytes: usize) -> bool {
        let frames = self.frames();
        frames + bytes <= self.bounds.of(kind) || frames == 0 && bytes <= SMALL_FRAME_BYTES
    }

    /// Whether no memory is charged to the lane.
    pub fn is_lane_empty(&self) -> bool {
        self.lane.load(Ordering::Acquire) == 0
    }

    /// Gives the lane to a hub, by its number, until [`leave_lane`](Self::leave_lane). False if another one has it, or
    /// memory is charged to it.
    pub fn take_lane(&self, hub: usize) -> bool {
        let holder = &self.lane_holder;
        let taken = holder.compare_exchange(0, hub + 1, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_err() {
            return false;
        }
        let is_empty = self.is_lane_empty();
        if !is_empty {
            self.leave_lane(hub);
        }
        is_empty
    }

    /// The hub's connection is done with the lane; nothing happens if the hub does not have it.
    pub fn leave_lane(&self, hub: usize) {
        let holder = &self.lane_holder;
        let _ = holder.compare_exchange(hub + 1, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    pub fn charge(&self, account: Account, bytes: usize) {
        let before = self.account(account).fetch_add(bytes, Ordering::Relaxed);
        debug_assert!(
            account == Account::Frames || before == 0 || before + bytes <= 2 * self.bounds.lane,
            "one frame uses the lane, which is in two places only while it grows"
        );
    }

    /// Wakes the hubs if one of them waits for memory.
    pub fn release(&self, account: Account, bytes: usize) {
        let before = self.account(account).fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(bytes <= before, "{bytes} of {before} bytes released");
        self.tell();
    }

    fn tell(&self) {
        if self.wanted.load(Ordering::Acquire) && self.wanted.swap(false, Ordering::AcqRel) {
            self.wakes.iter().for_each(|wake| wake.signal());
        }
    }

    /// A hub stopped reading somebody: signal when memory is released.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// A connection's unsent answers come to `now` bytes, after `before`.
    pub fn answers_changed(&self, before: usize, now: usize) {
        if now >= before {
            self.answers.fetch_add(now - before, Ordering::Relaxed);
            return;
        }
        let sum = self.answers.fetch_sub(before - now, Ordering::AcqRel);
        debug_assert!(before - now <= sum, "{before} of {sum} bytes");
        if self.wakes.len() > 1 {
            self.tell();
        }
    }

    /// Whether a request may start whose answer may be large.
    pub fn has_room_for_answers(&self) -> bool {
        self.answers.load(Ordering::Relaxed) < self.bounds.answers.max(1)
    }
}

#[cfg(test)]
mod tests;
