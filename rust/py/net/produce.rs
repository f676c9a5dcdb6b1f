//! `ProduceRequest`: what one Produce asks, its records as the log takes them, and its answer.

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::asked::Asked;
use crate::net::frames::Buffer;
use crate::net::parts::{Part, Parts};
use crate::py::errors::{kafka_error, wire_error};
use crate::py::log::AppendInfo;
use crate::records::BatchHeader;
use crate::records::batch::is_transactional;
use crate::traffic::{Count, Topics};
use crate::wire::produce::{self, PartitionResult};

#[pyclass(frozen, freelist = 64, module = "ottla._core")]
pub struct ProduceRequest {
    parts: Arc<Parts>,
    api_version: i16,
    #[pyo3(get)]
    acks: i16,
    #[pyo3(get)]
    timeout_ms: i32,
    #[pyo3(get)]
    transactional_id: Option<String>,
    /// Whether a batch belongs to a transaction.
    #[pyo3(get)]
    is_transactional: bool,
    asked: Arc<Asked>,
}

#[pymethods]
impl ProduceRequest {
    fn __len__(&self) -> usize {
        self.parts.len()
    }

    /// (topic, partition, has records)
    #[getter]
    fn partitions(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        self.asked.tuple(py)
    }

    /// The same of those from `start` up to `stop`: all of many take the loop for long.
    fn some_partitions<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        self.asked.some(py, start..stop)
    }

    /// Whether its transactional batches are of more than one producer, or of one in more than one epoch.
    fn has_several_producers(&self) -> bool {
        let mut first = None;
        (0..self.parts.len()).any(|index| {
            let producer = self.batch_of_transaction(index);
            let producer = producer.map(|header| (header.producer_id, header.producer_epoch));
            producer.is_some_and(|producer| *first.get_or_insert(producer) != producer)
        })
    }

    /// Producer id, producer epoch and first sequence number of a partition's batch if it belongs to a transaction.
    fn transactional_producer(&self, index: usize) -> Option<(i64, i16, i32)> {
        let header = self.batch_of_transaction(index)?;
        Some((
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        ))
    }

    /// Copies a partition's records: for what is not on the hot path.
    fn records_bytes<'py>(
        &self,
        py: Python<'py>,
        index: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match self.parts.has(index) {
            None => Err(PyIndexError::new_err("no such partition in the request")),
            Some(false) => Ok(None),
            Some(true) => Ok(Some(PyBytes::new(py, &self.records(index)?))),
        }
    }
}

impl ProduceRequest {
    /// The header of a partition's batch if it belongs to a transaction. None, too, while the batch is being appended.
    fn batch_of_transaction(&self, index: usize) -> Option<BatchHeader> {
        let header = BatchHeader::parse(&self.taken(index).ok()?).ok()?;
        (header.has_producer_id() && header.is_transactional()).then_some(header)
    }

    fn taken(&self, index: usize) -> PyResult<Part> {
        if self.parts.has(index) != Some(true) {
            return Err(PyIndexError::new_err("no records of that number"));
        }
        self.parts
            .take(index)
            .ok_or_else(|| PyRuntimeError::new_err("these records are being appended already"))
    }

