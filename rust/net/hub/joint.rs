//! The ways from one hub to another: connections go to the thread that serves them, events to the loop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::acceptor::Entry;
use super::search::{Idleness, Search, Task};
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
    /// It has a part in the search for an idle connection.
    searches: AtomicBool,
    wake: Arc<Wake>,
}

pub(super) struct Joint<T> {
    places: Vec<Place>,
    /// On their way to the loop.
    events: Mutex<Vec<Event<T>>>,
    /// Changes with each choice between hubs that have equally many connections.
    choices: AtomicUsize,
    /// For a connection that is closed for one that comes.
    search: Mutex<Search>,
}

impl<T> Joint<T> {
    /// For the hubs of these wakes; the loop's comes first.
    pub fn new(wakes: &[Arc<Wake>]) -> Self {
        let places = wakes.iter().map(|wake| Place {
            arrivals: Mutex::default(),
            connections: AtomicUsize::new(0),
            searches: AtomicBool::new(false),
            wake: Arc::clone(wake),
        });
        Self {
            places: places.collect(),
            events: Mutex::default(),
            choices: AtomicUsize::new(0),
            search: Mutex::new(Search::of(wakes.len())),
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

    /// Has one of the threads close a connection that is idle.
    pub fn ask_for_room(&self, now_ms: u64) {
        let asked = self.search.lock().ask(now_ms);
        asked.into_iter().for_each(|number| self.has_task(number));
    }

    fn has_task(&self, number: usize) {
        if let Some(place) = self.places.get(number) {
            place.searches.store(true, Ordering::Release);
            place.wake.signal();
        }
    }

    /// Returns the task of a hub, so that there is room for a connection that comes.
    pub fn task(&self, number: usize) -> Task {
        let place = self.places.get(number);
        match place.is_some_and(|place| place.searches.swap(false, Ordering::AcqRel)) {
            true => self.search.lock().task(number),
            false => Task::Nothing,
        }
    }

    /// A hub names the connection that it would close.
    pub fn name(&self, number: usize, idlest: Option<Idleness>) {
        let decided = self.search.lock().named(number, idlest);
        decided.into_iter().for_each(|number| self.has_task(number));
    }

    /// A hub has closed one, or has none any more.
    pub fn made_room(&self, number: usize) {
        self.search.lock().done(number);
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
