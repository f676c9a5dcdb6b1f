//! The ways from one hub to another: connections go to the thread that serves them, events to the loop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::acceptor::Entry;
use super::*;

/// A connection that was accepted and let in, on its way to the hub that serves it.
pub(super) struct Arrival {
    pub transport: Transport,
    pub origin: Origin,
    pub entry: Entry,
}

/// One hub, as the others see it.
struct Place {
    arrivals: Mutex<Vec<Arrival>>,
    /// Its connections, and those on their way to it.
    connections: AtomicUsize,
    /// It is to close an idle connection, for one that comes.
    wants_room: AtomicBool,
    wake: Arc<Wake>,
}

pub(super) struct Joint<T> {
    places: Vec<Place>,
    /// On their way to the loop.
    events: Mutex<Vec<Event<T>>>,
    /// Changes with each choice between hubs that have equally many connections.
    choices: AtomicUsize,
}

impl<T> Joint<T> {
    /// For the hubs of these wakes; the loop's comes first.
    pub fn new(wakes: &[Arc<Wake>]) -> Self {
        let places = wakes.iter().map(|wake| Place {
            arrivals: Mutex::default(),
            connections: AtomicUsize::new(0),
            wants_room: AtomicBool::new(false),
            wake: Arc::clone(wake),
        });
        Self {
            places: places.collect(),
            events: Mutex::default(),
            choices: AtomicUsize::new(0),
        }
    }

    /// Chooses the hub for a connection that comes, and counts it there: of the threads beside the loop, if there are
    /// any, the one with the fewest.
    pub fn place(&self) -> usize {
        let threads = self.places.len() - 1;
        let first = self.choices.fetch_add(1, Ordering::Relaxed);
        let all = (0..threads).map(|at| 1 + (first + at) % threads);
        let count = |number: &usize| self.places[*number].connections.load(Ordering::Relaxed);
        let number = all.min_by_key(count).unwrap_or(0);
        self.places[number]
            .connections
            .fetch_add(1, Ordering::Relaxed);
        number
    }

    /// A connection of this hub is no more.
    pub fn left(&self, number: usize) {
        if let Some(place) = self.places.get(number) {
            place.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Connections of all hubs, with those on their way.
    pub fn connections(&self) -> usize {
        let counts = self.places.iter();
        counts
            .map(|place| place.connections.load(Ordering::Relaxed))
            .sum()
    }

    /// Has the thread with the most connections close one that is idle.
    pub fn ask_for_room(&self) {
        let others = self.places.iter().skip(1);
        let most = others.max_by_key(|place| place.connections.load(Ordering::Relaxed));
        if let Some(place) = most {
            place.wants_room.store(true, Ordering::Release);
            place.wake.signal();
        }
    }

    /// True once for each time that this hub was asked for room.
    pub fn wants_room(&self, number: usize) -> bool {
        let place = self.places.get(number);
        place.is_some_and(|place| place.wants_room.swap(false, Ordering::AcqRel))
    }

    pub fn send(&self, number: usize, arrival: Arrival) {
        if let Some(place) = self.places.get(number) {
            place.arrivals.lock().push(arrival);
            place.wake.signal();
        }
    }

    pub fn arrived(&self, number: usize) -> Vec<Arrival> {
        let place = self.places.get(number);
        place.map_or_else(Vec::new, |place| mem::take(&mut place.arrivals.lock()))
    }

    /// Hands an event to the loop.
    pub fn hand(&self, event: Event<T>) {
        self.events.lock().push(event);
        if let Some(place) = self.places.first() {
            place.wake.signal();
        }
    }

    /// Events that were handed to the loop, in their order.
    pub fn handed(&self) -> Vec<Event<T>> {
        mem::take(&mut self.events.lock())
    }
}
