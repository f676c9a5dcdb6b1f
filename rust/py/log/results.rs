//! What appends and reads of a log give back.

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::log;

#[pyclass(frozen, get_all, freelist = 64, module = "ottla._core")]
pub struct AppendInfo {
    pub base_offset: i64,
    pub last_offset: i64,
    pub append_time_ms: i64,
    pub log_start_offset: i64,
    pub is_duplicate: bool,
    pub flush_due: bool,
    pub losses: u64,
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
            losses,
        } = info;
        Self {
            base_offset,
            last_offset,
            append_time_ms,
            log_start_offset,
            is_duplicate,
            flush_due,
            losses,
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
            ..
        } = self;
        let python = |value: &bool| if *value { "True" } else { "False" };
        let (is_duplicate, flush_due) = (python(is_duplicate), python(flush_due));
        format!(
            "AppendInfo(base_offset={base_offset}, last_offset={last_offset}, append_time_ms={append_time_ms}, \
             log_start_offset={log_start_offset}, is_duplicate={is_duplicate}, flush_due={flush_due})"
        )
    }
}

/// What a log could not write at the end of a turn.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct Unwritten {
    offset: i64,
    error: Py<PyBaseException>,
    losses: u64,
}

impl Unwritten {
    pub fn of(py: Python<'_>, end: log::TurnEnd) -> PyResult<Option<Py<Self>>> {
        let Some((offset, error)) = end.lost else {
            return Ok(None);
        };
        let error = PyErr::from(error).into_value(py);
        let losses = end.losses;
        let unwritten = Self {
            offset,
            error,
            losses,
        };
        Py::new(py, unwritten).map(Some)
    }
}

#[pymethods]
impl Unwritten {
    #[new]
    #[pyo3(signature = (offset, error, losses = u64::MAX))]
    fn new(offset: i64, error: Py<PyBaseException>, losses: u64) -> Self {
        Self {
            offset,
            error,
            losses,
        }
    }

    /// Whether what was appended is among it.
    fn has(&self, info: &AppendInfo) -> bool {
        // A duplicate was written by an earlier turn, so its offset is lower.
        info.losses < self.losses && info.base_offset >= self.offset
    }
}

/// What the end of a turn did with a log.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct Written {
    /// What the lease was granted with, if it was written for one.
    pub owner: Option<Py<PyAny>>,
    pub flush_due: bool,
    pub unwritten: Option<Py<Unwritten>>,
}

/// What metrics tell of a log.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct LogFigures {
    pub start_offset: i64,
    pub end_offset: i64,
    pub segments: usize,
    pub size_bytes: u64,
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

/// The record that a search by time found.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct TimestampMatch {
    pub offset: i64,
    pub timestamp_ms: i64,
    pub leader_epoch: i32,
}

impl From<log::read::TimestampMatch> for TimestampMatch {
    fn from(found: log::read::TimestampMatch) -> Self {
        Self {
            offset: found.offset,
            timestamp_ms: found.timestamp_ms,
            leader_epoch: found.leader_epoch,
        }
    }
}

#[pymethods]
impl TimestampMatch {
    fn __repr__(&self) -> String {
        let Self {
            offset,
            timestamp_ms,
            leader_epoch,
        } = self;
        format!(
            "TimestampMatch(offset={offset}, timestamp_ms={timestamp_ms}, leader_epoch={leader_epoch})"
        )
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct ReadInfo(pub log::ReadInfo);

impl From<log::ReadInfo> for ReadInfo {
    fn from(info: log::ReadInfo) -> Self {
        Self(info)
    }
}

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
    fn goes_on(&self) -> bool {
        self.0.goes_on
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
