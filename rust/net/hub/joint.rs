//! The ways from one hub to another: connections go to the thread that serves them, events to the loop.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::acceptor::Entry;
use super::elsewhere::Elsewhere;
use super::search::{Idleness, Search, Task};
use super::serving::Serving;
use super::work::{LastSecond, Work};
use super::*;

/// Threads whose work in the last second is in the same step have worked equally: one twentieth of it.
const STEP_US: u64 = 50_000;

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
    work: Work,
    /// Connections that have left it.
    gone: LastSecond,
    /// It has a part in the search for an idle connection.
    searches: AtomicBool,
    wake: Arc<Wake>,
}

pub(super) struct Joint<T> {
    places: Vec<Place>,
    /// On their way to the loop.
    events: Mutex<Vec<Event<T>>>,
    /// Where the time of all hubs begins.
    started: Instant,
    /// Changes with each choice between hubs that are alike, for `chance`.
    choices: AtomicUsize,
    chance: RandomState,
    /// For a connection that is closed for one that comes.
    search: Mutex<Search>,
    /// Connections that have moved.
    pub elsewhere: Elsewhere,
    pub serving: Serving,
}

impl<T> Joint<T> {
    /// For the hubs of these wakes; the loop's comes first.
    pub fn new(wakes: &[Arc<Wake>], started: Instant) -> Self {
        let places = wakes.iter().map(|wake| Place {
            arrivals: Mutex::default(),
            connections: AtomicUsize::new(0),
            work: Work::default(),
            gone: LastSecond::default(),
            searches: AtomicBool::new(false),
            wake: Arc::clone(wake),
        });
        Self {
            places: places.collect(),
            events: Mutex::default(),
            started,
            choices: AtomicUsize::new(0),
            chance: RandomState::new(),
            search: Mutex::new(Search::of(wakes.len())),
            elsewhere: Elsewhere::of(wakes.len()),
            serving: Serving::of(wakes.len()),
        }
    }

    /// A connection leaves a hub, whose lock is held, for another.
    pub fn send_on(&self, from: usize, to: usize, connection: Box<Connection>) {
        if let (Some(from), Some(place)) = (self.places.get(from), self.places.get(to)) {
            from.connections.fetch_sub(1, Ordering::Relaxed);
            place.connections.fetch_add(1, Ordering::Relaxed);
            self.elsewhere.send_on(to, connection);
            place.wake.signal();
        }
    }

    /// Chooses the hub for a connection that comes, and counts it there.
    pub fn place(&self) -> usize {
        let serving = self.serving.lock();
        let number = self.choose(serving.threads, self.now_us());
        self.places[number]
            .connections
            .fetch_add(1, Ordering::Relaxed);
        number
    }

    /// All hubs look who serves now.
    pub fn wake_all(&self) {
        self.places.iter().for_each(|place| place.wake.signal());
    }

    /// All hubs but this one look what there is.
    pub fn wake_others(&self, number: usize) {
        let others = self.places.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        others.for_each(|(_, place)| place.wake.signal());
    }

    /// Ends the thread of a hub that has left, if nobody is to come to it any more. False: it goes on.
    pub fn ends(&self, number: usize) -> bool {
        if self.serving.has(number) {
            return false;
        }
        let mut serving = self.serving.lock();
        let place = &self.places[number];
        if serving.has(number) || place.connections.load(Ordering::Relaxed) > 0 {
            return false;
        }
        serving.ends(number);
        // Nobody waits for what it would name.
        let decided = self.search.lock().named(number, None);
        decided.into_iter().for_each(|number| self.has_task(number));
        true
    }

    pub fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Returns the hub that has worked least in the last second, of those of so many threads that serve. Of those that
    /// have worked equally it is the one with the fewest connections, and of those any.
    ///
    /// The work of a connection shows when it has spoken for a while. So that many that come together do not all go to
    /// the same thread, one with an eighth and a few more connections than the fewest is not chosen. Where many leave
    /// soon, what the others do is known, and the few are more.
    pub fn choose(&self, threads: usize, now_us: u64) -> usize {
        let others = self.places.iter().enumerate().skip(1);
        let counts = others.take(threads).map(|(number, place)| {
            let count = place.connections.load(Ordering::Relaxed);
            (number, count, place.work.last_second_us(now_us) / STEP_US)
        });
        let mut counts: Vec<_> = counts.collect();
        let fewest = counts.iter().map(|(_, count, _)| *count).min().unwrap_or(0);
        let gone = self.places.iter().map(|place| place.gone.sum(now_us));
        let slack = 2 + gone.sum::<u64>() as usize / 64;
        counts.retain(|(_, count, _)| *count <= fewest + fewest / 8 + slack);
        let least = counts.iter().map(|(_, count, work)| (*work, *count)).min();
        counts.retain(|(_, count, work)| Some((*work, *count)) == least);
        let choice = self.choices.fetch_add(1, Ordering::Relaxed);
        let chance = self.chance.hash_one(choice) % counts.len().max(1) as u64;
        counts
            .get(chance as usize)
            .map_or(0, |(number, _, _)| *number)
    }

