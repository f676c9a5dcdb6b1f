//! Compaction: of each key, the last record stays.
//!
//! A log's closed segments are cleaned from its first offset on. The part behind the last cleaning (the dirty part) is read first, and the last
//! offset of each of its keys noted in a map of bounded size ([`offset_map`]); then every segment from the log's start to the end of what
//! the map covers is written anew without the records that the map knows a later one for ([`filter`]), several small segments into one
//! ([`groups`], [`run`]). Each new segment replaces the old ones in one step that a crash cannot halve ([`swap`]). [`candidates`] says what
//! there is to clean in a log; which log is next is decided elsewhere.
//!
//! Offsets never change: what is left of a batch keeps its first and last offset, and a compacted log has gaps. A record without value (a
//! tombstone) deletes its key, and goes itself when it has been in the clean part for `delete.retention.ms`: until then a reader that began
//! before it was written may still need it. The rules for transactions are in [`transactions`]. The last batch of each producer that the log
//! remembers stays, emptied if need be, because it holds the producer's last sequence number.
//!
//! The log is flushed first: what makes an older record needless must not be lost in a power cut that the older one would have survived.
//!
//! Only what is below the last stable offset and outside of the active segment is cleaned, so a cleaning and an append never meet. Readers
//! go on in the segments they hold. A truncation, a deletion of records or the end of the log's use stop a cleaning: it changes nothing,
//! and begins anew at the next look.

pub mod candidates;
mod cleaned;
pub mod filter;
mod groups;
mod later;
pub mod offset_map;
mod run;
mod state;
mod superseded;
mod swap;
pub mod throttle;
pub mod transactions;

#[cfg(test)]
mod power;
#[cfg(test)]
mod tests;

pub use candidates::Cleanable;
pub use run::{CleanReport, Cleaner, CleanerSettings};
pub use state::Cleaned;
