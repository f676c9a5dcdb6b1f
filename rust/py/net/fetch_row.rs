//! `FetchRow`: one partition's part of the answer to a Fetch, and the answer out of rows. Records are slices of the log, of which nothing is read here.

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::fetch::{Asked, PartitionToRead};
use crate::log::{self, Fetched, Head};
use crate::py::conversion::ConvertedRecords;
use crate::py::errors::wire_error;
use crate::py::log::{FileSlice, ReadInfo};
use crate::traffic::{Count, Topics};
use crate::wire::fetch::{self, PartitionResponse, RecordData, ResponseHead};
use crate::wire::piece::Piece;

#[pyclass(frozen, freelist = 64, module = "ottla._core")]
pub struct FetchRow {
    #[pyo3(get)]
    error_code: i16,
    #[pyo3(get)]
    pub high_watermark: i64,
    #[pyo3(get)]
    pub last_stable_offset: i64,
    #[pyo3(get)]
    log_start_offset: i64,
    /// Producer id and first offset; None unless committed records were asked for.
    #[pyo3(get)]
    aborted_transactions: Option<Vec<(i64, i64)>>,
    records: Records,
    #[pyo3(get)]
    goes_on: bool,
    /// Epoch and end offset: where the asker's log parts from this one.
    #[pyo3(get)]
    diverging_epoch: Option<(i32, i64)>,
    /// The broker that the asker is to read from; -1: this one.
    #[pyo3(get)]
    preferred_read_replica: i32,
}

enum Records {
    Nothing,
    Slice(log::FileSlice),
    Bytes(Vec<u8>),
    Converted(Py<ConvertedRecords>),
}

/// What an I/O thread has read.
pub struct Read {
    pub head: Head,
    pub fetched: Fetched,
}

impl From<Read> for FetchRow {
    fn from(read: Read) -> Self {
        Self::at(read.head).with(read.fetched)
    }
}

impl FetchRow {
    fn nothing(error_code: i16) -> Self {
        Self {
            error_code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            aborted_transactions: None,
            records: Records::Nothing,
            goes_on: false,
            diverging_epoch: None,
            preferred_read_replica: -1,
        }
    }

    /// A row without records that says where a log is.
    pub fn at(head: Head) -> Self {
        Self {
            high_watermark: head.high_watermark,
            last_stable_offset: head.last_stable_offset,
            log_start_offset: head.log_start_offset,
            ..Self::nothing(0)
        }
    }

    /// The same row with what was read.
    pub fn with(self, fetched: Fetched) -> Self {
        Self {
            aborted_transactions: fetched.aborted_transactions(),
            records: fetched.slice.map_or(Records::Nothing, Records::Slice),
            goes_on: fetched.goes_on,
            ..self
        }
    }

    /// The stored bytes that it sends.
    pub fn slice(&self) -> Option<&log::FileSlice> {
        match &self.records {
            Records::Slice(slice) => Some(slice),
            _ => None,
        }
    }

    fn data(&self) -> RecordData {
        match &self.records {
            Records::Nothing => RecordData::Empty,
            Records::Slice(slice) => RecordData::File(slice.clone().into()),
            Records::Bytes(bytes) => RecordData::Bytes(bytes.clone()),
            Records::Converted(made) => RecordData::Bytes(made.get().take()),
        }
    }

    fn converted_records(&self) -> u64 {
        match &self.records {
            Records::Converted(made) => made.get().records,
            _ => 0,
        }
    }
}

#[pymethods]
impl FetchRow {
    #[new]
    #[pyo3(signature = (error_code = 0, *, high_watermark = -1, last_stable_offset = -1, log_start_offset = -1,
        aborted_transactions = None, records = None, diverging_epoch = None, preferred_read_replica = -1))]
    #[allow(clippy::too_many_arguments)] // they are fields, and named
    fn made(
        error_code: i16,
        high_watermark: i64,
        last_stable_offset: i64,
        log_start_offset: i64,
        aborted_transactions: Option<Vec<(i64, i64)>>,
        records: Option<&Bound<'_, PyAny>>,
        diverging_epoch: Option<(i32, i64)>,
        preferred_read_replica: i32,
    ) -> PyResult<Self> {
        Ok(Self {
            error_code,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted_transactions,
            records: records.map_or(Ok(Records::Nothing), given)?,
            goes_on: false,
            diverging_epoch,
            preferred_read_replica,
        })
    }

    /// Bytes of records.
    #[getter]
    fn length(&self) -> u64 {
        match &self.records {
            Records::Nothing => 0,
            Records::Slice(slice) => slice.length,
            Records::Bytes(bytes) => bytes.len() as u64,
            Records::Converted(made) => made.get().length as u64,
        }
    }

    /// Whether it holds what its asker does not have: records, a diverging epoch, or where to read.
    #[getter]
    fn has_more(&self) -> bool {
        self.length() > 0 || self.diverging_epoch.is_some() || self.preferred_read_replica >= 0
    }

    /// The same row with other records.
    fn converted(&self, records: Py<ConvertedRecords>) -> Self {
        Self {
            aborted_transactions: self.aborted_transactions.clone(),
            records: Records::Converted(records),
            ..*self
        }
    }

    fn __repr__(&self) -> String {
        format!(
            "FetchRow(error_code={}, high_watermark={}, last_stable_offset={}, log_start_offset={}, length={})",
            self.error_code,
            self.high_watermark,
            self.last_stable_offset,
            self.log_start_offset,
            self.length()
        )
    }
}

