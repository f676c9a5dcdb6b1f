//! Which hubs serve: the loop's alone, or those of the first so many threads beside it. The number changes while the
//! broker runs (KIP-226).
//!
//! | a hub | connections come to it | it has connections | its thread |
//! |---|---|---|---|
//! | serves | yes | | runs |
//! | leaves | no | yes; each goes to a hub that serves as soon as nothing of it is under way | runs |
//! | rests | no | no | has ended; the loop's goes on |
//!
//! A connection is counted at the hub that it goes to while [`Serving`] is locked. A thread ends under the same lock,
//! if nothing is counted at its hub.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::MutexGuard;

use super::*;

/// How often a hub that leaves tries to send on the connections that it has.
const AGAIN_MS: u64 = 100;

/// The part of a hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// No other hub serves.
    #[default]
    Alone,
    /// Others serve as well.
    Shares,
    Leaves,
}

/// True if the hub of this number serves where so many threads beside the loop do.
fn serves(number: usize, threads: usize) -> bool {
    match threads {
        0 => number == 0,
        _ => (1..=threads).contains(&number),
    }
}

pub(super) struct State {
    /// So many serve beside the loop; where there are none, the loop does.
    pub threads: usize,
    /// The threads that run, by the numbers of their hubs.
    running: Vec<bool>,
}

impl State {
    /// True if the hub of this number serves.
    pub fn has(&self, number: usize) -> bool {
        serves(number, self.threads)
    }

    /// The numbers of the hubs whose threads run.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        let numbers = self.running.iter().enumerate();
        numbers.filter_map(|(number, runs)| runs.then_some(number))
    }

    /// The thread of a hub ends.
    pub fn ends(&mut self, number: usize) {
        self.running[number] = false;
    }
}

pub(super) struct Serving {
    state: Mutex<State>,
    /// As in the state, for readers that may be a moment late.
    threads: AtomicUsize,
}

impl Serving {
    /// Of so many hubs, of which the loop's serves.
    pub fn of(hubs: usize) -> Self {
        let state = State {
            threads: 0,
            running: vec![false; hubs],
        };
        Self {
            state: Mutex::new(state),
            threads: AtomicUsize::new(0),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// How many threads serve beside the loop.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Acquire)
    }

    /// True if the hub of this number serves.
    pub fn has(&self, number: usize) -> bool {
        serves(number, self.threads())
    }

    /// Has so many threads serve; `start` starts the one of a hub, by its number. Returns the error by which they are
    /// fewer.
    pub fn serve_by(
        &self,
        threads: usize,
        mut start: impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.lock();
        let mut started = Ok(());
        let mut count = 0;
        for number in 1..=threads {
            if !state.running[number] {
                started = start(number);
                if started.is_err() {
                    break;
                }
                state.running[number] = true;
            }
            count = number;
        }
        state.threads = count;
        self.threads.store(count, Ordering::Release);
        started
    }
}

impl<T> Hub<T> {
    fn role(&self) -> Role {
        let threads = self.joint.serving.threads();
        match (serves(self.number, threads), threads) {
            (false, _) => Role::Leaves,
            (true, 0 | 1) => Role::Alone,
            (true, _) => Role::Shares,
        }
    }

    /// Takes note of the hubs that serve now. One that leaves sends its connections on.
    pub(super) fn look_who_serves(&mut self) {
        let role = self.role();
        if role != self.moving.role {
            self.moving.begin(role);
            if let Some(meter) = &mut self.meter {
                meter.counts_time(role != Role::Leaves);
            }
        }
        if role == Role::Leaves {
            for id in self.connections.ids() {
                if let Some(connection) = self.connections.take(id)
                    && let Some(stays) = self.send_to(connection, None)
                {
                    self.connections.put(stays);
                }
            }
            self.set_timer();
        }
    }

    /// When connections that could not leave are looked at again.
    pub(super) fn leaves_at_ms(&self) -> Option<u64> {
        let waits = self.moving.role == Role::Leaves && !self.connections.is_empty();
        waits.then_some(self.now_ms + AGAIN_MS)
    }

    /// True if the thread that serves this hub may look whether it has to end.
    pub(super) fn is_left(&self) -> bool {
        self.number > 0 && self.moving.role == Role::Leaves && self.connections.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_serves_where_it_is_alone() {
        let of = |threads| (0..4).map(move |number| serves(number, threads));
        assert!(of(0).eq([true, false, false, false]));
        assert!(of(1).eq([false, true, false, false]));
        assert!(of(3).eq([false, true, true, true]));
    }

    #[test]
    fn those_that_cannot_be_started_do_not_serve() {
        let serving = Serving::of(5);
        let started = serving.serve_by(4, |number| match number {
            3 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        });
        assert_eq!(started.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(serving.threads(), 2);
        // Those that run are not started again.
        let mut asked = Vec::new();
        let start = |number| {
            asked.push(number);
            Ok(())
        };
        serving.serve_by(4, start).unwrap();
        assert_eq!(asked, [3, 4]);
        assert!(serving.lock().running().eq(1..=4));
    }

    #[test]
    fn one_that_leaves_runs_until_it_ends() {
        let serving = Serving::of(3);
        serving.serve_by(2, |_| Ok(())).unwrap();
        serving.serve_by(1, |_| Ok(())).unwrap();
        assert!(serving.has(1) && !serving.has(2) && !serving.has(0));
        assert!(serving.lock().running().eq([1, 2]));
        serving.lock().ends(2);
        let mut asked = 0;
        serving
            .serve_by(2, |number| {
                asked = number;
                Ok(())
            })
            .unwrap();
        assert_eq!(asked, 2);
    }
}
