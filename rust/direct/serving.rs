//! A thread beside the loop: it serves a hub of its own under leases, and hands all else to the loop.
//!
//! An answer of the loop's goes back by its ticket. Of a turn that appended something of which Python has to hear (a
//! Fetch that waits in Python, a flush that is due, a failed write), the loop gets what is left to be done, as if it
//! had been its own turn: [`Direct::written`] and [`Direct::answer`] then speak of both.
//!
//! A thread that meets a panic dies. Its connections are closed, the loop ends what is left of its turn, and another
//! thread serves the hub. Where the panic came while a log was held, that log is out of use until a restart. If two
//! threads of one hub die in a minute, the broker stops.

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
const MINUTE: Duration = Duration::from_secs(60);

/// The end of a turn of another thread, for the loop.
pub(super) struct Rest<O> {
    written: Vec<Written<O>>,
    appended: Vec<Appended<O>>,
}

/// The threads that serve beside the loop. Their number changes while they serve.
#[derive(Default)]
pub struct Threads {
    stop: Arc<AtomicBool>,
    running: Running,
}

/// Threads that nobody has waited for.
type Running = Arc<Mutex<Vec<JoinHandle<()>>>>;

impl Threads {
    /// Has so many threads serve from now on, or as many as the system gives; the error says why they are fewer.
    /// Without any the loop serves.
    pub fn serve<O, T>(
        &self,
        direct: &Arc<Direct<O>>,
        hubs: &Arc<Hubs<T>>,
        threads: usize,
    ) -> io::Result<()>
    where
        O: Send + Sync + 'static,
        T: Send + 'static,
    {
        hubs.serve_by(threads, |place| {
            let seat = Seat {
                place,
                direct: Arc::clone(direct),
                hubs: Arc::clone(hubs),
                stop: Arc::clone(&self.stop),
                running: Arc::clone(&self.running),
                deaths: Deaths::default(),
            };
            seat.start()
        })
    }

    /// How many have not ended.
    #[cfg(test)]
    pub fn running(&self) -> usize {
        let running = self.running.lock();
        running.iter().filter(|one| !one.is_finished()).count()
    }

    /// Ends the threads, between two turns, and waits for that. Their hubs stay as they are.
    pub fn end<T>(&self, hubs: &Hubs<T>) {
        self.stop.store(true, Ordering::Release);
        for hub in hubs.others() {
            hub.lock().interrupt();
        }
        loop {
            let Some(thread) = self.running.lock().pop() else {
                return;
            };
            let _ = thread.join();
        }
    }
}

/// The deaths of the threads that served one hub.
#[derive(Default)]
struct Deaths {
    last: Option<Instant>,
}

impl Deaths {
    /// One more. True if there was another one in the minute before.
    fn add(&mut self, now: Instant) -> bool {
        let last = self.last.replace(now);
        last.is_some_and(|last| now.saturating_duration_since(last) < MINUTE)
    }
}

/// The place at a hub, which one thread after the other takes.
struct Seat<O, T> {
    place: usize,
    direct: Arc<Direct<O>>,
    hubs: Arc<Hubs<T>>,
    stop: Arc<AtomicBool>,
    running: Running,
    deaths: Deaths,
}

impl<O, T> Seat<O, T>
where
    O: Send + Sync + 'static,
    T: Send + 'static,
{
    fn name(&self) -> String {
        format!("ottla-network-{}", self.place + 1)
    }

    fn start(self) -> io::Result<()> {
        let running = Arc::clone(&self.running);
        // Whoever ends the threads finds this one, or is seen here.
        let mut running = running.lock();
        if self.stop.load(Ordering::Acquire) {
            return Ok(());
        }
        running.retain(|thread| !thread.is_finished());
        let builder = Builder::new().name(self.name());
        running.push(builder.spawn(move || self.run())?);
        Ok(())
    }

    /// Serves the hub until it rests or all are told to stop. A death costs the connections that the hub has.
    fn run(self) {
        let mut turn = Turn::default();
        let reason = match catching(|| self.serve(&mut turn)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(panicked) => panicked.to_string(),
        };
        self.died(turn, &reason);
    }

    fn serve(&self, turn: &mut Turn<O>) -> io::Result<()> {
        let Some(hub) = self.hubs.other(self.place) else {
            return Ok(());
        };
        while !self.stop.load(Ordering::Acquire) && !self.hubs.rests(self.place) {
            self.direct.serve_alone(&self.hubs, hub, turn)?;
        }
        Ok(())
    }

    /// Has another thread serve the hub, or the broker stop.
    fn died(mut self, mut turn: Turn<O>, reason: &str) {
        let name = self.name();
        // Others see what it has appended, though its own clients get no answer.
        let _ = catching(|| self.direct.hand_rest(&self.hubs, &mut turn));
        if let Some(hub) = self.hubs.other(self.place) {
            let told = format!("{name}, which served it, ended with {reason}");
            let _ = catching(|| self.hubs.thread_failed(hub, &told));
        }
        let hubs = Arc::clone(&self.hubs);
        if self.deaths.add(Instant::now()) {
            let told = format!("{name} died twice in a minute, now with {reason}");
            return hubs.hand(Event::Failed(told));
        }
        if let Err(error) = self.start() {
            let told = format!("{name} died with {reason}, and cannot be started again: {error}");
            hubs.hand(Event::Failed(told));
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
                Some(Event::Failed(reason)) => panic!("{reason}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_deaths_in_a_minute() {
        let mut deaths = Deaths::default();
        let start = Instant::now();
        let after_s = [0, 60, 119, 180, 239];
        let found = after_s.map(|after_s| deaths.add(start + Duration::from_secs(after_s)));
        assert_eq!(found, [false, false, true, false, true]);
    }
}
