//! The log for Python. Documented in `_core.pyi` and, for users, in `ottla.log`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::{PyBaseException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::buffer::Input;
use super::cleaner::Cleanable;
use super::coordinator;
use super::errors::kafka_error;
use super::net::{Completions, Outcome, ProduceRequest};
use super::records::{BatchInfo, codec};
use crate::io;
use crate::log::names::TopicPartition;
use crate::log::share::Borrowed;
use crate::log::verification::NO_GUARD;
use crate::log::{self, Home, LogError, Origin, TimestampType, home};
use crate::records::{Codec, Marker};
use crate::storage::{RealStorage, Storage};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LogConfig>()?;
    module.add_class::<AppendInfo>()?;
    module.add_class::<ReadInfo>()?;
    module.add_class::<FileSlice>()?;
    module.add_class::<Log>()?;
    module.add_class::<LogDirectory>()?;
    module.add_function(wrap_pyfunction!(verify_log, module)?)?;
    module.add_function(wrap_pyfunction!(repair_log, module)?)?;
    module.add_function(wrap_pyfunction!(scan_segment, module)?)?;
    module.add_function(wrap_pyfunction!(read_index, module)?)?;
    module.add_function(wrap_pyfunction!(read_transaction_index, module)?)?;
    module.add_function(wrap_pyfunction!(read_producer_snapshot, module)?)
}

impl From<LogError> for PyErr {
    fn from(error: LogError) -> Self {
        let exception = kafka_error(error.code(), error.to_string());
        let (LogError::RejectedRecords(records) | LogError::RejectedTimestamps(records)) = error
        else {
            return exception;
        };
        let told = Python::attach(|py| {
            exception.value(py).setattr("record_errors", records)?;
            PyResult::Ok(())
        });
        told.err().unwrap_or(exception)
    }
}

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

#[pyclass(frozen, get_all, freelist = 64, module = "ottla._core")]
pub struct AppendInfo {
    pub base_offset: i64,
    pub last_offset: i64,
    pub append_time_ms: i64,
    pub log_start_offset: i64,
    pub is_duplicate: bool,
    pub flush_due: bool,
}

impl From<log::AppendInfo> for AppendInfo {
    fn from(info: log::AppendInfo) -> Self {
        let log::AppendInfo {
            base_offset,
            last_offset,
            append_time_ms,
            log_start_offset,
            is_duplicate,
            flush_due,
        } = info;
        Self {
            base_offset,
            last_offset,
            append_time_ms,
            log_start_offset,
            is_duplicate,
            flush_due,
        }
    }
}

