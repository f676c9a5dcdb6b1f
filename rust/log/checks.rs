//! Checks of what a topic demands of each record: a key where it is compacted, a timestamp that is
//! not too far from the broker's clock.

use super::config::{LogConfig, TimestampType};
use super::error::{LogError, Result};
use crate::records::batch::NO_TIMESTAMP;
use crate::records::{Records, Validated};

/// Checks what the walk over a batch saw; only when something is wrong its `records` are looked at again, so that each one that is refused
/// is named (KIP-467). `first_index` is the index of the first record among all that were sent for the partition.
pub(super) fn check_records(
    validated: &Validated,
    records: Records<'_>,
    first_index: usize,
    config: &LogConfig,
    now_ms: i64,
) -> Result<()> {
    let keyless = config.compact && validated.keyless && !validated.header.is_control();
    let times = [validated.min_timestamp, validated.max_timestamp];
    if !keyless && !times.into_iter().any(|time| is_far(time, config, now_ms)) {
        return Ok(());
    }
    rejected(records, first_index, keyless, config, now_ms)
}

fn is_far(timestamp_ms: i64, config: &LogConfig, now_ms: i64) -> bool {
    let difference_ms_max = config.message_timestamp_difference_max_ms.unsigned_abs();
    config.message_timestamp_type == TimestampType::CreateTime
        && timestamp_ms != NO_TIMESTAMP
        && timestamp_ms.abs_diff(now_ms) > difference_ms_max
}

/// A producer that sends many bad records gets that many named; each costs a line in the answer.
const REJECTED_MAX: usize = 1000;

#[cold]
fn rejected(
    records: Records<'_>,
    first_index: usize,
    keyless: bool,
    config: &LogConfig,
    now_ms: i64,
) -> Result<()> {
    let mut found = Vec::new();
    let mut is_time = false;
    for (index, record) in records.enumerate() {
        let record = record?;
        let problem = if keyless && record.key.is_none() {
            "a compacted topic takes no record without key".to_owned()
        } else if is_far(record.timestamp_ms, config, now_ms) {
            is_time = true;
            format!(
                "timestamp {} is more than {} ms away from the broker's clock, {now_ms}",
                record.timestamp_ms, config.message_timestamp_difference_max_ms
            )
        } else {
            continue;
        };
        found.push(((first_index + index) as i32, problem));
        if found.len() == REJECTED_MAX {
            break;
        }
    }
    Err(if is_time {
        LogError::RejectedTimestamps(found)
    } else {
        LogError::RejectedRecords(found)
    })
}
