//! Compaction for Python: what there is to clean, and a cleaner with threads of its own.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;

use super::log::LogDirectory;
use super::net::Completions;
use crate::io::IoPool;
use crate::log::LogError;
use crate::log::cleaner::{self, CleanerSettings};
use crate::log::names::TopicPartition;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Cleanable>()?;
    module.add_class::<CleanReport>()?;
    module.add_class::<LogCleaner>()
}

#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct Cleanable {
    pub topic: String,
    pub partition: i32,
    pub first_dirty_offset: i64,
    pub first_uncleanable_offset: i64,
    pub clean_bytes: u64,
    pub cleanable_bytes: u64,
    pub overdue_ms: i64,
    pub dirty_ratio_min: f64,
}

impl From<(TopicPartition, cleaner::Cleanable)> for Cleanable {
    fn from((partition, cleanable): (TopicPartition, cleaner::Cleanable)) -> Self {
        Self {
            topic: partition.topic,
            partition: partition.partition,
            first_dirty_offset: cleanable.first_dirty_offset,
            first_uncleanable_offset: cleanable.first_uncleanable_offset,
            clean_bytes: cleanable.clean_bytes,
            cleanable_bytes: cleanable.cleanable_bytes,
            overdue_ms: cleanable.overdue_ms,
            dirty_ratio_min: cleanable.dirty_ratio_min,
        }
    }
}

#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct CleanReport {
    first_offset: i64,
    end_offset: i64,
    map_bytes_read: u64,
    bytes_read: u64,
    bytes_written: u64,
    records_read: u64,
    records_written: u64,
    records_keyless: u64,
    segments_read: usize,
    segments_written: usize,
    map_keys: usize,
    map_utilization: f64,
    map_seconds: f64,
    seconds: f64,
}

impl From<cleaner::CleanReport> for CleanReport {
    fn from(report: cleaner::CleanReport) -> Self {
        Self {
            first_offset: report.first_offset,
            end_offset: report.end_offset,
            map_bytes_read: report.map_bytes_read,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
            records_read: report.records_read,
            records_written: report.records_written,
            records_keyless: report.records_keyless,
            segments_read: report.segments_read,
            segments_written: report.segments_written,
            map_keys: report.map_keys,
            map_utilization: report.map_utilization,
            map_seconds: report.map_duration.as_secs_f64(),
            seconds: report.duration.as_secs_f64(),
        }
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct LogCleaner {
    cleaner: Arc<cleaner::Cleaner>,
    threads: usize,
    /// Started with the first cleaning.
    pool: Mutex<Option<IoPool>>,
}

#[pymethods]
impl LogCleaner {
    #[new]
    #[pyo3(signature = (threads, *, map_bytes, map_load_factor, io_bytes, bytes_per_second))]
    fn new(
        threads: usize,
        map_bytes: u64,
        map_load_factor: f64,
        io_bytes: usize,
        bytes_per_second: f64,
    ) -> Self {
        let settings = CleanerSettings {
            map_bytes,
            map_load_factor,
            io_bytes,
            bytes_per_second,
        };
        Self {
            cleaner: Arc::new(cleaner::Cleaner::new(settings)),
            threads,
            pool: Mutex::new(None),
        }
    }

    fn clean(
        &self,
        directory: &LogDirectory,
        candidate: &Cleanable,
        completions: &Completions,
        token: u64,
    ) -> PyResult<()> {
        let mut pool = self.pool.lock();
        let pool = match &mut *pool {
            Some(pool) => pool,
            none => none.insert(IoPool::new("ottla-cleaner", self.threads)?),
        };
        let (directory, cleaner) = (directory.native(), Arc::clone(&self.cleaner));
        let partition = TopicPartition::new(candidate.topic.as_str(), candidate.partition)?;
        let from = candidate.first_dirty_offset;
        let to = candidate.first_uncleanable_offset;
        let queue = completions.queue();
        let clean = move || directory.clean(&partition, &cleaner, from, to);
        pool.work(clean, move |cleaned| {
            queue.push(
                token,
                Box::new(move |py| match cleaned {
                    Err(LogError::CleaningStopped(_) | LogError::Closed(_)) => Ok(py.None()),
                    other => Ok(Py::new(py, CleanReport::from(other?))?.into_any()),
                }),
            );
        });
        Ok(())
    }

    fn stop(&self) {
        self.cleaner.stop();
    }
}

impl Drop for LogCleaner {
    fn drop(&mut self) {
        // The pool waits for its threads.
        self.cleaner.stop();
    }
}
