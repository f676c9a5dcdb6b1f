//! What each producer wrote last: the check that a retry is not stored twice (KIP-98), and open transactions.
//!
//! For every producer id the last five batches are remembered, because a producer keeps at most five requests in flight. A batch that is one
//! of them is a retry: it is answered with the first append's offset. Any other batch must continue the last sequence number.
//! Followers and recovery take in every batch unchecked, so that the next leader recognises a retry of what this one accepted.
//!
//! A transaction is open in the partition from its first batch to its marker. One that is ended still holds readers of committed records back until
//! its marker is below the high watermark: before that, another leader may have another end of it.
//!
//! A snapshot, `<end offset>.snapshot`, holds the newest batch of each producer, and where it is loaded the others are looked up in the log:
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 2 | version: 1 |
//! | 2 | 4 | CRC-32C of everything that follows this field |
//! | 6 | 4 | number of entries |
//! | | 8 2 4 8 4 8 4 8 | producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of its open transaction or -1 |

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::error::{LogError, Result};
use super::transaction_index::AbortedEntry;
use crate::checksum::crc32c;
use crate::records::batch::{
    NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, OFFSET_MAX, increment_sequence,
};
use crate::records::{BatchHeader, Marker, Outcome};

/// How many batches a retry may be behind.
const BATCHES_KEPT: usize = 5;
const SNAPSHOT_VERSION: i16 = 1;
const SNAPSHOT_HEADER_BYTES: usize = 10;
const SNAPSHOT_ENTRY_BYTES: usize = 46;

/// Who appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A producer: everything is checked.
    Client,
    /// This broker's own coordinators: no sequence numbers, but epochs are checked.
    Coordinator,
    /// The leader, or the log itself in recovery: taken as it is.
    Replication,
}

/// One remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchMetadata {
    pub last_sequence: i32,
    pub last_offset: i64,
    pub offset_delta: i32,
    pub timestamp_ms: i64,
}

impl BatchMetadata {
    fn of(batch: &BatchHeader) -> Self {
        Self {
            last_sequence: batch.last_sequence(),
            last_offset: batch.last_offset(),
            offset_delta: batch.last_offset_delta,
            timestamp_ms: batch.max_timestamp,
        }
    }

    pub fn first_offset(&self) -> i64 {
        self.last_offset - i64::from(self.offset_delta)
    }

    pub fn first_sequence(&self) -> i32 {
        increment_sequence(self.last_sequence, -self.offset_delta)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    pub epoch: i16,
    pub coordinator_epoch: i32,
    pub last_timestamp_ms: i64,
    pub transaction_start: Option<i64>,
    batches: VecDeque<BatchMetadata>,
}

impl Producer {
    fn new() -> Self {
        Self {
            epoch: NO_PRODUCER_EPOCH,
            coordinator_epoch: -1,
            last_timestamp_ms: NO_TIMESTAMP,
            transaction_start: None,
            batches: VecDeque::new(),
        }
    }

    pub fn last_batch(&self) -> Option<&BatchMetadata> {
        self.batches.back()
    }

    /// -1 if only a marker is known.
    pub fn last_sequence(&self) -> i32 {
        self.last_batch()
            .map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.batches.clear();
            self.epoch = epoch;
        }
    }
}

/// The producers of one log, up to `end_offset`.
#[derive(Clone, Debug, Default)]
pub struct ProducerState {
    producers: HashMap<i64, Producer>,
    /// Open transactions by their first offset.
    ongoing: BTreeMap<i64, i64>,
    /// Ended ones whose marker is not yet below the high watermark: (marker's offset, first offset), in the order of the markers,
    unreplicated: VecDeque<(i64, i64)>,
    /// and their first offsets.
    unreplicated_starts: BTreeSet<i64>,
    /// Everything before this offset is taken in.
    pub end_offset: i64,
    /// Where the newest snapshot was taken.
    pub snapshot_offset: i64,
}

impl ProducerState {
    pub fn starting_at(offset: i64) -> Self {
        Self {
            end_offset: offset,
            snapshot_offset: offset,
            ..Self::default()
        }
    }

    pub fn producers(&self) -> impl ExactSizeIterator<Item = (i64, &Producer)> {
        self.producers.iter().map(|(id, producer)| (*id, producer))
    }

    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Whether there is no producer and no transaction, of an expired one either.
    pub fn knows_nobody(&self) -> bool {
        self.is_empty() && self.ongoing.is_empty() && self.unreplicated.is_empty()
    }

    /// Of a log that ends at `end_offset` now, earlier than before: nothing that is known came later.
    pub fn end_at(&mut self, end_offset: i64) {
        self.end_offset = end_offset;
        self.snapshot_offset = self.snapshot_offset.min(end_offset);
    }

    /// The earlier append of exactly this batch, if it is among the last five of its producer.
    pub fn duplicate_of(&self, batch: &BatchHeader) -> Option<BatchMetadata> {
        let producer = self.producers.get(&batch.producer_id)?;
        if producer.epoch != batch.producer_epoch {
            return None;
        }
        let (first, last) = (batch.base_sequence, batch.last_sequence());
        producer
            .batches
            .iter()
            .find(|known| known.first_sequence() == first && known.last_sequence == last)
            .copied()
    }

