//! `FetchRequest`: what one Fetch asks, and its answer out of slices of the log.

use std::ops::Range;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::log::traffic::{self, Count};
use crate::py::conversion::ConvertedRecords;
use crate::py::errors::wire_error;
use crate::py::log::{FileSlice, ReadInfo};
use crate::wire::fetch::{self, PartitionResponse, RecordData, ResponseHead};
use crate::wire::piece::Piece;

#[pyclass(frozen, get_all, module = "ottla._core")]
pub struct FetchRequest {
    pub replica_id: i32,
    max_wait_ms: i32,
    min_bytes: i32,
    max_bytes: i32,
    isolation_level: i8,
    session_id: i32,
    session_epoch: i32,
    rack_id: String,
    cluster_id: Option<String>,
    /// (topic, partition, fetch offset, bytes max, current leader epoch, last fetched epoch, log start offset), as in `encode_fetch_request`.
    partitions: Py<PyTuple>,
    /// (topic, partition)
    forgotten: Py<PyTuple>,
}

/// Names and numbers of the partitions, for the answer.
pub struct Asked {
    pub api_version: i16,
    is_replica: bool,
    names: Vec<u8>,
    partitions: Vec<(Range<usize>, i32)>,
}

fn text(bytes: &[u8]) -> &str {
    // The decoder has checked it.
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Decodes the body of a Fetch.
pub fn decode(py: Python<'_>, body: &[u8], api_version: i16) -> PyResult<(FetchRequest, Asked)> {
    let request = fetch::decode_request(body, api_version).map_err(|error| wire_error(&error))?;
    let mut asked = Asked {
        api_version,
        is_replica: request.replica_id >= 0,
        names: Vec::new(),
        partitions: Vec::with_capacity(request.partitions.len()),
    };
    let mut last: Option<(&Range<usize>, Range<usize>, Bound<'_, PyAny>)> = None;
    let mut tuples = Vec::with_capacity(request.partitions.len());
    for one in &request.partitions {
        if last.as_ref().is_none_or(|(topic, ..)| **topic != one.topic) {
            let bytes = &body[one.topic.clone()];
            let start = asked.names.len();
            asked.names.extend_from_slice(bytes);
            let name = text(bytes).into_pyobject(py)?.into_any();
            last = Some((&one.topic, start..asked.names.len(), name));
        }
        if let Some((_, name_at, name)) = &last {
            asked.partitions.push((name_at.clone(), one.partition));
            let tuple = (
                name,
                one.partition,
                one.fetch_offset,
                one.bytes_max,
                one.current_leader_epoch,
                one.last_fetched_epoch,
                one.log_start_offset,
            );
            tuples.push(tuple.into_pyobject(py)?);
        }
    }
    let forgotten = request
        .forgotten
        .iter()
        .map(|(topic, partition)| (text(&body[topic.clone()]), *partition).into_pyobject(py))
        .collect::<PyResult<Vec<_>>>()?;
    let owned = |range: Range<usize>| text(&body[range]).to_owned();
    Ok((
        FetchRequest {
            replica_id: request.replica_id,
            max_wait_ms: request.max_wait_ms,
            min_bytes: request.min_bytes,
            max_bytes: request.max_bytes,
            isolation_level: request.isolation_level,
            session_id: request.session_id,
            session_epoch: request.session_epoch,
            rack_id: owned(request.rack_id),
            cluster_id: request.cluster_id.map(owned),
            partitions: PyTuple::new(py, tuples)?.unbind(),
            forgotten: PyTuple::new(py, forgotten)?.unbind(),
        },
        asked,
    ))
}

/// One element of the partitions that Python gives.
#[derive(FromPyObject)]
struct Given<'py>(
    Which,
    i16,
    i64,
    i64,
    i64,
    Option<Vec<(i64, i64)>>,
    i32,
    Bound<'py, PyAny>,
    Option<(i32, i64)>,
);

/// A partition by its place in the request, or by name (of a session, and not in the request).
enum Which {
    Index(usize),
    Name(String, i32),
}

impl<'py> FromPyObject<'_, 'py> for Which {
    type Error = PyErr;

    /// By hand: trying one after the other makes an exception for each that it is not.
    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if given.cast::<PyTuple>().is_ok() {
            let (topic, partition) = given.extract()?;
            Ok(Self::Name(topic, partition))
        } else {
            Ok(Self::Index(given.extract()?))
        }
    }
}

fn records(given: &Bound<'_, PyAny>) -> PyResult<RecordData> {
    if given.is_none() {
        return Ok(RecordData::Empty);
    }
    if let Ok(read) = given.cast::<ReadInfo>() {
        let slice = read.get().0.slice.clone();
        return Ok(slice.map_or(RecordData::Empty, |slice| RecordData::File(slice.into())));
    }
    if let Ok(slice) = given.cast::<FileSlice>() {
        return Ok(RecordData::File(slice.get().0.clone().into()));
    }
    if let Ok(converted) = given.cast::<ConvertedRecords>() {
        return Ok(RecordData::Bytes(converted.get().take()));
    }
    let bytes = given.cast::<PyBytes>()?;
    Ok(RecordData::Bytes(bytes.as_bytes().to_vec()))
}

/// Errors that Kafka does not count as failures (`ReplicaManager.readFromLocalLog`): OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION,
/// NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
const EXPECTED: [i16; 7] = [1, 3, 6, 9, 56, 74, 75];

/// The answer in pieces. Where there is a list for its error codes, requests are measured.
pub fn encode(
    asked: &Asked,
    given: &Bound<'_, PyList>,
    head: ResponseHead,
    codes: Option<&mut Vec<i16>>,
) -> PyResult<Vec<Piece>> {
    let given = given
        .iter()
        .map(|one| one.extract::<Given<'_>>())
        .collect::<PyResult<Vec<_>>>()?;
    let partitions = given
        .iter()
        .map(|one| {
            let (topic, partition) = match &one.0 {
                Which::Name(topic, partition) => (topic.as_bytes(), *partition),
                Which::Index(index) => {
                    let (topic, partition) = asked
                        .partitions
                        .get(*index)
                        .ok_or_else(|| PyIndexError::new_err("no such partition in the request"))?;
                    (&asked.names[topic.clone()], *partition)
                }
            };
            Ok(PartitionResponse {
                topic,
                partition,
                error_code: one.1,
                high_watermark: one.2,
                last_stable_offset: one.3,
                log_start_offset: one.4,
                aborted_transactions: one.5.clone(),
                preferred_read_replica: one.6,
                records: records(&one.7)?,
                diverging_epoch: one.8,
                current_leader: None,
            })
        })
        .collect::<PyResult<Vec<_>>>()?;
    if let Some(codes) = codes {
        codes.extend(partitions.iter().map(|one| one.error_code));
        traffic::note(partitions.iter().map(|one| one.topic), |index, row| {
            let one = &partitions[index];
            row.add(Count::FetchRequests, 1);
            if !asked.is_replica {
                row.add(Count::BytesOut, one.records.length());
            }
            if let Ok(converted) = given[index].7.cast::<ConvertedRecords>() {
                row.add(Count::FetchConversions, converted.get().records);
            }
            if one.error_code != 0 && !EXPECTED.contains(&one.error_code) {
                row.add(Count::FailedFetchRequests, 1);
            }
        });
    }
    fetch::encode_response(asked.api_version, head, partitions).map_err(|error| wire_error(&error))
}
