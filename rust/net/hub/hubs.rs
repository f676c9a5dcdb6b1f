//! All hubs of a broker: the loop's, which accepts, and one for each further thread that serves.
//!
//! The id of a connection names a hub, and few connections are at another ([`moving`]). A thread that answers a request
//! takes the lock of the hub that has the connection for a moment ([`Hubs::of`]).

use parking_lot::MutexGuard;

use super::*;
use crate::net::table::HUBS_MAX;
use crate::traffic::Topics;

pub struct Hubs<T> {
    joint: Arc<Joint<T>>,
    loops: Mutex<Hub<T>>,
    others: Vec<Mutex<Hub<T>>>,
}

impl<T> Hubs<T> {
    /// The loop's hub, and as many as `threads` beside it.
    pub fn new(
        limits: Limits,
        connections: ConnectionLimits,
        apis: &HashMap<i16, Api>,
        threads: usize,
    ) -> io::Result<Self> {
        let count = 1 + threads.min(HUBS_MAX - 1);
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
        });
        let joint = Arc::new(Joint::new(&wakes, started));
        let new_epoll = || epoll::create(CreateFlags::CLOEXEC).map(Arc::new);
        let first = new_epoll()?;
        let acceptor = Acceptor::new(Arc::clone(&first), connections);
        let acceptor = Arc::new(Mutex::new(acceptor));
        let mut hubs = Vec::with_capacity(count);
        for (number, wake) in wakes.into_iter().enumerate() {
            let epoll = match number {
                0 => Arc::clone(&first),
                _ => new_epoll()?,
            };
            hubs.push(Mutex::new(Hub::new(
                number,
                (epoll, wake),
                Arc::clone(&joint),
                Arc::clone(&acceptor),
                Arc::clone(&shared),
            )?));
        }
        Ok(Self {
            joint,
            loops: hubs.remove(0),
            others: hubs,
        })
    }

    /// The loop's.
    pub fn loops(&self) -> &Mutex<Hub<T>> {
        &self.loops
    }

    /// Those of the threads beside the loop.
    pub fn others(&self) -> &[Mutex<Hub<T>>] {
        &self.others
    }

    pub fn all(&self) -> impl Iterator<Item = &Mutex<Hub<T>>> {
        std::iter::once(&self.loops).chain(&self.others)
    }

    /// The hub of a connection, locked.
    pub fn of(&self, connection: u64) -> MutexGuard<'_, Hub<T>> {
        loop {
            let number = self.number_of(connection);
            let other = number.checked_sub(1);
            let hub = other.and_then(|place| self.others.get(place));
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
            let new = || Box::new(Meter::of(Arc::clone(topics), started));
            hub.lock().meter.get_or_insert_with(new);
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

    /// How long it was measured, and for how much of that turns ran, in microseconds: of the threads beside the loop
    /// together, or of the loop where it is alone.
    pub fn busy_us(&self) -> (u64, u64) {
        let serving = match self.others.as_slice() {
            [] => std::slice::from_ref(&self.loops),
            others => others,
        };
        let each = serving.iter().filter_map(|hub| {
            let hub = hub.lock();
            hub.meter.as_ref().map(|meter| meter.busy_us())
        });
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Closes everything at once. The threads beside the loop have ended; the loop hears of their connections.
    pub fn close(&self) {
        for hub in &self.others {
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

    /// The connections of each thread beside the loop, and how long it has worked in the last second, in microseconds.
    pub fn threads(&self) -> Vec<(usize, u64)> {
        self.joint.threads()
    }

    /// Of all hubs together.
    pub fn figures(&self) -> Figures {
        let mut sum = self.loops.lock().figures();
        for hub in &self.others {
            let hub = hub.lock();
            sum.queued_bytes += hub.short.reservations.bytes();
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
