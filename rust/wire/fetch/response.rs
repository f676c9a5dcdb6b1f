//! Fetch responses, both sides.

use std::ops::Range;

use super::{
    ISOLATION_SINCE, LOG_START_SINCE, RACK_SINCE, SESSION_SINCE, THROTTLE_SINCE, TOPIC_BYTES_MIN,
    known,
};
use crate::wire::error::{At, WireError};
use crate::wire::piece::{FileSlice, Piece};
use crate::wire::primitives::{ITEMS_AT_FIRST, ITEMS_MAX, Reader, Writer};

const DIVERGING_EPOCH_TAG: u32 = 0;
const CURRENT_LEADER_TAG: u32 = 1;

const RESULT_BYTES_MIN: usize = 4 + 2 + 8;
const ABORTED_BYTES_MIN: usize = 8 + 8;
/// Enough for what stands between the records of two partitions.
const BETWEEN_BYTES: usize = 128;

/// The fields of a response about all partitions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    pub throttle_time_ms: i32,
    pub error_code: i16,
    /// 0: there is no session.
    pub session_id: i32,
}

/// One partition of a response, with what it holds by name and records by `Data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionResponse<Name, Data> {
    pub topic: Name,
    pub partition: i32,
    pub error_code: i16,
    /// -1 on error.
    pub high_watermark: i64,
    pub last_stable_offset: i64,
    pub log_start_offset: i64,
    /// Epoch and end offset: where the asker's log parts from this one.
    pub diverging_epoch: Option<(i32, i64)>,
    /// Leader and its epoch.
    pub current_leader: Option<(i32, i32)>,
    /// Producer id and first offset; None (null) unless read committed was asked for.
    pub aborted_transactions: Option<Vec<(i64, i64)>>,
    /// -1: read here.
    pub preferred_read_replica: i32,
    pub records: Data,
}

impl<Name, Data> PartitionResponse<Name, Data> {
    /// An answer without anything in it: for errors, and to start from.
    pub fn empty(topic: Name, partition: i32, error_code: i16, records: Data) -> Self {
        Self {
            topic,
            partition,
            error_code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
            records,
        }
    }
}

/// The records of a partition, as a server sends them.
pub enum RecordData {
    Empty,
    /// Records that had to be made (converted), or that somebody holds in memory.
    Bytes(Vec<u8>),
    File(FileSlice),
}

impl RecordData {
    /// Bytes that are sent.
    pub fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(slice) => slice.length,
        }
    }
}

/// The server's side: the response's body, beginning with a piece of memory. Partitions of one topic that follow each other share its entry.
pub fn encode_response(
    version: i16,
    head: ResponseHead,
    partitions: Vec<PartitionResponse<&[u8], RecordData>>,
) -> Result<Vec<Piece>, WireError> {
    let topics = lengths_of_topics(partitions.iter().map(|partition| partition.topic));
    encode_rows(version, head, &topics, partitions.into_iter())
}

/// How many partitions that follow each other have one topic, for each such topic in turn.
pub fn lengths_of_topics<'a>(topics: impl Iterator<Item = &'a [u8]>) -> Vec<usize> {
    let mut lengths: Vec<usize> = Vec::new();
    let mut last = None;
    for topic in topics {
        match lengths.last_mut() {
            Some(length) if last == Some(topic) => *length += 1,
            _ => lengths.push(1),
        }
        last = Some(topic);
    }
    lengths
}

