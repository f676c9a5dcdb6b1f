//! Transactions while a log is cleaned: which batches were aborted, and which markers have nothing left to say.
//!
//! A reader of committed records needs an abort marker (and the entry in the `.txnindex` that names the transaction) for as long as a batch of
//! the transaction is there, and that may be long: the last batch of an active producer stays, emptied, whatever became of it. So markers are
//! given up only when the walk met no batch of their transaction, and, as tombstones, not before the delete horizon has passed.
//!
//! The walk goes through the log in the order of offsets and tells each batch once.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::log::transaction_index::AbortedEntry;
use crate::records::{BatchHeader, Outcome};

/// The fate of a marker's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerFate {
    /// Nothing of its transaction was met: it may go once the horizon has passed.
    pub needless: bool,
    /// The transaction it aborted, if something of that was met: the new index names it again.
    pub aborted: Option<AbortedEntry>,
}

#[derive(Debug, Default)]
pub struct Transactions {
    /// Those that the walk has not come to, the first last.
    later: Vec<AbortedEntry>,
    /// AbortedEntry ones that are open at this place of the log, by producer, and whether a batch of theirs was met.
    aborted: HashMap<i64, (AbortedEntry, bool)>,
    /// Producers of whose transactions batches were met that no abort is known about.
    committed: HashSet<i64>,
}

impl Transactions {
    /// `aborted`: those that reach into the part of the log that will be walked over, in any order.
    pub fn new(mut aborted: Vec<AbortedEntry>) -> Self {
        aborted.sort_by_key(|aborted| Reverse((aborted.first_offset, aborted.last_offset)));
        aborted.dedup();
        Self {
            later: aborted,
            ..Self::default()
        }
    }

    fn advance(&mut self, offset: i64) {
        while let Some(next) = self.later.last().filter(|next| next.first_offset <= offset) {
            // While one transaction of a producer is open there is no other.
            if let Entry::Vacant(entry) = self.aborted.entry(next.producer_id) {
                entry.insert((*next, false));
            }
            self.later.pop();
        }
    }

    /// A batch of records: true if its transaction was aborted, so that nobody may see them.
    pub fn is_aborted(&mut self, batch: &BatchHeader) -> bool {
        self.advance(batch.last_offset());
        if !batch.is_transactional() {
            return false;
        }
        match self.aborted.get_mut(&batch.producer_id) {
            Some((_, met)) => {
                *met = true;
                true
            }
            None => {
                self.committed.insert(batch.producer_id);
                false
            }
        }
    }

    /// A control batch; `outcome` is None for one that was emptied before, or whose type nobody knows (`is_empty` tells which).
    pub fn marker(
        &mut self,
        batch: &BatchHeader,
        outcome: Option<Outcome>,
        is_empty: bool,
    ) -> MarkerFate {
        self.advance(batch.last_offset());
        let mut fate = MarkerFate {
            needless: false,
            aborted: None,
        };
        match outcome {
            Some(Outcome::Abort) => match self.aborted.remove(&batch.producer_id) {
                Some((aborted, true)) => fate.aborted = Some(aborted),
                _ => fate.needless = true,
            },
            Some(Outcome::Commit) => fate.needless = !self.committed.remove(&batch.producer_id),
            None => fate.needless = is_empty,
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{BatchBuilder, BatchOptions};

    fn batch(producer_id: i64, base_offset: i64, transactional: bool) -> BatchHeader {
        let options = BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            transactional,
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        builder.append(0, Some(b"k"), Some(b"v"), &[]).unwrap();
        let mut header = BatchHeader::parse(&builder.finish().unwrap()).unwrap();
        header.base_offset = base_offset;
        header
    }

    fn aborted(producer_id: i64, first_offset: i64, last_offset: i64) -> AbortedEntry {
        AbortedEntry {
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset: first_offset,
        }
    }

    #[test]
    fn an_aborted_transaction_is_open_until_its_marker() {
        let mut walk = Transactions::new(vec![aborted(1, 2, 5), aborted(2, 7, 9)]);
        assert!(
            !walk.is_aborted(&batch(1, 0, true)),
            "an earlier one, committed"
        );
        let commit = walk.marker(&batch(1, 1, true), Some(Outcome::Commit), false);
        assert!(!commit.needless);
        assert!(walk.is_aborted(&batch(1, 2, true)));
        assert!(!walk.is_aborted(&batch(2, 3, true)), "somebody else's");
        assert!(!walk.is_aborted(&batch(1, 4, false)));
        let abort = walk.marker(&batch(1, 5, true), Some(Outcome::Abort), false);
        assert_eq!(
            (abort.needless, abort.aborted),
            (false, Some(aborted(1, 2, 5)))
        );
        assert!(!walk.is_aborted(&batch(1, 6, true)), "the next one");
    }

    #[test]
    fn a_marker_without_a_batch_may_go() {
        let mut walk = Transactions::new(vec![aborted(1, 2, 5)]);
        let abort = walk.marker(&batch(1, 5, true), Some(Outcome::Abort), false);
        assert_eq!((abort.needless, abort.aborted), (true, None));
        assert!(
            walk.marker(&batch(1, 6, true), Some(Outcome::Commit), false)
                .needless
        );
        assert!(walk.marker(&batch(1, 7, true), None, true).needless);
        assert!(
            !walk.marker(&batch(1, 8, true), None, false).needless,
            "a type of later times"
        );
    }
}
