//! The log for Python. Documented in `_core/_log.pyi` and, for users, in `ottla.log`.

mod config;
mod directory;
mod files;
mod producers;
mod reader;
mod results;

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyClass, PyClassInitializer};

pub use config::LogConfig;
pub use directory::{DeletedSegments, LogDirectory, LogEnd};
use producers::{ActiveProducer, Producers};
pub use reader::Reader;
pub use results::{
    AppendInfo, FileSlice, LogFigures, ReadInfo, TimestampMatch, Unwritten, Written,
};

use super::buffer::Input;
use super::coordinator;
use super::errors::kafka_error;
use super::net::{Completions, Outcome, ProduceRequest};
use super::traffic::{Counts, TopicTraffic, TrafficCounts};
use crate::io;
use crate::io::panics::outcome;
use crate::log::share::Borrowed;
use crate::log::verification::NO_GUARD;
use crate::log::{self, AppendOrigin, LogError, When};
use crate::records::Marker;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LogConfig>()?;
    module.add_class::<AppendInfo>()?;
    module.add_class::<Unwritten>()?;
    module.add_class::<Written>()?;
    module.add_class::<LogFigures>()?;
    module.add_class::<ReadInfo>()?;
    module.add_class::<FileSlice>()?;
    module.add_class::<TimestampMatch>()?;
    module.add_class::<Reader>()?;
    module.add_class::<Log>()?;
    module.add_class::<ActiveProducer>()?;
    module.add_class::<Producers>()?;
    module.add_class::<LogEnd>()?;
    module.add_class::<DeletedSegments>()?;
    module.add_class::<LogDirectory>()?;
    module.add_class::<TopicTraffic>()?;
    module.add_class::<TrafficCounts>()?;
    module.add_class::<Counts>()?;
    module.add_function(wrap_pyfunction!(find_times, module)?)?;
    module.add_function(wrap_pyfunction!(raise_descriptor_limit, module)?)?;
    files::register(module)
}

