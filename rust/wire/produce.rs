//! Produce (key 0, versions 0-8), by hand: the broker's hottest request.
//!
//! Request: transactional id (nullable, since 3), acks (2 bytes), timeout (4), then topics: name, then partitions: index (4), records (4 + n). The
//! broker's side copies nothing: names and records are ranges of the body. Version 0 to 2 carry message sets, 3 and later record batches.
//!
//! Response: topics: name, then partitions: index, error code, base offset, append time (since 2), log start offset (since 5), record errors
//! and error message (since 8); throttle time (since 1). Produce is not flexible before version 9.

use std::ops::Range;

use super::error::{At, WireError};
use super::primitives::{ITEMS_AT_FIRST, REQUEST_ITEMS_MAX, Reader, Writer};

pub const VERSION_MAX: i16 = 8;

const TRANSACTIONAL_ID_SINCE: i16 = 3;
const THROTTLE_SINCE: i16 = 1;
const APPEND_TIME_SINCE: i16 = 2;
const LOG_START_SINCE: i16 = 5;
const RECORD_ERRORS_SINCE: i16 = 8;

/// The fewest bytes of a topic (name, number of partitions), of a partition, of its result, and of a record error.
const TOPIC_BYTES_MIN: usize = 2 + 4;
const PARTITION_BYTES_MIN: usize = 4 + 4;
const RESULT_BYTES_MIN: usize = 4 + 2 + 8;
const RECORD_ERROR_BYTES_MIN: usize = 4 + 2;

/// A request whose ranges point into the body it was decoded from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceRequest {
    pub transactional_id: Option<Range<usize>>,
    pub acks: i16,
    pub timeout_ms: i32,
    /// In the order of the request.
    pub partitions: Vec<PartitionData>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionData {
    /// UTF-8, checked.
    pub topic: Range<usize>,
    pub partition: i32,
    /// None if the sender wrote null.
    pub records: Option<Range<usize>>,
}

fn known(version: i16) -> Result<(), WireError> {
    if (0..=VERSION_MAX).contains(&version) {
        return Ok(());
    }
    Err(WireError::Version {
        what: "Produce".into(),
        version,
    })
}

/// The server's side.
pub fn decode_request(body: &[u8], version: i16) -> Result<ProduceRequest, WireError> {
    known(version)?;
    let mut reader = Reader::bounded(body, REQUEST_ITEMS_MAX);
    let transactional_id = if version >= TRANSACTIONAL_ID_SINCE {
        reader.name_or_null(false).at("transactional_id")?
    } else {
        None
    };
    let acks = reader.i16().at("acks")?;
    let timeout_ms = reader.i32().at("timeout_ms")?;
    let topics = reader.items(false, TOPIC_BYTES_MIN).at("topics")?;
    // What a frame announces need not come: more partitions grow the vector.
    let mut partitions = Vec::with_capacity(topics.min(ITEMS_AT_FIRST));
    for _ in 0..topics {
        let topic = reader.name(false).at("topics.name")?;
        let count = reader
            .items(false, PARTITION_BYTES_MIN)
            .at("topics.partitions")?;
        for _ in 0..count {
            partitions.push(PartitionData {
                topic: topic.clone(),
                partition: reader.i32().at("topics.partitions.partition_index")?,
                records: reader.bytes(false).at("topics.partitions.records")?,
            });
        }
    }
    Ok(ProduceRequest {
        transactional_id,
        acks,
        timeout_ms,
        partitions,
    })
}

/// The acks of a Produce that is answered when all in-sync replicas have its records.
pub const ACKS_ALL: i16 = -1;
/// The first version that carries nothing but record batches.
pub const BATCHES_SINCE: i16 = 3;
const ZSTD_SINCE: i16 = 7;

/// Errors that Kafka does not count as failures (`ReplicaManager.appendToLocalLog`): CORRUPT_MESSAGE,
/// UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
/// KAFKA_STORAGE_ERROR.
const EXPECTED: [i16; 6] = [2, 3, 6, 10, 18, 56];

/// True of the error code of a result that metrics count among the failed ones.
pub fn is_failure(error_code: i16) -> bool {
    error_code != 0 && !EXPECTED.contains(&error_code)
}

/// Why this version may not carry these records: error code and reason. Before version 3 anything goes, as clients have sent messages of the
/// wrong format in the wrong version. The log looks at all the rest.
pub fn format_problem(version: i16, records: &[u8]) -> Option<(i16, &'static str)> {
    if version < BATCHES_SINCE {
        return None;
    }
    let (magic, attributes) = (*records.get(16)?, *records.get(22)?);
    if magic != 2 {
        let problem =
            "Produce 3 and later take record batches (magic 2), not messages of older formats";
        return Some((87, problem));
    }
    (version < ZSTD_SINCE && attributes & 7 == 4).then_some((76, "zstd needs Produce 7 or later"))
}

/// The outcome of one partition's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionResult<'a> {
    pub topic: &'a [u8],
    pub partition: i32,
    pub error_code: i16,
    /// -1 on error.
    pub base_offset: i64,
    /// -1 unless the topic's timestamps are of the append.
    pub log_append_time_ms: i64,
    /// -1 if unknown.
    pub log_start_offset: i64,
    /// Index in the batch and message of each record that was refused (KIP-467).
    pub record_errors: &'a [(i32, Option<String>)],
    pub error_message: Option<&'a str>,
}

