//! Produce and Fetch for clients: requests to bytes, responses to objects whose records are views of the response.

use std::ops::Range;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySlice, PyString};

use super::buffer::Input;
use super::errors::wire_error;
use crate::wire::fetch::{self, PartitionToFetch, RequestToSend};
use crate::wire::produce::{self, PartitionRecords};

/// One partition's answer to a Produce.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct ProducedPartition {
    topic: Py<PyString>,
    partition: i32,
    error_code: i16,
    base_offset: i64,
    log_append_time_ms: i64,
    log_start_offset: i64,
    record_errors: Vec<(i32, Option<String>)>,
    error_message: Option<String>,
}

#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct ProduceResponse {
    throttle_time_ms: i32,
    partitions: Py<PyList>,
}

/// One partition's answer to a Fetch.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct FetchedPartition {
    topic: Py<PyString>,
    partition: i32,
    error_code: i16,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    diverging_epoch: Option<(i32, i64)>,
    current_leader: Option<(i32, i32)>,
    aborted_transactions: Option<Vec<(i64, i64)>>,
    preferred_read_replica: i32,
    records: Option<Py<PyAny>>,
}

#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct FetchResponse {
    throttle_time_ms: i32,
    error_code: i16,
    session_id: i32,
    partitions: Py<PyList>,
}

#[pyfunction]
fn encode_produce_request<'py>(
    py: Python<'py>,
    version: i16,
    transactional_id: Option<&str>,
    acks: i16,
    timeout_ms: i32,
    partitions: Vec<(String, i32, Option<Input>)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let partitions: Vec<_> = partitions
        .iter()
        .map(|(topic, partition, records)| PartitionRecords {
            topic,
            partition: *partition,
            records: records.as_ref().map(|records| records.bytes(py)),
        })
        .collect();
    produce::encode_request(version, transactional_id, acks, timeout_ms, &partitions)
        .map(|body| PyBytes::new(py, &body))
        .map_err(|error| wire_error(&error))
}

#[pyfunction]
#[pyo3(signature = (buffer, version, start = 0))]
fn decode_produce_response(
    py: Python<'_>,
    buffer: Input,
    version: i16,
    start: usize,
) -> PyResult<ProduceResponse> {
    let body = from(buffer.bytes(py), start)?;
    let response = produce::decode_response(body, version).map_err(|error| wire_error(&error))?;
    let mut names = Names::new(py, body);
    let partitions = response.results.into_iter().map(|result| {
        Bound::new(
            py,
            ProducedPartition {
                topic: names.of(result.topic),
                partition: result.partition,
                error_code: result.error_code,
                base_offset: result.base_offset,
                log_append_time_ms: result.log_append_time_ms,
                log_start_offset: result.log_start_offset,
                record_errors: result.record_errors,
                error_message: result.error_message,
            },
        )
    });
    Ok(ProduceResponse {
        throttle_time_ms: response.throttle_time_ms,
        partitions: PyList::new(py, partitions.collect::<PyResult<Vec<_>>>()?)?.unbind(),
    })
}

type ToFetch = (String, i32, i64, i32, i32, i32, i64);

#[pyfunction]
#[pyo3(signature = (
    version, partitions, *, max_wait_ms, min_bytes, max_bytes, isolation_level = 0, session_id = 0, session_epoch = -1,
    forgotten = Vec::new(), replica_id = -1, rack_id = "", cluster_id = None
))]
#[allow(clippy::too_many_arguments)] // the request's fields, by keyword
fn encode_fetch_request<'py>(
    py: Python<'py>,
    version: i16,
    partitions: Vec<ToFetch>,
    max_wait_ms: i32,
    min_bytes: i32,
    max_bytes: i32,
    isolation_level: i8,
    session_id: i32,
    session_epoch: i32,
    forgotten: Vec<(String, i32)>,
    replica_id: i32,
    rack_id: &str,
    cluster_id: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    let request = RequestToSend {
        cluster_id,
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        rack_id,
    };
    let partitions: Vec<_> = partitions.iter().map(to_fetch).collect();
    let forgotten: Vec<_> = forgotten
        .iter()
        .map(|(topic, partition)| (topic.as_str(), *partition))
        .collect();
    fetch::encode_request(version, &request, &partitions, &forgotten)
        .map(|body| PyBytes::new(py, &body))
        .map_err(|error| wire_error(&error))
}