#[pymethods]
impl AppendInfo {
    fn __repr__(&self) -> String {
        let Self {
            base_offset,
            last_offset,
            append_time_ms,
            log_start_offset,
            is_duplicate,
            flush_due,
        } = self;
        let python = |value: &bool| if *value { "True" } else { "False" };
        let (is_duplicate, flush_due) = (python(is_duplicate), python(flush_due));
        format!(
            "AppendInfo(base_offset={base_offset}, last_offset={last_offset}, append_time_ms={append_time_ms}, \
             log_start_offset={log_start_offset}, is_duplicate={is_duplicate}, flush_due={flush_due})"
        )
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct FileSlice(pub log::FileSlice);

#[pymethods]
impl FileSlice {
    #[getter]
    fn position(&self) -> u64 {
        self.0.position
    }

    #[getter]
    fn length(&self) -> u64 {
        self.0.length
    }

    #[getter]
    fn path(&self) -> String {
        self.0.file.path().display().to_string()
    }

    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.0.read())?;
        Ok(PyBytes::new(py, &bytes))
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct ReadInfo(pub log::ReadInfo);

#[pymethods]
impl ReadInfo {
    #[getter]
    fn slice(&self) -> Option<FileSlice> {
        self.0.slice.clone().map(FileSlice)
    }

    #[getter]
    fn length(&self) -> u64 {
        self.0.slice.as_ref().map_or(0, |slice| slice.length)
    }

    #[getter]
    fn segment(&self) -> i64 {
        self.0.segment
    }

    #[getter]
    fn position(&self) -> u64 {
        self.0.position
    }

    #[getter]
    fn start_offset(&self) -> i64 {
        self.0.start_offset
    }

    #[getter]
    fn end_offset(&self) -> i64 {
        self.0.end_offset
    }
}

#[pyclass(frozen, weakref, module = "ottla._core")]
pub struct Log {
    pub log: Arc<log::Log>,
    reports: Reports,
    /// Of a log that was opened by itself: its share of the directory.
    share: Mutex<Option<Borrowed>>,
}

/// From which offset on, and why.
type Lost = (i64, Py<PyBaseException>);

/// Where the logs of a directory report appends that ran on an I/O thread; set once a loop is there.
type Reports = Arc<OnceLock<Arc<io::Completions<Outcome>>>>;

impl Log {
    /// Reports an append under `token` when it is done on another thread; None where no loop is.
    fn report(&self, token: u64) -> Option<impl FnOnce(Result<log::AppendInfo, LogError>) + use<>> {
        let queue = Arc::clone(self.reports.get()?);
        Some(move |result: Result<log::AppendInfo, LogError>| {
            queue.push(
                token,
                Box::new(move |py| Ok(Py::new(py, AppendInfo::from(result?))?.into_any())),
            );
        })
    }
}

fn origin(name: &str) -> PyResult<Origin> {
    match name {
        "client" => Ok(Origin::Client),
        "coordinator" => Ok(Origin::Coordinator),
        other => Err(PyValueError::new_err(format!(
            "origin {other:?}: client or coordinator"
        ))),
    }
}

#[pymethods]
impl Log {
    #[staticmethod]
    fn open_to_read(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Self> {
        let log = py.detach(|| log::opening::open_to_read(&path))?;
        Ok(Self {
            log,
            reports: Reports::default(),
            share: Mutex::new(None),
        })
    }

    #[staticmethod]
    fn open_to_append(
        py: Python<'_>,
        path: std::path::PathBuf,
        config: &LogConfig,
    ) -> PyResult<Self> {
        let share = py.detach(|| Borrowed::open(&path, config.0.clone()))?;
        Ok(Self {
            log: Arc::clone(&share.log),
            reports: Reports::default(),
            share: Mutex::new(Some(share)),
        })
    }

    #[getter]
    fn directory(&self) -> String {
        self.log.directory().display().to_string()
    }

    #[getter]
    fn topic(&self) -> &str {
        &self.log.partition.topic
    }

    #[getter]
    fn partition(&self) -> i32 {
        self.log.partition.partition
    }

    #[getter]
    fn is_future(&self) -> bool {
        self.log.is_future()
    }

    #[getter]
    fn start_offset(&self) -> i64 {
        self.log.start_offset()
    }

    #[getter]
    fn end_offset(&self) -> i64 {
        self.log.end_offset()
    }

    #[getter]
    fn flushed_offset(&self) -> i64 {
        self.log.flushed_offset()
    }

    #[getter]
    fn high_watermark(&self) -> i64 {
        self.log.high_watermark()
    }

    #[setter]
    fn set_high_watermark(&self, offset: i64) {
        self.log.set_high_watermark(offset);
    }

    fn advance_high_watermark(&self) -> bool {
        self.log.advance_high_watermark()
    }

    #[getter]
    fn first_unstable_offset(&self) -> Option<i64> {
        self.log.first_unstable_offset()
    }

    #[getter]
    fn last_stable_offset(&self) -> i64 {
        self.log.last_stable_offset()
    }

    #[getter]
    fn leader_epoch(&self) -> i32 {
        self.log.leader_epoch()
    }

    #[getter]
    fn leader_epochs(&self) -> Vec<(i32, i64)> {
        self.log
            .leader_epochs()
            .entries()
            .iter()
            .map(|entry| (entry.epoch, entry.start_offset))
            .collect()
    }

    #[getter]
    fn size_bytes(&self) -> u64 {
        self.log.size_bytes()
    }

    #[getter]
    fn segments(&self) -> Vec<(i64, u64)> {
        self.log
            .segments()
            .iter()
            .map(|segment| (segment.base_offset, segment.size_bytes()))
            .collect()
    }

    #[getter]
    fn config(&self) -> LogConfig {
        LogConfig((*self.log.config()).clone())
    }

    #[pyo3(signature = (request, index, leader_epoch, token, guard=0))]
    fn append(
        &self,
        request: &ProduceRequest,
        index: usize,
        leader_epoch: i32,
        token: u64,
        guard: u64,
    ) -> PyResult<Option<AppendInfo>> {
        let mut records = request.records(index)?;
        let (origin, now_ms) = (Origin::Client, home::now_ms());
        let Some(report) = self.report(token) else {
            let appended =
                self.log
                    .append_with(&mut records, leader_epoch, origin, guard, now_ms)?;
            return Ok(Some(appended.into()));
        };
        let appended =
            self.log
                .append_in_turn(records, leader_epoch, origin, guard, now_ms, report)?;
        Ok(appended.map(AppendInfo::from))
    }

    /// A coordinator's own records as one batch: built, checked and appended in one call.
    #[pyo3(signature = (records, leader_epoch, token, *, compression="none", producer_id=-1, producer_epoch=-1))]
    fn append_records(
        &self,
        records: Vec<coordinator::NewRecord<'_>>,
        leader_epoch: i32,
        token: u64,
        compression: &str,
        producer_id: i64,
        producer_epoch: i16,
    ) -> PyResult<Option<AppendInfo>> {
        let now_ms = home::now_ms();
        let producer = (producer_id, producer_epoch);
        let mut batch = coordinator::batch(&records, now_ms, compression, producer)?;
        let (origin, guard) = (Origin::Coordinator, NO_GUARD);
        let Some(report) = self.report(token) else {
            let appended = self
                .log
                .append_with(&mut batch, leader_epoch, origin, guard, now_ms)?;
            return Ok(Some(appended.into()));
        };
        let appended =
            self.log
                .append_or_queue(batch, leader_epoch, origin, guard, now_ms, report)?;
        Ok(appended.map(AppendInfo::from))
    }

    fn write_staged(&self, py: Python<'_>) -> (i64, bool, Option<Lost>) {
        let turn = self.log.write_staged();
        let lost = turn
            .lost
            .map(|(from, error)| (from, PyErr::from(error).into_value(py)));
        (turn.end_offset, turn.flush_due, lost)
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (producer_id, producer_epoch, is_commit, coordinator_epoch, leader_epoch, token=None))]
    fn append_marker(
        &self,
        py: Python<'_>,
        producer_id: i64,
        producer_epoch: i16,
        is_commit: bool,
        coordinator_epoch: i32,
        leader_epoch: i32,
        token: Option<u64>,
    ) -> PyResult<Option<AppendInfo>> {
        let marker = Marker {
            outcome: if is_commit {
                crate::records::Outcome::Commit
            } else {
                crate::records::Outcome::Abort
            },
            coordinator_epoch,
        };
        let (producer, now_ms) = ((producer_id, producer_epoch), home::now_ms());
        let appended = match token.and_then(|token| self.report(token)) {
            Some(report) => {
                self.log
                    .append_marker(producer, marker, leader_epoch, now_ms, report)?
            }
            None => Some(py.detach(|| {
                let mut batch = marker.batch(producer_id, producer_epoch, now_ms)?;
                self.log
                    .append(&mut batch, leader_epoch, Origin::Coordinator, now_ms)
            })?),
        };
        Ok(appended.map(AppendInfo::from))
    }

    fn begin_verification(&self, producer_id: i64, producer_epoch: i16, sequence: i32) -> u64 {
        self.log
            .begin_verification((producer_id, producer_epoch), sequence, home::now_ms())
    }

    fn refuse_verification(&self, producer_id: i64, guard: u64) {
        self.log.refuse_verification(producer_id, guard);
    }

    fn aborted_transactions(&self, offset: i64, read: &ReadInfo) -> PyResult<Vec<(i64, i64)>> {
        let found = self.log.aborted_transactions(offset, &read.0)?;
        Ok(found
            .iter()
            .map(|entry| (entry.producer_id, entry.first_offset))
            .collect())
    }

    fn producers(&self, py: Python<'_>) -> Vec<ProducerRow> {
        py.detach(|| self.log.producers())
            .into_iter()
            .map(|info| {
                (
                    info.producer_id,
                    info.epoch,
                    info.last_sequence,
                    info.last_timestamp_ms,
                    info.coordinator_epoch,
                    info.transaction_start.unwrap_or(-1),
                )
            })
            .collect()
    }

    #[pyo3(signature = (records, leader_epoch, *, origin="client"))]
    fn append_bytes(
        &self,
        py: Python<'_>,
        records: Input,
        leader_epoch: i32,
        origin: &str,
    ) -> PyResult<AppendInfo> {
        let origin = self::origin(origin)?;
        let mut records = records.bytes(py).to_vec();
        Ok(self
            .log
            .append(&mut records, leader_epoch, origin, home::now_ms())?
            .into())
    }

    fn append_as_follower(&self, py: Python<'_>, records: Input) -> PyResult<AppendInfo> {
        Ok(self
            .log
            .append_as_follower(records.bytes(py), home::now_ms())?
            .into())
    }

    #[pyo3(signature = (offset, bytes_max, upper_bound=i64::MAX, at_least_one=true))]
    fn read(
        &self,
        offset: i64,
        bytes_max: u64,
        upper_bound: i64,
        at_least_one: bool,
    ) -> PyResult<ReadInfo> {
        Ok(ReadInfo(self.log.read(
            offset,
            bytes_max,
            upper_bound,
            at_least_one,
        )?))
    }

    fn offset_for_timestamp(&self, timestamp_ms: i64) -> PyResult<Option<(i64, i64, i32)>> {
        let found = self.log.offset_for_timestamp(timestamp_ms)?;
        Ok(found.map(|found| (found.offset, found.timestamp_ms, found.leader_epoch)))
    }

    fn offsets_before(&self, timestamp_ms: i64, count_max: usize) -> PyResult<Vec<i64>> {
        let now_ms = home::now_ms();
        Ok(self.log.offsets_before(timestamp_ms, count_max, now_ms)?)
    }

    fn epoch_end_offset(&self, epoch: i32) -> (i32, i64) {
        self.log.epoch_end_offset(epoch).unwrap_or((-1, -1))
    }

    fn epoch_of(&self, offset: i64) -> i32 {
        self.log.epoch_of(offset)
    }

    fn begin_epoch(&self, epoch: i32) -> PyResult<()> {
        Ok(self.log.begin_epoch(epoch)?)
    }

    fn fence(&self, epoch: i32) {
        self.log.fence(epoch);
    }

    fn flush(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(py.detach(|| self.log.flush())?)
    }

    fn flush_async(&self, completions: &Completions, token: u64) {
        let queue = completions.queue();
        self.log.flush_async(Box::new(move |result| {
            queue.push(
                token,
                Box::new(move |py| Ok(result?.into_pyobject(py)?.into_any().unbind())),
            );
        }));
    }

    fn copy_to(&self, py: Python<'_>, future: &Log, bytes_max: u64) -> PyResult<u64> {
        Ok(py.detach(|| {
            self.log.begin_move();
            log::moving::copy(&self.log, &future.log, bytes_max)
        })?)
    }

    fn end_move(&self) {
        self.log.end_move();
    }

    fn roll(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.log.roll())?)
    }

