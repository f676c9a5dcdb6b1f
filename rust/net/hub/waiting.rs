//! Waiting for the hub and for whatever else its loop waits for, in one system call.

use std::time::Duration;

use parking_lot::Mutex;

use super::*;

impl<T> Hub<T> {
    /// What `wait` shall watch as well: a descriptor that is readable while the loop has something else to do. None: nothing.
    pub fn watch_beside(&mut self, beside: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if let Some(before) = self.beside.take() {
            epoll::delete(&self.epoll, &before)?;
        }
        if let Some(beside) = beside {
            // Ours, so that it can be taken out again whatever becomes of the loop's.
            let beside = rustix::io::fcntl_dupfd_cloexec(beside, 0)?;
            epoll::add(
                &self.epoll,
                &beside,
                EventData::new_u64(BESIDE),
                EventFlags::IN,
            )?;
            self.beside = Some(beside);
        }
        Ok(())
    }

    /// What a turn that begins with these would have the loop do; None if it is over without.
    fn turn_of(&mut self, readiness: &[epoll::Event]) -> io::Result<Option<Event<T>>> {
        if self.in_turn {
            return self.next_event();
        }
        self.first_event(readiness)
    }
}

/// Waits, at most for `timeout`, until a turn brings something for the loop, and returns that: the turn is to be ended with `next_event`. None: the
/// time is over, a signal came, or what is watched beside the hub is ready. Turns that need no loop are done meanwhile.
///
/// The hub is locked only while it works: requests are dropped on other threads.
pub fn wait<T>(
    hub: &Mutex<Hub<T>>,
    fd: BorrowedFd<'_>,
    timeout: Duration,
) -> io::Result<Option<Event<T>>> {
    if mem::take(&mut hub.lock().beside_ready) {
        // Seen beside an event that was returned: now it is their turn.
        return Ok(None);
    }
    let began = Instant::now();
    let mut left = timeout;
    let mut space = [const { MaybeUninit::uninit() }; EVENTS_MAX];
    loop {
        let time = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let readiness: &[epoll::Event] = match epoll::wait(fd, &mut space, Some(&time)) {
            Ok((readiness, _)) => readiness,
            Err(rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !readiness.is_empty() {
            let mut hub = hub.lock();
            if let Some(event) = hub.turn_of(readiness)? {
                return Ok(Some(event));
            }
            if mem::take(&mut hub.beside_ready) {
                return Ok(None);
            }
        }
        left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
    }
}
