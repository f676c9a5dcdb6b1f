//! Memory of request frames: pooled and reused.
//!
//! A fresh allocation of 1 MB is an mmap, 256 page faults and a munmap, and doubled the cost of large batches in a prototype. So a frame
//! is received into a buffer of its size class, the log appends from that same memory, and the buffer returns to the pool when its last
//! user drops it, on whichever thread that is. Classes are a quarter of a power of two apart: at most a quarter of a buffer is waste.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::{Budget, POOL_KEPT_BYTES_MAX};

const SMALLEST: usize = 256;
/// Four classes for each power of two from 256 B to 2 GiB.
const CLASSES: usize = 4 * 24;

/// The class that holds `length` bytes, and the size of its buffers.
fn class_of(length: usize) -> (usize, usize) {
    if length <= SMALLEST {
        return (0, SMALLEST);
    }
    // length is in (2^n, 2^(n+1)]; its quarter decides.
    let power = (length - 1).ilog2();
    let quarter = 1usize << (power - 2);
    let quarters = (length - (1 << power)).div_ceil(quarter);
    let class = 4 * (power as usize - 8) + quarters;
    (class, (1 << power) + quarters * quarter)
}

struct Kept {
    free: Vec<Vec<Box<[u8]>>>,
    bytes: usize,
}

/// Free buffers by size class. What is handed out is charged to the budget until it returns.
///
/// A frame that comes in several reads is charged as it fills: what a client announces costs nothing, what it sends does.
pub struct Pool {
    kept: Mutex<Kept>,
    budget: Arc<Budget>,
}

impl Pool {
    pub fn new(budget: Arc<Budget>) -> Self {
        Self {
            kept: Mutex::new(Kept {
                free: (0..CLASSES).map(|_| Vec::new()).collect(),
                bytes: 0,
            }),
            budget,
        }
    }

    /// A buffer of exactly `length` bytes; their content is left from an earlier use.
    pub fn take(self: &Arc<Self>, length: usize) -> Buffer {
        let mut buffer = self.take_uncharged(length);
        buffer.charge(buffer.memory.len());
        buffer
    }

    /// As `take`, to be charged by `charge` as it fills.
    pub fn take_uncharged(self: &Arc<Self>, length: usize) -> Buffer {
        let (class, size) = class_of(length);
        let reused = {
            let mut kept = self.kept.lock();
            let reused = kept.free[class].pop();
            if reused.is_some() {
                kept.bytes -= size;
            }
            reused
        };
        Buffer {
            // Zeroed memory of this size comes from the kernel untouched: only the pages that are received into become resident.
            memory: reused.unwrap_or_else(|| vec![0; size].into_boxed_slice()),
            length,
            charged: 0,
            pool: Arc::clone(self),
        }
    }

    /// Bytes kept for reuse.
    pub fn kept_bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

/// Bytes of one frame (or of several that are parked), owned by one user at a time; returns to its pool when dropped.
pub struct Buffer {
    memory: Box<[u8]>,
    length: usize,
    charged: usize,
    pool: Arc<Pool>,
}

impl Buffer {
    /// Charges the budget so that it holds `bytes` for this buffer.
    pub fn charge(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.charged);
        self.pool.budget.charge(more);
        self.charged += more;
    }

    /// Moves the first `filled` bytes to a buffer of `length` bytes.
    pub fn grow(&mut self, length: usize, filled: usize) {
        let mut grown = self.pool.take_uncharged(length);
        grown[..filled].copy_from_slice(&self[..filled]);
        grown.charge(self.charged);
        *self = grown;
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        let size = memory.len();
        {
            let mut kept = self.pool.kept.lock();
            if kept.bytes + size <= POOL_KEPT_BYTES_MAX {
                kept.bytes += size;
                kept.free[class_of(size).0].push(memory);
            }
        }
        self.pool.budget.release(self.charged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Wake;

    fn pool(limit: usize) -> (Arc<Pool>, Arc<Budget>) {
        let budget = Arc::new(Budget::new(limit, Arc::new(Wake::new().unwrap())));
        (Arc::new(Pool::new(Arc::clone(&budget))), budget)
    }

    #[test]
    fn a_class_holds_its_length_with_little_waste() {
        for length in (1..100_000).chain([1 << 20, (1 << 20) + 1, 100 << 20, i32::MAX as usize]) {
            let (class, size) = class_of(length);
            assert!(class < CLASSES);
            assert!(size >= length, "{length} in {size}");
            assert!(
                size <= SMALLEST || size * 4 <= length * 5 + 4,
                "{length} in {size}"
            );
            assert_eq!(class_of(size), (class, size), "{length}");
        }
    }

    #[test]
    fn memory_is_reused_and_charged() {
        let (pool, budget) = pool(1 << 30);
        let buffer = pool.take(1_000_000);
        let address = buffer.as_ptr();
        assert_eq!(buffer.len(), 1_000_000);
        assert!(budget.used() >= 1_000_000);
        drop(buffer);
        assert_eq!(budget.used(), 0);
        assert_eq!(pool.take(990_000).as_ptr(), address);
    }

    #[test]
    fn growing_keeps_content_and_charge() {
        let (pool, budget) = pool(1 << 30);
        let mut buffer = pool.take_uncharged(1000);
        assert_eq!(budget.used(), 0);
        buffer[..500].fill(7);
        buffer.charge(500);
        buffer.grow(100_000, 500);
        assert_eq!((buffer.len(), budget.used()), (100_000, 500));
        assert_eq!(buffer[..500], [7; 500]);
        buffer.charge(100_000);
        assert_eq!(budget.used(), 100_000);
        drop(buffer);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (pool, _) = pool(1 << 30);
        drop((0..20).map(|_| pool.take(3 << 20)).collect::<Vec<_>>());
        assert!(pool.kept_bytes() <= POOL_KEPT_BYTES_MAX);
        assert!(pool.kept_bytes() > 0);
    }
}