    fn truncate_to(&self, py: Python<'_>, offset: i64) -> PyResult<bool> {
        Ok(py.detach(|| self.log.truncate_to(offset))?)
    }

    fn truncate_fully_and_start_at(&self, py: Python<'_>, offset: i64) -> PyResult<()> {
        Ok(py.detach(|| self.log.truncate_fully_and_start_at(offset))?)
    }

    fn set_start_offset(&self, py: Python<'_>, offset: i64) -> PyResult<bool> {
        Ok(py.detach(|| self.log.set_start_offset(offset))?)
    }

    fn delete_old_segments(&self, py: Python<'_>, now_ms: i64) -> PyResult<usize> {
        Ok(py.detach(|| self.log.delete_old_segments(now_ms))?)
    }

    fn expire_producers(&self, now_ms: i64) -> usize {
        self.log.expire_producers(now_ms)
    }

    #[getter]
    fn cleaned_offset(&self) -> Option<i64> {
        self.log.cleaned_offset()
    }

    #[getter]
    fn uncleanable(&self) -> Option<String> {
        self.log.uncleanable()
    }

    fn update_config(&self, config: &LogConfig) {
        self.log.update_config(config.0.clone());
    }

    #[pyo3(signature = (*, flush=true))]
    fn close(&self, py: Python<'_>, flush: bool) -> PyResult<()> {
        Ok(py.detach(|| match self.share.lock().as_mut() {
            Some(share) => share.close(),
            None => self.log.close(flush),
        })?)
    }

