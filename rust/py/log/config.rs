//! A topic's settings, from Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::log::{self, TimestampType};
use crate::py::records::codec;
use crate::records::Codec;

#[pyclass(frozen, module = "ottla._core")]
pub struct LogConfig(pub log::LogConfig);

#[pymethods]
impl LogConfig {
    #[new]
    #[pyo3(signature = (*, segment_bytes=1_073_741_824, segment_ms=604_800_000, segment_jitter_ms=0, segment_index_bytes=10_485_760,
        index_interval_bytes=4096, flush_messages=i64::MAX, flush_ms=i64::MAX, retention_bytes=-1, retention_ms=604_800_000,
        max_message_bytes=1_048_588, message_format=2, compression_type="producer", message_timestamp_type="CreateTime",
        message_timestamp_difference_max_ms=i64::MAX,
        file_delete_delay_ms=60_000, cleanup_policy="delete", max_compaction_lag_ms=i64::MAX, min_compaction_lag_ms=0,
        min_cleanable_dirty_ratio=0.5, delete_retention_ms=86_400_000, producer_id_expiration_ms=604_800_000, verify_transactions=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        segment_bytes: u32,
        segment_ms: i64,
        segment_jitter_ms: i64,
        segment_index_bytes: u32,
        index_interval_bytes: u32,
        flush_messages: i64,
        flush_ms: i64,
        retention_bytes: i64,
        retention_ms: i64,
        max_message_bytes: u32,
        message_format: i8,
        compression_type: &str,
        message_timestamp_type: &str,
        message_timestamp_difference_max_ms: i64,
        file_delete_delay_ms: u64,
        cleanup_policy: &str,
        max_compaction_lag_ms: i64,
        min_compaction_lag_ms: i64,
        min_cleanable_dirty_ratio: f64,
        delete_retention_ms: i64,
        producer_id_expiration_ms: i64,
        verify_transactions: bool,
    ) -> PyResult<Self> {
        let message_timestamp_type = match message_timestamp_type {
            "CreateTime" => TimestampType::CreateTime,
            "LogAppendTime" => TimestampType::LogAppendTime,
            other => {
                return Err(PyValueError::new_err(format!(
                    "message_timestamp_type {other:?}: CreateTime or LogAppendTime"
                )));
            }
        };
        if !(0..=2).contains(&message_format) {
            let problem = format!("message_format {message_format}: 0, 1 or 2");
            return Err(PyValueError::new_err(problem));
        }
        let compression = match compression_type {
            "producer" => None,
            "uncompressed" => Some(Codec::None),
            name => Some(codec(name)?),
        };
        let has = |policy: &str| {
            cleanup_policy
                .split(',')
                .any(|part| part.trim().eq_ignore_ascii_case(policy))
        };
        Ok(Self(log::LogConfig {
            segment_bytes,
            segment_ms,
            segment_jitter_ms,
            segment_index_bytes,
            index_interval_bytes,
            flush_messages,
            flush_ms,
            retention_bytes,
            retention_ms,
            max_message_bytes,
            message_format,
            compression,
            message_timestamp_type,
            message_timestamp_difference_max_ms,
            file_delete_delay_ms,
            delete: has("delete"),
            compact: has("compact"),
            max_compaction_lag_ms,
            min_compaction_lag_ms,
            min_cleanable_dirty_ratio,
            delete_retention_ms,
            producer_id_expiration_ms,
            verify_transactions,
        }))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