/// As [`encode_response`], of partitions that are made while they are written. `topics` are their
/// [`lengths_of_topics`].
pub fn encode_rows<'a>(
    version: i16,
    head: ResponseHead,
    topics: &[usize],
    mut partitions: impl Iterator<Item = PartitionResponse<&'a [u8], RecordData>>,
) -> Result<Vec<Piece>, WireError> {
    let flexible = known(version)?;
    let count: usize = topics.iter().sum();
    let mut pieces = Vec::with_capacity(4);
    let mut writer = Writer::with_capacity(32 + 64 * count);
    if version >= THROTTLE_SINCE {
        writer.i32(head.throttle_time_ms);
    }
    if version >= SESSION_SINCE {
        writer.i16(head.error_code);
        writer.i32(head.session_id);
    }
    writer.count(flexible, topics.len());
    for &count in topics {
        for (index, partition) in partitions.by_ref().take(count).enumerate() {
            if index == 0 {
                writer.clipped(flexible, Some(partition.topic));
                writer.count(flexible, count);
            }
            write_partition(&mut writer, version, flexible, &partition);
            let too_long = |_| WireError::unwritable("record_set", "more than 2 GiB");
            match partition.records {
                RecordData::Empty => writer.bytes(flexible, Some(&[])).map_err(too_long)?,
                RecordData::Bytes(bytes) => {
                    let length = Some(bytes.len());
                    writer.bytes_length(flexible, length).map_err(too_long)?;
                    pieces.push(Piece::Bytes(between(&mut writer)));
                    pieces.push(Piece::Bytes(bytes));
                }
                RecordData::File(slice) => {
                    let length = Some(usize::try_from(slice.length).unwrap_or(usize::MAX));
                    writer.bytes_length(flexible, length).map_err(too_long)?;
                    pieces.push(Piece::Bytes(between(&mut writer)));
                    pieces.push(Piece::File(slice));
                }
            }
            write_tags(
                &mut writer,
                flexible,
                partition.diverging_epoch,
                partition.current_leader,
            );
        }
        writer.no_tagged(flexible);
    }
    writer.no_tagged(flexible);
    if writer.position() > 0 || pieces.is_empty() {
        pieces.push(Piece::Bytes(writer.into_bytes()));
    }
    Ok(pieces)
}

/// The bytes that were written since the last records.
fn between(writer: &mut Writer) -> Vec<u8> {
    std::mem::replace(writer, Writer::with_capacity(BETWEEN_BYTES)).into_bytes()
}

/// A partition up to its records.
fn write_partition<Name, Data>(
    writer: &mut Writer,
    version: i16,
    flexible: bool,
    partition: &PartitionResponse<Name, Data>,
) {
    writer.i32(partition.partition);
    writer.i16(partition.error_code);
    writer.i64(partition.high_watermark);
    if version >= ISOLATION_SINCE {
        writer.i64(partition.last_stable_offset);
    }
    if version >= LOG_START_SINCE {
        writer.i64(partition.log_start_offset);
    }
    if version >= ISOLATION_SINCE {
        match &partition.aborted_transactions {
            None => {
                // Null always fits.
                let _ = writer.array(flexible, None);
            }
            Some(aborted) => {
                writer.count(flexible, aborted.len());
                for (producer_id, first_offset) in aborted {
                    writer.i64(*producer_id);
                    writer.i64(*first_offset);
                    writer.no_tagged(flexible);
                }
            }
        }
    }
    if version >= RACK_SINCE {
        writer.i32(partition.preferred_read_replica);
    }
}

/// The end of a partition: an epoch of -1 is not said.
fn write_tags(
    writer: &mut Writer,
    flexible: bool,
    diverging_epoch: Option<(i32, i64)>,
    current_leader: Option<(i32, i32)>,
) {
    if !flexible {
        return;
    }
    writer.uvarint(u32::from(diverging_epoch.is_some()) + u32::from(current_leader.is_some()));
    if let Some((epoch, end_offset)) = diverging_epoch {
        writer.uvarint(DIVERGING_EPOCH_TAG);
        writer.uvarint(4 + 8 + 1);
        writer.i32(epoch);
        writer.i64(end_offset);
        writer.no_tagged(true);
    }
    if let Some((leader_id, leader_epoch)) = current_leader {
        writer.uvarint(CURRENT_LEADER_TAG);
        writer.uvarint(4 + 4 + 1);
        writer.i32(leader_id);
        writer.i32(leader_epoch);
        writer.no_tagged(true);
    }
}

/// A decoded response, for the client's side; names and records are ranges of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse {
    pub head: ResponseHead,
    pub partitions: Vec<PartitionResponse<Range<usize>, Option<Range<usize>>>>,
}

/// The client's side.
pub fn decode_response(body: &[u8], version: i16) -> Result<FetchResponse, WireError> {
    decode_response_of(body, version, ITEMS_MAX)
}