    fn __repr__(&self) -> String {
        format!(
            "<Log {} offsets {}..{}>",
            self.log.partition,
            self.log.start_offset(),
            self.log.end_offset()
        )
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct LogDirectory {
    directory: Arc<log::LogDirectory>,
    reports: Reports,
}

impl LogDirectory {
    pub(super) fn native(&self) -> Arc<log::LogDirectory> {
        Arc::clone(&self.directory)
    }

    fn log(&self, log: Arc<log::Log>) -> Log {
        Log {
            log,
            reports: Arc::clone(&self.reports),
            share: Mutex::new(None),
        }
    }
}

/// Topic, partition, why.
type NotOpened = (String, i32, PyErr);

/// For names of folders that must not be there yet.
fn unique_id() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let part = |salt: i64| u128::from(RandomState::new().hash_one(home::now_ms() ^ salt));
    part(0) << 64 | part(1)
}

/// For work that waits for the disk more than it computes.
fn threads() -> usize {
    16
}

#[pymethods]
impl LogDirectory {
    #[staticmethod]
    #[pyo3(signature = (path, *, high_watermark_checkpoint_interval_ms=200, raise_descriptor_limit=false))]
    fn open(
        py: Python<'_>,
        path: std::path::PathBuf,
        high_watermark_checkpoint_interval_ms: u64,
        raise_descriptor_limit: bool,
    ) -> PyResult<Self> {
        if raise_descriptor_limit {
            log::files::FileCache::raise_descriptor_limit();
        }
        let interval = Duration::from_millis(high_watermark_checkpoint_interval_ms);
        let directory = py.detach(|| log::LogDirectory::open(Home::real(&path), interval))?;
        Ok(Self {
            directory,
            reports: Reports::default(),
        })
    }

