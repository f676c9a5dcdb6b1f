//! Single files of logs and whole folders, without a broker: for tools.

use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use super::LogConfig;
use crate::log;
use crate::py::buffer::Input;
use crate::py::records::BatchInfo;
use crate::storage::{Mode, RealStorage, Storage};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LogDamage>()?;
    module.add_class::<LogReport>()?;
    module.add_class::<ProducerStateEntry>()?;
    module.add_class::<AbortedTransaction>()?;
    module.add_function(wrap_pyfunction!(create_file, module)?)?;
    module.add_function(wrap_pyfunction!(keep_space, module)?)?;
    module.add_function(wrap_pyfunction!(verify_log, module)?)?;
    module.add_function(wrap_pyfunction!(repair_log, module)?)?;
    module.add_function(wrap_pyfunction!(scan_segment, module)?)?;
    module.add_function(wrap_pyfunction!(read_index, module)?)?;
    module.add_function(wrap_pyfunction!(read_transaction_index, module)?)?;
    module.add_function(wrap_pyfunction!(read_producer_snapshot, module)?)
}

/// One thing that is wrong in a folder.
#[pyclass(frozen, get_all, module = "ottla._core")]
struct LogDamage {
    path: String,
    position: u64,
    problem: String,
}

#[pymethods]
impl LogDamage {
    fn __repr__(&self) -> String {
        format!(
            "<LogDamage in {} at byte {}: {}>",
            self.path, self.position, self.problem
        )
    }
}

/// The damage in a folder, and how much was looked at.
#[pyclass(frozen, get_all, module = "ottla._core")]
struct LogReport {
    damage: Vec<Py<LogDamage>>,
    segments: u64,
    batches: u64,
    records: u64,
    bytes: u64,
}

/// Takes space of the disk for what will be written behind the end of a file, whose length stays.
#[pyfunction]
fn keep_space(path: std::path::PathBuf, bytes_ahead: u64) -> PyResult<()> {
    let file = std::fs::OpenOptions::new().write(true).open(path)?;
    let length = file.metadata()?.len();
    #[cfg(target_os = "linux")]
    rustix::fs::fallocate(
        &file,
        rustix::fs::FallocateFlags::KEEP_SIZE,
        length,
        bytes_ahead,
    )
    .map_err(std::io::Error::from)?;
    #[cfg(not(target_os = "linux"))]
    let _ = (length, bytes_ahead);
    Ok(())
}

#[pyfunction]
fn create_file(path: std::path::PathBuf) -> PyResult<()> {
    match RealStorage.open(&path, Mode::Create) {
        Ok(_) => Ok(()),
        Err(error) => match error.raw_os_error() {
            Some(number) => {
                let words = std::io::Error::from_raw_os_error(number).kind().to_string();
                Err(PyOSError::new_err((number, words, path)))
            }
            None => Err(error.into()),
        },
    }
}

#[pyfunction]
fn verify_log(py: Python<'_>, path: std::path::PathBuf) -> PyResult<LogReport> {
    let storage: Arc<dyn Storage> = Arc::new(RealStorage);
    let report = py.detach(|| log::verify::verify(&storage, &path))?;
    let damage = report.damage.into_iter().map(|found| {
        let damage = LogDamage {
            path: found.path.display().to_string(),
            position: found.position,
            problem: found.problem,
        };
        Py::new(py, damage)
    });
    Ok(LogReport {
        damage: damage.collect::<PyResult<_>>()?,
        segments: report.segments,
        batches: report.batches,
        records: report.records,
        bytes: report.bytes,
    })
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

/// One producer in a snapshot, as Kafka's class of this name.
#[pyclass(frozen, get_all, module = "ottla._core")]
struct ProducerStateEntry {
    producer_id: i64,
    producer_epoch: i16,
    first_sequence: i32,
    last_sequence: i32,
    last_offset: i64,
    last_timestamp_ms: i64,
    coordinator_epoch: i32,
    transaction_start: i64,
}

#[pymethods]
impl ProducerStateEntry {
    fn __repr__(&self) -> String {
        format!(
            "<ProducerStateEntry of producer {} in epoch {}>",
            self.producer_id, self.producer_epoch
        )
    }
}

/// One entry of a transaction index.
#[pyclass(frozen, get_all, module = "ottla._core")]
struct AbortedTransaction {
    producer_id: i64,
    first_offset: i64,
    last_offset: i64,
    last_stable_offset: i64,
}

#[pymethods]
impl AbortedTransaction {
    fn __repr__(&self) -> String {
        format!(
            "<AbortedTransaction of producer {}, offsets {} to {}>",
            self.producer_id, self.first_offset, self.last_offset
        )
    }
}

/// The entries, and the position of the first that cannot be read.
#[pyfunction]
fn read_transaction_index(data: Input, py: Python<'_>) -> (Vec<AbortedTransaction>, Option<usize>) {
    let (entries, unread) = log::transaction_index::entries(data.bytes(py));
    let rows = entries.iter().map(|entry| AbortedTransaction {
        producer_id: entry.producer_id,
        first_offset: entry.first_offset,
        last_offset: entry.last_offset,
        last_stable_offset: entry.last_stable_offset,
    });
    (rows.collect(), unread)
}

#[pyfunction]
fn read_producer_snapshot(data: Input, py: Python<'_>) -> PyResult<Vec<ProducerStateEntry>> {
    let state = log::producer_state::ProducerState::from_snapshot(data.bytes(py), 0)
        .ok_or_else(|| PyValueError::new_err("not a producer snapshot, or a damaged one"))?;
    let mut entries: Vec<_> = state
        .producers()
        .map(|(producer_id, producer)| {
            let last = producer.last_batch();
            ProducerStateEntry {
                producer_id,
                producer_epoch: producer.epoch,
                first_sequence: last.map_or(-1, |last| last.first_sequence()),
                last_sequence: last.map_or(-1, |last| last.last_sequence),
                last_offset: last.map_or(-1, |last| last.last_offset),
                last_timestamp_ms: producer.last_timestamp_ms,
                coordinator_epoch: producer.coordinator_epoch,
                transaction_start: producer.transaction_start.unwrap_or(-1),
            }
        })
        .collect();
    entries.sort_unstable_by_key(|entry| entry.producer_id);
    Ok(entries)
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
