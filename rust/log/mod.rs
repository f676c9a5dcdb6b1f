//! The log: one partition as a sequence of segments, in Apache Kafka's files.
//!
//! Read in this order: [`segment`] (a `.log` with its two indexes), [`log`] (the sequence), then [`append`], [`read`], [`flush`],
//! [`follower`], [`opening`], [`recovery`] and [`cleaner`] (compaction). [`directory`] holds many logs: the lock, the checkpoints, opening thousands at once.

pub mod append;
mod beside;
mod bound;
pub mod checkpoint;
mod checks;
pub mod cleaner;
pub mod config;
pub mod conversion;
pub mod deletion;
pub mod directory;
pub mod error;
pub mod files;
pub mod flush;
pub mod follower;
pub mod home;
pub mod index;
pub mod leader_epochs;
pub mod lock;
#[allow(clippy::module_inception)]
pub mod log;
pub mod many;
pub mod moving;
pub mod names;
pub mod offset_index;
pub mod offsets_before;
pub mod opening;
mod pages;
pub mod pending;
mod prepare;
pub mod producer_state;
pub mod read;
pub mod recovery;
mod rewrite;
pub mod scan;
pub mod segment;
pub mod share;
pub mod snapshots;
mod split;
pub mod staged;
pub mod time_index;
pub mod transaction_index;
pub mod transactions;
pub mod truncate;
pub mod verification;
pub mod verify;
mod watch;

#[cfg(test)]
mod faults;
#[cfg(test)]
pub(crate) mod tests;

pub use append::{AppendInfo, AppendOrigin, When};
pub use bound::{Head, Reader};
pub use config::{LogConfig, TimestampType};
pub use directory::LogDirectory;
pub use error::LogError;
pub use files::{FileSlice, SegmentFile};
pub use home::Home;
pub use log::{Log, OpenMode};
pub use read::{FetchRange, Fetched, ReadInfo};
pub use staged::TurnEnd;
