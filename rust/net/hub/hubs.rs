//! All hubs of a broker: the loop's, which accepts, and one for each further thread that serves or has served.
//!
//! The id of a connection names a hub, and few connections are at another ([`moving`]). A thread that answers a request
//! takes the lock of the hub that has the connection for a moment ([`Hubs::of`]).

use std::sync::OnceLock;

use parking_lot::MutexGuard;

use super::*;
use crate::net::table::HUBS_MAX;
use crate::traffic::Topics;

pub struct Hubs<T> {
    joint: Arc<Joint<T>>,
    acceptor: Arc<Mutex<Acceptor>>,
    shared: Arc<Shared>,
    wakes: Vec<Arc<Wake>>,
    loops: Mutex<Hub<T>>,
    /// Each is made when its thread serves for the first time.
    others: Vec<OnceLock<Mutex<Hub<T>>>>,
}

impl<T> Hubs<T> {
    /// The loop's hub, which serves, and room for as many as `threads_max` beside it.
    pub fn new(
        limits: Limits,
        connections: ConnectionLimits,
        apis: &HashMap<i16, Api>,
        threads_max: usize,
    ) -> io::Result<Self> {
        let count = 1 + threads_max.min(HUBS_MAX - 1);
        let wakes = (0..count).map(|_| Wake::new().map(Arc::new));
        let wakes = wakes.collect::<io::Result<Vec<_>>>()?;
        let bounds = Bounds::new(limits.queued_bytes_max, limits.frame_bytes_max);
        let budget = Arc::new(Budget::shared(bounds, wakes.clone()));
        let started = Instant::now();
        let shared = Arc::new(Shared {
            budget: Arc::clone(&budget),
            pool: Arc::new(Pool::new(budget)),
            started,
            limits,
            supported: Supported::new(apis),
            shortages: Shortages::of(count),
            answers: Answers::default(),
        });
        let joint = Arc::new(Joint::new(&wakes, started));
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let acceptor = Acceptor::new(Arc::clone(&epoll), connections);
        let acceptor = Arc::new(Mutex::new(acceptor));
        let loops = Hub::new(
            0,
            (epoll, Arc::clone(&wakes[0])),
            Arc::clone(&joint),
            Arc::clone(&acceptor),
            Arc::clone(&shared),
        )?;
        Ok(Self {
            joint,
            acceptor,
            shared,
            wakes,
            loops: Mutex::new(loops),
            others: (1..count).map(|_| OnceLock::new()).collect(),
        })
    }

    /// Has so many threads serve, at most those for which there is room; where there are none, the loop serves. `start`
    /// starts the thread at a place. Returns the error by which fewer serve.
    ///
    /// Connections go from hubs that serve no more to those that do, and no request is lost. The thread of such a hub
    /// ends after that ([`rests`](Self::rests)). Only the loop's thread calls this.
    pub fn serve_by(
        &self,
        threads: usize,
        mut start: impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut threads = self.others.len().min(threads);
        let mut made = Ok(());
        // Before `Serving` is locked, which is locked after hubs.
        for number in 1..=threads {
            made = self.make(number);
            if made.is_err() {
                threads = number - 1;
                break;
            }
        }
        let start = |number| start(number - 1);
        let served = self.joint.serving.serve_by(threads, start);
        self.joint.wake_all();
        served.and(made)
    }

    /// Makes the hub of a number if there is none yet.
    fn make(&self, number: usize) -> io::Result<()> {
        let place = &self.others[number - 1];
        if place.get().is_some() {
            return Ok(());
        }
        let mut hub = Hub::new(
            number,
            (
                Arc::new(epoll::create(CreateFlags::CLOEXEC)?),
                Arc::clone(&self.wakes[number]),
            ),
            Arc::clone(&self.joint),
            Arc::clone(&self.acceptor),
            Arc::clone(&self.shared),
        )?;
        let loops = self.loops.lock();
        hub.draining = loops.draining;
        hub.meter = loops.meter.as_ref().map(|meter| {
            let mut meter = meter.empty();
            meter.counts_time(false);
            Box::new(meter)
        });
        drop(loops);
        let _ = place.set(Mutex::new(hub));
        Ok(())
    }

    /// How many threads serve beside the loop.
    pub fn serving(&self) -> usize {
        self.joint.serving.threads()
    }

    /// True if the hub at a place has left, so that its thread ends. Nobody comes to it then, unless another thread is
    /// started.
    pub fn rests(&self, place: usize) -> bool {
        if self.joint.serving.has(place + 1) {
            return false;
        }
        self.other(place).is_none_or(|hub| {
            // What it has to tell is told first.
            let hub = hub.lock();
            hub.events.is_empty() && self.joint.ends(place + 1)
        })
    }

    /// The loop's.
    pub fn loops(&self) -> &Mutex<Hub<T>> {
        &self.loops
    }

    /// Those of the threads beside the loop that serve or have served.
    pub fn others(&self) -> impl Iterator<Item = &Mutex<Hub<T>>> {
        self.others.iter().filter_map(OnceLock::get)
    }

    /// That of the thread at this place beside the loop.
    pub fn other(&self, place: usize) -> Option<&Mutex<Hub<T>>> {
        self.others.get(place)?.get()
    }

