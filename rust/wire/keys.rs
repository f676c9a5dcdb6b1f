//! The keys of the APIs that native code tells apart; `python/ottla/wire` declares all of them.

pub const PRODUCE: i16 = 0;
pub const FETCH: i16 = 1;
pub const LEADER_AND_ISR: i16 = 4;
pub const CONTROLLED_SHUTDOWN: i16 = 7;
pub const OFFSET_COMMIT: i16 = 8;
pub const FIND_COORDINATOR: i16 = 10;
pub const HEARTBEAT: i16 = 12;
pub const SASL_HANDSHAKE: i16 = 17;
pub const API_VERSIONS: i16 = 18;
pub const INIT_PRODUCER_ID: i16 = 22;
pub const ADD_PARTITIONS_TO_TXN: i16 = 24;
pub const ADD_OFFSETS_TO_TXN: i16 = 25;
pub const END_TXN: i16 = 26;
