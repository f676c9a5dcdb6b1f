//! The last offset of each key, in memory that is given beforehand.
//!
//! An entry is 20 bytes: 16 of the key's hash (keyed SipHash: see [`siphash`](crate::siphash)) and 4 of the offset, counted from where the
//! map begins; and as long as there are no more than 8 offsets to a slot, each has a bit that says whether its record was the last of its key
//! ([`superseded`](super::superseded)). A map that is filled to the default of 90 % takes 22.4 to 23.4 bytes a key; Kafka's takes 26.7.
//!
//! Keys are not kept, so two keys with one hash would count as one. With 128 bits that happens once in 10^25 maps of 5 million keys.
//!
//! The table is open and sorted: a hash's high bits say where it would like to be, entries that want the same place or an earlier one push
//! it further, and all stand in the order of their hashes. So a search ends at the first greater hash, and what is not there costs no more
//! than what is: about 5 entries, that is 2 cache lines, in a table that is 90 % full. There is no wrapping around: behind the end there is
//! room for what is pushed out.

use super::later::prefetch;
use super::superseded::Superseded;
use crate::siphash::SipHash;

/// Hash high to low, offset last. An offset of 0 is an empty slot.
type Slot = [u32; 5];

const SLOT_BYTES: usize = size_of::<Slot>();
/// How many offsets may have a bit, for each slot: where keys come back more often, what is behind is searched for.
const BITS_PER_SLOT: u64 = 8;
/// Room behind the end, in slots. Entries are pushed some tens of places, a few hundred at most; if not, the map counts as full.
const OVERFLOW_SLOTS: usize = 1024;

/// The slots in a line of the processor's caches, rounded down. A search reads about two lines.
const SLOTS_PER_LINE: usize = 64 / SLOT_BYTES;

/// The largest page that systems use without being asked for large ones.
const PAGE_BYTES_MAX: usize = 64 << 10;
/// A smaller map is not worth the question.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// A key's hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(u64, u64);

/// The map has no room for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

pub struct OffsetMap {
    slots: Vec<Slot>,
    /// Without the room behind the end.
    size: u64,
    keys: usize,
    keys_max: usize,
    first_offset: i64,
    latest_offset: i64,
    hash: SipHash,
    superseded: Superseded,
}

impl OffsetMap {
    /// For `count` offsets from `first_offset` on, and so at most as many keys: no more than `bytes_max` of memory, filled to `load_factor` of it.
    pub fn new(bytes_max: u64, load_factor: f64, first_offset: i64, count: u64) -> Self {
        let slot_bytes = SLOT_BYTES as u64 + BITS_PER_SLOT / 8;
        let affordable = (bytes_max / slot_bytes).saturating_sub(OVERFLOW_SLOTS as u64);
        let load_factor = load_factor.clamp(0.01, 1.0);
        // Never so full that a search takes long.
        let wanted = (count as f64 / load_factor.min(0.95)) as u64 + 16;
        let size = affordable.clamp(2, wanted.max(2));
        let keys_max = ((size as f64 * load_factor) as usize).max(1);
        let slots = vec![Slot::default(); size as usize + OVERFLOW_SLOTS];
        ask_for_large_pages(&slots);
        Self {
            slots,
            size,
            keys: 0,
            keys_max,
            first_offset,
            latest_offset: first_offset - 1,
            hash: SipHash::random(),
            superseded: Superseded::new(first_offset, count.min(size * BITS_PER_SLOT)),
        }
    }

    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let (high, low) = self.hash.hash(key);
        KeyHash(high, low)
    }

    /// Where an entry with this hash would like to be.
    #[inline(always)]
    fn place(&self, hash: KeyHash) -> usize {
        ((u128::from(hash.0) * u128::from(self.size)) >> 64) as usize
    }

    /// Asks for the memory that a search for this hash will need, and does not wait for it.
    #[inline(always)]
    pub fn prefetch(&self, hash: KeyHash) {
        let place = self.place(hash);
        for at in [place, place + SLOTS_PER_LINE] {
            if let Some(slot) = self.slots.get(at) {
                prefetch(slot);
            }
        }
    }

    /// The first slot at or after the hash's place that is empty or holds no lesser hash.
    #[inline(always)]
    fn find(&self, hash: KeyHash) -> usize {
        let mut at = self.place(hash);
        while let Some(slot) = self.slots.get(at) {
            if slot[4] == 0 || hash_of(slot) >= hash {
                break;
            }
            at += 1;
        }
        at
    }

    /// Notes that the key's last record so far is at `offset`. Offsets must rise.
    pub fn put(&mut self, hash: KeyHash, offset: i64) -> Result<(), Full> {
        if self.keys == 0 && offset - self.first_offset >= i64::from(u32::MAX) {
            // So far behind the last record that no key before it would fit beside it: else no cleaning would ever come there.
            self.first_offset = offset;
            self.superseded.begin_at(offset);
        }
        let Ok(relative) = u32::try_from(offset - self.first_offset + 1) else {
            return Err(Full);
        };
        let at = self.find(hash);
        let Some(slot) = self.slots.get_mut(at) else {
            return Err(Full);
        };
        if slot[4] != 0 && hash_of(slot) == hash {
            let earlier = std::mem::replace(&mut slot[4], relative);
            if earlier < relative {
                self.superseded
                    .mark(self.first_offset + i64::from(earlier) - 1);
            }
        } else {
            if self.keys == self.keys_max {
                return Err(Full);
            }
            let free = self.slots[at..].iter().position(|slot| slot[4] == 0);
            let Some(free) = free else {
                return Err(Full);
            };
            self.slots.copy_within(at..at + free, at + 1);
            let [high, low] = [hash.0, hash.1].map(|word| [(word >> 32) as u32, word as u32]);
            self.slots[at] = [high[0], high[1], low[0], low[1], relative];
            self.keys += 1;
        }
        self.latest_offset = offset;
        Ok(())
    }

    /// The offset of the key's last record in the range of the map; None for a key that is not there.
    #[inline(always)]
    pub fn get(&self, hash: KeyHash) -> Option<i64> {
        let slot = self.slots.get(self.find(hash))?;
        (slot[4] != 0 && hash_of(slot) == hash).then(|| self.first_offset + i64::from(slot[4]) - 1)
    }

    /// Everything up to and including `offset` is in the map.
    pub fn cover(&mut self, offset: i64) {
        self.latest_offset = self.latest_offset.max(offset);
    }

    /// The map knows everything from its first offset to this one.
    pub fn latest_offset(&self) -> i64 {
        self.latest_offset
    }

    /// Nothing more is put.
    pub fn finish(&mut self) {
        self.superseded.finish();
    }

    /// The offsets whose records were put and had a later one put. Of a map that is finished.
    pub fn superseded(&self) -> &Superseded {
        &self.superseded
    }

    pub fn keys(&self) -> usize {
        self.keys
    }

    pub fn bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES + self.superseded.bytes()
    }

    /// How much of what it may hold the map holds, as a part of 1.
    pub fn utilization(&self) -> f64 {
        self.keys as f64 / self.keys_max as f64
    }
}

