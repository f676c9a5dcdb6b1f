//! A frame shared by the appends of its partitions.
//!
//! The log stamps offsets into a batch and writes it from where the socket left it, so an append needs its records mutable; a Produce of
//! several partitions may have one append on an I/O thread (waiting for a disk) while the loop does another. A lock over the frame would make
//! the loop wait for the disk. So each partition's records are a part of their own, given to one user at a time.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::frames::Buffer;

struct Slot {
    /// None: there is nothing in this part.
    range: Option<Range<usize>>,
    taken: AtomicBool,
}

/// A frame divided into parts that do not overlap. Its memory returns to the pool when neither it nor any part is in use.
pub struct Parts {
    /// The frame without its memory, which it gets back at the end: it knows where that is charged and belongs.
    frame: Buffer,
    /// The frame's memory as a raw pointer, of which parts are made. A box, when it is moved, claims to be the only way to its memory.
    memory: NonNull<[u8]>,
    slots: Box<[Slot]>,
}

// SAFETY: the memory is owned, as by the box that it was; what is reached through `memory` is handed out once at a time (`take`).
unsafe impl Send for Parts {}
// SAFETY: as above; the flags that guard the parts are atomic.
unsafe impl Sync for Parts {}

impl Parts {
    /// One part for each range; None if the ranges are not in order, overlap, or leave the frame.
    pub fn new(
        mut frame: Buffer,
        ranges: impl IntoIterator<Item = Option<Range<usize>>>,
    ) -> Option<Self> {
        let (mut end, length) = (0, frame.len());
        let slots = ranges
            .into_iter()
            .map(|range| {
                if let Some(Range { start, end: next }) = range {
                    if start < end || next < start || length < next {
                        return None;
                    }
                    end = next;
                }
                Some(Slot {
                    range,
                    taken: AtomicBool::new(false),
                })
            })
            .collect::<Option<_>>()?;
        let memory = NonNull::from(Box::leak(frame.take_memory()));
        Some(Self {
            frame,
            memory,
            slots,
        })
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether part `index` has anything in it; None if there is no such part.
    pub fn has(&self, index: usize) -> Option<bool> {
        Some(self.slots.get(index)?.range.is_some())
    }

    /// A part for one user; None if there is none of this number, or somebody has it.
    pub fn take(self: &Arc<Self>, index: usize) -> Option<Part> {
        let slot = self.slots.get(index).filter(|slot| slot.range.is_some())?;
        if slot.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Part {
            parts: Arc::clone(self),
            index,
        })
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a box and is given back once; no part is in use, since each keeps its `Parts` alive.
        let memory = unsafe { Box::from_raw(self.memory.as_ptr()) };
        self.frame.give_memory(memory);
    }
}

/// Exclusive use of one part, on any thread; given back when dropped.
pub struct Part {
    parts: Arc<Parts>,
    index: usize,
}

impl Part {
    fn range(&self) -> Range<usize> {
        // `take` gave out no part without a range.
        self.parts.slots[self.index].range.clone().unwrap_or(0..0)
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let range = self.range();
        // SAFETY: the range lies in the frame and overlaps no other part (`Parts::new`), this is the only user of the part (`taken`), and the memory
        // lives and stays in place as long as `parts`.
        unsafe {
            std::slice::from_raw_parts(
                self.parts.memory.cast::<u8>().as_ptr().add(range.start),
                range.len(),
            )
        }
    }
}

impl DerefMut for Part {
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.range();
        // SAFETY: as in `deref`; the borrow of `self` is exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.parts.memory.cast::<u8>().as_ptr().add(range.start),
                range.len(),
            )
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.parts.slots[self.index]
            .taken
            .store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Wake;
    use crate::net::budget::{Account, Bounds, Budget};
    use crate::net::frames::Pool;

    fn frame(length: usize) -> (Buffer, Arc<Budget>) {
        let wake = Arc::new(Wake::new().unwrap());
        let budget = Arc::new(Budget::new(Bounds::new(1 << 20, 1 << 10), wake));
        let pool = Arc::new(Pool::new(Arc::clone(&budget)));
        let mut buffer = pool.take(length, Account::Frames).unwrap();
        for (at, byte) in buffer.iter_mut().enumerate() {
            *byte = at as u8;
        }
        (buffer, budget)
    }

    #[test]
    fn a_part_has_one_user_at_a_time() {
        let parts = Arc::new(
            Parts::new(
                frame(100).0,
                [Some(10..20), Some(20..20), Some(30..100), None],
            )
            .unwrap(),
        );
        let mut first = parts.take(0).unwrap();
        assert!(parts.take(0).is_none());
        assert!(parts.take(3).is_none() && parts.take(4).is_none());
        assert_eq!(
            (parts.has(2), parts.has(3), parts.has(4)),
            (Some(true), Some(false), None)
        );
        assert!(parts.take(1).unwrap().is_empty());
        let last = parts.take(2).unwrap();
        let thread = std::thread::spawn(move || {
            first.fill(7);
            assert_eq!(*first, [7; 10]);
        });
        assert_eq!((last[0], last.len()), (30, 70));
        thread.join().unwrap();
        assert_eq!(*parts.take(0).unwrap(), [7; 10]);
    }

    #[test]
    fn memory_returns_when_the_last_user_is_done() {
        let (buffer, budget) = frame(100);
        let parts = Arc::new(Parts::new(buffer, [Some(0..100)]).unwrap());
        let part = parts.take(0).unwrap();
        drop(parts);
        assert!(budget.used() > 0);
        drop(part);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn parts_do_not_overlap_and_stay_inside() {
        for ranges in [[0..10, 9..12], [5..6, 0..1], [0..0, 90..101]] {
            assert!(Parts::new(frame(100).0, ranges.map(Some)).is_none());
        }
    }
}
