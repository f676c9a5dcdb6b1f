//! A data directory for Python: opening it, and all its logs.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use super::{Log, LogConfig, Reports};
use crate::log::names::TopicPartition;
use crate::log::{self, Home, LogError, home};
use crate::py::cleaner::Cleanable;
use crate::py::net::Completions;
use crate::py::traffic::TopicTraffic;

#[pyclass(frozen, module = "ottla._core")]
pub struct LogDirectory {
    directory: Arc<log::LogDirectory>,
    reports: Reports,
}

impl LogDirectory {
    pub(in crate::py) fn native(&self) -> Arc<log::LogDirectory> {
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

/// The segments of one log that retention has deleted.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct DeletedSegments {
    topic: String,
    partition: i32,
    count: usize,
}

#[pymethods]
impl DeletedSegments {
    fn __repr__(&self) -> String {
        format!(
            "<DeletedSegments: {} of {}-{}>",
            self.count, self.topic, self.partition
        )
    }
}

/// What went wrong, in its place.
fn errors<T>(results: Vec<Result<T, LogError>>) -> Vec<Option<PyErr>> {
    let errors = results.into_iter().map(|result| result.err());
    errors.map(|error| error.map(PyErr::from)).collect()
}

/// Each partition with its leader epoch.
fn of_partitions(epochs: &Bound<'_, PyDict>) -> PyResult<Vec<(TopicPartition, i32)>> {
    let epochs = epochs.iter();
    epochs
        .map(|(key, epoch)| {
            let (topic, number) = key.extract::<(String, i32)>()?;
            Ok((TopicPartition::new(topic, number)?, epoch.extract()?))
        })
        .collect()
}

/// The errors, by partition.
fn failures<'py>(
    py: Python<'py>,
    epochs: Vec<(TopicPartition, i32)>,
    results: Vec<Result<(), LogError>>,
) -> PyResult<Bound<'py, PyDict>> {
    let results = epochs.into_iter().zip(results);
    results
        .filter_map(|((of, _), result)| {
            let error = result.err()?;
            Some(((of.topic, of.partition), PyErr::from(error)))
        })
        .into_py_dict(py)
}

/// Where a log is to end.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct LogEnd {
    topic: String,
    partition: i32,
    offset: i64,
    leader_epoch: i32,
}

#[pymethods]
impl LogEnd {
    #[new]
    #[pyo3(signature = (topic, partition, offset, *, leader_epoch))]
    fn new(topic: String, partition: i32, offset: i64, leader_epoch: i32) -> Self {
        Self {
            topic,
            partition,
            offset,
            leader_epoch,
        }
    }

    fn __repr__(&self) -> String {
        let Self {
            topic,
            partition,
            offset,
            leader_epoch,
        } = self;
        format!("<LogEnd of {topic}-{partition} at {offset} in epoch {leader_epoch}>")
    }
}

type ToCut = (TopicPartition, i64, i32);

fn to_cut(ends: &[Py<LogEnd>]) -> Result<Vec<ToCut>, LogError> {
    let cut = |end: &Py<LogEnd>| {
        let end = end.get();
        let partition = TopicPartition::new(end.topic.as_str(), end.partition)?;
        Ok((partition, end.offset, end.leader_epoch))
    };
    ends.iter().map(cut).collect()
}

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
    #[pyo3(signature = (path, *, traffic=None, high_watermark_checkpoint_interval_ms=200))]
    fn open(
        py: Python<'_>,
        path: std::path::PathBuf,
        traffic: Option<&TopicTraffic>,
        high_watermark_checkpoint_interval_ms: u64,
    ) -> PyResult<Self> {
        let interval = Duration::from_millis(high_watermark_checkpoint_interval_ms);
        let traffic = traffic.map_or_else(Arc::default, |traffic| Arc::clone(&traffic.0));
        let home = Home::of_broker(&path, traffic);
        let directory = py.detach(|| log::LogDirectory::open(home, interval))?;
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

    fn take_leftovers(&self) -> Vec<(String, String)> {
        let left = self.directory.take_leftovers();
        left.into_iter()
            .map(|(path, error)| (path.display().to_string(), error.to_string()))
            .collect()
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
        let partition = TopicPartition::new(topic, partition)?;
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
            .collect::<Result<_, _>>()?;
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
        let partition = TopicPartition::new(topic, partition)?;
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

    fn begin_epochs<'py>(
        &self,
        py: Python<'py>,
        epochs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let epochs = of_partitions(epochs)?;
        let begun = py.detach(|| self.directory.begin_epochs(&epochs, threads()));
        failures(py, epochs, begun)
    }

    fn follow<'py>(
        &self,
        py: Python<'py>,
        epochs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let epochs = of_partitions(epochs)?;
        let fenced = py.detach(|| self.directory.follow_many(&epochs));
        failures(py, epochs, fenced)
    }

    fn truncate(&self, py: Python<'_>, ends: Vec<Py<LogEnd>>) -> PyResult<Vec<Option<PyErr>>> {
        let cuts = to_cut(&ends)?;
        let truncated = py.detach(|| self.directory.truncate_many(&cuts, threads()));
        Ok(errors(truncated))
    }

    fn start_anew(&self, py: Python<'_>, ends: Vec<Py<LogEnd>>) -> PyResult<Vec<Option<PyErr>>> {
        let cuts = to_cut(&ends)?;
        let begun = py.detach(|| self.directory.start_many_anew(&cuts, threads()));
        Ok(errors(begun))
    }

    fn delete(&self, py: Python<'_>, topic: String, partition: i32) -> PyResult<()> {
        let partition = TopicPartition::new(topic, partition)?;
        Ok(py.detach(|| self.directory.delete(&partition, unique_id()))?)
    }

    fn release(&self, py: Python<'_>, topic: String, partition: i32) -> PyResult<()> {
        let partition = TopicPartition::new(topic, partition)?;
        Ok(py.detach(|| self.directory.release(&partition))?)
    }

    fn missing(&self) -> Vec<(String, i32)> {
        let missing = self.directory.missing().into_iter();
        missing.map(|of| (of.topic, of.partition)).collect()
    }

    fn delete_old_segments(
        &self,
        py: Python<'_>,
        now_ms: i64,
    ) -> (Vec<DeletedSegments>, Option<PyErr>) {
        let (deleted, failure) = py.detach(|| self.directory.delete_old_segments(now_ms));
        let deleted = deleted.into_iter().map(|(of, count)| DeletedSegments {
            topic: of.topic,
            partition: of.partition,
            count,
        });
        (deleted.collect(), failure.map(PyErr::from))
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