/// The same for a client that knows how many topics, partitions and aborted transactions an answer may have, all counted together.
pub fn decode_response_of(
    body: &[u8],
    version: i16,
    items_max: usize,
) -> Result<FetchResponse, WireError> {
    let flexible = known(version)?;
    let mut reader = Reader::bounded(body, items_max);
    let mut head = ResponseHead::default();
    if version >= THROTTLE_SINCE {
        head.throttle_time_ms = reader.i32().at("throttle_time_ms")?;
    }
    if version >= SESSION_SINCE {
        head.error_code = reader.i16().at("error_code")?;
        head.session_id = reader.i32().at("session_id")?;
    }
    let mut partitions = Vec::new();
    for _ in 0..reader.items(flexible, TOPIC_BYTES_MIN).at("responses")? {
        let topic = reader.name(flexible).at("responses.topic")?;
        let count = reader
            .items(flexible, RESULT_BYTES_MIN)
            .at("responses.partition_responses")?;
        partitions.reserve(count);
        for _ in 0..count {
            partitions.push(decode_partition(
                &mut reader,
                version,
                flexible,
                topic.clone(),
            )?);
        }
        if flexible {
            reader.skip_tagged()?;
        }
    }
    if flexible {
        reader.skip_tagged()?;
    }
    Ok(FetchResponse { head, partitions })
}

fn decode_partition(
    reader: &mut Reader<'_>,
    version: i16,
    flexible: bool,
    topic: Range<usize>,
) -> Result<PartitionResponse<Range<usize>, Option<Range<usize>>>, WireError> {
    let field = "responses.partition_responses.partition";
    let partition = reader.i32().at(field)?;
    let error_code = reader
        .i16()
        .at("responses.partition_responses.error_code")?;
    let mut response = PartitionResponse::empty(topic, partition, error_code, None);
    response.high_watermark = reader
        .i64()
        .at("responses.partition_responses.high_watermark")?;
    if version >= ISOLATION_SINCE {
        response.last_stable_offset = reader
            .i64()
            .at("responses.partition_responses.last_stable_offset")?;
    }
    if version >= LOG_START_SINCE {
        response.log_start_offset = reader
            .i64()
            .at("responses.partition_responses.log_start_offset")?;
    }
    if version >= ISOLATION_SINCE {
        response.aborted_transactions = decode_aborted(reader, flexible)?;
    }
    if version >= RACK_SINCE {
        response.preferred_read_replica = reader
            .i32()
            .at("responses.partition_responses.preferred_read_replica")?;
    }
    response.records = reader
        .bytes(flexible)
        .at("responses.partition_responses.record_set")?;
    if flexible {
        decode_tags(
            reader,
            &mut response.diverging_epoch,
            &mut response.current_leader,
        )?;
    }
    Ok(response)
}

fn decode_aborted(
    reader: &mut Reader<'_>,
    flexible: bool,
) -> Result<Option<Vec<(i64, i64)>>, WireError> {
    let field = "responses.partition_responses.aborted_transactions";
    let Some(count) = reader.array(flexible, ABORTED_BYTES_MIN).at(field)? else {
        return Ok(None);
    };
    let mut aborted = Vec::with_capacity(count.min(ITEMS_AT_FIRST));
    for _ in 0..count {
        aborted.push((reader.i64().at(field)?, reader.i64().at(field)?));
        if flexible {
            reader.skip_tagged()?;
        }
    }
    Ok(Some(aborted))
}

fn decode_tags(
    reader: &mut Reader<'_>,
    diverging_epoch: &mut Option<(i32, i64)>,
    current_leader: &mut Option<(i32, i32)>,
) -> Result<(), WireError> {
    reader.tagged(|tag, value| {
        match tag {
            DIVERGING_EPOCH_TAG => {
                let field = "responses.partition_responses.diverging_epoch";
                *diverging_epoch = Some((value.i32().at(field)?, value.i64().at(field)?));
            }
            CURRENT_LEADER_TAG => {
                let field = "responses.partition_responses.current_leader";
                *current_leader = Some((value.i32().at(field)?, value.i32().at(field)?));
            }
            _ => return Ok(false),
        }
        value.skip_tagged()?;
        Ok(true)
    })
}
