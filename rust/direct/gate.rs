//! A lease that one thread ends, while others serve under it.
//!
//! An end waits for no disk, nor for an append. So there are two questions:
//!
//! * An append looks at [`Gate::is_over`] when it has the log's writer. One that had the writer before the end is in
//!   the log, as if it had come before the end; one that gets it afterwards is refused.
//! * What the terms say of others (that nobody else is in sync) is acted upon inside [`Gate::decide`]. When
//!   [`Gate::end`] has returned, nothing of that kind happens any more. An append that was not decided upon by then is
//!   for the one who ended the lease to decide upon.
//!
//! The types of `sync` are those of parking_lot and std, or those of a model that tries all orders (`tests/model.rs`).

use super::sync::{AtomicBool, Mutex, Ordering};

#[derive(Default)]
pub struct Gate {
    is_over: AtomicBool,
    deciding: Mutex<()>,
}

impl Gate {
    /// Ends the lease.
    pub fn end(&self) {
        let _deciding = self.deciding.lock();
        self.is_over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Changes something that decisions look at, while none is under way.
    pub fn exclude<R>(&self, change: impl FnOnce() -> R) -> R {
        let _deciding = self.deciding.lock();
        change()
    }

    /// Does something short that the terms allow. None, with nothing done, if they hold no longer.
    pub fn decide<R>(&self, decision: impl FnOnce() -> R) -> Option<R> {
        let _deciding = self.deciding.lock();
        (!self.is_over()).then(decision)
    }
}
