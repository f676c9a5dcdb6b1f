//! Panics on threads of our own: the work fails, the thread goes on.
//!
//! A panic is a mistake of ours, and it costs what it happened in: whoever waits for the work gets an error ([`outcome`]), and one line with
//! the place goes to the log. parking_lot's locks are not poisoned by a panic, so what a lock protects is left as it was at that moment.
//! Where half a change does harm the lock is a [`Watched`] one: the owner finds out, and takes what it protects out of use.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;

/// Where a panic happened, and what it said, on one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a panic at {place}: {message}")]
pub struct Panicked {
    pub place: String,
    pub message: String,
}

thread_local! {
    /// The last panic of this thread: what a hook knows is not told to who catches.
    static LAST: RefCell<Option<Panicked>> = const { RefCell::new(None) };
    /// Somebody will catch a panic and tell of it.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

static LISTENER: OnceLock<fn(String)> = OnceLock::new();

/// Has `listener` called with the one line about each panic that is caught; else it goes to stderr. Set once.
pub fn report_to(listener: fn(String)) {
    let _ = LISTENER.set(listener);
}

/// Runs `work` and tells of its panic.
pub fn catching<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    watch();
    let was_caught = IS_CAUGHT.replace(true);
    // What `work` leaves half changed is either dropped with it or behind a `Watched` lock.
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(was_caught);
    result.map_err(|payload| {
        let panicked = last().unwrap_or_else(|| Panicked {
            place: "an unknown place".to_owned(),
            message: message_of(&*payload),
        });
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a thread without a name");
        let line = format!("{name} met {panicked}");
        match LISTENER.get() {
            Some(tell) => tell(line),
            None => eprintln!("{line}"),
        }
        panicked
    })
}

/// Returns what `work` returns, or an error if it panicked.
pub fn outcome<T, E: From<Panicked>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catching(work).unwrap_or_else(|panicked| Err(panicked.into()))
}

/// Notes every panic's place from now on. Those that nobody here catches are told by the hook that was there before, as ever.
fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let place = info.location().map_or_else(
                || "an unknown place".to_owned(),
                |at| format!("{}:{}", at.file(), at.line()),
            );
            let message = message_of(info.payload());
            LAST.set(Some(Panicked { place, message }));
            if !IS_CAUGHT.get() {
                before(info);
            }
        }));
    });
}

/// The last panic of this thread that was noted.
fn last() -> Option<Panicked> {
    LAST.with_borrow(Option::clone)
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Set by the first panic of a thread that held a lock of this owner.
pub type Broken = Arc<OnceLock<Panicked>>;

/// A lock that tells its owner when a thread panicked while it held it.
pub struct Watched<T> {
    lock: Mutex<T>,
    broken: Broken,
}

impl<T> Watched<T> {
    pub fn new(value: T, broken: &Broken) -> Self {
        watch();
        Self {
            lock: Mutex::new(value),
            broken: Arc::clone(broken),
        }
    }

    #[inline]
    pub fn lock(&self) -> Held<'_, T> {
        self.held(self.lock.lock())
    }

    pub fn try_lock(&self) -> Option<Held<'_, T>> {
        self.lock.try_lock().map(|guard| self.held(guard))
    }

    /// As `try_lock`, but a lock that is taken is waited for, for so long at most.
    pub fn try_lock_for(&self, patience: Duration) -> Option<Held<'_, T>> {
        let guard = self.lock.try_lock_for(patience);
        guard.map(|guard| self.held(guard))
    }

    #[inline]
    fn held<'a>(&'a self, guard: MutexGuard<'a, T>) -> Held<'a, T> {
        Held {
            guard,
            broken: &self.broken,
            was_panicking: std::thread::panicking(),
        }
    }
}

/// The guard that [`Watched::lock`] gives.
pub struct Held<'a, T> {
    guard: MutexGuard<'a, T>,
    broken: &'a Broken,
    was_panicking: bool,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Before the lock is free: who takes it next must know.
        if std::thread::panicking() && !self.was_panicking {
            self.tell();
        }
    }
}

impl<T> Held<'_, T> {
    #[cold]
    fn tell(&self) {
        if let Some(panicked) = last() {
            let _ = self.broken.set(panicked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_place_on_one_line() {
        let line = line!() + 1;
        let failed = catching(|| assert_eq!(1, 2, "two\nlines"));
        let panicked = failed.unwrap_err();
        assert_eq!(panicked.place, format!("{}:{line}", file!()));
        assert!(panicked.message.contains("two lines"), "{panicked}");
        assert_eq!(catching(|| 7), Ok(7));
        let outcome: Result<(), Panicked> = outcome(|| panic!("number {}", 7));
        assert_eq!(outcome.unwrap_err().message, "number 7");
    }

    #[test]
    fn a_lock_that_a_panic_went_through_is_known() {
        let broken = Broken::default();
        let lock = Watched::new(1, &broken);
        let _ = catching(|| panic!("nobody holds it"));
        *lock.lock() += 1;
        assert_eq!(broken.get(), None);
        let panicked = catching(|| {
            let _held = lock.lock();
            panic!("held");
        });
        assert_eq!(broken.get(), panicked.err().as_ref());
        assert_eq!(*lock.lock(), 2);
    }
}
