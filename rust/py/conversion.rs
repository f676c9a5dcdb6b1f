//! Fetched records for old consumers, made on a thread of their own.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::log::Log;
use super::net::{Completions, FetchRow, PartitionToRead};
use crate::io::IoPool;
use crate::io::panics::outcome;
use crate::log::conversion::{Converted, OldFetch, Room};
use crate::log::{self, FileSlice, LogError};
use crate::records::DownConverted;

/// Messages that were made for one answer, which takes them.
#[pyclass(frozen, module = "ottla._core")]
pub struct ConvertedRecords {
    bytes: Mutex<Vec<u8>>,
    #[pyo3(get)]
    pub length: usize,
    /// How many records were converted.
    pub records: u64,
}

impl ConvertedRecords {
    fn new(converted: DownConverted) -> Self {
        Self {
            length: converted.bytes.len(),
            bytes: Mutex::new(converted.bytes),
            records: converted.records,
        }
    }

    /// The messages; empty the second time.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.lock())
    }
}

/// One thread: conversions wait for each other, not appends for them.
fn pool() -> Option<&'static IoPool> {
    static POOL: OnceLock<Option<IoPool>> = OnceLock::new();
    POOL.get_or_init(|| IoPool::new("ottla-convert", 1).ok())
        .as_ref()
}

type Made = Option<Result<Converted, LogError>>;

/// A partition of an old Fetch, with a stretch of its log.
struct Job {
    slice: FileSlice,
    log: Arc<log::Log>,
    offset: i64,
    bytes_max: u64,
    upper_bound: i64,
    may_convert: bool,
}

/// A row of an old Fetch that has records.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct RowToConvert {
    row: Py<FetchRow>,
    asked: Py<PartitionToRead>,
    log: Py<Log>,
    upper_bound: i64,
    may_convert: bool,
}

#[pymethods]
impl RowToConvert {
    #[new]
    #[pyo3(signature = (row, asked, log, *, upper_bound, may_convert))]
    fn new(
        row: Py<FetchRow>,
        asked: Py<PartitionToRead>,
        log: Py<Log>,
        upper_bound: i64,
        may_convert: bool,
    ) -> Self {
        Self {
            row,
            asked,
            log,
            upper_bound,
            may_convert,
        }
    }
}

impl RowToConvert {
    fn job(&self) -> Option<Job> {
        let asked = self.asked.get();
        Some(Job {
            slice: self.row.get().slice()?.clone(),
            log: Arc::clone(&self.log.get().log),
            offset: asked.offset,
            bytes_max: asked.bytes_max.max(0) as u64,
            upper_bound: self.upper_bound,
            may_convert: self.may_convert,
        })
    }
}

#[pyfunction]
pub fn convert_fetched(
    completions: &Completions,
    token: u64,
    rows: Vec<Py<RowToConvert>>,
    magic: i8,
    bytes_left: u64,
) -> PyResult<()> {
    let jobs: Vec<Option<Job>> = rows.iter().map(|row| row.get().job()).collect();
    let queue = completions.queue();
    let pool = pool().ok_or_else(|| PyRuntimeError::new_err("no thread can be started"))?;
    let make_all = move || {
        let mut room = Room {
            bytes: bytes_left,
            is_empty: true,
        };
        let mut make = |job: Option<Job>| {
            let job = job?;
            let asked = OldFetch {
                log: &job.log,
                offset: job.offset,
                bytes_max: job.bytes_max,
                upper_bound: job.upper_bound,
                magic,
                may_convert: job.may_convert,
            };
            Some(outcome(|| asked.convert(&job.slice, &mut room)))
        };
        Ok(jobs.into_iter().map(&mut make).collect::<Vec<Made>>())
    };
    pool.work(make_all, move |made: Result<_, LogError>| {
        queue.push(token, Box::new(move |py| answers(py, made?)));
    });
    Ok(())
}

/// For each: None to send it as it is, messages, False where a conversion was refused, or an error code.
fn answers(py: Python<'_>, made: Vec<Made>) -> PyResult<Py<PyAny>> {
    let answers = PyList::empty(py);
    for one in made {
        match one {
            None | Some(Ok(Converted::Same)) => answers.append(py.None())?,
            Some(Ok(Converted::Messages(made))) => answers.append(ConvertedRecords::new(made))?,
            Some(Ok(Converted::Refused)) => answers.append(false)?,
            Some(Err(error)) => answers.append(error.code())?,
        }
    }
    Ok(answers.into_any().unbind())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ConvertedRecords>()?;
    module.add_class::<RowToConvert>()?;
    module.add_function(wrap_pyfunction!(convert_fetched, module)?)
}
