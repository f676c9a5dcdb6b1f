//! Memory that no cache holds, asked for before it is used.
//!
//! A search of the map goes to a random place in it, and so does the bit that it leads to. The processor does not look far enough ahead to
//! overlap one with the next, so what needs such memory is put off until some others have come, and the memory fetched meanwhile.

/// How many come in between.
pub const AHEAD: usize = 16;

/// The items that are put off, the oldest first.
#[derive(Debug)]
pub struct Later<T> {
    ring: [T; AHEAD],
    /// That ever came since it was empty.
    count: usize,
}

impl<T: Copy + Default> Default for Later<T> {
    fn default() -> Self {
        Self {
            ring: [T::default(); AHEAD],
            count: 0,
        }
    }
}

impl<T: Copy> Later<T> {
    /// Puts one off; what came [`AHEAD`] before it is due now.
    #[inline(always)]
    pub fn push(&mut self, item: T) -> Option<T> {
        let due = std::mem::replace(&mut self.ring[self.count % AHEAD], item);
        self.count += 1;
        (self.count > AHEAD).then_some(due)
    }

    /// Everything that is put off, which is nothing afterwards.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        let (ring, count) = (self.ring, std::mem::take(&mut self.count));
        (count.saturating_sub(AHEAD)..count).map(move |at| ring[at % AHEAD])
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Asks for the memory, and does not wait for it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn prefetch<T>(item: &T) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: nothing is read; it would do with any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) };
}

/// Stable Rust has no name for it on other processors. They do without.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn prefetch<T>(_item: &T) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_once_and_in_order() {
        for count in [0, 1, AHEAD - 1, AHEAD, AHEAD + 1, 5 * AHEAD + 3] {
            let mut later = Later::default();
            // The second round finds it as the first did.
            for _ in 0..2 {
                let mut came: Vec<usize> = (0..count).filter_map(|at| later.push(at)).collect();
                assert_eq!(came.len(), count.saturating_sub(AHEAD));
                came.extend(later.drain());
                assert!(later.is_empty());
                assert_eq!(came, Vec::from_iter(0..count));
            }
        }
    }
}
