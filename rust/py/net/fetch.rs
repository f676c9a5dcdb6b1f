//! `FetchRequest`: what one Fetch asks. `FetchRow` (fetch_row.rs) is what one partition's part of the answer holds.

use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString, PyTuple};

use super::fetch_row::{FetchRow, Read};
use crate::log::FetchRange;
use crate::py::errors::{kafka_error, wire_error};
use crate::py::log::{Log, Reader};
use crate::wire::error::INVALID_REQUEST;
use crate::wire::fetch::{self, READ_COMMITTED};
use crate::wire::names::Names;

/// The partitions of a Fetch. Their topics are ranges of `names`.
pub struct Asked {
    pub api_version: i16,
    pub is_follower: bool,
    names: Vec<u8>,
    partitions: Vec<fetch::FetchPartition>,
    forgotten: Vec<(Range<usize>, i32)>,
}

impl Asked {
    /// The topic and number of a partition by its place in the request.
    pub fn partition(&self, place: usize) -> Option<(&[u8], i32)> {
        let asked = self.partitions.get(place)?;
        Some((&self.names[asked.topic.clone()], asked.partition))
    }

    fn name(&self, topic: &Range<usize>) -> &str {
        // The decoder has checked it.
        std::str::from_utf8(&self.names[topic.clone()]).unwrap_or_default()
    }

    /// The partitions from place `start` to before `stop`, for Python.
    fn piece<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Vec<Bound<'py, PartitionToRead>>> {
        let stop = stop.min(self.partitions.len());
        let mut last: Option<(&Range<usize>, Bound<'py, PyString>, Arc<str>)> = None;
        let mut piece = Vec::with_capacity(stop.saturating_sub(start));
        for asked in self.partitions.get(start..stop).unwrap_or_default() {
            let (_, name, topic) = match &mut last {
                Some(known) if *known.0 == asked.topic => known,
                _ => {
                    let topic = self.name(&asked.topic);
                    last.insert((&asked.topic, PyString::new(py, topic), topic.into()))
                }
            };
            let key = (&*name, asked.partition).into_pyobject(py)?.unbind();
            let one = PartitionToRead {
                key,
                topic: Arc::clone(topic),
                partition: asked.partition,
                offset: asked.fetch_offset,
                bytes_max: asked.bytes_max,
                leader_epoch: asked.current_leader_epoch,
                last_fetched_epoch: asked.last_fetched_epoch,
                log_start_offset: asked.log_start_offset,
            };
            piece.push(Bound::new(py, one)?);
        }
        Ok(piece)
    }
}

/// One partition of a Fetch: where it is to be read, and what the asker knows of it.
#[pyclass(frozen, freelist = 64, module = "ottla._core")]
pub struct PartitionToRead {
    /// (topic, partition)
    #[pyo3(get)]
    pub key: Py<PyTuple>,
    pub topic: Arc<str>,
    pub partition: i32,
    #[pyo3(get)]
    pub offset: i64,
    #[pyo3(get)]
    pub bytes_max: i32,
    #[pyo3(get)]
    pub leader_epoch: i32,
    #[pyo3(get)]
    pub last_fetched_epoch: i32,
    #[pyo3(get)]
    pub log_start_offset: i64,
}

#[pymethods]
impl PartitionToRead {
    #[new]
    #[allow(clippy::too_many_arguments)] // they are fields, and named
    #[pyo3(signature = (key, offset, bytes_max, *, leader_epoch = -1, last_fetched_epoch = -1, log_start_offset = -1))]
    fn made(
        py: Python<'_>,
        key: Py<PyTuple>,
        offset: i64,
        bytes_max: i32,
        leader_epoch: i32,
        last_fetched_epoch: i32,
        log_start_offset: i64,
    ) -> PyResult<Self> {
        let (topic, partition) = key.bind(py).extract::<(String, i32)>()?;
        Ok(Self {
            key,
            topic: topic.into(),
            partition,
            offset,
            bytes_max,
            leader_epoch,
            last_fetched_epoch,
            log_start_offset,
        })
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Self {
            key,
            offset,
            bytes_max,
            ..
        } = self;
        format!(
            "PartitionToRead({}, offset={offset}, bytes_max={bytes_max})",
            key.bind(py)
        )
    }
}

#[pyclass(frozen, module = "ottla._core")]
pub struct FetchRequest {
    #[pyo3(get)]
    replica_id: i32,
    /// Whether it is another broker's, not only says so.
    #[pyo3(get)]
    is_follower: bool,
    #[pyo3(get)]
    max_wait_ms: i32,
    #[pyo3(get)]
    min_bytes: i32,
    #[pyo3(get)]
    max_bytes: i32,
    #[pyo3(get)]
    isolation_level: i8,
    #[pyo3(get)]
    session_id: i32,
    #[pyo3(get)]
    session_epoch: i32,
    #[pyo3(get)]
    rack_id: String,
    #[pyo3(get)]
    cluster_id: Option<String>,
    asked: Arc<Asked>,
    partitions: PyOnceLock<Py<PyTuple>>,
}