#[pyfunction]
fn raise_descriptor_limit() {
    log::files::FileCache::raise_descriptor_limit();
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

#[pyclass(frozen, weakref, module = "ottla._core")]
pub struct Log {
    pub log: Arc<log::Log>,
    reports: Reports,
    /// Of a log that was opened by itself: its share of the directory.
    share: Mutex<Option<Borrowed>>,
}

/// Where the logs of a directory report appends that ran on an I/O thread; set once a loop is there.
type Reports = Arc<OnceLock<Arc<io::Completions<Outcome>>>>;

impl Log {
    /// Reports under `token` what was done on another thread; None where no loop is.
    pub(super) fn report<T, P>(
        &self,
        token: u64,
    ) -> Option<impl FnOnce(Result<T, LogError>) + Send + use<T, P>>
    where
        T: Send + 'static,
        P: From<T> + PyClass + Into<PyClassInitializer<P>>,
    {
        let queue = Arc::clone(self.reports.get()?);
        Some(move |result: Result<T, LogError>| {
            queue.push(
                token,
                Box::new(move |py| Ok(Py::new(py, P::from(result?))?.into_any())),
            );
        })
    }
}

/// Has a thread look up times in logs: it may have to read much.
#[pyfunction]
fn find_times(completions: &Completions, token: u64, wanted: Vec<(PyRef<'_, Log>, i64)>) {
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(log, timestamp_ms)| (Arc::clone(&log.log), *timestamp_ms))
        .collect();
    let queue = completions.queue();
    let find = move || {
        let find = |(log, timestamp_ms): &(Arc<log::Log>, i64)| {
            outcome(|| log.offset_for_timestamp(*timestamp_ms))
        };
        Ok(wanted.iter().map(find).collect::<Vec<_>>())
    };
    io::read_cold(find, move |found: Result<_, LogError>| {
        queue.push(token, Box::new(move |py| times(py, found?)));
    });
}

/// Each as Python has it; an error as its code.
fn times(
    py: Python<'_>,
    found: Vec<Result<Option<log::read::TimestampMatch>, LogError>>,
) -> PyResult<Py<PyAny>> {
    let all = PyList::empty(py);
    for one in found {
        match one {
            Ok(found) => all.append(found.map(TimestampMatch::from))?,
            Err(error) => all.append(error.code())?,
        }
    }
    Ok(all.into_any().unbind())
}

fn origin(name: &str) -> PyResult<AppendOrigin> {
    match name {
        "client" => Ok(AppendOrigin::Client),
        "coordinator" => Ok(AppendOrigin::Coordinator),
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
    fn settled_offset(&self) -> i64 {
        self.log.settled_offset()
    }

    #[getter]
    fn high_watermark(&self) -> i64 {
        self.log.high_watermark()
    }

    #[setter]
    fn set_high_watermark(&self, offset: i64) {
        self.log.set_high_watermark(offset);
    }

    fn raise_high_watermark(&self, offset: i64) -> bool {
        self.log.raise_high_watermark(offset)
    }

    fn advance_high_watermark(&self) -> bool {
        self.log.advance_high_watermark()
    }

    fn watch_high_watermark(&self, token: u64) {
        // Without a loop nobody waits.
        if let Some(queue) = self.reports.get() {
            let (queue, of) = (Arc::clone(queue), self.log.partition.clone());
            self.log.watch_high_watermark(move || {
                let key = (of.topic.to_string(), of.partition);
                queue.push(
                    token,
                    Box::new(move |py| Ok(key.into_pyobject(py)?.into_any().unbind())),
                );
            });
        }
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
    fn figures(&self) -> LogFigures {
        let log = &self.log;
        LogFigures {
            start_offset: log.start_offset(),
            end_offset: log.end_offset(),
            segments: log.segments().len(),
            size_bytes: log.size_bytes(),
        }
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
        let (origin, now_ms) = (AppendOrigin::Client, self.log.now_ms());
        let Some(report) = self.report::<_, AppendInfo>(token) else {
            let appended =
                self.log
                    .append_with(&mut records, leader_epoch, origin, guard, now_ms)?;
            return Ok(Some(appended.into()));
        };
        let appended = self.log.append_or_queue(
            When::InTurn,
            records,
            leader_epoch,
            origin,
            guard,
            now_ms,
            report,
        )?;
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
        let now_ms = self.log.now_ms();
        let producer = (producer_id, producer_epoch);
        let mut batch = coordinator::batch(&records, now_ms, compression, producer)?;
        let (origin, guard) = (AppendOrigin::Coordinator, NO_GUARD);
        let Some(report) = self.report::<_, AppendInfo>(token) else {
            let appended = self
                .log
                .append_with(&mut batch, leader_epoch, origin, guard, now_ms)?;
            return Ok(Some(appended.into()));
        };
        let appended = self.log.append_or_queue(
            When::Quick,
            batch,
            leader_epoch,
            origin,
            guard,
            now_ms,
            report,
        )?;
        Ok(appended.map(AppendInfo::from))
    }

    fn _panic_in_append(&self) -> PyResult<()> {
        Ok(self.log.panic_in_append()?)
    }

    fn write_staged(&self, py: Python<'_>, losses: u64) -> PyResult<Written> {
        let end = self.log.write_staged_since(losses);
        Ok(Written {
            owner: None,
            flush_due: end.flush_due,
            unwritten: Unwritten::of(py, end)?,
        })
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
        let (producer, now_ms) = ((producer_id, producer_epoch), self.log.now_ms());
        let appended = match token.and_then(|token| self.report::<_, AppendInfo>(token)) {
            Some(report) => {
                self.log
                    .append_marker(producer, marker, leader_epoch, now_ms, report)?
            }
            None => Some(py.detach(|| {
                let mut batch = marker.batch(producer_id, producer_epoch, now_ms)?;
                self.log
                    .append(&mut batch, leader_epoch, AppendOrigin::Coordinator, now_ms)
            })?),
        };
        Ok(appended.map(AppendInfo::from))
    }

    fn begin_verification(&self, producer_id: i64, producer_epoch: i16, sequence: i32) -> u64 {
        self.log
            .begin_verification((producer_id, producer_epoch), sequence, self.log.now_ms())
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

    fn producers(&self, py: Python<'_>) -> Vec<ActiveProducer> {
        let found = py.detach(|| self.log.producers());
        found.into_iter().map(Into::into).collect()
    }

    fn each_producer(&self, py: Python<'_>) -> Producers {
        Producers {
            left: py.detach(|| self.log.producers()).into_iter(),
        }
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
            .append(&mut records, leader_epoch, origin, self.log.now_ms())?
            .into())
    }

    fn append_as_follower(
        &self,
        py: Python<'_>,
        records: Input,
        leader_epoch: i32,
    ) -> PyResult<AppendInfo> {
        let append = |records: &[u8]| {
            self.log
                .append_as_follower(records, leader_epoch, self.log.now_ms())
        };
        let appended = match records.bytes_detached() {
            Some(bytes) => py.detach(|| append(bytes)),
            None => {
                let copied = records.bytes(py).to_vec();
                py.detach(|| append(&copied))
            }
        };
        Ok(appended?.into())
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

    fn read_cached(
        &self,
        offset: i64,
        bytes_max: u64,
        upper_bound: i64,
        at_least_one: bool,
    ) -> PyResult<Option<ReadInfo>> {
        let found = self
            .log
            .read_cached(offset, bytes_max, upper_bound, at_least_one)?;
        Ok(found.map(ReadInfo))
    }

    fn bound(&self, reader: &Reader) -> i64 {
        self.log.bound((*reader).into())
    }

    fn offset_for_timestamp(&self, timestamp_ms: i64) -> PyResult<Option<TimestampMatch>> {
        let found = self.log.offset_for_timestamp(timestamp_ms)?;
        Ok(found.map(TimestampMatch::from))
    }

    fn offsets_before(&self, timestamp_ms: i64, count_max: usize) -> PyResult<Vec<i64>> {
        let now_ms = self.log.now_ms();
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

    fn lead_on(&self, epoch: i32) -> PyResult<()> {
        Ok(self.log.lead_on(epoch)?)
    }

    fn refuse_older(&self, epoch: i32) -> PyResult<()> {
        Ok(self.log.refuse_older(epoch)?)
    }

    fn fence(&self, py: Python<'_>, epoch: i32) -> PyResult<()> {
        Ok(py.detach(|| self.log.fence(epoch))?)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(py.detach(|| self.log.flush())?)
    }

    fn flush_async(&self, completions: &Completions, token: u64) {
        let queue = completions.queue();
        let log = Arc::clone(&self.log);
        completions.queue().after_sending(move || {
            log.flush_async(Box::new(move |result| {
                queue.push(
                    token,
                    Box::new(move |py| Ok(result?.into_pyobject(py)?.into_any().unbind())),
                );
            }));
        });
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

    #[pyo3(signature = (offset, leader_epoch=None))]
    fn truncate_to(
        &self,
        py: Python<'_>,
        offset: i64,
        leader_epoch: Option<i32>,
    ) -> PyResult<bool> {
        Ok(py.detach(|| self.log.truncate_to(offset, leader_epoch))?)
    }

    #[pyo3(signature = (offset, leader_epoch=None))]
    fn truncate_fully_and_start_at(
        &self,
        py: Python<'_>,
        offset: i64,
        leader_epoch: Option<i32>,
    ) -> PyResult<()> {
        let truncate = || self.log.truncate_fully_and_start_at(offset, leader_epoch);
        Ok(py.detach(truncate)?)
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