/// The server's side: the response's body is appended to `to`. Results of one topic that follow each other share its entry.
pub fn encode_response(
    to: &mut Vec<u8>,
    version: i16,
    results: &[PartitionResult<'_>],
    throttle_time_ms: i32,
) {
    let mut writer = Writer::over(std::mem::take(to));
    writer.count(
        false,
        results
            .chunk_by(|one, next| one.topic == next.topic)
            .count(),
    );
    for topic in results.chunk_by(|one, next| one.topic == next.topic) {
        writer.clipped(false, Some(topic[0].topic));
        writer.count(false, topic.len());
        for result in topic {
            encode_result(&mut writer, version, result);
        }
    }
    if version >= THROTTLE_SINCE {
        writer.i32(throttle_time_ms);
    }
    *to = writer.into_bytes();
}

fn encode_result(writer: &mut Writer, version: i16, result: &PartitionResult<'_>) {
    writer.i32(result.partition);
    writer.i16(result.error_code);
    writer.i64(result.base_offset);
    if version >= APPEND_TIME_SINCE {
        writer.i64(result.log_append_time_ms);
    }
    if version >= LOG_START_SINCE {
        writer.i64(result.log_start_offset);
    }
    if version >= RECORD_ERRORS_SINCE {
        writer.count(false, result.record_errors.len());
        for (index, message) in result.record_errors {
            writer.i32(*index);
            writer.clipped(false, message.as_deref().map(str::as_bytes));
        }
        writer.clipped(false, result.error_message.map(str::as_bytes));
    }
}

/// Records to send, for the client's side.
#[derive(Clone, Debug)]
pub struct PartitionRecords<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub records: Option<&'a [u8]>,
}

/// The client's side. Partitions of one topic that follow each other share its entry.
pub fn encode_request(
    version: i16,
    transactional_id: Option<&str>,
    acks: i16,
    timeout_ms: i32,
    partitions: &[PartitionRecords<'_>],
) -> Result<Vec<u8>, WireError> {
    known(version)?;
    let records: usize = partitions
        .iter()
        .map(|partition| 64 + partition.topic.len() + partition.records.map_or(0, <[u8]>::len))
        .sum();
    let mut writer = Writer::with_capacity(64 + records);
    if version >= TRANSACTIONAL_ID_SINCE {
        writer
            .text(false, transactional_id.map(str::as_bytes))
            .map_err(|problem| WireError::unwritable("transactional_id", problem.to_string()))?;
    } else if transactional_id.is_some() {
        return Err(WireError::unwritable(
            "transactional_id",
            format!("version {version} lacks this field"),
        ));
    }
    writer.i16(acks);
    writer.i32(timeout_ms);
    writer.count(
        false,
        partitions
            .chunk_by(|one, next| one.topic == next.topic)
            .count(),
    );
    for topic in partitions.chunk_by(|one, next| one.topic == next.topic) {
        writer
            .text(false, Some(topic[0].topic.as_bytes()))
            .map_err(|problem| WireError::unwritable("topics.name", problem.to_string()))?;
        writer.count(false, topic.len());
        for partition in topic {
            writer.i32(partition.partition);
            writer.bytes(false, partition.records).map_err(|problem| {
                WireError::unwritable("topics.partitions.records", problem.to_string())
            })?;
        }
    }
    Ok(writer.into_bytes())
}

/// A decoded response, for the client's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceResponse {
    pub throttle_time_ms: i32,
    pub results: Vec<OwnedResult>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedResult {
    pub topic: Range<usize>,
    pub partition: i32,
    pub error_code: i16,
    pub base_offset: i64,
    pub log_append_time_ms: i64,
    pub log_start_offset: i64,
    pub record_errors: Vec<(i32, Option<String>)>,
    pub error_message: Option<String>,
}

/// The client's side.
pub fn decode_response(body: &[u8], version: i16) -> Result<ProduceResponse, WireError> {
    known(version)?;
    let mut reader = Reader::new(body);
    let mut results = Vec::new();
    for _ in 0..reader.items(false, TOPIC_BYTES_MIN).at("responses")? {
        let topic = reader.name(false).at("responses.name")?;
        let count = reader
            .items(false, RESULT_BYTES_MIN)
            .at("responses.partitions")?;
        results.reserve(count);
        for _ in 0..count {
            results.push(decode_result(&mut reader, version, topic.clone())?);
        }
    }
    let throttle_time_ms = if version >= THROTTLE_SINCE {
        reader.i32().at("throttle_time_ms")?
    } else {
        0
    };
    Ok(ProduceResponse {
        throttle_time_ms,
        results,
    })
}

fn decode_result(
    reader: &mut Reader<'_>,
    version: i16,
    topic: Range<usize>,
) -> Result<OwnedResult, WireError> {
    let mut result = OwnedResult {
        topic,
        partition: reader.i32().at("responses.partitions.partition_index")?,
        error_code: reader.i16().at("responses.partitions.error_code")?,
        base_offset: reader.i64().at("responses.partitions.base_offset")?,
        log_append_time_ms: -1,
        log_start_offset: -1,
        record_errors: Vec::new(),
        error_message: None,
    };
    if version >= APPEND_TIME_SINCE {
        result.log_append_time_ms = reader.i64().at("responses.partitions.log_append_time_ms")?;
    }
    if version >= LOG_START_SINCE {
        result.log_start_offset = reader.i64().at("responses.partitions.log_start_offset")?;
    }
    if version >= RECORD_ERRORS_SINCE {
        let field = "responses.partitions.record_errors";
        for _ in 0..reader.items(false, RECORD_ERROR_BYTES_MIN).at(field)? {
            let index = reader.i32().at(field)?;
            let message = reader.string(false).at(field)?;
            result
                .record_errors
                .push((index, message.map(str::to_owned)));
        }
        let message = reader
            .string(false)
            .at("responses.partitions.error_message")?;
        result.error_message = message.map(str::to_owned);
    }
    Ok(result)
}
