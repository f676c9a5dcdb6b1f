//! Which batches a consumer that reads only committed records must leave out (KIP-98).

use std::collections::HashSet;

use super::batches::Batch;
use super::control::{Marker, Outcome};
use super::decode::Records;
use super::error::RecordError;
use super::scratch::{Limits, Scratch};

/// A transaction that was aborted, as Fetch answers have it: this producer's batches from this offset on are not to be
/// seen, until its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: i64,
}

/// Tells visible batches from aborted ones, in the order of the partition.
#[derive(Clone, Debug, Default)]
pub struct AbortedTransactions {
    /// Those that did not begin yet, the first last.
    later: Vec<AbortedTransaction>,
    /// The producers whose batches are being left out.
    now: HashSet<i64>,
}

impl AbortedTransactions {
    /// From a Fetch answer's list, in any order.
    pub fn new(aborted: &[AbortedTransaction]) -> Self {
        let mut later = aborted.to_vec();
        later.sort_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        AbortedTransactions {
            later,
            now: HashSet::new(),
        }
    }

    /// False for control batches and for batches of aborted transactions. Each batch is asked about once or more, in order.
    pub fn is_visible(
        &mut self,
        batch: &Batch<'_>,
        limits: &Limits,
        scratch: &mut Scratch,
    ) -> Result<bool, RecordError> {
        let header = &batch.header;
        while let Some(next) = self
            .later
            .last()
            .filter(|next| next.first_offset <= header.last_offset())
        {
            self.now.insert(next.producer_id);
            self.later.pop();
        }
        if header.is_control() {
            if !self.now.is_empty() && is_abort_marker(batch, limits, scratch)? {
                self.now.remove(&header.producer_id);
            }
            return Ok(false);
        }
        Ok(!(header.is_transactional() && self.now.contains(&header.producer_id)))
    }
}

fn is_abort_marker(
    batch: &Batch<'_>,
    limits: &Limits,
    scratch: &mut Scratch,
) -> Result<bool, RecordError> {
    let Some(record) = Records::new(batch, limits, scratch)?.next() else {
        return Ok(false);
    };
    Ok(Marker::read(&record?)?.is_some_and(|marker| marker.outcome == Outcome::Abort))
}
