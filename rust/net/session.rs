//! Who speaks on a connection, as far as the hub has to know it.
//!
//! A listener lets everybody speak at once, or wants to know first who comes. Then a connection has the
//! time of a greeting to say it. Until the loop lets it speak (`Hub::let_speak`), it may send the few
//! requests by which clients say who they are, and no large frames. The hub's gate (`hub/gate.rs`)
//! asks before a request is handed out, so nobody else has to: requests that are served without Python
//! come through it, too. A frame behind an unanswered request waits for the answer, and is looked at then.
//!
//! Clients of before Kafka 1.0 say it in tokens of SASL that have no header (SaslHandshake of version 0): the loop
//! announces them (`Hub::take_tokens`), and each is handed out as a SaslAuthenticate of version `TOKEN`.
//!
//! It may speak for ever, or for a time (KIP-368): then it has to say anew who it is before anything else.
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

/// The version of a SaslAuthenticate that is a token without a header.
pub const TOKEN: i16 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// It is known who it is.
    is_known: bool,
    /// Who is not known ends at this time; who is known says then anew who it is.
    until_ms: u64,
    /// Its frames are tokens.
    sends_tokens: bool,
}

impl Session {
    /// Of a connection that may speak until this time; None: for ever.
    pub fn known(until_ms: Option<u64>) -> Self {
        Self {
            is_known: true,
            until_ms: until_ms.unwrap_or(u64::MAX),
            sends_tokens: false,
        }
    }

    /// Of a connection that ends at this time, unless it is known by then who it is.
    pub fn unknown(until_ms: u64) -> Self {
        Self {
            is_known: false,
            until_ms,
            sends_tokens: false,
        }
    }

    /// The next frames are tokens, until it is known who it is.
    pub fn take_tokens(&mut self) {
        self.sends_tokens = true;
    }

    pub fn is_known(self) -> bool {
        self.is_known && !self.sends_tokens
    }

    pub fn sends_tokens(self) -> bool {
        self.sends_tokens
    }

    /// The reason why a request of this key may not start now.
    pub fn refusal(self, api_key: i16, now_ms: u64) -> Option<String> {
        if self.sends_tokens || GREETING.contains(&api_key) {
            None
        } else if !self.is_known {
            Some(format!(
                "API key {api_key} before it is known who the client is"
            ))
        } else if self.until_ms <= now_ms {
            Some(format!("API key {api_key} after the end of the session"))
        } else {
            None
        }
    }

    /// The largest frame that it may send.
    pub fn frame_bytes_max(self, limits: &Limits) -> usize {
        match self.is_known() {
            true => limits.frame_bytes_max,
            false => limits.frame_bytes_max.min(GREETING_BYTES_MAX),
        }
    }

    /// When its time is over, if nobody knows who it is.
    pub fn late_at(self) -> Option<u64> {
        (!self.is_known).then_some(self.until_ms)
    }

    /// True if its time is over, and nobody knows who it is.
    pub fn is_late(self, now_ms: u64) -> bool {
        self.late_at().is_some_and(|until_ms| until_ms <= now_ms)
    }
}