    #[getter]
    fn path(&self) -> String {
        self.directory.path().display().to_string()
    }

    fn report_to(&self, completions: &Completions) {
        let _ = self.reports.set(completions.queue());
    }

    fn report_failure_to(&self, completions: &Completions, token: u64) {
        let queue = completions.queue();
        self.directory
            .on_failure(move || queue.push(token, Box::new(|py| Ok(py.None()))));
    }

    fn fail_when_full(&self) {
        self.directory.fail_when_full();
    }

    #[getter]
    fn was_clean(&self) -> bool {
        self.directory.was_clean()
    }

    #[getter]
    fn failure(&self) -> Option<String> {
        self.directory.failure()
    }

    #[getter]
    fn other_folders(&self) -> PyResult<Vec<String>> {
        Ok(self.directory.contents()?.others)
    }

    #[pyo3(signature = (configs, default, *, threads=None))]
    fn load_all(
        &self,
        py: Python<'_>,
        configs: std::collections::HashMap<String, Py<LogConfig>>,
        default: &LogConfig,
        threads: Option<usize>,
    ) -> PyResult<(Vec<Log>, Vec<NotOpened>)> {
        let configs: std::collections::HashMap<String, log::LogConfig> = configs
            .into_iter()
            .map(|(topic, config)| (topic, config.get().0.clone()))
            .collect();
        let config = |topic: &str| configs.get(topic).unwrap_or(&default.0).clone();
        let threads = threads.unwrap_or_else(self::threads);
        let (logs, failures) = py.detach(|| self.directory.load_all(threads, config))?;
        let failures = failures
            .into_iter()
            .map(|(partition, error)| (partition.topic, partition.partition, error.into()));
        Ok((
            logs.into_iter().map(|log| self.log(log)).collect(),
            failures.collect(),
        ))
    }