    /// The records of one partition for the log to stamp and write, on any thread, by one user at a time. An error if this version of the
    /// request may not carry them.
    pub fn records(&self, index: usize) -> PyResult<Part> {
        let records = self.taken(index)?;
        match produce::format_problem(self.api_version, &records) {
            None => Ok(records),
            Some((code, problem)) => Err(kafka_error(code, problem.to_owned())),
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    // The decoder has checked it.
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Decodes the body of a Produce, and takes over its frame.
pub fn decode(
    frame: Buffer,
    body_start: usize,
    api_version: i16,
) -> PyResult<(ProduceRequest, Arc<Asked>)> {
    let body = &frame[body_start..];
    let request = produce::decode_request(body, api_version).map_err(|error| wire_error(&error))?;
    let asked = Asked::of(body, &request.partitions);
    let is_transactional = request.partitions.iter().any(|data| {
        let records = data.records.clone().map(|range| &body[range]);
        records.is_some_and(is_transactional)
    });
    let transactional_id = request
        .transactional_id
        .map(|range| text(&body[range]).to_owned());
    let ranges = request.partitions.into_iter().map(|data| data.records);
    let ranges =
        ranges.map(|range| range.map(|range| body_start + range.start..body_start + range.end));
    let parts = Parts::new(frame, ranges)
        .ok_or_else(|| PyValueError::new_err("the records of two partitions overlap"))?;
    Ok((
        ProduceRequest {
            parts: Arc::new(parts),
            api_version,
            acks: request.acks,
            timeout_ms: request.timeout_ms,
            transactional_id,
            is_transactional,
            asked: Arc::clone(&asked),
        },
        asked,
    ))
}

/// (index in the batch, message) of each refused record.
type RecordErrors = Vec<(i32, Option<String>)>;

/// One partition's part of the answer where no append gives it: an error, or that there was nothing to append.
#[pyclass(frozen, eq, get_all, skip_from_py_object, module = "ottla._core")]
#[derive(Clone, PartialEq)]
pub struct ProduceRow {
    error_code: i16,
    base_offset: i64,
    append_time_ms: i64,
    log_start_offset: i64,
    record_errors: RecordErrors,
    message: Option<String>,
}

#[pymethods]
impl ProduceRow {
    #[new]
    #[pyo3(signature = (
        error_code = 0, *, base_offset = -1, append_time_ms = -1, log_start_offset = -1, record_errors = Vec::new(),
        message = None,
    ))]
    fn new(
        error_code: i16,
        base_offset: i64,
        append_time_ms: i64,
        log_start_offset: i64,
        record_errors: RecordErrors,
        message: Option<String>,
    ) -> Self {
        Self {
            error_code,
            base_offset,
            append_time_ms,
            log_start_offset,
            record_errors,
            message,
        }
    }

    fn __repr__(&self) -> String {
        format!(
            "ProduceRow({}, base_offset={}, log_start_offset={})",
            self.error_code, self.base_offset, self.log_start_offset
        )
    }
}

impl ProduceRow {
    /// From one element of the results that Python gives.
    fn take(result: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(info) = result.cast::<AppendInfo>() {
            let info = info.get();
            return Ok(Self {
                error_code: 0,
                base_offset: info.base_offset,
                append_time_ms: info.append_time_ms,
                log_start_offset: info.log_start_offset,
                record_errors: Vec::new(),
                message: None,
            });
        }
        Ok(result.cast::<Self>()?.get().clone())
    }
}

/// Counts a Produce for the topics that it names; without results it is one with acks=0 that went well.
pub fn note(topics: &Topics, asked: &Asked, results: Option<&Results>) {
    let names = asked.partitions().map(|(topic, ..)| topic);
    topics.note(names, |index, row| {
        row.add(Count::ProduceRequests, 1);
        let result = results.and_then(|results| results.0.get(index));
        if result.is_some_and(|result| produce::is_failure(result.error_code)) {
            row.add(Count::FailedProduceRequests, 1);
        }
    });
}

/// The results as Python gives them, in the order of the request's partitions.
#[derive(Default)]
pub struct Results(Vec<ProduceRow>);

impl Results {
    /// Takes those of the next partitions.
    pub fn take(&mut self, results: &Bound<'_, PyList>) -> PyResult<()> {
        self.0.reserve(results.len());
        for result in results.iter() {
            self.0.push(ProduceRow::take(&result)?);
        }
        Ok(())
    }

    /// An error unless each partition has its result.
    pub fn check(&self, asked: &Asked) -> PyResult<()> {
        if self.0.len() == asked.len() {
            return Ok(());
        }
        let (results, partitions) = (self.0.len(), asked.len());
        let problem = format!("{results} results for {partitions} partitions");
        Err(PyValueError::new_err(problem))
    }

    pub fn codes(&self) -> impl Iterator<Item = i16> {
        self.0.iter().map(|result| result.error_code)
    }

    /// Appends the body of the answer.
    pub fn encode(&self, asked: &Asked, api_version: i16, throttle_ms: i32, to: &mut Vec<u8>) {
        let results: Vec<PartitionResult<'_>> = asked
            .partitions()
            .zip(&self.0)
            .map(|((topic, partition, _), result)| PartitionResult {
                topic,
                partition,
                error_code: result.error_code,
                base_offset: result.base_offset,
                log_append_time_ms: result.append_time_ms,
                log_start_offset: result.log_start_offset,
                record_errors: &result.record_errors,
                error_message: result.message.as_deref(),
            })
            .collect();
        produce::encode_response(to, api_version, &results, throttle_ms);
    }
}
