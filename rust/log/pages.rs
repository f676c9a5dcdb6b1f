//! Index pages in memory: 8 MiB for the whole process, filled by what is looked up.
//!
//! Without it every lookup opens the index, reads a page and closes it, which is most of its cost. Consumers read forward, so the page that the
//! last lookup of a segment needed is mostly the one that the next needs. Pages never change under their key: an index whose content is
//! replaced takes a new number.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

pub const PAGE_BYTES: usize = 4096;
const PAGES_MAX: usize = 2048;

/// The number of an index's content, and of a page in it.
type Key = (u64, usize);

pub struct Page {
    pub bytes: Box<[u8]>,
    used: AtomicBool,
}

#[derive(Default)]
struct Pages {
    pages: HashMap<Key, Arc<Page>>,
    /// The clock's face: what is looked at next is at `hand`.
    order: Vec<Key>,
    hand: usize,
}

static PAGES: RwLock<Option<Pages>> = RwLock::new(None);
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A number for an index's content.
pub fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A page, if it is there with at least `length` bytes.
pub fn get(content: u64, page: usize, length: usize) -> Option<Arc<Page>> {
    let pages = PAGES.read();
    let found = pages.as_ref()?.pages.get(&(content, page))?;
    if found.bytes.len() < length {
        return None;
    }
    found.used.store(true, Ordering::Relaxed);
    Some(Arc::clone(found))
}

/// Keeps a page for the next lookup.
pub fn put(content: u64, page: usize, bytes: &[u8]) -> Arc<Page> {
    let new = Arc::new(Page {
        bytes: bytes.into(),
        used: AtomicBool::new(false),
    });
    let mut pages = PAGES.write();
    let Pages { pages, order, hand } = pages.get_or_insert_default();
    match pages.entry((content, page)) {
        Slot::Occupied(mut known) => {
            known.insert(Arc::clone(&new));
            return new;
        }
        Slot::Vacant(slot) => slot.insert(Arc::clone(&new)),
    };
    if order.len() < PAGES_MAX {
        order.push((content, page));
        return new;
    }
    // Whoever was used since the hand came by last stays for another round.
    loop {
        *hand = (*hand + 1) % order.len();
        let used = pages
            .get(&order[*hand])
            .is_some_and(|page| page.used.swap(false, Ordering::Relaxed));
        if !used {
            pages.remove(&order[*hand]);
            order[*hand] = (content, page);
            return new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_number_is_bounded() {
        let (hot, cold) = (number(), number());
        put(hot, 0, &[1; 8]);
        for page in 0..3 * PAGES_MAX {
            put(cold, page, &[2; 8]);
            assert_eq!(get(hot, 0, 8).unwrap().bytes[0], 1);
        }
        assert!(get(hot, 0, 9).is_none() && get(hot, 1, 1).is_none());
        let pages = PAGES.read();
        assert!(pages.as_ref().unwrap().pages.len() <= PAGES_MAX);
    }
}
