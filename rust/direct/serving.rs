//! A thread beside the loop: it serves a hub of its own under leases, and hands all else to the loop.
//!
//! An answer of the loop's goes back by its ticket. Of a turn that appended something of which Python has to hear (a
//! Fetch that waits in Python, a flush that is due, a failed write), the loop gets what is left to be done, as if it
//! had been its own turn: [`Direct::written`] and [`Direct::answer`] then speak of both.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::produce::Appended;
use super::turn::{Ended, Turn, Written};
use super::{Direct, mem};
use crate::io::panics::catching;
use crate::net::hub::{self, Event, Hub, Hubs};

/// How long a thread waits at most; it hears of everything that it has to do.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The end of a turn of another thread, for the loop.
pub(super) struct Rest<O> {
    written: Vec<Written<O>>,
    appended: Vec<Appended<O>>,
}

/// The threads that serve beside the loop.
pub struct Threads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// One thread for each hub that is not the loop's. An error, and none, where the system does not give all of them.
    pub fn start<O, T>(direct: &Arc<Direct<O>>, hubs: &Arc<Hubs<T>>) -> io::Result<Self>
    where
        O: Send + Sync + 'static,
        T: Send + 'static,
    {
        let mut started = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for place in 0..hubs.others().len() {
            let (direct, hubs) = (Arc::clone(direct), Arc::clone(hubs));
            let stop = Arc::clone(&started.stop);
            let name = format!("ottla-network-{}", place + 1);
            let serves = Arc::clone(&hubs);
            let thread = Builder::new().name(name).spawn(move || {
                if let Some(hub) = serves.others().get(place) {
                    run(&direct, &serves, hub, &stop);
                }
            });
            match thread {
                Ok(thread) => started.threads.push(thread),
                Err(error) => {
                    started.end(&hubs);
                    return Err(error);
                }
            }
        }
        Ok(started)
    }

    /// Ends the threads, between two turns, and waits for that. Their hubs stay as they are.
    pub fn end<T>(&mut self, hubs: &Hubs<T>) {
        self.stop.store(true, Ordering::Release);
        for hub in hubs.others() {
            hub.lock().interrupt();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Serves a hub until it is told to stop. A panic costs the connections that the hub has.
fn run<O, T>(direct: &Direct<O>, hubs: &Hubs<T>, hub: &Mutex<Hub<T>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let served = catching(|| {
            let mut turn = Turn::default();
            while !stop.load(Ordering::Acquire) {
                direct.serve_alone(hubs, hub, &mut turn)?;
            }
            io::Result::Ok(())
        });
        if !matches!(served, Ok(Ok(()))) {
            hub.lock().end_all("the thread that serves it failed");
        }
    }
}

impl<O> Direct<O> {
    /// Waits for a thread's hub, and serves a turn of it.
    fn serve_alone<T>(
        &self,
        hubs: &Hubs<T>,
        hub: &Mutex<Hub<T>>,
        turn: &mut Turn<O>,
    ) -> io::Result<()> {
        let due = self.expire(hubs);
        let left = due.map_or(PATIENCE, |due| {
            due.saturating_duration_since(Instant::now())
        });
        let fd = Arc::clone(hub.lock().fd());
        let mut event = hub::wait(hub, fd.as_fd(), left)?;
        loop {
            let is_over = event.is_none();
            match event {
                Some(Event::Request(incoming)) => {
                    if let Some(incoming) = self.serve(hubs, turn, incoming) {
                        hubs.hand(Event::Request(incoming));
                    }
                }
                None | Some(Event::Served) => match self.end_turn(hubs, turn, is_over) {
                    Ended::ByOthers => self.hand_rest(hubs, turn),
                    Ended::Before if is_over => return Ok(()),
                    Ended::Before | Ended::Here => {}
                },
                Some(other) => hubs.hand(other),
            }
            event = hub.lock().next_event()?;
        }
    }

    fn hand_rest<T>(&self, hubs: &Hubs<T>, turn: &mut Turn<O>) {
        let rest = Rest {
            written: self.written(turn),
            appended: mem::take(&mut turn.appended),
        };
        self.rests.lock().push(rest);
        hubs.hand(Event::Served);
    }

    /// Ends the loop's turn, with the rests of those that other threads have begun.
    pub(super) fn end_loops_turn<T>(
        &self,
        hubs: &Hubs<T>,
        turn: &mut Turn<O>,
        is_over: bool,
    ) -> Ended {
        for rest in mem::take(&mut *self.rests.lock()) {
            turn.written.extend(rest.written);
            turn.appended.extend(rest.appended);
        }
        self.end_turn(hubs, turn, is_over)
    }
}