/// Every search goes to another page: with pages of 4 KiB the processor would look for its address in memory before it looks for the slot. Many
/// systems give large ones only to who asks (`/sys/kernel/mm/transparent_hugepage/enabled`); one that has none serves with small ones.
fn ask_for_large_pages(slots: &[Slot]) {
    let memory = slots.as_ptr_range();
    let start = (memory.start as usize).next_multiple_of(PAGE_BYTES_MAX);
    let length = (memory.end as usize).saturating_sub(start);
    if length < LARGE_PAGE_BYTES {
        return;
    }
    // SAFETY: the range lies in memory that is ours, and the advice does not change what is in it.
    let _ = unsafe {
        rustix::mm::madvise(
            start as *mut core::ffi::c_void,
            length,
            rustix::mm::Advice::LinuxHugepage,
        )
    };
}

#[inline(always)]
fn hash_of(slot: &Slot) -> KeyHash {
    let word = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    KeyHash(word(slot[0], slot[1]), word(slot[2], slot[3]))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_answers_like_a_hash_map(keys in prop::collection::vec(0..300u32, 1..2000), first in 0..1i64 << 40) {
            let mut map = OffsetMap::new(1 << 20, 0.9, first, 2000);
            let mut model = HashMap::new();
            for (at, key) in keys.iter().enumerate() {
                let offset = first + at as i64;
                map.put(map.hash(&key.to_be_bytes()), offset).unwrap();
                model.insert(*key, offset);
                prop_assert_eq!(map.latest_offset(), offset);
            }
            prop_assert_eq!(map.keys(), model.len());
            for key in 0..300u32 {
                prop_assert_eq!(map.get(map.hash(&key.to_be_bytes())), model.get(&key).copied());
            }
        }
    }

    #[test]
    fn a_full_map_keeps_what_it_has_and_refuses_what_is_new() {
        let bytes = (OVERFLOW_SLOTS + 10_000) * (SLOT_BYTES + 1);
        let mut map = OffsetMap::new(bytes as u64, 0.9, 5, u64::MAX >> 12);
        assert!(map.bytes() <= bytes);
        for key in 0..9000i64 {
            map.put(map.hash(&key.to_be_bytes()), 5 + key).unwrap();
        }
        let new = map.hash(b"one too many");
        assert_eq!(map.put(new, 9005), Err(Full));
        assert_eq!(
            (map.get(new), map.latest_offset(), map.keys()),
            (None, 9004, 9000)
        );
        assert_eq!(map.utilization(), 1.0);
        let known = map.hash(&7i64.to_be_bytes());
        map.put(known, 9005).unwrap();
        assert_eq!((map.get(known), map.latest_offset()), (Some(9005), 9005));
        for key in 8..9000i64 {
            assert_eq!(map.get(map.hash(&key.to_be_bytes())), Some(5 + key));
        }
    }

    #[test]
    fn it_is_as_large_as_it_must_be() {
        let map = OffsetMap::new(128 << 20, 0.9, 0, 1000);
        assert!(map.bytes() < 64 << 10);
        // Kafka's default: 128 MiB for one thread.
        let mut map = OffsetMap::new(128 << 20, 0.9, 0, 1 << 40);
        assert!(map.bytes() <= 128 << 20);
        assert!(map.bytes() as f64 / map.keys_max as f64 <= 24.0);
        // Offsets are kept in 32 bits: beyond that another round has to come.
        let hash = map.hash(b"k");
        map.put(hash, 0).unwrap();
        assert_eq!(map.put(hash, (1 << 32) - 1), Err(Full));
        map.put(hash, (1 << 32) - 2).unwrap();
        assert_eq!(map.get(hash), Some((1 << 32) - 2));
        // That comes to the first key, wherever it is.
        let mut map = OffsetMap::new(128 << 20, 0.9, 5, 1 << 40);
        map.put(hash, 1 << 40).unwrap();
        map.put(hash, (1 << 40) + 1).unwrap();
        assert_eq!(map.get(hash), Some((1 << 40) + 1));
        map.finish();
        assert!(map.superseded().contains(1 << 40));
    }
}