    pub fn all(&self) -> impl Iterator<Item = &Mutex<Hub<T>>> {
        std::iter::once(&self.loops).chain(self.others())
    }

    /// The hub of a connection, locked.
    pub fn of(&self, connection: u64) -> MutexGuard<'_, Hub<T>> {
        loop {
            let number = self.number_of(connection);
            let other = number.checked_sub(1);
            let hub = other.and_then(|place| self.other(place));
            let mut hub = hub.unwrap_or(&self.loops).lock();
            // It may have gone on before the lock was taken, and cannot any more.
            if self.number_of(connection) == number {
                hub.welcome_those_who_came();
                return hub;
            }
        }
    }

    /// The number of the hub that has a connection. It stays the same while a request waits for its answer.
    pub fn number_of(&self, connection: u64) -> usize {
        self.joint.elsewhere.hub_of(connection)
    }

    /// How often a connection went from one thread to another.
    pub fn moved_total(&self) -> u64 {
        self.joint.elsewhere.moved_total()
    }

    /// Closes the listeners of a name. Their connections end as soon as they are owed no answer.
    pub fn stop_listening(&self, name: &str) {
        self.joint.elsewhere.stand_still(true);
        // Each that is leaving a hub has left it.
        self.all().for_each(|hub| drop(hub.lock()));
        for hub in self.all() {
            let mut hub = hub.lock();
            hub.welcome_those_who_came();
            hub.stop_listening(name);
        }
        self.joint.elsewhere.stand_still(false);
    }

    /// Nobody moves from now on, or as before.
    #[cfg(test)]
    pub fn stand_still(&self, stands: bool) {
        self.joint.elsewhere.stand_still(stands);
    }

    /// Has the loop's hub hand out an event of another thread's.
    pub fn hand(&self, event: Event<T>) {
        self.joint.hand(event);
    }

    /// The thread of a hub beside the loop's failed: its connections are closed, and the loop hears of that.
    pub fn thread_failed(&self, hub: &Mutex<Hub<T>>, reason: &str) {
        let events = {
            let mut hub = hub.lock();
            hub.begin_anew(reason);
            mem::take(&mut hub.events)
        };
        events.into_iter().for_each(|event| self.hand(event));
    }

    /// Begins to measure what requests cost, if that is not measured already.
    pub fn measure(&self, topics: &Arc<Topics>) {
        let started = Instant::now();
        for hub in self.all() {
            let mut hub = hub.lock();
            let serves = hub.moving.role != Role::Leaves;
            hub.meter.get_or_insert_with(|| {
                let mut meter = Meter::of(Arc::clone(topics), started);
                meter.counts_time(serves);
                Box::new(meter)
            });
        }
    }

    /// The measurements of all hubs together; None before `measure`.
    pub fn measured(&self) -> Option<Meter> {
        let mut sum: Option<Meter> = None;
        for hub in self.all() {
            let mut hub = hub.lock();
            let meter = hub.meter.as_mut()?;
            sum.get_or_insert_with(|| meter.empty()).add(meter);
        }
        sum
    }

    /// How long threads have served connections, and for how much of that turns ran, in microseconds: of all of them
    /// together, since they were measured.
    pub fn served_us(&self) -> (u64, u64) {
        let each = self.all().filter_map(|hub| {
            let hub = hub.lock();
            hub.meter.as_ref().map(|meter| meter.served_us())
        });
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// How long the loop was measured, and for how much of that its turns ran, in microseconds, whoever serves.
    pub fn loop_busy_us(&self) -> (u64, u64) {
        let hub = self.loops.lock();
        hub.meter.as_ref().map_or((0, 0), |meter| meter.busy_us())
    }

    /// Closes everything at once. The threads beside the loop have ended; the loop hears of their connections.
    pub fn close(&self) {
        for hub in self.others() {
            let mut hub = hub.lock();
            hub.close();
            for arrival in self.joint.arrived(hub.number) {
                hub.take_in(arrival);
            }
            hub.welcome_those_who_came();
            hub.close();
            mem::take(&mut hub.events)
                .into_iter()
                .for_each(|event| self.joint.hand(event));
        }
        self.loops.lock().close();
    }

    /// The connections of each thread that serves beside the loop, and how long it has worked in the last second, in
    /// microseconds.
    pub fn threads(&self) -> Vec<(usize, u64)> {
        self.joint.threads()
    }

    /// Of all hubs together.
    pub fn figures(&self) -> Figures {
        let mut sum = self.loops.lock().figures();
        for hub in self.others() {
            let hub = hub.lock();
            sum.turns_total += hub.turn;
            sum.cold_reads_total += hub.figures.cold_reads_total;
        }
        // With those that were accepted and are on their way to their hub.
        sum.connections = self.joint.connections();
        sum
    }
}

#[cfg(test)]
impl<T> Hub<T> {
    /// One without others.
    pub fn alone(
        limits: Limits,
        connections: ConnectionLimits,
        apis: &HashMap<i16, Api>,
    ) -> io::Result<Self> {
        Hubs::new(limits, connections, apis, 0).map(|hubs| hubs.loops.into_inner())
    }
}