    /// Whether `batch` may follow what its producer wrote. Nothing changes: [`update`](Self::update) follows when it is written.
    pub fn check(&self, batch: &BatchHeader, origin: AppendOrigin) -> Result<()> {
        if origin == AppendOrigin::Replication || !batch.has_producer_id() {
            return Ok(());
        }
        let producer_id = batch.producer_id;
        let Some(producer) = self.producers.get(&producer_id) else {
            return Ok(());
        };
        if batch.producer_epoch < producer.epoch {
            return Err(LogError::InvalidProducerEpoch {
                producer_id,
                given: batch.producer_epoch,
                current: producer.epoch,
            });
        }
        if batch.is_control() {
            return Ok(());
        }
        if origin == AppendOrigin::Client {
            let last_sequence = producer.last_sequence();
            let follows = if batch.producer_epoch != producer.epoch {
                batch.base_sequence == 0 || producer.epoch == NO_PRODUCER_EPOCH
            } else {
                // A producer of which only a marker is known has no sequence: it must start at 0.
                batch.base_sequence == increment_sequence(last_sequence, 1)
            };
            if !follows {
                let sequence = batch.base_sequence;
                return Err(LogError::OutOfOrderSequence {
                    producer_id,
                    sequence,
                    last_sequence,
                });
            }
        }
        if producer.transaction_start.is_some() && !batch.is_transactional() {
            let problem = "a batch outside of its open transaction";
            return Err(LogError::InvalidTransactionState {
                producer_id,
                problem,
            });
        }
        Ok(())
    }

