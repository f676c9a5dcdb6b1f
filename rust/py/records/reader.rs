//! Batches and records one by one, for small amounts; columns are for large ones.

use std::collections::VecDeque;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple, PyType};

use super::{exclusive, record_error};
use crate::py::buffer::Input;
use crate::records::{self, Batch, BatchHeader, Batches, Limits, Records, Scratch};

/// The header of a batch and where it was found.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct BatchInfo {
    position: usize,
    size_bytes: usize,
    base_offset: i64,
    last_offset: i64,
    leader_epoch: i32,
    magic: i8,
    crc: u32,
    compression: &'static str,
    is_transactional: bool,
    is_control: bool,
    is_log_append_time: bool,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    last_sequence: i32,
    record_count: i32,
}

impl BatchInfo {
    pub fn new(header: BatchHeader, position: usize) -> Self {
        BatchInfo {
            position,
            size_bytes: header.size_bytes(),
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            leader_epoch: header.leader_epoch,
            magic: header.magic,
            crc: header.crc,
            compression: header.compression().map_or("unknown", records::Codec::name),
            is_transactional: header.is_transactional(),
            is_control: header.is_control(),
            is_log_append_time: header.is_log_append_time(),
            base_timestamp_ms: header.base_timestamp,
            max_timestamp_ms: header.max_timestamp,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
            record_count: header.record_count,
        }
    }
}

#[pymethods]
impl BatchInfo {
    fn __repr__(&self) -> String {
        format!(
            "BatchInfo(offsets {}..{}, {} records, {}, {} bytes at {})",
            self.base_offset,
            self.last_offset,
            self.record_count,
            self.compression,
            self.size_bytes,
            self.position
        )
    }
}

/// One record as Python values.
#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct Record {
    offset: i64,
    timestamp_ms: i64,
    key: Option<Py<PyBytes>>,
    value: Option<Py<PyBytes>>,
    headers: Vec<(Py<PyString>, Option<Py<PyBytes>>)>,
}

impl Record {
    fn new(py: Python<'_>, record: &records::Record<'_>) -> Self {
        let bytes = |bytes: Option<&[u8]>| bytes.map(|bytes| PyBytes::new(py, bytes).unbind());
        let text = |name: &[u8]| PyString::new(py, &String::from_utf8_lossy(name)).unbind();
        Record {
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: bytes(record.key),
            value: bytes(record.value),
            headers: record
                .headers
                .map(|(name, value)| (text(name), bytes(value)))
                .collect(),
        }
    }
}

#[pymethods]
impl Record {
    fn __repr__(&self, py: Python<'_>) -> String {
        let size = |bytes: &Option<Py<PyBytes>>| match bytes {
            Some(bytes) => format!("{} bytes", bytes.bind(py).as_bytes().len()),
            None => "None".to_owned(),
        };
        format!(
            "Record(offset={}, timestamp_ms={}, key={}, value={}, {} headers)",
            self.offset,
            self.timestamp_ms,
            size(&self.key),
            size(&self.value),
            self.headers.len()
        )
    }
}

/// The records of a buffer of batches, read batch by batch.
#[pyclass(frozen, module = "ottla._core")]
pub struct RecordReader(Mutex<State>);

struct State {
    buffer: Input,
    position: usize,
    start_offset: i64,
    with_control: bool,
    check_crc: bool,
    limits: Limits,
    scratch: Scratch,
    records: VecDeque<Record>,
}

impl State {
    /// The next batch into the queue; false at the end of the buffer.
    fn read_batch(&mut self, py: Python<'_>) -> PyResult<bool> {
        let start = self.position;
        let Some(batch) = next_batch(self.buffer.bytes(py), start)? else {
            return Ok(false);
        };
        self.position = start + batch.bytes.len();
        if batch.header.last_offset() < self.start_offset
            || (batch.header.is_control() && !self.with_control)
        {
            return Ok(true);
        }
        let failed = |error: records::RecordError| record_error(&error.moved_by(start));
        if self.check_crc {
            records::check_crc(batch.bytes, &batch.header).map_err(failed)?;
        }
        for record in Records::new(&batch, &self.limits, &mut self.scratch).map_err(failed)? {
            let record = record.map_err(failed)?;
            if record.offset >= self.start_offset {
                self.records.push_back(Record::new(py, &record));
            }
        }
        Ok(true)
    }
}

/// The whole batch at `start`; none if the buffer ends before it does.
fn next_batch(buffer: &[u8], start: usize) -> PyResult<Option<Batch<'_>>> {
    match Batches::new(buffer.get(start..).unwrap_or_default()).next() {
        None => Ok(None),
        Some(Ok(batch)) => Ok(Some(batch)),
        Some(Err(error)) if error.is_incomplete() => Ok(None),
        Some(Err(error)) => Err(record_error(&error.moved_by(start))),
    }
}

#[pymethods]
impl RecordReader {
    #[new]
    #[pyo3(signature = (data, *, start_offset = i64::MIN, with_control = false, check_crc = true,
        decompressed_bytes_max = Limits::default().decompressed_bytes_max))]
    fn new(
        data: Input,
        start_offset: i64,
        with_control: bool,
        check_crc: bool,
        decompressed_bytes_max: usize,
    ) -> Self {
        let limits = Limits {
            decompressed_bytes_max,
            ..Limits::default()
        };
        RecordReader(Mutex::new(State {
            buffer: data,
            position: 0,
            start_offset,
            with_control,
            check_crc,
            limits,
            scratch: Scratch::default(),
            records: VecDeque::new(),
        }))
    }

    #[getter]
    fn position(&self) -> PyResult<usize> {
        Ok(exclusive(&self.0)?.position)
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        let mut state = exclusive(&self.0)?;
        while state.records.is_empty() {
            if !state.read_batch(py)? {
                return Ok(None);
            }
        }
        Ok(state.records.pop_front())
    }

    /// All records that are left as instances of `kind`, a subclass of tuple whose fields are topic, partition, offset,
    /// time, key, value and headers. An attribute read in Python costs more than all of a record here.
    fn rows<'py>(
        &self,
        kind: &Bound<'py, PyType>,
        topic: &Bound<'py, PyString>,
        partition: &Bound<'py, PyInt>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = kind.py();
        let make = py.get_type::<PyTuple>().getattr("__new__")?;
        let rows = PyList::empty(py);
        let mut state = exclusive(&self.0)?;
        loop {
            while let Some(record) = state.records.pop_front() {
                let Record {
                    offset,
                    timestamp_ms,
                    key,
                    value,
                    headers,
                } = record;
                let row = (topic, partition, offset, timestamp_ms, key, value, headers);
                rows.append(make.call1((kind, row))?)?;
            }
            if !state.read_batch(py)? {
                return Ok(rows);
            }
        }
    }
}

#[pyfunction]
#[pyo3(signature = (data, *, check_crc = true))]
pub fn read_batches(py: Python<'_>, data: Input, check_crc: bool) -> PyResult<Vec<BatchInfo>> {
    let (buffer, mut position, mut infos) = (data.bytes(py), 0, Vec::new());
    while let Some(batch) = next_batch(buffer, position)? {
        if check_crc {
            records::check_crc(batch.bytes, &batch.header)
                .map_err(|error| record_error(&error.moved_by(position)))?;
        }
        infos.push(BatchInfo::new(batch.header, position));
        position += batch.bytes.len();
    }
    Ok(infos)
}