    fn load(
        &self,
        py: Python<'_>,
        topic: String,
        partition: i32,
        config: &LogConfig,
    ) -> PyResult<Log> {
        let partition = TopicPartition { topic, partition };
        Ok(self.log(py.detach(|| self.directory.load(&partition, config.0.clone()))?))
    }

    #[staticmethod]
    fn is_locked(path: std::path::PathBuf) -> bool {
        matches!(
            log::lock::DirectoryLock::take(&path),
            Err(LogError::Locked(_))
        )
    }

    fn create(
        &self,
        py: Python<'_>,
        topic: &str,
        partitions: Vec<i32>,
        config: &LogConfig,
    ) -> PyResult<Vec<Log>> {
        let partitions: Vec<_> = partitions
            .into_iter()
            .map(|number| TopicPartition::new(topic, number))
            .collect();
        let logs = py.detach(|| self.directory.create(&partitions, &config.0, 2))?;
        Ok(logs.into_iter().map(|log| self.log(log)).collect())
    }

    fn create_future(
        &self,
        py: Python<'_>,
        topic: String,
        partition: i32,
        config: &LogConfig,
    ) -> PyResult<Log> {
        let partition = TopicPartition { topic, partition };
        let create = || {
            self.directory
                .create_future(&partition, config.0.clone(), unique_id())
        };
        Ok(self.log(py.detach(create)?))
    }

    fn replace(
        &self,
        py: Python<'_>,
        current: &Log,
        future: &Log,
        to: &LogDirectory,
    ) -> PyResult<bool> {
        Ok(py.detach(|| {
            log::moving::replace(
                &current.log,
                &self.directory,
                &future.log,
                &to.directory,
                unique_id(),
            )
        })?)
    }

    fn begin_epochs(&self, py: Python<'_>, topic: &str, epochs: Vec<(i32, i32)>) -> PyResult<()> {
        let epochs: Vec<_> = epochs
            .into_iter()
            .map(|(number, epoch)| (TopicPartition::new(topic, number), epoch))
            .collect();
        Ok(py.detach(|| self.directory.begin_epochs(&epochs, threads()))?)
    }

    fn delete(&self, py: Python<'_>, topic: String, partition: i32) -> PyResult<()> {
        let partition = TopicPartition { topic, partition };
        Ok(py.detach(|| self.directory.delete(&partition, unique_id()))?)
    }

    fn delete_old_segments(&self, py: Python<'_>, now_ms: i64) -> PyResult<usize> {
        Ok(py.detach(|| self.directory.delete_old_segments(now_ms))?)
    }

    fn cleanable(&self, py: Python<'_>, now_ms: i64) -> Vec<Cleanable> {
        let logs = py.detach(|| self.directory.cleanable(now_ms));
        logs.into_iter().map(Cleanable::from).collect()
    }

    fn checkpoint_recovery_points(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.directory.checkpoint_recovery_points())?)
    }

    fn checkpoint_start_offsets(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.directory.checkpoint_start_offsets())?)
    }

    fn checkpoint_high_watermarks(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.directory.checkpoint_high_watermarks())?)
    }

    #[pyo3(signature = (*, clean=true, threads=None))]
    fn close(&self, py: Python<'_>, clean: bool, threads: Option<usize>) -> PyResult<()> {
        let threads = threads.unwrap_or_else(self::threads);
        Ok(py.detach(|| self.directory.close(clean, threads))?)
    }
}