    /// Whether a marker may end the producer's transaction.
    pub fn check_marker(&self, batch: &BatchHeader, marker: &Marker) -> Result<()> {
        self.check(batch, AppendOrigin::Coordinator)?;
        match self.producers.get(&batch.producer_id) {
            Some(producer) if producer.coordinator_epoch > marker.coordinator_epoch => {
                Err(LogError::CoordinatorFenced {
                    producer_id: batch.producer_id,
                    given: marker.coordinator_epoch,
                    current: producer.coordinator_epoch,
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether the producer has a transaction open in this partition.
    pub fn has_open_transaction(&self, producer_id: i64) -> bool {
        self.producers
            .get(&producer_id)
            .is_some_and(|producer| producer.transaction_start.is_some())
    }

    /// What the transaction index must say of a batch that ends a transaction by aborting it. Asked before [`update`](Self::update).
    pub fn aborted_by(&self, batch: &BatchHeader, marker: Option<Marker>) -> Option<AbortedEntry> {
        let (producer_id, last_offset) = (batch.producer_id, batch.base_offset);
        if !batch.has_producer_id() || marker?.outcome != Outcome::Abort {
            return None;
        }
        let open = self
            .producers
            .get(&producer_id)
            .and_then(|producer| producer.transaction_start);
        let mut others = self.ongoing.iter();
        let other = others.find(|(_, other)| **other != producer_id);
        Some(AbortedEntry {
            producer_id,
            first_offset: open.unwrap_or(last_offset),
            last_offset,
            last_stable_offset: other.map_or(last_offset + 1, |(first, _)| *first),
        })
    }

    /// Takes in a batch that is in the log. `marker` is the content of a control batch.
    pub fn update(&mut self, batch: &BatchHeader, marker: Option<Marker>) {
        self.end_offset = batch.last_offset() + 1;
        if !batch.has_producer_id() {
            return;
        }
        let producer_id = batch.producer_id;
        if batch.is_control() {
            // An empty control batch is what compaction left of a transaction that is gone.
            if let Some(marker) = marker {
                self.end_transaction(batch, marker);
            }
            return;
        }
        let producer = self
            .producers
            .entry(producer_id)
            .or_insert_with(Producer::new);
        producer.set_epoch(batch.producer_epoch);
        if producer.batches.len() == BATCHES_KEPT {
            producer.batches.pop_front();
        }
        producer.batches.push_back(BatchMetadata::of(batch));
        producer.last_timestamp_ms = batch.max_timestamp;
        if batch.is_transactional() && producer.transaction_start.is_none() {
            producer.transaction_start = Some(batch.base_offset);
            self.ongoing.insert(batch.base_offset, producer_id);
        }
    }

    /// Takes in a batch from before a snapshot, which has only the newest of each producer. The newest first: each must be what its producer wrote
    /// right before what is known of it.
    pub fn recall(&mut self, batch: &BatchHeader) {
        let Some(producer) = self.producers.get_mut(&batch.producer_id) else {
            return;
        };
        if let Some(oldest) = producer.batches.front()
            && !batch.is_control()
            && producer.batches.len() < BATCHES_KEPT
            && producer.epoch == batch.producer_epoch
            && batch.last_offset() < oldest.first_offset()
            && increment_sequence(batch.last_sequence(), 1) == oldest.first_sequence()
        {
            producer.batches.push_front(BatchMetadata::of(batch));
        }
    }

    fn end_transaction(&mut self, batch: &BatchHeader, marker: Marker) {
        let producer = self
            .producers
            .entry(batch.producer_id)
            .or_insert_with(Producer::new);
        producer.set_epoch(batch.producer_epoch);
        producer.coordinator_epoch = marker.coordinator_epoch;
        producer.last_timestamp_ms = batch.max_timestamp;
        let open = producer.transaction_start.take();
        let first_offset = open.unwrap_or(batch.base_offset);
        self.ongoing.remove(&first_offset);
        self.unreplicated
            .push_back((batch.base_offset, first_offset));
        self.unreplicated_starts.insert(first_offset);
    }

    /// The first offset that a reader of committed records may not see yet: the start of the oldest transaction that is open, or whose
    /// marker is not yet below the high watermark.
    pub fn first_unstable_offset(&self) -> Option<i64> {
        let unreplicated = self.unreplicated_starts.first().copied();
        let open = self.first_open_offset();
        open.into_iter().chain(unreplicated).min()
    }

    /// The start of the oldest transaction that is open.
    pub fn first_open_offset(&self) -> Option<i64> {
        self.ongoing.first_key_value().map(|(first, _)| *first)
    }

    /// The high watermark at which all markers are below it.
    pub fn replicated_at(&self) -> i64 {
        let last = self.unreplicated.back();
        last.map_or(0, |(marker, _)| marker + 1)
    }

    /// Ended transactions whose markers are below the high watermark no longer hold readers back.
    pub fn on_high_watermark(&mut self, high_watermark: i64) {
        while let Some((marker, first_offset)) = self.unreplicated.front()
            && *marker < high_watermark
        {
            self.unreplicated_starts.remove(first_offset);
            self.unreplicated.pop_front();
        }
    }

    /// Forgets that transactions are open.
    pub fn forget_open(&mut self) {
        self.ongoing.clear();
        for producer in self.producers.values_mut() {
            producer.transaction_start = None;
        }
    }

    /// Forgets producers without an open transaction that wrote nothing for `expiration_ms`.
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, producer| {
            producer.transaction_start.is_some()
                || now_ms.saturating_sub(producer.last_timestamp_ms) < expiration_ms
        });
        before - self.producers.len()
    }

    /// The file's bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(SNAPSHOT_HEADER_BYTES + self.producers.len() * SNAPSHOT_ENTRY_BYTES);
        bytes.extend(SNAPSHOT_VERSION.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend((self.producers.len() as i32).to_be_bytes());
        for (id, producer) in &self.producers {
            let last = producer.last_batch();
            bytes.extend(id.to_be_bytes());
            bytes.extend(producer.epoch.to_be_bytes());
            bytes.extend(producer.last_sequence().to_be_bytes());
            bytes.extend(last.map_or(-1, |last| last.last_offset).to_be_bytes());
            bytes.extend(last.map_or(0, |last| last.offset_delta).to_be_bytes());
            bytes.extend(producer.last_timestamp_ms.to_be_bytes());
            bytes.extend(producer.coordinator_epoch.to_be_bytes());
            bytes.extend(producer.transaction_start.unwrap_or(-1).to_be_bytes());
        }
        let crc = crc32c(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The state that a snapshot taken at `end_offset` holds; None if the bytes are damaged.
    pub fn from_snapshot(bytes: &[u8], end_offset: i64) -> Option<Self> {
        let mut fields = Fields(bytes);
        let version = i16::from_be_bytes(fields.take()?);
        let crc = u32::from_be_bytes(fields.take()?);
        if version != SNAPSHOT_VERSION || crc != crc32c(fields.0) {
            return None;
        }
        let count = i32::from_be_bytes(fields.take()?);
        if count < 0 || fields.0.len() != count as usize * SNAPSHOT_ENTRY_BYTES {
            return None;
        }
        let mut state = Self::starting_at(end_offset);
        for _ in 0..count {
            let id = i64::from_be_bytes(fields.take()?);
            let mut producer = Producer::new();
            producer.epoch = i16::from_be_bytes(fields.take()?);
            let last_sequence = i32::from_be_bytes(fields.take()?);
            let last_offset = i64::from_be_bytes(fields.take()?);
            let offset_delta = i32::from_be_bytes(fields.take()?);
            let timestamp_ms = i64::from_be_bytes(fields.take()?);
            producer.last_timestamp_ms = timestamp_ms;
            producer.coordinator_epoch = i32::from_be_bytes(fields.take()?);
            let transaction_start = i64::from_be_bytes(fields.take()?);
            if last_offset >= 0 {
                if last_offset > OFFSET_MAX || !(0..=last_offset).contains(&i64::from(offset_delta))
                {
                    return None;
                }
                producer.batches.push_back(BatchMetadata {
                    last_sequence,
                    last_offset,
                    offset_delta,
                    timestamp_ms,
                });
            }
            if transaction_start > OFFSET_MAX {
                return None;
            }
            if transaction_start >= 0 {
                producer.transaction_start = Some(transaction_start);
                state.ongoing.insert(transaction_start, id);
            }
            state.producers.insert(id, producer);
        }
        Some(state)
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }
}
