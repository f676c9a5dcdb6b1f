//! The errors of a row.

use crate::records::RecordError;

/// Rows are counted from 0 in the table that was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    #[error("the column {0} is damaged: its positions or lengths point outside of its data")]
    Damaged(&'static str),
    #[error("null topic present in the data. Use the topic option for setting a topic")]
    NullTopic,
    #[error("a topic whose name is not UTF-8")]
    TopicNotText,
    #[error(
        "the row's partition {partition} does not exist: topic '{topic}' has {count} partitions"
    )]
    NoPartition {
        topic: String,
        partition: i32,
        count: i32,
    },
    #[error("topic '{0}' has no partition")]
    EmptyTopic(String),
    #[error("a header without a key")]
    HeaderWithoutKey,
    #[error(
        "a row for topic '{topic}' is {bytes} bytes when serialized, larger than {bytes_max}, the value of max.request.size"
    )]
    TooLarge {
        topic: String,
        bytes: usize,
        bytes_max: usize,
    },
    #[error("{0}")]
    Record(#[from] RecordError),
}

impl RowError {
    /// Kafka's error code where a broker would answer with one.
    pub fn code(&self) -> Option<i16> {
        match self {
            RowError::NoPartition { .. } | RowError::EmptyTopic(_) => Some(3),
            RowError::TooLarge { .. } => Some(10),
            RowError::Record(error) => Some(error.code()),
            _ => None,
        }
    }
}
