//! Memory for answers that are larger than what a fetcher asks for.
//!
//! A leader answers with one whole batch even if that is larger than `response_bytes_max`. Each fetcher has memory of its own for what it asks for.
//! A larger answer takes a place first: the fetchers of a broker share a few. So all fetchers together hold what each may ask for and a few
//! of the largest batches, not one such batch each.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Places for large answers. The descriptor is readable while one is free, so a thread can wait for it and for other things.
#[derive(Debug)]
pub struct LargeAnswers {
    places: OwnedFd,
}

impl LargeAnswers {
    pub fn new(places: u32) -> io::Result<Self> {
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            places: eventfd(places.max(1), flags)?,
        })
    }

    /// Takes a place, if one is free.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        let mut one = [0u8; 8];
        let taken = rustix::io::read(&self.places, &mut one);
        taken.is_ok().then(|| Place(Arc::clone(self)))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.places.as_fd()
    }
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<LargeAnswers>);

impl Drop for Place {
    fn drop(&mut self) {
        // The counter has room for as many places as there are.
        let _ = rustix::io::write(&self.0.places, &1u64.to_ne_bytes());
    }
}
