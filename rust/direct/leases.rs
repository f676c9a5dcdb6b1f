//! Which leases there are. Threads look them up without waiting for one another, or for a change.
//!
//! A change replaces one of many small snapshots, so that its cost does not grow with a broker's partitions.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::Lease;

/// 10,000 partitions are 40 in each.
const SHARDS: usize = 256;

/// Ordered by topic and partition.
type Shard<O> = Vec<Arc<Lease<O>>>;

pub(super) struct Leases<O> {
    shards: Box<[ArcSwap<Shard<O>>]>,
    count: AtomicUsize,
    hasher: RandomState,
    /// Held while a snapshot is replaced.
    change: Mutex<()>,
}

impl<O> Default for Leases<O> {
    fn default() -> Self {
        let empty = Arc::new(Shard::new());
        Self {
            shards: (0..SHARDS)
                .map(|_| ArcSwap::new(Arc::clone(&empty)))
                .collect(),
            count: AtomicUsize::new(0),
            hasher: RandomState::new(),
            change: Mutex::default(),
        }
    }
}

/// Where a lease is in its snapshot, or belongs.
fn place<O>(shard: &Shard<O>, topic: &[u8], partition: i32) -> Result<usize, usize> {
    shard.binary_search_by(|lease| {
        (lease.topic.as_bytes(), lease.partition).cmp(&(topic, partition))
    })
}

impl<O> Leases<O> {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    pub fn get(&self, topic: &[u8], partition: i32) -> Option<Arc<Lease<O>>> {
        let shard = self.shard(topic, partition).load();
        let place = place(&shard, topic, partition).ok()?;
        Some(Arc::clone(&shard[place]))
    }

    pub fn all(&self) -> Vec<Arc<Lease<O>>> {
        let shards = self.shards.iter();
        shards.flat_map(|shard| Vec::clone(&shard.load())).collect()
    }

    /// Adds a lease. Returns the one that the partition had.
    pub fn put(&self, lease: &Arc<Lease<O>>) -> Option<Arc<Lease<O>>> {
        self.change(lease, |shard, place| match place {
            Ok(place) => Some(std::mem::replace(&mut shard[place], Arc::clone(lease))),
            Err(place) => {
                shard.insert(place, Arc::clone(lease));
                None
            }
        })
    }

    /// Removes a lease, unless the partition has another one by now.
    pub fn remove(&self, lease: &Arc<Lease<O>>) {
        self.change(lease, |shard, place| {
            let place = place
                .ok()
                .filter(|&place| Arc::ptr_eq(&shard[place], lease))?;
            Some(shard.remove(place))
        });
    }

    fn shard(&self, topic: &[u8], partition: i32) -> &ArcSwap<Shard<O>> {
        // The remainder is below the number of shards.
        let hash = self.hasher.hash_one((topic, partition)) % SHARDS as u64;
        &self.shards[hash as usize]
    }

    /// Replaces the snapshot that has a lease, or is to have it. Owners are dropped when nothing is locked.
    fn change<R>(
        &self,
        lease: &Lease<O>,
        change: impl FnOnce(&mut Shard<O>, Result<usize, usize>) -> R,
    ) -> R {
        let topic = lease.topic.as_bytes();
        let shard = self.shard(topic, lease.partition);
        let held = self.change.lock();
        let before = shard.load_full();
        let mut after = Shard::clone(&before);
        let place = place(&after, topic, lease.partition);
        let changed = change(&mut after, place);
        if after.len() > before.len() {
            self.count.fetch_add(1, Ordering::Relaxed);
        } else if after.len() < before.len() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        shard.store(Arc::new(after));
        drop(held);
        drop(before);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::Terms;
    use crate::log::LogConfig;
    use crate::log::tests::Folder;

    #[test]
    fn each_partition_has_its_lease_until_that_one_is_removed() {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        let terms = Terms {
            leader_epoch: 0,
            is_alone: true,
            accepts_all: false,
            everyone_may: true,
            is_zstd: false,
            is_internal: false,
        };
        let lease = |topic: &str, partition| {
            Arc::new(Lease::new(topic, partition, Arc::clone(&log), terms, ()))
        };
        let leases = Leases::default();
        assert!(leases.is_empty());
        let mut granted = Vec::new();
        for partition in 0..2000 {
            for topic in ["a", "b", "ab"] {
                let lease = lease(topic, partition);
                assert!(leases.put(&lease).is_none());
                granted.push(lease);
            }
        }
        let find = |one: &Arc<Lease<()>>| leases.get(one.topic.as_bytes(), one.partition);
        for one in &granted {
            assert!(Arc::ptr_eq(&find(one).unwrap(), one));
        }
        assert!(leases.get(b"b", 2000).is_none());
        assert!(leases.get(b"c", 0).is_none());
        assert_eq!(leases.all().len(), granted.len());
        let other = lease("a", 7);
        assert!(Arc::ptr_eq(&leases.put(&other).unwrap(), &granted[21]));
        leases.remove(&granted[21]);
        assert!(Arc::ptr_eq(&find(&other).unwrap(), &other));
        leases.remove(&other);
        assert!(find(&other).is_none());
        for one in &granted {
            leases.remove(one);
        }
        assert!(leases.is_empty());
        assert!(leases.all().is_empty());
    }
}
