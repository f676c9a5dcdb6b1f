//! Which offsets have a later record of the same key: one bit each, set while the map is filled.
//!
//! Whoever writes the part of the log that the map was made of then needs neither the keys' hashes nor the map: that saves one search of a
//! memory that no cache holds for each record, and a batch of which nothing goes need not even be unpacked.

use std::ops::RangeInclusive;

use super::later::{Later, prefetch};

const BITS: u64 = u64::BITS as u64;

#[derive(Debug)]
pub struct Superseded {
    words: Vec<u64>,
    first_offset: i64,
    /// The offset from which on there are no bits.
    end_offset: i64,
    later: Later<u64>,
}

impl Superseded {
    /// For `count` offsets from `first_offset` on.
    pub fn new(first_offset: i64, count: u64) -> Self {
        let words = vec![0; count.div_ceil(BITS) as usize];
        Self {
            words,
            first_offset,
            end_offset: first_offset.saturating_add_unsigned(count),
            later: Later::default(),
        }
    }

    /// The same number of offsets from there on, while none is marked.
    pub fn begin_at(&mut self, first_offset: i64) {
        let count = self.end_offset.abs_diff(self.first_offset);
        self.first_offset = first_offset;
        self.end_offset = first_offset.saturating_add_unsigned(count);
    }

    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// True if there are bits for all of these.
    pub fn has(&self, offsets: RangeInclusive<i64>) -> bool {
        self.first_offset <= *offsets.start() && *offsets.end() < self.end_offset
    }

    /// Counted from the first; None for an offset that has no bit.
    #[inline(always)]
    fn bit(&self, offset: i64) -> Option<u64> {
        (self.first_offset..self.end_offset)
            .contains(&offset)
            .then(|| offset.abs_diff(self.first_offset))
    }

    /// Is seen when all marks are [finished](Self::finish).
    #[inline(always)]
    pub fn mark(&mut self, offset: i64) {
        let Some(bit) = self.bit(offset) else {
            return;
        };
        prefetch(&self.words[(bit / BITS) as usize]);
        if let Some(due) = self.later.push(bit) {
            self.set(due);
        }
    }

    #[inline(always)]
    fn set(&mut self, bit: u64) {
        self.words[(bit / BITS) as usize] |= 1 << (bit % BITS);
    }

    pub fn finish(&mut self) {
        for bit in self.later.drain() {
            self.set(bit);
        }
    }

    /// False for an offset that has no bit.
    #[inline(always)]
    pub fn contains(&self, offset: i64) -> bool {
        debug_assert!(self.later.is_empty());
        self.bit(offset)
            .is_some_and(|bit| self.words[(bit / BITS) as usize] >> (bit % BITS) & 1 == 1)
    }

    /// How many of these offsets are marked.
    pub fn count(&self, offsets: RangeInclusive<i64>) -> u64 {
        debug_assert!(self.later.is_empty());
        let first = self.first_offset.max(*offsets.start());
        let last = (self.end_offset - 1).min(*offsets.end());
        let (Some(first), Some(last)) = (self.bit(first), self.bit(last)) else {
            return 0;
        };
        if first > last {
            return 0;
        }
        let (from, to) = ((first / BITS) as usize, (last / BITS) as usize);
        let marks = self.words[from..=to].iter().enumerate().map(|(at, word)| {
            let mut word = *word;
            if at == 0 {
                word &= u64::MAX << (first % BITS);
            }
            if at == to - from {
                word &= u64::MAX >> (BITS - 1 - last % BITS);
            }
            u64::from(word.count_ones())
        });
        marks.sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_answers_like_a_set(
            first in 0..1i64 << 40,
            count in 0..300u64,
            marks in prop::collection::vec(-10..310i64, 0..200),
            ranges in prop::collection::vec((-10..310i64, -10..310i64), 1..50),
        ) {
            let mut superseded = Superseded::new(first, count);
            let mut model = BTreeSet::new();
            for mark in marks {
                superseded.mark(first + mark);
                if (0..count as i64).contains(&mark) {
                    model.insert(mark);
                }
            }
            superseded.finish();
            for mark in -10..310 {
                prop_assert_eq!(superseded.contains(first + mark), model.contains(&mark));
            }
            for (from, to) in ranges {
                let offsets = first + from..=first + to;
                prop_assert_eq!(superseded.has(offsets.clone()), from >= 0 && to < count as i64);
                let counted = model.iter().filter(|mark| (from..=to).contains(*mark)).count() as u64;
                prop_assert_eq!(superseded.count(offsets), counted);
            }
        }
    }
}
