//! The settings of one log: Kafka's topic settings, under Kafka's names with `_` for `.`.

use crate::records::Codec;

/// Whose clock a record's timestamp comes from (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// Ours, when the batch is appended.
    LogAppendTime,
}

/// Settings of a log; the defaults are Kafka 2.7's. A change (`Log::update_config`) holds from the next append on.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// A segment is closed before it would grow past this many bytes.
    pub segment_bytes: u32,
    /// A segment is closed when a batch is this much younger than the segment's first.
    pub segment_ms: i64,
    /// The most that is taken off `segment_ms` at random, so that segments of many partitions do not roll at once.
    pub segment_jitter_ms: i64,
    /// The size of an index that counts as full, in bytes.
    pub segment_index_bytes: u32,
    /// An index entry at most every this many bytes of batches.
    pub index_interval_bytes: u32,
    /// A flush is due after this many records.
    pub flush_messages: i64,
    /// A flush is due when a record waited this long for one.
    pub flush_ms: i64,
    /// Old segments go when the log has more bytes than this; -1 is no limit.
    pub retention_bytes: i64,
    /// Segments go when their youngest record is older than this; -1 is no limit.
    pub retention_ms: i64,
    /// The largest batch, as sent by the producer, in bytes.
    pub max_message_bytes: u32,
    /// The format in which records are stored: 0, 1 or 2 (`message.format.version`).
    pub message_format: i8,
    /// The codec in which records are stored (`compression.type`); None for the producer's.
    pub compression: Option<Codec>,
    pub message_timestamp_type: TimestampType,
    /// How far a producer's timestamp may be from our clock.
    pub message_timestamp_difference_max_ms: i64,
    /// How long a segment's files stay after it left the log.
    pub file_delete_delay_ms: u64,
    /// `cleanup.policy` contains `delete`.
    pub delete: bool,
    /// `cleanup.policy` contains `compact`: records need keys.
    pub compact: bool,
    /// A compacted log's segments close at least this often, so that they can be cleaned.
    pub max_compaction_lag_ms: i64,
    /// A transaction's first batch needs the guard of a verification.
    pub verify_transactions: bool,
    /// A segment is not compacted before its youngest record is this old.
    pub min_compaction_lag_ms: i64,
    /// A log is compacted when more than this part of it is dirty.
    pub min_cleanable_dirty_ratio: f64,
    /// How long a compacted log keeps tombstones, and the markers of transactions.
    pub delete_retention_ms: i64,
    /// The time for which an idle producer's state is kept (`producer.id.expiration.ms`; in 2.7
    /// `transactional.id.expiration.ms`).
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    fn default() -> Self {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * DAY_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            retention_bytes: -1,
            retention_ms: 7 * DAY_MS,
            max_message_bytes: 1_048_588,
            message_format: 2,
            compression: None,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_difference_max_ms: i64::MAX,
            file_delete_delay_ms: 60_000,
            delete: true,
            compact: false,
            max_compaction_lag_ms: i64::MAX,
            verify_transactions: false,
            min_compaction_lag_ms: 0,
            min_cleanable_dirty_ratio: 0.5,
            delete_retention_ms: DAY_MS,
            producer_id_expiration_ms: 7 * DAY_MS,
        }
    }
}

impl LogConfig {
    /// How old a segment may become before it is closed.
    pub fn segment_age_max_ms(&self) -> i64 {
        if self.compact && self.max_compaction_lag_ms > 0 {
            self.segment_ms.min(self.max_compaction_lag_ms)
        } else {
            self.segment_ms
        }
    }
}
