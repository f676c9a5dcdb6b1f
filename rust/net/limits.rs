//! Every bound of the hub, with its reason beside it, and the one sum of queued bytes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::io::Wake;

/// Frames handed to Python between two looks at the sockets: at 7 us each about 2 ms, which is what another task of the loop may have to wait.
pub const TURN_FRAMES_MAX: usize = 256;
/// Frames of one connection before the next connection's turn comes: a small client waits for at most this many of each flooding one.
pub const VISIT_FRAMES_MAX: usize = 32;
/// Where connections have more to send than `SENT_BYTES_MAX`, a turn looks so many times for whoever became ready meanwhile, and goes on with the next:
/// the way out to the loop and back is a tenth of what sending four times that much costs.
pub const TURN_ROUNDS_MAX: usize = 12;
/// Bytes sent to one connection before the others are looked at: some 40 us of the loop. Four times as many cost as much a byte, and make small
/// requests beside a large reader wait twice as long (p99).
pub const SENT_BYTES_MAX: usize = 256 << 10;
/// Bytes received from one connection, for a large frame, before the others are looked at.
pub const RECEIVED_BYTES_MAX: usize = 1 << 20;
/// The read buffer that all connections share: what one `recv` may bring, so also what a held connection may have parked in small frames.
pub const SHARED_READ_BYTES: usize = 64 << 10;
/// Connections accepted per listener in one turn; an accept costs about 10 us.
pub const TURN_ACCEPTS_MAX: usize = 64;
/// Memory for a frame is taken at once up to this size, and beyond it as the frame comes in: an announced length is not yet a need.
pub const FIRST_BYTES_MAX: usize = 4 << 20;
/// How long one connection may go on receiving a frame while memory is short, without receiving anything, before another may.
pub const PRIVILEGE_MS: u64 = 1000;
/// A reply larger than this is not joined with its neighbours: copying it would cost more than one more entry in a writev.
pub const JOINED_BYTES_MAX: usize = 16 << 10;
/// Frames up to this size may use the reserve of the memory budget (architecture.md, rule 9).
pub const SMALL_FRAME_BYTES: usize = 64 << 10;
/// Memory kept in the pool for the next frames: sixteen batches of 1 MB, beyond which memory goes back to the allocator.
pub const POOL_KEPT_BYTES_MAX: usize = 16 << 20;
/// How long a listener rests when the process has no descriptor left; without it a level-triggered listener would spin.
pub const ACCEPT_REST_MS: u64 = 100;
/// What a reception up to this size takes is counted as the handler's time: it is not worth a reading of the clock.
pub const LIGHT_READ_BYTES: usize = 16 << 10;

/// What a broker's settings say; names of the settings beside each.
#[derive(Clone, Debug)]
pub struct Limits {
    /// `socket.request.max.bytes`
    pub frame_bytes_max: usize,
    /// `queued.max.request.bytes`, and the bytes of queued replies: one sum over all connections.
    pub queued_bytes_max: usize,
    /// Unsent reply bytes (memory and slices) past which a connection is neither read nor served.
    pub output_bytes_max: usize,
    /// Requests of one connection that were started and are not answered.
    pub waiting_requests_max: usize,
    /// Bytes of those requests.
    pub waiting_bytes_max: usize,
    /// `max.connections`
    pub connections_max: usize,
    /// `max.connections.per.ip`
    pub connections_per_ip_max: usize,
    /// `max.connections.per.ip.overrides`
    pub connections_per_ip_overrides: HashMap<IpAddr, usize>,
    /// `connections.max.idle.ms`; None for never.
    pub idle_ms: Option<u64>,
    /// `socket.send.buffer.bytes`; None leaves it to the kernel.
    pub send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`
    pub receive_buffer_bytes: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 100 << 20,
            queued_bytes_max: 256 << 20,
            output_bytes_max: 1 << 20,
            waiting_requests_max: 1000,
            waiting_bytes_max: 16 << 20,
            connections_max: i32::MAX as usize,
            connections_per_ip_max: i32::MAX as usize,
            connections_per_ip_overrides: HashMap::new(),
            idle_ms: Some(600_000),
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        }
    }
}

/// The one sum of bytes queued for all connections: frames being received, held or handled, and replies not yet sent.
///
/// As Kafka's memory pool it is not strict: whatever a read brings is admitted if there was any room before it. While the sum is at the
/// limit nothing is read but the rest of one frame that has begun, and that only if hardly anything of the sum is being handled: else frames
/// that are all half received would wait for each other. The sum therefore stays below `limit * 11 / 10 + frame_bytes_max` and a read.
pub struct Budget {
    used: AtomicUsize,
    limit: usize,
    wanted: AtomicBool,
    wake: Arc<Wake>,
}

impl Budget {
    pub fn new(limit: usize, wake: Arc<Wake>) -> Self {
        Self {
            used: AtomicUsize::new(0),
            limit,
            wanted: AtomicBool::new(false),
            wake,
        }
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether anybody may be read: the last tenth is a reserve.
    pub fn has_room(&self) -> bool {
        self.used() < self.limit - self.limit / 10
    }

    /// Whether the reserve has room: for brokers, and for small frames on connections that hold nothing. Without it, frames held
    /// for an answer that comes in on another connection would keep that answer from being read.
    pub fn has_reserve(&self) -> bool {
        self.used() < self.limit
    }

    /// Whether requests that are being handled hold so little that answering them would not end a shortage.
    pub fn is_mostly_unhandled(&self, handled_bytes: usize) -> bool {
        handled_bytes < self.limit / 10
    }

    pub fn charge(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// May be called on any thread; wakes the hub if it waits for room.
    pub fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        if self.wanted.load(Ordering::Acquire)
            && self.has_room()
            && self.wanted.swap(false, Ordering::AcqRel)
        {
            self.wake.signal();
        }
    }

    /// The hub stopped reading somebody: signal once there is room again.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Release);
        if self.has_room() && self.wanted.swap(false, Ordering::AcqRel) {
            self.wake.signal();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_a_reserve() {
        let budget = Budget::new(1000, Arc::new(Wake::new().unwrap()));
        budget.charge(899);
        assert!(budget.has_room() && budget.has_reserve());
        budget.charge(1);
        assert!(!budget.has_room() && budget.has_reserve());
        budget.charge(100);
        assert!(!budget.has_reserve());
        budget.release(200);
        assert!(budget.has_room());
    }
}
