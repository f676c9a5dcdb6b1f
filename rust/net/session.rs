//! Who speaks on a connection, as far as the hub has to know it.
//!
//! A listener lets everybody speak at once, or wants to know first who comes. Then a connection has the
//! time of a greeting to say it. Until the loop lets it speak (`Hub::let_speak`), it may send the few
//! requests by which clients say who they are, and no large frames. The hub's gate (`hub/gate.rs`)
//! asks before a request is handed out, so nobody else has to: requests that are served without Python
//! come through it, too. A frame behind an unanswered request waits for the answer, and is looked at then.
//!
//! The end of a session ends its connection at once (`Hub::end_session`). Requests that wait are not
//! answered any more.

use super::limits::Limits;
use crate::wire::keys::{API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE};

/// Requests that a connection may send before it may speak.
const GREETING: [i16; 3] = [SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE];
/// The largest frame of a connection that may not speak yet. Kafka's bound (`SaslServerAuthenticator`):
/// tokens can be large.
const GREETING_BYTES_MAX: usize = 512 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// Nobody knows yet who it is. It ends at this time.
    Greeting { until_ms: u64 },
    /// It may speak.
    Open,
}

impl Session {
    /// True if a request of this key may start now.
    pub fn may_send(self, api_key: i16) -> bool {
        self == Self::Open || GREETING.contains(&api_key)
    }

    /// The largest frame that it may send.
    pub fn frame_bytes_max(self, limits: &Limits) -> usize {
        match self {
            Self::Greeting { .. } => limits.frame_bytes_max.min(GREETING_BYTES_MAX),
            Self::Open => limits.frame_bytes_max,
        }
    }

    /// True if its time is over, and nobody knows who it is.
    pub fn is_late(self, now_ms: u64) -> bool {
        matches!(self, Self::Greeting { until_ms } if until_ms <= now_ms)
    }
}

/// The reason to refuse a request that comes too early.
pub fn too_early(api_key: i16) -> String {
    format!("API key {api_key} before it is known who the client is")
}