/// Records that Python gives.
fn given(records: &Bound<'_, PyAny>) -> PyResult<Records> {
    if let Ok(read) = records.cast::<ReadInfo>() {
        let slice = read.get().0.slice.clone();
        return Ok(slice.map_or(Records::Nothing, Records::Slice));
    }
    if let Ok(slice) = records.cast::<FileSlice>() {
        return Ok(Records::Slice(slice.get().0.clone()));
    }
    let bytes = records.cast::<PyBytes>();
    let bytes =
        bytes.map_err(|_| PyTypeError::new_err("records are a ReadInfo, a FileSlice or bytes"))?;
    Ok(Records::Bytes(bytes.as_bytes().to_vec()))
}

/// The answer in pieces: of `rows`, each about the partition of `named` at its place, or else of the request. Where requests are
/// measured, its error codes are added to a list, and the topics count it.
pub fn encode(
    asked: &Asked,
    rows: &Bound<'_, PyList>,
    named: Option<&Bound<'_, PyList>>,
    head: ResponseHead,
    measured: Option<(&mut Vec<i16>, &Topics)>,
) -> PyResult<Vec<Piece>> {
    let rows = rows
        .iter()
        .map(|row| Ok(row.cast_into::<FetchRow>()?))
        .collect::<PyResult<Vec<_>>>()?;
    let named = match named {
        None => Vec::new(),
        Some(named) if named.len() == rows.len() => named
            .iter()
            .map(|one| {
                let one = one.cast::<PartitionToRead>()?.get();
                Ok((Arc::clone(&one.topic), one.partition))
            })
            .collect::<PyResult<Vec<_>>>()?,
        Some(named) => {
            let problem = format!("{} names for {} rows", named.len(), rows.len());
            return Err(PyValueError::new_err(problem));
        }
    };
    if rows.len() > named.len() && named.is_empty() && asked.partition(rows.len() - 1).is_none() {
        return Err(PyIndexError::new_err(
            "more rows than partitions in the request",
        ));
    }
    let of = |place: usize| -> (&[u8], i32) {
        match named.get(place) {
            Some((topic, partition)) => (topic.as_bytes(), *partition),
            None => asked.partition(place).unwrap_or_default(),
        }
    };
    if let Some((codes, topics)) = measured {
        codes.extend(rows.iter().map(|row| row.get().error_code));
        topics.note((0..rows.len()).map(|place| of(place).0), |place, count| {
            let row = rows[place].get();
            count.add(Count::FetchRequests, 1);
            let bytes_out = match asked.is_follower {
                true => Count::ReplicationBytesOut,
                false => Count::BytesOut,
            };
            count.add(bytes_out, row.length());
            count.add(Count::FetchConversions, row.converted_records());
            if fetch::is_failure(row.error_code) {
                count.add(Count::FailedFetchRequests, 1);
            }
        });
    }
    let topics = fetch::lengths_of_topics((0..rows.len()).map(|place| of(place).0));
    let partitions = rows.iter().enumerate().map(|(place, row)| {
        let row = row.get();
        let (topic, partition) = of(place);
        PartitionResponse {
            topic,
            partition,
            error_code: row.error_code,
            high_watermark: row.high_watermark,
            last_stable_offset: row.last_stable_offset,
            log_start_offset: row.log_start_offset,
            aborted_transactions: row.aborted_transactions.clone(),
            preferred_read_replica: row.preferred_read_replica,
            records: row.data(),
            diverging_epoch: row.diverging_epoch,
            current_leader: None,
        }
    });
    fetch::encode_rows(asked.api_version, head, &topics, partitions)
        .map_err(|error| wire_error(&error))
}
