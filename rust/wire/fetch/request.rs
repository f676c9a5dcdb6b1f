//! Fetch requests, both sides.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::{
    BYTES_MAX_SINCE, FLEXIBLE_SINCE, ISOLATION_SINCE, LEADER_EPOCH_SINCE, LOG_START_SINCE,
    RACK_SINCE, SESSION_SINCE, TOPIC_BYTES_MIN, known,
};
use crate::wire::error::{At, Problem, WireError};
use crate::wire::primitives::{REQUEST_ITEMS_MAX, Reader, Writer};

const CLUSTER_ID_TAG: u32 = 0;

const PARTITION_BYTES_MIN: usize = 4 + 8 + 4;
const INDEX_BYTES: usize = 4;
/// The most partitions that one request may ask for, and the most that may leave a session with it: what all partitions of a large cluster are.
pub const ROWS_MAX: usize = 200_000;

/// A request whose ranges point into the body it was decoded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    pub cluster_id: Option<Range<usize>>,
    /// -1 for consumers.
    pub replica_id: i32,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    /// 1 for read committed.
    pub isolation_level: i8,
    pub session_id: i32,
    pub session_epoch: i32,
    /// In the order of the request.
    pub partitions: Vec<FetchPartition>,
    /// Topic and partition of what leaves the session.
    pub forgotten: Vec<(Range<usize>, i32)>,
    pub rack_id: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// UTF-8, checked.
    pub topic: Range<usize>,
    pub partition: i32,
    /// -1 if unknown.
    pub current_leader_epoch: i32,
    pub fetch_offset: i64,
    /// The epoch of the asker's last record; -1 if it does not say.
    pub last_fetched_epoch: i32,
    /// A follower's own log start offset; -1 for consumers.
    pub log_start_offset: i64,
    pub bytes_max: i32,
}

/// The server's side.
pub fn decode_request(body: &[u8], version: i16) -> Result<FetchRequest, WireError> {
    let flexible = known(version)?;
    let mut reader = Reader::bounded(body, REQUEST_ITEMS_MAX);
    let mut request = FetchRequest {
        cluster_id: None,
        replica_id: reader.i32().at("replica_id")?,
        max_wait_ms: reader.i32().at("max_wait_ms")?,
        min_bytes: reader.i32().at("min_bytes")?,
        max_bytes: i32::MAX,
        isolation_level: 0,
        session_id: 0,
        session_epoch: -1,
        partitions: Vec::new(),
        forgotten: Vec::new(),
        rack_id: 0..0,
    };
    if version >= BYTES_MAX_SINCE {
        request.max_bytes = reader.i32().at("max_bytes")?;
    }
    if version >= ISOLATION_SINCE {
        request.isolation_level = reader.i8().at("isolation_level")?;
    }
    if version >= SESSION_SINCE {
        request.session_id = reader.i32().at("session_id")?;
        request.session_epoch = reader.i32().at("session_epoch")?;
    }
    let topics = reader.items(flexible, TOPIC_BYTES_MIN).at("topics")?;
    check_rows(topics, &reader, "topics")?;
    // One partition of each topic is the usual case; more grow the vector.
    request.partitions.reserve(topics);
    for _ in 0..topics {
        decode_topic(&mut reader, version, flexible, &mut request.partitions)?;
    }
    if version >= SESSION_SINCE {
        decode_forgotten(&mut reader, flexible, &mut request.forgotten)?;
    }
    if version >= RACK_SINCE {
        request.rack_id = reader.name(flexible).at("rack_id")?;
    }
    if flexible {
        reader.tagged(|tag, value| {
            if tag != CLUSTER_ID_TAG {
                return Ok(false);
            }
            request.cluster_id = value.name_or_null(true).at("cluster_id")?;
            Ok(true)
        })?;
    }
    Ok(request)
}