fn to_fetch(partition: &ToFetch) -> PartitionToFetch<'_> {
    PartitionToFetch {
        topic: &partition.0,
        partition: partition.1,
        fetch_offset: partition.2,
        bytes_max: partition.3,
        current_leader_epoch: partition.4,
        last_fetched_epoch: partition.5,
        log_start_offset: partition.6,
    }
}

#[pyfunction]
#[pyo3(signature = (buffer, version, start = 0))]
fn decode_fetch_response(
    py: Python<'_>,
    buffer: &Bound<'_, PyAny>,
    version: i16,
    start: usize,
) -> PyResult<FetchResponse> {
    let input: Input = buffer.extract()?;
    let body = from(input.bytes(py), start)?;
    let response = fetch::decode_response(body, version).map_err(|error| wire_error(&error))?;
    let view = PyMemoryView::from(buffer)?;
    let mut names = Names::new(py, body);
    let partitions = response.partitions.into_iter().map(|partition| {
        let records = match partition.records {
            None => None,
            Some(range) => Some(part(&view, range, start)?),
        };
        Bound::new(
            py,
            FetchedPartition {
                topic: names.of(partition.topic),
                partition: partition.partition,
                error_code: partition.error_code,
                high_watermark: partition.high_watermark,
                last_stable_offset: partition.last_stable_offset,
                log_start_offset: partition.log_start_offset,
                diverging_epoch: partition.diverging_epoch,
                current_leader: partition.current_leader,
                aborted_transactions: partition.aborted_transactions,
                preferred_read_replica: partition.preferred_read_replica,
                records,
            },
        )
    });
    Ok(FetchResponse {
        throttle_time_ms: response.head.throttle_time_ms,
        error_code: response.head.error_code,
        session_id: response.head.session_id,
        partitions: PyList::new(py, partitions.collect::<PyResult<Vec<_>>>()?)?.unbind(),
    })
}

/// A view of a range of the body, which begins at `start` of the view.
fn part(view: &Bound<'_, PyMemoryView>, range: Range<usize>, start: usize) -> PyResult<Py<PyAny>> {
    let (first, last) = (start + range.start, start + range.end);
    // A buffer is never longer than isize::MAX.
    let slice = PySlice::new(view.py(), first as isize, last as isize, 1);
    Ok(view.get_item(slice)?.unbind())
}

fn from(bytes: &[u8], start: usize) -> PyResult<&[u8]> {
    bytes
        .get(start..)
        .ok_or_else(|| PyValueError::new_err("start lies beyond the buffer"))
}

/// Topic names: partitions of one topic share its string.
struct Names<'a, 'py> {
    py: Python<'py>,
    body: &'a [u8],
    last: Option<(Range<usize>, Py<PyString>)>,
}

impl<'a, 'py> Names<'a, 'py> {
    fn new(py: Python<'py>, body: &'a [u8]) -> Self {
        Self {
            py,
            body,
            last: None,
        }
    }

    fn of(&mut self, range: Range<usize>) -> Py<PyString> {
        if let Some((last, name)) = &self.last {
            if *last == range {
                return name.clone_ref(self.py);
            }
        }
        let name =
            PyString::new(self.py, &String::from_utf8_lossy(&self.body[range.clone()])).unbind();
        self.last = Some((range, name.clone_ref(self.py)));
        name
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ProducedPartition>()?;
    module.add_class::<ProduceResponse>()?;
    module.add_class::<FetchedPartition>()?;
    module.add_class::<FetchResponse>()?;
    module.add_function(wrap_pyfunction!(encode_produce_request, module)?)?;
    module.add_function(wrap_pyfunction!(decode_produce_response, module)?)?;
    module.add_function(wrap_pyfunction!(encode_fetch_request, module)?)?;
    module.add_function(wrap_pyfunction!(decode_fetch_response, module)?)
}
