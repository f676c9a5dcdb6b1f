//! Fetched records for old consumers, made on a thread of their own.

use std::sync::OnceLock;

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::net::{Completions, FetchRow};
use crate::io::IoPool;
use crate::io::panics::outcome;
use crate::log::conversion::{Converted, convert};
use crate::log::{FileSlice, LogError};
use crate::records::{DownConverted, Wanted};

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

#[pyfunction]
pub fn convert_fetched(
    completions: &Completions,
    token: u64,
    fetched: Vec<(PyRef<'_, FetchRow>, i64, bool)>,
    magic: i8,
) -> PyResult<()> {
    let jobs: Vec<(Option<FileSlice>, i64, bool)> = fetched
        .iter()
        .map(|(row, first_offset, may)| (row.slice().cloned(), *first_offset, *may))
        .collect();
    let queue = completions.queue();
    let pool = pool().ok_or_else(|| PyRuntimeError::new_err("no thread can be started"))?;
    let make_all = move || {
        let make = |(slice, first_offset, may_convert): (Option<FileSlice>, i64, bool)| {
            let slice = slice?;
            let wanted = Wanted {
                magic,
                first_offset,
                bytes_max: usize::try_from(slice.length).unwrap_or(usize::MAX),
            };
            Some(outcome(|| convert(&slice, &wanted, may_convert)))
        };
        Ok(jobs.into_iter().map(make).collect::<Vec<Made>>())
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
    module.add_function(wrap_pyfunction!(convert_fetched, module)?)
}