fn decode_topic(
    reader: &mut Reader<'_>,
    version: i16,
    flexible: bool,
    partitions: &mut Vec<FetchPartition>,
) -> Result<(), WireError> {
    let topic = reader.name(flexible).at("topics.topic")?;
    let count = reader
        .items(flexible, PARTITION_BYTES_MIN)
        .at("topics.partitions")?;
    check_rows(partitions.len() + count, reader, "topics.partitions")?;
    partitions.reserve(count);
    for _ in 0..count {
        let partition = reader.i32().at("topics.partitions.partition")?;
        let current_leader_epoch = if version >= LEADER_EPOCH_SINCE {
            reader.i32().at("topics.partitions.current_leader_epoch")?
        } else {
            -1
        };
        let fetch_offset = reader.i64().at("topics.partitions.fetch_offset")?;
        let last_fetched_epoch = if version >= FLEXIBLE_SINCE {
            reader.i32().at("topics.partitions.last_fetched_epoch")?
        } else {
            -1
        };
        let log_start_offset = if version >= LOG_START_SINCE {
            reader.i64().at("topics.partitions.log_start_offset")?
        } else {
            -1
        };
        partitions.push(FetchPartition {
            topic: topic.clone(),
            partition,
            current_leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            bytes_max: reader.i32().at("topics.partitions.partition_max_bytes")?,
        });
        if flexible {
            reader.skip_tagged()?;
        }
    }
    if flexible {
        reader.skip_tagged()?;
    }
    Ok(())
}

/// Refuses requests whose rows would take the memory and the time of everybody else.
fn check_rows(count: usize, reader: &Reader<'_>, field: &'static str) -> Result<(), WireError> {
    if count <= ROWS_MAX {
        return Ok(());
    }
    Err(WireError::Malformed {
        field: field.into(),
        position: reader.position(),
        problem: Problem::Other("a Fetch may name at most 200000 partitions"),
    })
}

impl FetchRequest {
    /// Keeps one row for each partition, as Kafka does: at the place where the partition is named first, with what is asked of it last.
    /// `body`: what the request was decoded from.
    pub fn name_each_once(&mut self, body: &[u8]) {
        if !self.may_repeat(body) {
            return;
        }
        // Topics by number, so that a long name is hashed once for all partitions that follow it.
        let mut topics: HashMap<&[u8], usize> = HashMap::new();
        let mut places = HashMap::with_capacity(self.partitions.len());
        let mut last: Option<(Range<usize>, usize)> = None;
        let mut kept = 0;
        for at in 0..self.partitions.len() {
            let row = self.partitions[at].clone();
            let topic = match &last {
                Some((name, topic)) if *name == row.topic => *topic,
                _ => {
                    let next = topics.len();
                    let topic = *topics.entry(&body[row.topic.clone()]).or_insert(next);
                    last = Some((row.topic.clone(), topic));
                    topic
                }
            };
            match places.entry((topic, row.partition)) {
                Entry::Occupied(place) => self.partitions[*place.get()] = row,
                Entry::Vacant(place) => {
                    place.insert(kept);
                    self.partitions[kept] = row;
                    kept += 1;
                }
            }
        }
        self.partitions.truncate(kept);
    }

    /// True if a partition may be named twice. Most clients name each topic once, and its
    /// partitions in order.
    fn may_repeat(&self, body: &[u8]) -> bool {
        let mut topics = HashSet::new();
        let mut chunks = self
            .partitions
            .chunk_by(|one, next| one.topic == next.topic);
        self.partitions.len() > 1
            && chunks.any(|rows| {
                !topics.insert(&body[rows[0].topic.clone()])
                    || !rows.is_sorted_by(|one, next| one.partition < next.partition)
            })
    }
}

fn decode_forgotten(
    reader: &mut Reader<'_>,
    flexible: bool,
    forgotten: &mut Vec<(Range<usize>, i32)>,
) -> Result<(), WireError> {
    let topics = reader
        .items(flexible, TOPIC_BYTES_MIN)
        .at("forgotten_topics_data")?;
    for _ in 0..topics {
        let topic = reader.name(flexible).at("forgotten_topics_data.topic")?;
        let field = "forgotten_topics_data.partitions";
        let count = reader.items(flexible, INDEX_BYTES).at(field)?;
        check_rows(forgotten.len() + count, reader, field)?;
        for _ in 0..count {
            forgotten.push((topic.clone(), reader.i32().at(field)?));
        }
        if flexible {
            reader.skip_tagged()?;
        }
    }
    Ok(())
}

