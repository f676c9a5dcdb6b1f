//! Fetch (key 1, versions 0-12), by hand: the requests and responses that carry most of a broker's bytes.
//!
//! The broker's side copies neither names nor records: a request's names are ranges of its body, a response is pieces of memory between ranges of
//! files (piece.rs). The client's side hands out ranges of the response.
//!
//! Since version 3 the whole response is limited, 4 brings isolation levels, last stable offsets and aborted transactions, 5 log start offsets, 7
//! sessions (KIP-227), 9 leader epochs (KIP-320), 11 racks and preferred replicas (KIP-392), 12 the flexible encoding, the epoch of the last fetched
//! record, and in tagged fields where the asker's log diverges and who leads now (KIP-595).

mod request;
mod response;

pub use request::*;
pub use response::*;

use super::error::WireError;

pub const VERSION_MAX: i16 = 12;

/// In place of a broker's number: the reader is a consumer.
pub const CONSUMER: i32 = -1;
/// Isolation levels: transactions that are open or aborted are read too, or are not.
pub const READ_UNCOMMITTED: i8 = 0;
pub const READ_COMMITTED: i8 = 1;

/// The first version whose consumers read batches as they are stored, and say how they are isolated.
pub const BATCHES_SINCE: i16 = ISOLATION_SINCE;
/// The first version whose consumers can read everything that is stored: what is compressed with zstd, too.
pub const ZSTD_SINCE: i16 = 10;
const THROTTLE_SINCE: i16 = 1;
const BYTES_MAX_SINCE: i16 = 3;
const ISOLATION_SINCE: i16 = 4;
const LOG_START_SINCE: i16 = 5;
const SESSION_SINCE: i16 = 7;
const LEADER_EPOCH_SINCE: i16 = 9;
const RACK_SINCE: i16 = 11;
/// As the declaration says (`python/ottla/wire/k01_fetch.py`).
pub const FLEXIBLE_SINCE: i16 = 12;

/// Errors that Kafka does not count as failures (`ReplicaManager.readFromLocalLog`):
/// OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE,
/// KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
const EXPECTED: [i16; 7] = [1, 3, 6, 9, 56, 74, 75];

/// True of the error code of a row that metrics count among the failed ones.
pub fn is_failure(error_code: i16) -> bool {
    error_code != 0 && !EXPECTED.contains(&error_code)
}

/// The fewest bytes of a topic, in a request or a response.
const TOPIC_BYTES_MIN: usize = 2;

/// True if the version is flexible. An error if nobody knows it.
fn known(version: i16) -> Result<bool, WireError> {
    if (0..=VERSION_MAX).contains(&version) {
        return Ok(version >= FLEXIBLE_SINCE);
    }
    Err(WireError::Version {
        what: "Fetch".into(),
        version,
    })
}
