//! Everything that is checked about records before the log's own state is asked, and what is appended of them.

use std::cell::RefCell;

use super::checks::check_records;
use super::config::{LogConfig, TimestampType};
use super::error::{LogError, Result};
use super::producer_state::AppendOrigin;
use super::rewrite::{Rewrite, Rewritten, is_plain};
use super::snapshots::end_marker;
use crate::records::{
    BatchHeader, ErrorKind, Limits, Marker, Records, Scratch, validate, validate_sent,
};

/// The most bytes that a batch may unpack to on the loop's thread; more goes to an I/O thread.
/// Unpacking and checking this much takes 0.11 ms (snappy) to 0.34 ms (gzip), and so it costs that
/// at most where more comes out and the append starts anew on the thread.
pub const INLINE_UNPACKED_BYTES_MAX: usize = 128 << 10;

/// No marker is larger.
const MARKER_BYTES_MAX: u32 = 256;

thread_local! {
    /// Memory for decompression, once per thread: a partition that is idle must not hold it.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A batch that passed, with what the checks learned.
pub(super) struct Checked {
    pub header: BatchHeader,
    pub marker: Option<Marker>,
    /// The header's maximum timestamp is that of the records; the bytes still have another one.
    pub corrects_max_timestamp: bool,
}

/// Messages of an old format with their offsets, and where each is in the bytes.
pub(super) struct Messages {
    pub bytes: Vec<u8>,
    pub batches: Vec<(usize, Checked)>,
}

pub(super) enum Prepared {
    /// The records are appended, stamped in place.
    Kept(Checked),
    /// This batch is.
    Batch(Vec<u8>, Checked),
    Messages(Messages),
    /// It would take long, and `is_quick` was asked for.
    TooMuch,
}

/// Checks `records` by the topic's rules, and makes of them what the topic stores.
pub(super) fn prepare(
    records: &[u8],
    config: &LogConfig,
    origin: AppendOrigin,
    now_ms: i64,
    first_offset: i64,
    is_quick: bool,
) -> Result<Prepared> {
    // A marker must come in whatever the limit is, or its transaction would never end.
    let limit = match origin {
        AppendOrigin::Coordinator => config.max_message_bytes.max(MARKER_BYTES_MAX),
        _ => config.max_message_bytes,
    };
    let mut limits = Limits {
        batch_bytes_max: limit as usize,
        ..Limits::default()
    };
    if is_quick {
        limits.decompressed_bytes_max = INLINE_UNPACKED_BYTES_MAX;
    }
    let prepared = SCRATCH.with_borrow_mut(|scratch| {
        if is_plain(records, config)
            && let Some(checked) = check_batch(records, config, &limits, origin, now_ms, scratch)?
        {
            return Ok(Prepared::Kept(checked));
        }
        let rewrite = Rewrite {
            config,
            limits: &limits,
            origin,
            now_ms,
            first_offset,
        };
        match rewrite.of(records, scratch)? {
            Rewritten::Messages(bytes, headers) => {
                let checked = |(at, header)| {
                    (
                        at,
                        Checked {
                            header,
                            marker: None,
                            corrects_max_timestamp: false,
                        },
                    )
                };
                let batches = headers.into_iter().map(checked).collect();
                Ok(Prepared::Messages(Messages { bytes, batches }))
            }
            Rewritten::Batch(batch) => {
                // Its records passed. What is left is its size, and what comes from the header.
                let checked = check_batch(&batch, config, &limits, origin, now_ms, scratch)?;
                let checked = checked.ok_or_else(|| {
                    LogError::InvalidRecord("a batch that was numbered anew has gaps".to_owned())
                })?;
                Ok(Prepared::Batch(batch, checked))
            }
        }
    });
    match prepared {
        Err(LogError::Record(error)) if is_quick && error.kind == ErrorKind::TooLarge => {
            Ok(Prepared::TooMuch)
        }
        other => other,
    }
}

/// A batch of format 2. None if its records are to be numbered anew.
fn check_batch(
    records: &[u8],
    config: &LogConfig,
    limits: &Limits,
    origin: AppendOrigin,
    now_ms: i64,
    scratch: &mut Scratch,
) -> Result<Option<Checked>> {
    let size = crate::records::batch_size(records)?;
    if size > limits.batch_bytes_max {
        return Err(LogError::BatchTooLarge {
            bytes: size,
            bytes_max: config.max_message_bytes,
        });
    }
    if size < records.len() {
        return Err(LogError::InvalidRecord(
            "more than one record batch for a partition".to_owned(),
        ));
    }
    let validated = match origin {
        AppendOrigin::Client => validate_sent(records, limits, scratch)?,
        _ => validate(records, limits, scratch)?,
    };
    let mut header = validated.header;
    if origin == AppendOrigin::Client {
        if header.base_offset != 0 {
            let problem = format!(
                "base_offset {} of a produced batch, should be 0",
                header.base_offset
            );
            return Err(LogError::InvalidRecord(problem));
        }
        // Some clients cannot count. Kafka numbers their records anew where it unpacks them anyway, and otherwise stores what consumers then see
        // under wrong offsets.
        if !validated.consecutive {
            return Ok(None);
        }
    }
    let seen = Records::validated(records, &header, scratch);
    check_records(&validated, seen, 0, config, now_ms)?;
    let corrects_max_timestamp = config.message_timestamp_type == TimestampType::CreateTime
        && header.max_timestamp != validated.max_timestamp
        && !header.is_control();
    if corrects_max_timestamp {
        header.max_timestamp = validated.max_timestamp;
    }
    let marker = end_marker(records, &header);
    Ok(Some(Checked {
        header,
        marker,
        corrects_max_timestamp,
    }))
}
