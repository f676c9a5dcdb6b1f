//! Memory of request frames: pooled and reused.
//!
//! A fresh allocation of 1 MB is an mmap, 256 page faults and a munmap, and doubled the cost of large batches in a prototype. So a frame
//! is received into a buffer of its size class, the log appends from that same memory, and the buffer returns to the pool when its last
//! user drops it, on whichever thread that is. Classes are a quarter of a power of two apart: at most a quarter of a buffer is waste.

use std::alloc::{Layout, alloc_zeroed};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::io::aside;

use super::budget::{Account, Budget};
use super::limits::{POOL_KEPT_BYTES_MAX, SMALL_FRAME_BYTES};

const SMALLEST: usize = 256;
/// A buffer of this size is given back to the system by a thread: to unmap 100 MB takes over 30 ms, and the last user is often the loop.
const UNMAPPED_ASIDE_BYTES: usize = 8 << 20;
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
/// A frame that comes in several reads takes more as it fills: what a client announces costs nothing, what it sends does.
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

    /// Keeps memory for the next user, or gives it back if there is enough.
    fn keep(&self, memory: Box<[u8]>) -> Option<Box<[u8]>> {
        let size = memory.len();
        let mut kept = self.kept.lock();
        if kept.bytes + size > POOL_KEPT_BYTES_MAX {
            return Some(memory);
        }
        kept.bytes += size;
        kept.free[class_of(size).0].push(memory);
        None
    }

    /// A buffer of exactly `length` bytes, charged to `account`; their content is left from an earlier use.
    pub fn take(self: &Arc<Self>, length: usize, account: Account) -> Result<Buffer, NoMemory> {
        let (class, size) = class_of(length);
        let reused = {
            let mut kept = self.kept.lock();
            let reused = kept.free[class].pop();
            if reused.is_some() {
                kept.bytes -= size;
            }
            reused
        };
        let memory = reused.or_else(|| zeroed(size)).ok_or(NoMemory(size))?;
        // Of a large buffer the kernel gives no page before it is written to.
        let charged = if length < SMALL_FRAME_BYTES {
            size
        } else {
            length
        };
        self.budget.charge(account, charged);
        Ok(Buffer {
            memory,
            length,
            account,
            charged,
            pool: Arc::clone(self),
        })
    }

    /// Bytes kept for reuse.
    pub fn kept_bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

/// The system has no memory for so many bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system has no memory for {0} bytes")]
pub struct NoMemory(usize);

/// Zeroed memory of this size comes from the kernel untouched: only the pages that are received into become resident. `vec!` would give the
/// same, and end the process where there is none.
fn zeroed(size: usize) -> Option<Box<[u8]>> {
    let layout = Layout::array::<u8>(size).ok().filter(|_| size > 0)?;
    // SAFETY: the layout is not empty, and is that of the slice that is made of the memory, whose bytes are all set.
    unsafe {
        let memory = NonNull::new(alloc_zeroed(layout))?;
        let slice = NonNull::slice_from_raw_parts(memory, size);
        Some(Box::from_raw(slice.as_ptr()))
    }
}

/// Bytes of one frame (or of several that are parked), owned by one user at a time; returns to its pool when dropped.
pub struct Buffer {
    memory: Box<[u8]>,
    length: usize,
    account: Account,
    charged: usize,
    pool: Arc<Pool>,
}

impl Buffer {
    /// Takes the memory out; `give_memory` gives it back.
    pub fn take_memory(&mut self) -> Box<[u8]> {
        std::mem::take(&mut self.memory)
    }

    pub fn give_memory(&mut self, memory: Box<[u8]>) {
        self.memory = memory;
    }

    /// Moves the first `filled` bytes to a buffer of `length` bytes, charged to `account`.
    pub fn grow(&mut self, length: usize, filled: usize, account: Account) -> Result<(), NoMemory> {
        let mut grown = self.pool.take(length, account)?;
        grown[..filled].copy_from_slice(&self[..filled]);
        *self = grown;
        Ok(())
    }

    /// Another buffer of `length` bytes, charged to `account`, for what is here and more.
    pub fn larger(&self, length: usize, account: Account) -> Result<Self, NoMemory> {
        self.pool.take(length, account)
    }

    pub fn account(&self) -> Account {
        self.account
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
        let (account, charged) = (self.account, self.charged);
        let Some(memory) = self.pool.keep(memory) else {
            return self.pool.budget.release(account, charged);
        };
        let pool = Arc::clone(&self.pool);
        let is_large = memory.len() >= UNMAPPED_ASIDE_BYTES;
        let free = move || {
            drop(memory);
            pool.budget.release(account, charged);
        };
        if is_large { aside(free) } else { free() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Wake;
    use crate::net::budget::Bounds;

    fn pool() -> (Arc<Pool>, Arc<Budget>) {
        let budget = Budget::new(
            Bounds::new(1 << 30, 1 << 20),
            Arc::new(Wake::new().unwrap()),
        );
        let budget = Arc::new(budget);
        (Arc::new(Pool::new(Arc::clone(&budget))), budget)
    }

    fn take(pool: &Arc<Pool>, length: usize) -> Buffer {
        pool.take(length, Account::Frames).unwrap()
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
        let (pool, budget) = pool();
        let buffer = take(&pool, 1_000_000);
        let address = buffer.as_ptr();
        assert_eq!(buffer.len(), 1_000_000);
        assert!(budget.used() >= 1_000_000);
        drop(buffer);
        assert_eq!(budget.used(), 0);
        assert_eq!(take(&pool, 990_000).as_ptr(), address);
    }

    #[test]
    fn growing_keeps_the_content_and_may_change_the_account() {
        let (pool, budget) = pool();
        let mut buffer = take(&pool, 1000);
        buffer[..500].fill(7);
        buffer.grow(100_000, 500, Account::Lane).unwrap();
        assert_eq!((buffer.len(), budget.frames()), (100_000, 0));
        assert_eq!((buffer.account(), budget.used()), (Account::Lane, 100_000));
        assert_eq!(buffer[..500], [7; 500]);
        drop(buffer);
        assert!(budget.is_lane_empty());
    }

    #[test]
    fn memory_that_is_not_to_be_had_is_an_error() {
        let (pool, budget) = pool();
        assert!(zeroed(usize::MAX / 2).is_none() && zeroed(usize::MAX).is_none());
        assert!(pool.take(0, Account::Frames).is_ok());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (pool, _) = pool();
        drop((0..20).map(|_| take(&pool, 3 << 20)).collect::<Vec<_>>());
        assert!(pool.kept_bytes() <= POOL_KEPT_BYTES_MAX);
        assert!(pool.kept_bytes() > 0);
    }
}
