//! Verification: the first batch of a transaction is only taken if its coordinator knows of the partition (KIP-890, part 1).
//!
//! A produce that was delayed until its transaction ended would otherwise open one that nobody ends, and hold readers of committed records
//! back for ever. So whoever is about to append such a batch takes a guard, asks the coordinator, and appends with the guard. A marker that
//! is written meanwhile takes the guard's validity away, since what the coordinator said is no longer true.
//!
//! All requests of one producer share one guard until a batch or a marker of it is written. The lowest sequence number that was announced must be
//! the first to be written: a later batch whose verification was quicker would make the earlier one a gap for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{LogError, Result};
use crate::records::BatchHeader;

/// The guard of who needs none.
pub const NO_GUARD: u64 = 0;

/// No guard is ever given out twice.
static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Copy, Debug)]
struct Verification {
    guard: u64,
    lowest_sequence: i32,
    epoch: i16,
    begun_ms: i64,
}

/// The producers of a partition whose transactions were announced and have not begun.
#[derive(Clone, Debug, Default)]
pub struct Verifications(HashMap<i64, Verification>);

impl Verifications {
    /// A guard for the first batch of a transaction.
    pub fn begin(&mut self, producer_id: i64, epoch: i16, sequence: i32, now_ms: i64) -> u64 {
        let entry = self.0.entry(producer_id).or_insert_with(|| Verification {
            guard: NEXT.fetch_add(1, Ordering::Relaxed),
            lowest_sequence: sequence,
            epoch,
            begun_ms: now_ms,
        });
        if epoch > entry.epoch || (epoch == entry.epoch && sequence < entry.lowest_sequence) {
            entry.epoch = epoch;
            entry.lowest_sequence = sequence;
        }
        entry.guard
    }

    /// True if `guard` is the one that stands for the producer now.
    pub fn is_current(&self, producer_id: i64, guard: u64) -> bool {
        guard != NO_GUARD
            && self
                .0
                .get(&producer_id)
                .is_some_and(|entry| entry.guard == guard)
    }

    /// Refuses a batch behind another one that was announced and not written.
    pub fn check_sequence(&self, batch: &BatchHeader) -> Result<()> {
        match self.0.get(&batch.producer_id) {
            Some(entry) if batch.base_sequence > entry.lowest_sequence => {
                Err(LogError::OutOfOrderSequence {
                    producer_id: batch.producer_id,
                    sequence: batch.base_sequence,
                    last_sequence: entry.lowest_sequence.saturating_sub(1),
                })
            }
            _ => Ok(()),
        }
    }

    /// The coordinator will not have it.
    pub fn refuse(&mut self, producer_id: i64, guard: u64) {
        if self.is_current(producer_id, guard) {
            self.0.remove(&producer_id);
        }
    }

    /// A transactional batch or a marker of the producer was written.
    pub fn end(&mut self, producer_id: i64) {
        if !self.0.is_empty() {
            self.0.remove(&producer_id);
        }
    }

    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.0
            .retain(|_, entry| now_ms.saturating_sub(entry.begun_ms) < expiration_ms);
    }
}
