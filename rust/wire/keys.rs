//! The keys of the APIs that native code tells apart; `python/ottla/wire` declares all of them.

pub const PRODUCE: i16 = 0;
pub const FETCH: i16 = 1;
pub const CONTROLLED_SHUTDOWN: i16 = 7;
pub const SASL_HANDSHAKE: i16 = 17;
pub const API_VERSIONS: i16 = 18;
pub const SASL_AUTHENTICATE: i16 = 36;