    /// The turn of a thread begins or ends. Returns the time.
    pub fn works(&self, number: usize, goes_on: bool) -> u64 {
        let now_us = self.now_us();
        match (self.places.get(number), goes_on) {
            (Some(place), true) => place.work.begins(now_us),
            (Some(place), false) => place.work.ends(now_us),
            (None, _) => {}
        }
        now_us
    }

    /// The connections of each thread that serves beside the loop, and how long it has worked in the last second, in
    /// microseconds.
    pub fn threads(&self) -> Vec<(usize, u64)> {
        let now_us = self.now_us();
        let others = self.places.iter().skip(1).take(self.serving.threads());
        let each = others.map(|place| {
            let count = place.connections.load(Ordering::Relaxed);
            (count, place.work.last_second_us(now_us))
        });
        each.collect()
    }

    /// A connection of this hub is no more.
    pub fn left(&self, number: usize) {
        if let Some(place) = self.places.get(number) {
            place.connections.fetch_sub(1, Ordering::Relaxed);
            if number > 0 {
                place.gone.add(self.now_us(), 1);
            }
            if !self.serving.has(number) {
                // Its thread may end.
                place.wake.signal();
            }
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
        let serving = self.serving.lock();
        let asked = self.search.lock().ask(now_ms, serving.running());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The loop and three threads, which have so many connections and have worked for so long.
    fn joint(threads: [(usize, u64); 3]) -> Joint<()> {
        let wakes = [(); 4].map(|()| Arc::new(Wake::new().unwrap()));
        let joint = Joint::new(&wakes, Instant::now());
        for (place, (count, work_us)) in joint.places[1..].iter().zip(threads) {
            place.connections.store(count, Ordering::Relaxed);
            place.work.begins(0);
            place.work.ends(work_us);
        }
        joint.serving.serve_by(3, |_| Ok(())).unwrap();
        joint
    }

    #[test]
    fn who_has_worked_least_gets_the_next_one() {
        let busy = joint([(5, 400_000), (6, 100_000), (5, 300_000)]);
        assert_eq!(busy.choose(3, 900_000), 2);
        // A second later nobody has worked.
        let found: Vec<_> = (0..100).map(|_| busy.choose(3, 2_000_000)).collect();
        assert!(found.contains(&1) && found.contains(&3) && !found.contains(&2));
    }

    #[test]
    fn a_little_more_work_is_equal_work() {
        let alike = joint([(4, 49_000), (3, 40_000), (4, 0)]);
        assert_eq!(alike.choose(3, 100_000), 2);
    }

    #[test]
    fn many_that_come_together_are_divided() {
        let joint = joint([(0, 900_000), (0, 0), (0, 500_000)]);
        for _ in 0..60 {
            let number = joint.choose(3, 900_000);
            joint.places[number]
                .connections
                .fetch_add(1, Ordering::Relaxed);
        }
        let counts = joint.threads().into_iter().map(|(count, _)| count);
        assert!(counts.clone().max() <= Some(26), "{:?}", joint.threads());
        assert_eq!(counts.sum::<usize>(), 60);
        assert!(joint.threads()[1].0 > joint.threads()[0].0);
    }

    /// Ten thousand connections a second, each with one request, beside one that takes half of a thread.
    #[test]
    fn short_connections_go_round_a_long_one() {
        const ARRIVAL_US: u64 = 100;
        let joint = joint([(1, 0), (0, 0), (0, 0)]);
        let mut open = VecDeque::new();
        let mut worked_us = [0; 3];
        let mut works = |thread: usize, now_us: u64, took_us: u64| {
            joint.places[1 + thread].work.begins(now_us);
            joint.places[1 + thread].work.ends(now_us + took_us);
            if now_us >= 2_000_000 {
                worked_us[thread] += took_us;
            }
        };
        for arrival in 0..40_000 {
            let now_us = arrival * ARRIVAL_US;
            works(0, now_us, ARRIVAL_US / 2);
            let number = joint.choose(3, now_us);
            let count = &joint.places[number].connections;
            count.fetch_add(1, Ordering::Relaxed);
            works(number - 1, now_us, 90);
            open.push_back(number);
            if open.len() > 10 {
                let number = open.pop_front().unwrap();
                let place = &joint.places[number];
                place.connections.fetch_sub(1, Ordering::Relaxed);
                place.gone.add(now_us, 1);
            }
        }
        let mean_us = worked_us.iter().sum::<u64>() / 3;
        let most_us = worked_us.iter().max().unwrap();
        assert!(most_us * 10 <= mean_us * 12, "{worked_us:?}");
    }
}
