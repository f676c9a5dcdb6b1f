//! Rows in, batches out: one batch per partition is being filled, and closed when the next record would make it too large.
//!
//! The partition of a row is the one it names; else its key's, by Kafka's murmur2; else the topic's sticky one, which is
//! the next partition for each batch (KIP-480 takes a random one; taking turns spreads a task's rows evenly).
//!
//! Memory is bounded: `append` stops when `memory_bytes` are closed and not taken, and all open batches are closed when
//! they hold as much together.

use std::collections::HashMap;

use super::column::{BinaryRows, FixedRows, HeaderRows};
use super::error::RowError;
use crate::murmur2::murmur2;
use crate::records::{BatchBuilder, BatchOptions, HEADER_BYTES, Header, varint};

/// The value of `DefaultRecord.MAX_RECORD_OVERHEAD` in Kafka's clients.
const RECORD_OVERHEAD_BYTES_MAX: usize = 21;

#[derive(Clone, Copy, Debug)]
pub struct RowOptions {
    /// Producer, codec and flags of all batches; sequences start at 0 in each partition, if there is a producer.
    pub batch: BatchOptions,
    /// A batch is at most this large before compression, unless one record is larger.
    pub batch_bytes: usize,
    /// A record that makes a batch larger than this is an error (`max.request.size`).
    pub record_bytes_max: usize,
    pub memory_bytes: usize,
    /// With which partition the first sticky batch of a topic begins.
    pub seed: usize,
}

/// Where a row's topic is from.
#[derive(Clone, Copy)]
pub enum TopicOf<'a> {
    Every(&'a str),
    Column(BinaryRows<'a>),
}

/// A table. Columns that it lacks are None.
pub struct Rows<'a> {
    pub count: usize,
    pub topic: TopicOf<'a>,
    pub key: Option<BinaryRows<'a>>,
    pub value: BinaryRows<'a>,
    pub partition: Option<FixedRows<'a, 4>>,
    pub headers: Option<HeaderRows<'a>>,
    /// Microseconds since 1970.
    pub timestamp: Option<FixedRows<'a, 8>>,
    /// Of rows whose timestamp is null, in milliseconds.
    pub now_ms: i64,
}

/// Why `append` ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All rows are in batches.
    Done,
    /// Take the closed batches, and go on at this row.
    Full { next_row: usize },
    /// Say how many partitions this topic has, and go on at this row.
    NewTopic { next_row: usize, topic: String },
}

/// A batch to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub topic: String,
    pub partition: i32,
    pub records: i32,
    pub batch: Vec<u8>,
}

struct Partition {
    builder: BatchBuilder,
    next_sequence: i32,
}

struct Topic {
    name: String,
    /// Made when they are first written to.
    partitions: Vec<Option<Partition>>,
    sticky: usize,
}

pub struct RowEncoder {
    options: RowOptions,
    topics: Vec<Topic>,
    numbers: HashMap<Vec<u8>, usize>,
    closed: Vec<Closed>,
    closed_bytes: usize,
    open_bytes: usize,
}

impl RowEncoder {
    pub fn new(options: RowOptions) -> Self {
        RowEncoder {
            options,
            topics: Vec::new(),
            numbers: HashMap::new(),
            closed: Vec::new(),
            closed_bytes: 0,
            open_bytes: 0,
        }
    }

    /// Says how many partitions a topic has; a topic that is known already keeps what it has.
    pub fn add_topic(&mut self, name: &str, partition_count: i32) -> Result<(), RowError> {
        let count = usize::try_from(partition_count).unwrap_or(0);
        if count == 0 {
            return Err(RowError::EmptyTopic(name.to_owned()));
        }
        if !self.numbers.contains_key(name.as_bytes()) {
            self.numbers
                .insert(name.as_bytes().to_vec(), self.topics.len());
            self.topics.push(Topic {
                name: name.to_owned(),
                partitions: (0..count).map(|_| None).collect(),
                sticky: self.options.seed % count,
            });
        }
        Ok(())
    }

    /// Puts rows from `start` on into batches. After an error the encoder is of no use: rows before it may be in batches.
    pub fn append(&mut self, rows: &Rows<'_>, start: usize) -> Result<Stop, RowError> {
        let mut headers: Vec<Header<'_>> = Vec::new();
        let mut last_topic: Option<(&[u8], usize)> = None;
        for row in start..rows.count {
            if self.closed_bytes >= self.options.memory_bytes {
                return Ok(Stop::Full { next_row: row });
            }
            let name = match rows.topic {
                TopicOf::Every(name) => name.as_bytes(),
                TopicOf::Column(column) => column.get(row)?.ok_or(RowError::NullTopic)?,
            };
            let topic = match last_topic {
                Some((last, number)) if last == name => number,
                _ => match self.numbers.get(name) {
                    Some(&number) => {
                        last_topic = Some((name, number));
                        number
                    }
                    None => {
                        let topic = std::str::from_utf8(name)
                            .map_err(|_| RowError::TopicNotText)?
                            .to_owned();
                        return Ok(Stop::NewTopic {
                            next_row: row,
                            topic,
                        });
                    }
                },
            };
            let key = rows.key.map_or(Ok(None), |column| column.get(row))?;
            let value = rows.value.get(row)?;
            if let Some(column) = rows.headers {
                column.get(row, &mut headers)?;
            }
            let given = rows.partition.and_then(|column| column.get(row));
            let time_us = rows.timestamp.and_then(|column| column.get(row));
            let timestamp_ms = time_us.map_or(rows.now_ms, |time_us| time_us.div_euclid(1000));
            self.append_row(topic, given, timestamp_ms, key, value, &headers)?;
        }
        Ok(Stop::Done)
    }

