//! Every bound of the hub, with its reason beside it. How the bounds on memory are divided is in `budget`.

use std::collections::HashMap;
use std::net::IpAddr;

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
pub const FIRST_BYTES_MAX: usize = 64 << 10;
/// What is taken next, unless the frame is shorter: batches of the usual size are copied once, when a sixteenth has come.
pub const SECOND_BYTES_MAX: usize = 1 << 20;
/// A reply larger than this is not joined with its neighbours: copying it would cost more than one more entry in a writev.
pub const JOINED_BYTES_MAX: usize = 16 << 10;
/// Frames below this size may use the reserve of the memory budget, on connections that hold no more than this.
pub const SMALL_FRAME_BYTES: usize = 64 << 10;
/// Memory kept in the pool for the next frames: sixteen batches of 1 MB, beyond which memory goes back to the allocator.
pub const POOL_KEPT_BYTES_MAX: usize = 16 << 20;
/// How long a client has for its TLS handshake, as long as Kafka's own clients wait for a connection by default
/// (`socket.connection.setup.timeout.ms`). Kafka has no bound but `connections.max.idle.ms`.
pub const HANDSHAKE_MS: u64 = if cfg!(test) { 2_000 } else { 10_000 };
/// Handshakes that are under way at once; one more ends the oldest of the address that has the most. Each takes at most
/// 64 KB beside what it costs as a connection, so together 32 MB; honest ones are over in a few milliseconds.
pub const HANDSHAKES_MAX: usize = 512;
/// How long a listener rests when the process has no descriptor left for a connection; without it a level-triggered listener would spin.
pub const ACCEPT_REST_MS: u64 = 100;
/// What a reception up to this size takes is counted as the handler's time: it is not worth a reading of the clock.
pub const LIGHT_READ_BYTES: usize = 16 << 10;

/// What a broker's settings say; names of the settings beside each.
#[derive(Clone, Debug)]
pub struct Limits {
    /// `socket.request.max.bytes`
    pub frame_bytes_max: usize,
    /// `queued.max.request.bytes`: what frames hold over all connections, and four times what unsent answers may (`budget::Bounds`).
    pub queued_bytes_max: usize,
    /// `queued.max.request.percent.per.ip`: what an address may have of the common room while memory is short.
    pub percent_per_ip_max: usize,
    /// Unsent reply bytes (memory and slices) past which a connection is neither read nor served.
    pub output_bytes_max: usize,
    /// Requests of one connection that were started and are not answered.
    pub waiting_requests_max: usize,
    /// Bytes of those requests.
    pub waiting_bytes_max: usize,
    /// `connections.max.idle.ms`; None for never.
    pub idle_ms: Option<u64>,
}

/// The bounds on connections as they come.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// `max.connections`: who comes then waits until another leaves.
    pub connections_max: usize,
    /// From this number on a new connection takes the place of an idle one (`connections_of_descriptors`).
    pub descriptors_max: usize,
    /// `max.connections.per.ip`
    pub per_ip_max: usize,
    /// `max.connections.per.ip.overrides`
    pub per_ip_overrides: HashMap<IpAddr, usize>,
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
            percent_per_ip_max: 50,
            output_bytes_max: 1 << 20,
            waiting_requests_max: 1000,
            waiting_bytes_max: 16 << 20,
            idle_ms: Some(600_000),
        }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections_max: i32::MAX as usize,
            descriptors_max: usize::MAX,
            per_ip_max: i32::MAX as usize,
            per_ip_overrides: HashMap::new(),
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        }
    }
}

/// How many connections leave descriptors for files: of RLIMIT_NOFILE the log files have one half, and connections the other, less what all
/// else needs.
pub fn connections_of_descriptors() -> usize {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let half = usize::try_from(limit).unwrap_or(usize::MAX) / 2;
    half - (half / 4).min(64)
}
