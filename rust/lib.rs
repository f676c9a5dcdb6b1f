//! The data plane of Ottla: everything that costs time per record or per byte.
//!
//! * `checksum`: CRC-32C, the checksum of a record batch.
//! * `murmur2`: the hash that chooses a partition for a key.
//! * `siphash`: a hash with a secret, for the keys of compaction.
//! * `records`: record batches, format v2: validate, decode, encode, compress, columns.
//! * `storage`: the file system as a trait, with a faulty one for tests.
//! * `log`: segments, indexes, producer state, leader epochs, recovery.
//! * `wire`: Kafka's protocol: primitives, the schema walker, Produce and Fetch by hand.
//! * `io`: threads for work that may block, and the queue their results come back through.
//! * `net`: the hub: sockets, frames in, ordered replies out.
//! * `direct`: plain Produces and Fetches, served without Python.
//! * `replication`: what a follower fetches from leaders.
//! * `traffic`: what topics sent and got, counted for metrics.
//! * `py`: the only place that knows Python.

pub mod checksum;
#[cfg(target_os = "linux")]
pub mod direct;
pub mod io;
pub mod log;
pub mod murmur2;
#[cfg(target_os = "linux")]
pub mod net;
pub mod records;
#[cfg(target_os = "linux")]
pub mod replication;
pub mod siphash;
pub mod storage;
pub mod traffic;
pub mod wire;

#[cfg(feature = "python")]
mod py;