    fn append_row(
        &mut self,
        topic: usize,
        given: Option<i32>,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Result<(), RowError> {
        let bytes = size_upper_bound(key, value, headers);
        let of = &self.topics[topic];
        if HEADER_BYTES + bytes > self.options.record_bytes_max {
            return Err(RowError::TooLarge {
                topic: of.name.clone(),
                bytes: HEADER_BYTES + bytes,
                bytes_max: self.options.record_bytes_max,
            });
        }
        let count = of.partitions.len();
        let number = match (given, key) {
            (Some(given), _) => usize::try_from(given)
                .ok()
                .filter(|&number| number < count)
                .ok_or_else(|| RowError::NoPartition {
                    topic: of.name.clone(),
                    partition: given,
                    count: count as i32,
                })?,
            (None, Some(key)) => (murmur2(key) & i32::MAX) as usize % count,
            (None, None) => of.sticky,
        };
        let mut number = number;
        if self.is_full(topic, number, bytes) {
            self.close(topic, number)?;
            if given.is_none() && key.is_none() {
                number = (number + 1) % count;
                self.topics[topic].sticky = number;
                // Rows with keys may have filled that one.
                if self.is_full(topic, number, bytes) {
                    self.close(topic, number)?;
                }
            }
        } else if self.open_bytes >= self.options.memory_bytes {
            self.flush()?;
        }
        let partition = self.topics[topic].partitions[number].get_or_insert_with(|| Partition {
            builder: BatchBuilder::new(self.options.batch),
            next_sequence: 0,
        });
        let before = partition.builder.size_bytes();
        let was_empty = partition.builder.record_count() == 0;
        partition
            .builder
            .append(timestamp_ms, key, value, headers)?;
        self.open_bytes += partition.builder.size_bytes() - if was_empty { 0 } else { before };
        Ok(())
    }

    /// True if a record of at most `bytes` would make the partition's open batch too large.
    fn is_full(&self, topic: usize, number: usize, bytes: usize) -> bool {
        let open = self.topics[topic].partitions[number].as_ref();
        open.is_some_and(|open| {
            open.builder.record_count() > 0
                && open.builder.size_bytes() + bytes > self.options.batch_bytes
        })
    }

    /// Closes all open batches.
    pub fn flush(&mut self) -> Result<(), RowError> {
        for topic in 0..self.topics.len() {
            for number in 0..self.topics[topic].partitions.len() {
                self.close(topic, number)?;
                // Memory of partitions that may not be written to again soon.
                if let Some(partition) = &mut self.topics[topic].partitions[number] {
                    partition.builder = BatchBuilder::new(self.options.batch);
                }
            }
        }
        Ok(())
    }

    /// The closed batches, of each partition in order.
    pub fn take(&mut self) -> Vec<Closed> {
        self.closed_bytes = 0;
        std::mem::take(&mut self.closed)
    }

    fn close(&mut self, topic: usize, number: usize) -> Result<(), RowError> {
        let of = &mut self.topics[topic];
        let Some(partition) = &mut of.partitions[number] else {
            return Ok(());
        };
        let records = partition.builder.record_count();
        if records == 0 {
            return Ok(());
        }
        self.open_bytes -= partition.builder.size_bytes();
        if self.options.batch.producer_id >= 0 {
            partition.builder.options.base_sequence = partition.next_sequence;
            // After 2^31 - 1 comes 0.
            partition.next_sequence = partition.next_sequence.wrapping_add(records) & i32::MAX;
        }
        let batch = partition.builder.finish()?;
        self.closed_bytes += batch.len();
        self.closed.push(Closed {
            topic: of.name.clone(),
            partition: number as i32,
            records,
            batch,
        });
        Ok(())
    }
}

/// As `DefaultRecord.recordSizeUpperBound` of Kafka's clients, by which they compare with max.request.size.
fn size_upper_bound(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header<'_>]) -> usize {
    let slot = |bytes: Option<&[u8]>| {
        bytes.map_or(1, |bytes| {
            varint::size_i32(bytes.len() as i32) + bytes.len()
        })
    };
    let of_headers: usize = headers
        .iter()
        .map(|(name, value)| slot(Some(name)) + slot(*value))
        .sum();
    RECORD_OVERHEAD_BYTES_MAX
        + slot(key)
        + slot(value)
        + varint::size_i32(headers.len() as i32)
        + of_headers
}