/// A request for the client's side.
#[derive(Clone, Debug)]
pub struct RequestToSend<'a> {
    pub cluster_id: Option<&'a str>,
    pub replica_id: i32,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub isolation_level: i8,
    pub session_id: i32,
    pub session_epoch: i32,
    pub rack_id: &'a str,
}

#[derive(Clone, Debug)]
pub struct PartitionToFetch<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub current_leader_epoch: i32,
    pub fetch_offset: i64,
    pub last_fetched_epoch: i32,
    pub log_start_offset: i64,
    pub bytes_max: i32,
}

/// The client's side. Partitions of one topic that follow each other share its entry.
pub fn encode_request(
    version: i16,
    request: &RequestToSend<'_>,
    partitions: &[PartitionToFetch<'_>],
    forgotten: &[(&str, i32)],
) -> Result<Vec<u8>, WireError> {
    let flexible = known(version)?;
    let text = |writer: &mut Writer, text: &str, field: &'static str| {
        writer
            .text(flexible, Some(text.as_bytes()))
            .map_err(|problem: Problem| WireError::unwritable(field, problem.to_string()))
    };
    let mut writer = Writer::with_capacity(64 + 64 * partitions.len());
    writer.i32(request.replica_id);
    writer.i32(request.max_wait_ms);
    writer.i32(request.min_bytes);
    if version >= BYTES_MAX_SINCE {
        writer.i32(request.max_bytes);
    }
    if version >= ISOLATION_SINCE {
        writer.i8(request.isolation_level);
    }
    if version >= SESSION_SINCE {
        writer.i32(request.session_id);
        writer.i32(request.session_epoch);
    }
    let topics = || partitions.chunk_by(|one, next| one.topic == next.topic);
    writer.count(flexible, topics().count());
    for topic in topics() {
        text(&mut writer, topic[0].topic, "topics.topic")?;
        writer.count(flexible, topic.len());
        for partition in topic {
            write_partition_to_fetch(&mut writer, version, partition);
            writer.no_tagged(flexible);
        }
        writer.no_tagged(flexible);
    }
    if version >= SESSION_SINCE {
        let topics = || forgotten.chunk_by(|one, next| one.0 == next.0);
        writer.count(flexible, topics().count());
        for topic in topics() {
            text(&mut writer, topic[0].0, "forgotten_topics_data.topic")?;
            writer.count(flexible, topic.len());
            for (_, partition) in topic {
                writer.i32(*partition);
            }
            writer.no_tagged(flexible);
        }
    } else if !forgotten.is_empty() {
        return Err(WireError::unwritable(
            "forgotten_topics_data",
            format!("version {version} lacks this field"),
        ));
    }
    if version >= RACK_SINCE {
        text(&mut writer, request.rack_id, "rack_id")?;
    }
    if flexible {
        write_cluster_id(&mut writer, request.cluster_id)?;
    }
    Ok(writer.into_bytes())
}

fn write_partition_to_fetch(writer: &mut Writer, version: i16, partition: &PartitionToFetch<'_>) {
    writer.i32(partition.partition);
    if version >= LEADER_EPOCH_SINCE {
        writer.i32(partition.current_leader_epoch);
    }
    writer.i64(partition.fetch_offset);
    if version >= FLEXIBLE_SINCE {
        writer.i32(partition.last_fetched_epoch);
    }
    if version >= LOG_START_SINCE {
        writer.i64(partition.log_start_offset);
    }
    writer.i32(partition.bytes_max);
}

fn write_cluster_id(writer: &mut Writer, cluster_id: Option<&str>) -> Result<(), WireError> {
    let Some(cluster_id) = cluster_id else {
        writer.no_tagged(true);
        return Ok(());
    };
    let mut value = Writer::default();
    value
        .text(true, Some(cluster_id.as_bytes()))
        .map_err(|problem| WireError::unwritable("cluster_id", problem.to_string()))?;
    let value = value.into_bytes();
    let size = u32::try_from(value.len())
        .map_err(|_| WireError::unwritable("cluster_id", "more than 2 GiB"))?;
    writer.uvarint(1);
    writer.uvarint(CLUSTER_ID_TAG);
    writer.uvarint(size);
    writer.raw(&value);
    Ok(())
}
