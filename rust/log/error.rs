//! The errors of a log, each with Kafka's error code.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::io::panics::Panicked;
use crate::records::RecordError;

pub type Result<T> = std::result::Result<T, LogError>;

#[derive(Clone, Debug, Error)]
pub enum LogError {
    /// The disk failed us.
    #[error("{action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// A disk failed us before (a failed fsync, a write that could not be undone): nothing in this directory can be trusted until it is opened again.
    #[error("the log directory {} is out of use: {reason}", path.display())]
    Offline { path: PathBuf, reason: String },
    /// A thread panicked while it changed this log: what it left half done is put right when the log is opened again. Other logs go on.
    #[error("the log {log} is out of use: {reason}")]
    Broken { log: String, reason: Panicked },
    /// A mistake of ours. It changed nothing, or the log is [`Broken`](Self::Broken) from now on.
    #[error(transparent)]
    Panicked(#[from] Panicked),
    #[error("the log {0} is closed")]
    Closed(String),
    /// The log was opened with mode `r`.
    #[error("the log {0} is open for reading only")]
    ReadOnly(String),
    #[error("{} is in use by another process or another opener in this one (its .lock is taken)", .0.display())]
    Locked(PathBuf),
    #[error("{} is not the folder of a partition: its name should be TOPIC-NUMBER, as in orders-0, but {}", .0.display(), .1)]
    NotAPartition(PathBuf, &'static str),
    /// The name of a topic, or the number of a partition, that can be no folder's.
    #[error("there can be no partition {partition} of a topic {topic:?}: {problem}")]
    InvalidName {
        topic: String,
        partition: i32,
        problem: &'static str,
    },
    /// A file breaks its format.
    #[error("{} at byte {position}: {problem}", path.display())]
    Corrupt {
        path: PathBuf,
        position: u64,
        problem: String,
    },
    #[error("offset {offset} is not in the log, which has {start} to {end}")]
    OffsetOutOfRange { offset: i64, start: i64, end: i64 },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("{0}")]
    InvalidRecord(String),
    /// Some records of a batch break a rule of the topic, so none is stored: index in the batch and reason of each (KIP-467).
    #[error("One or more records have been rejected, the first ({}) because {}", .0.first().map_or(-1, |first| first.0), .0.first().map_or("", |first| &first.1))]
    RejectedRecords(Vec<(i32, String)>),
    /// The same, and at least one for its timestamp.
    #[error("One or more records have been rejected due to invalid timestamp")]
    RejectedTimestamps(Vec<(i32, String)>),
    /// The topic's format has no place for what a batch says.
    #[error("{0}")]
    UnsupportedForFormat(String),
    #[error("a batch of {bytes} bytes is larger than max.message.bytes = {bytes_max}")]
    BatchTooLarge { bytes: usize, bytes_max: u32 },
    #[error("batches of {bytes} bytes do not fit into a segment of segment.bytes = {bytes_max}")]
    LargerThanSegment { bytes: usize, bytes_max: u32 },
    /// A cleaning ended before it changed anything more; the next one begins anew.
    #[error("the cleaning was stopped: {0}")]
    CleaningStopped(&'static str),
    /// The append was meant for another leader epoch than the log's.
    #[error("the append is for leader epoch {given}, the log is in epoch {current}")]
    OtherEpoch { given: i32, current: i32 },
    /// A follower got a batch of a newer leader epoch than its leader's.
    #[error(
        "a batch's partition_leader_epoch {given} is newer than the leader's, which is {newest}"
    )]
    NewerEpoch { given: i32, newest: i32 },
    #[error("producer {producer_id} sent sequence {sequence} after {last_sequence}")]
    OutOfOrderSequence {
        producer_id: i64,
        sequence: i32,
        last_sequence: i32,
    },
    #[error("producer {producer_id} has epoch {current}, the batch has {given}")]
    InvalidProducerEpoch {
        producer_id: i64,
        given: i16,
        current: i16,
    },
    #[error("producer {producer_id}: {problem}")]
    InvalidTransactionState {
        producer_id: i64,
        problem: &'static str,
    },
    #[error(
        "producer {producer_id}: the marker is from coordinator epoch {given}, the last was from {current}"
    )]
    CoordinatorFenced {
        producer_id: i64,
        given: i32,
        current: i32,
    },
    /// A lookup that may not wait for the disk would have to.
    #[error("a lookup has to wait for the disk")]
    NotCached,
    /// Opening a log tells itself by this error that the folder is to be listed again.
    #[error("{0} held offsets beyond what an index can hold, and was split")]
    Split(PathBuf),
    /// A follower got batches that do not continue its log.
    #[error("batches from offset {first} do not continue a log that ends at {end}")]
    UnexpectedOffset { first: i64, end: i64 },
}

impl LogError {
    /// Kafka's error code.
    pub fn code(&self) -> i16 {
        match self {
            Self::Io { .. }
            | Self::Offline { .. }
            | Self::Broken { .. }
            | Self::Closed(_)
            | Self::ReadOnly(_)
            | Self::Split(_)
            | Self::NotCached
            | Self::Locked(_) => 56,
            Self::NotAPartition(..) => 42,
            Self::InvalidName { .. } => 17,
            Self::Corrupt { .. } | Self::NewerEpoch { .. } => 2,
            Self::OffsetOutOfRange { .. } => 1,
            Self::Record(error) => error.code(),
            Self::InvalidRecord(_) | Self::RejectedRecords(_) => 87,
            Self::BatchTooLarge { .. } => 10,
            Self::LargerThanSegment { .. } => 18,
            Self::RejectedTimestamps(_) => 32,
            Self::UnsupportedForFormat(_) => 43,
            Self::OtherEpoch { .. } => 6,
            Self::OutOfOrderSequence { .. } => 45,
            Self::InvalidProducerEpoch { .. } => 47,
            Self::InvalidTransactionState { .. } => 48,
            Self::CoordinatorFenced { .. } => 52,
            Self::UnexpectedOffset { .. } | Self::CleaningStopped(_) | Self::Panicked(_) => -1,
        }
    }
}

/// Says what was tried on which file when it failed.
pub trait Context<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| LogError::Io {
            action,
            path: path.to_owned(),
            source: Arc::new(source),
        })
    }
}