impl FetchRequest {
    fn is_committed(&self) -> bool {
        self.isolation_level == READ_COMMITTED
    }

    fn kind(&self) -> Reader {
        if self.is_follower {
            Reader::Replica
        } else if self.is_committed() {
            Reader::Committed
        } else {
            Reader::Consumer
        }
    }
}

#[pymethods]
impl FetchRequest {
    /// How many partitions are asked for.
    fn __len__(&self) -> usize {
        self.asked.partitions.len()
    }

    #[getter]
    fn reader<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.kind().object(py)
    }

    /// All partitions. Kept, and made at once: of a Fetch of many, `piece` makes them bit by bit.
    #[getter]
    fn partitions<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyTuple>> {
        let make = || {
            let all = self.asked.piece(py, 0, usize::MAX)?;
            PyResult::Ok(PyTuple::new(py, all)?.unbind())
        };
        Ok(self.partitions.get_or_try_init(py, make)?.bind(py))
    }

    fn piece<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.asked.piece(py, start, stop)?)
    }

    /// (topic, partition)
    #[getter]
    fn forgotten<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let named = |(topic, partition): &(Range<usize>, i32)| {
            (self.asked.name(topic), *partition).into_pyobject(py)
        };
        let forgotten: Vec<_> = self
            .asked
            .forgotten
            .iter()
            .map(named)
            .collect::<Result<_, _>>()?;
        PyTuple::new(py, forgotten)
    }

    /// What the asker gets of a partition now: at most `bytes_left` bytes, with `at_least_one` a whole batch however large. None if the disk would
    /// have to be waited for: then an I/O thread reads, and reports under `token`.
    fn read(
        &self,
        log: &Log,
        partition: &PartitionToRead,
        bytes_left: i64,
        at_least_one: bool,
        token: u64,
    ) -> PyResult<Option<FetchRow>> {
        let of = &log.log;
        let head = of.head();
        let upper_bound = head.bound(self.kind().into());
        let bytes_max = bytes_left.min(i64::from(partition.bytes_max));
        let bytes_max = u64::try_from(bytes_max).map_err(|_| {
            kafka_error(
                INVALID_REQUEST,
                format!("a limit of {bytes_max} bytes for a partition"),
            )
        })?;
        let range = FetchRange {
            offset: partition.offset,
            bytes_max,
            upper_bound,
            at_least_one,
            committed: self.is_committed(),
        };
        let fetched = match log.report::<Read, FetchRow>(token) {
            Some(report) => of.fetch_or_queue(range, move |fetched| {
                report(fetched.map(|fetched| Read { head, fetched }));
            })?,
            // No loop is there that could wait.
            None => Some(of.fetch(&range)?),
        };
        Ok(fetched.map(|fetched| FetchRow::at(head).with(fetched)))
    }
}

/// Decodes the body of a Fetch.
/// `believes`: whether the request may be of the replica that it names.
pub fn decode(
    body: &[u8],
    api_version: i16,
    believes: impl FnOnce() -> bool,
) -> PyResult<(FetchRequest, Arc<Asked>)> {
    let mut request =
        fetch::decode_request(body, api_version).map_err(|error| wire_error(&error))?;
    request.name_each_once(body);
    let mut names = Names::default();
    for asked in &mut request.partitions {
        asked.topic = names.copy(body, &asked.topic);
    }
    for (topic, _) in &mut request.forgotten {
        *topic = names.copy(body, topic);
    }
    let is_follower = request.replica_id >= 0 && believes();
    let asked = Arc::new(Asked {
        api_version,
        is_follower,
        names: names.into_bytes(),
        partitions: request.partitions,
        forgotten: request.forgotten,
    });
    let owned = |range: Range<usize>| {
        std::str::from_utf8(&body[range])
            .unwrap_or_default()
            .to_owned()
    };
    let request = FetchRequest {
        replica_id: request.replica_id,
        is_follower,
        max_wait_ms: request.max_wait_ms,
        min_bytes: request.min_bytes,
        max_bytes: request.max_bytes,
        isolation_level: request.isolation_level,
        session_id: request.session_id,
        session_epoch: request.session_epoch,
        rack_id: owned(request.rack_id),
        cluster_id: request.cluster_id.map(owned),
        asked: Arc::clone(&asked),
        partitions: PyOnceLock::new(),
    };
    Ok((request, asked))
}