/// Path, position in bytes, problem.
type Damage = (String, u64, String);
/// Segments, batches, records, bytes, first and next offset.
type Counts = (u64, u64, u64, u64, Option<(i64, i64)>);

#[pyfunction]
fn verify_log(py: Python<'_>, path: std::path::PathBuf) -> PyResult<(Vec<Damage>, Counts)> {
    let storage: Arc<dyn Storage> = Arc::new(RealStorage);
    let report = py.detach(|| log::verify::verify(&storage, &path))?;
    let damage = report.damage.into_iter();
    let damage = damage.map(|found| {
        (
            found.path.display().to_string(),
            found.position,
            found.problem,
        )
    });
    let counts = (
        report.segments,
        report.batches,
        report.records,
        report.bytes,
        report.offsets,
    );
    Ok((damage.collect(), counts))
}

#[pyfunction]
fn read_index(
    data: Input,
    py: Python<'_>,
    base_offset: i64,
    kind: &str,
) -> PyResult<Vec<(i64, i64)>> {
    match kind {
        "offset" => Ok(log::offset_index::entries(data.bytes(py), base_offset)),
        "time" => Ok(log::time_index::entries(data.bytes(py), base_offset)),
        other => Err(PyValueError::new_err(format!(
            "kind {other:?}: offset or time"
        ))),
    }
}

/// Producer id, epoch, last sequence, last timestamp, coordinator epoch, start of its transaction or -1.
type ProducerRow = (i64, i16, i32, i64, i32, i64);

/// Producer id, epoch, first and last sequence of its last batch, its last offset, last timestamp, coordinator epoch, start of its transaction
/// or -1.
type SnapshotRow = (i64, i16, i32, i32, i64, i64, i32, i64);

/// Producer id, first, last and last stable offset of each aborted transaction, and where the first is that cannot be read.
type AbortedRows = (Vec<(i64, i64, i64, i64)>, Option<usize>);

#[pyfunction]
fn read_transaction_index(data: Input, py: Python<'_>) -> AbortedRows {
    let (entries, unread) = log::transaction_index::entries(data.bytes(py));
    let rows = entries.iter().map(|entry| {
        (
            entry.producer_id,
            entry.first_offset,
            entry.last_offset,
            entry.last_stable_offset,
        )
    });
    (rows.collect(), unread)
}

#[pyfunction]
fn read_producer_snapshot(data: Input, py: Python<'_>) -> PyResult<Vec<SnapshotRow>> {
    let state = log::producer_state::ProducerState::from_snapshot(data.bytes(py), 0)
        .ok_or_else(|| PyValueError::new_err("not a producer snapshot, or a damaged one"))?;
    let mut rows: Vec<SnapshotRow> = state
        .producers()
        .map(|(id, producer)| {
            let last = producer.last_batch();
            (
                id,
                producer.epoch,
                last.map_or(-1, |last| last.first_sequence()),
                last.map_or(-1, |last| last.last_sequence),
                last.map_or(-1, |last| last.last_offset),
                producer.last_timestamp_ms,
                producer.coordinator_epoch,
                producer.transaction_start.unwrap_or(-1),
            )
        })
        .collect();
    rows.sort_unstable();
    Ok(rows)
}

#[pyfunction]
fn repair_log(
    py: Python<'_>,
    path: std::path::PathBuf,
    config: &LogConfig,
) -> PyResult<(i64, i64)> {
    let config = config.0.clone();
    Ok(py.detach(|| log::share::repair(&path, config))?)
}

/// Up to `batches_max` batches of a `.log` from `position` on, by their headers; and what ended them, if it was damage.
#[pyfunction]
fn scan_segment(
    py: Python<'_>,
    path: std::path::PathBuf,
    position: u64,
    batches_max: usize,
) -> PyResult<(Vec<BatchInfo>, Option<String>)> {
    let (found, damage) =
        py.detach(|| log::scan::headers(&RealStorage, &path, position, batches_max))?;
    let infos = found
        .into_iter()
        .map(|batch| BatchInfo::new(batch.header, batch.position as usize));
    Ok((infos.collect(), damage))
}
