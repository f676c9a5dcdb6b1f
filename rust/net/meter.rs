//! What requests cost, by API: how many, how large, how long. Kept by a hub that was told to measure, else nothing is.
//!
//! A hub belongs to one thread, so these are plain numbers, which are summed when somebody asks ([`Meter::add`]): a request that is measured costs two readings of the clock, three if its answer comes
//! later than its handler returns, and a few additions. A reading that nothing worth mentioning followed is used again: a request starts when the
//! visit before its own ended, and is sent from when the visit's last answer was given.
//!
//! Quantiles are of the last five to ten minutes (Kafka's lean towards the last five): two tables of counts, of which the older is thrown away
//! when the younger is five minutes old. A table has one place for each sixteenth of a power of two, so what is read from it is off by 3 % at
//! most, and it has 600 places whatever came.

use std::sync::Arc;
use std::time::Instant;

use super::times::{PARTS, Stamps};
use crate::traffic::Topics;
use crate::wire::keys::FETCH;

const WINDOW_US: u64 = 300_000_000;
const STEPS: usize = 16;
/// Larger values count as this: 12 days, or a terabyte.
const VALUE_BITS_MAX: u32 = 40;
const PLACES: usize = STEPS + (VALUE_BITS_MAX as usize - 4) * STEPS;

/// As Kafka's metrics tell them.
pub const QUANTILES: [f64; 6] = [0.5, 0.75, 0.95, 0.98, 0.99, 0.999];

/// Fetches of consumers and of followers are told apart, under keys of their own beside Fetch's.
pub const FETCH_CONSUMER: i16 = -1;
pub const FETCH_FOLLOWER: i16 = -2;

pub struct Histogram {
    pub count: u64,
    /// The younger table and the older.
    tables: [Vec<u32>; 2],
    since_us: u64,
}

impl Histogram {
    fn new(now_us: u64) -> Self {
        Self {
            count: 0,
            tables: [vec![0; PLACES], vec![0; PLACES]],
            since_us: now_us,
        }
    }

    pub fn record(&mut self, value: u64, now_us: u64) {
        self.turn(now_us);
        self.count += 1;
        let place = &mut self.tables[0][place(value)];
        *place = place.saturating_add(1);
    }

    fn turn(&mut self, now_us: u64) {
        let age = now_us.saturating_sub(self.since_us);
        if age >= WINDOW_US {
            self.tables.swap(0, 1);
            self.tables[0].fill(0);
            if age >= 2 * WINDOW_US {
                self.tables[1].fill(0);
            }
            self.since_us = now_us;
        }
    }

    /// Adds what another one has counted.
    fn add(&mut self, other: &mut Self, now_us: u64) {
        self.turn(now_us);
        other.turn(now_us);
        self.count += other.count;
        for (table, more) in self.tables.iter_mut().zip(&other.tables) {
            for (count, more) in table.iter_mut().zip(more) {
                *count = count.saturating_add(*more);
            }
        }
    }

    /// The values at `QUANTILES`; 0 where there was nothing lately.
    pub fn quantiles(&mut self, now_us: u64) -> [f64; QUANTILES.len()] {
        self.turn(now_us);
        let [younger, older] = &self.tables;
        let counts = younger.iter().zip(older);
        let counts: Vec<u64> = counts.map(|(a, b)| u64::from(*a) + u64::from(*b)).collect();
        let all: u64 = counts.iter().sum();
        QUANTILES.map(|quantile| {
            let rank = (quantile * all as f64).ceil().max(1.0) as u64;
            let mut seen = 0;
            let at = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            at.map_or(0.0, middle)
        })
    }
}

fn place(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS_MAX) - 1);
    if value < STEPS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS.ilog2();
    (shift as usize) * STEPS + (value >> shift) as usize
}

/// The middle of what a place stands for.
fn middle(place: usize) -> f64 {
    if place < 2 * STEPS {
        return place as f64;
    }
    let shift = place / STEPS - 1;
    let first = ((place % STEPS + STEPS) as u64) << shift;
    first as f64 + ((1u64 << shift) - 1) as f64 / 2.0
}

/// One API.
pub struct Api {
    /// Requests by version.
    pub versions: Vec<u64>,
    /// In microseconds, in the order of `Stamps::parts_us`.
    pub times_us: [Histogram; PARTS],
    pub bytes: Histogram,
    /// For how long connections were muted with the answer; 0 where they were not.
    pub throttle_ms: Histogram,
    /// How often each error code stood in answers, 0 too; they are few.
    pub errors: Vec<(i16, u64)>,
}

impl Api {
    fn new(now_us: u64) -> Self {
        Self {
            versions: Vec::new(),
            times_us: std::array::from_fn(|_| Histogram::new(now_us)),
            bytes: Histogram::new(now_us),
            throttle_ms: Histogram::new(now_us),
            errors: Vec::new(),
        }
    }

    fn add(&mut self, other: &mut Self, now_us: u64) {
        let versions = self.versions.len().max(other.versions.len());
        self.versions.resize(versions, 0);
        for (count, more) in self.versions.iter_mut().zip(&other.versions) {
            *count += more;
        }
        for (times_us, more) in self.times_us.iter_mut().zip(&mut other.times_us) {
            times_us.add(more, now_us);
        }
        self.bytes.add(&mut other.bytes, now_us);
        self.throttle_ms.add(&mut other.throttle_ms, now_us);
        for (code, count) in &other.errors {
            self.note(*code, *count);
        }
    }

    fn note(&mut self, code: i16, more: u64) {
        match self.errors.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += more,
            None => self.errors.push((code, more)),
        }
    }
}

pub struct Meter {
    started: Instant,
    /// By key, from `FETCH_FOLLOWER` on.
    apis: Vec<Option<Box<Api>>>,
    /// How long turns took, in microseconds.
    busy_us: u64,
    /// Of the turn that goes on.
    turn_began_us: Option<u64>,
    /// The time and `busy_us` when the hub began to serve, if it does, and their sums of the times before.
    serves_since: Option<(u64, u64)>,
    served_us: (u64, u64),
    /// The last reading, and whether nothing worth a further one came after it.
    last_us: u64,
    is_fresh: bool,
    /// What is being handled and is not answered, by connection and sequence.
    pub handling: Option<(u64, u64)>,
    /// Which Fetch was answered last.
    last_fetch: i16,
    /// Where requests are counted for the topics that they name.
    pub topics: Arc<Topics>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            apis: Vec::new(),
            busy_us: 0,
            turn_began_us: None,
            serves_since: Some((0, 0)),
            served_us: (0, 0),
            last_us: 0,
            is_fresh: false,
            handling: None,
            last_fetch: FETCH_CONSUMER,
            topics: Arc::default(),
        }
    }
}

impl Meter {
    /// One that measures from `started` on; all hubs of a broker have the same beginning.
    pub fn of(topics: Arc<Topics>, started: Instant) -> Self {
        Self {
            started,
            topics,
            ..Self::default()
        }
    }

    /// One with the same beginning that has measured nothing.
    pub fn empty(&self) -> Self {
        Self::of(Arc::clone(&self.topics), self.started)
    }

    /// Adds what a meter with the same beginning has measured of another hub.
    pub fn add(&mut self, other: &mut Self) {
        let now_us = self.now_us();
        self.busy_us += other.busy_us;
        for (key, more) in other.apis() {
            if let Some(api) = self.api(key, now_us) {
                api.add(more, now_us);
            }
        }
    }

    /// A time to measure from; never 0, which stands for a request that nobody measures.
    pub fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64 + 1
    }

    /// The same, and kept for those who need no better.
    pub fn read(&mut self) -> u64 {
        self.last_us = self.now_us();
        self.is_fresh = true;
        self.last_us
    }

    pub fn last_us(&self) -> u64 {
        self.last_us
    }

    /// Something happened that is not the next request's.
    pub fn stale(&mut self) {
        self.is_fresh = false;
    }

    pub fn turn_began(&mut self) {
        self.turn_began_us = Some(self.read());
    }

    /// The last reading, or a new one if something came after it.
    pub fn fresh_us(&mut self) -> u64 {
        if self.is_fresh {
            self.last_us
        } else {
            self.read()
        }
    }

    /// A request is handed out: when it starts.
    pub fn starts(&mut self, request: (u64, u64)) -> u64 {
        self.handling = Some(request);
        self.fresh_us()
    }

    pub fn turn_ended(&mut self) {
        self.busy_us = self.busy_us().1;
        self.turn_began_us = None;
    }

    /// How long it was measured, and for how much of that turns ran.
    pub fn busy_us(&self) -> (u64, u64) {
        let now_us = self.now_us();
        let began_us = self.turn_began_us.unwrap_or(now_us);
        (now_us, self.busy_us + now_us.saturating_sub(began_us))
    }

    /// The hub serves from now on, or leaves it to others: its time counts or does not.
    pub fn counts_time(&mut self, serves: bool) {
        self.served_us = self.served_us();
        self.serves_since = serves.then_some(self.busy_us());
    }

    /// How long the hub has served, and for how much of that turns ran.
    pub fn served_us(&self) -> (u64, u64) {
        let now = self.busy_us();
        let since = self.serves_since.unwrap_or(now);
        let (before_us, busy_before_us) = self.served_us;
        (
            before_us + now.0 - since.0,
            busy_before_us + now.1 - since.1,
        )
    }

    /// A request was answered.
    pub fn answered(&mut self, key: i16, version: i16, is_broker: bool, bytes: usize) {
        let now_us = self.read();
        let (key, which) = kinds(key, is_broker);
        self.last_fetch = which.unwrap_or(self.last_fetch);
        for key in which.into_iter().chain([key]) {
            if let Some(api) = self.api(key, now_us) {
                if let Ok(version) = usize::try_from(version) {
                    if api.versions.len() <= version {
                        api.versions.resize(version + 1, 0);
                    }
                    api.versions[version] += 1;
                }
                api.bytes.record(bytes as u64, now_us);
            }
        }
    }

    /// The answer to a request was sent.
    pub fn sent(&mut self, key: i16, is_broker: bool, stamps: &Stamps) {
        let parts_us = stamps.parts_us();
        let (key, which) = kinds(key, is_broker);
        for key in which.into_iter().chain([key]) {
            if let Some(api) = self.api(key, stamps.sent_us) {
                for (times_us, part_us) in api.times_us.iter_mut().zip(parts_us) {
                    times_us.record(part_us, stamps.sent_us);
                }
            }
        }
    }

    /// What was answered just now mutes its connection for so long; 0 for not at all.
    pub fn throttled(&mut self, key: i16, ms: u32) {
        let now_us = self.now_us();
        let fetch = (key == FETCH).then_some(self.last_fetch);
        for key in fetch.into_iter().chain([key]) {
            if let Some(api) = self.api(key, now_us) {
                api.throttle_ms.record(u64::from(ms), now_us);
            }
        }
    }

    /// An answer had these error codes.
    pub fn noted(&mut self, key: i16, codes: impl Iterator<Item = i16>) {
        let now_us = self.now_us();
        if let Some(api) = self.api(key, now_us) {
            codes.for_each(|code| api.note(code, 1));
        }
    }

    fn api(&mut self, key: i16, now_us: u64) -> Option<&mut Api> {
        let at = usize::try_from(key - FETCH_FOLLOWER).ok()?;
        if self.apis.len() <= at {
            self.apis.resize_with(at + 1, || None);
        }
        Some(self.apis[at].get_or_insert_with(|| Box::new(Api::new(now_us))))
    }

    /// What was measured, by key.
    pub fn apis(&mut self) -> impl Iterator<Item = (i16, &mut Api)> {
        let keyed = self.apis.iter_mut().zip(FETCH_FOLLOWER..);
        keyed.filter_map(|(api, key)| Some((key, api.as_deref_mut()?)))
    }
}

/// The key, and that of its kind if there are kinds.
fn kinds(key: i16, is_broker: bool) -> (i16, Option<i16>) {
    let which = if is_broker {
        FETCH_FOLLOWER
    } else {
        FETCH_CONSUMER
    };
    (key, (key == FETCH).then_some(which))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_rise_with_values_and_their_middles_are_near() {
        let mut last = 0;
        for value in (0..100_000u64).chain((17..45).flat_map(|bits| [(1 << bits) - 1, 1 << bits])) {
            let at = place(value);
            assert!(at < PLACES && at >= last, "{value} at {at} behind {last}");
            last = at;
            if value < 1 << VALUE_BITS_MAX {
                let off = (middle(at) - value as f64).abs();
                assert!(off <= value as f64 / 30.0, "{value}: {}", middle(at));
            }
        }
    }

    #[test]
    fn quantiles_of_what_came_lately() {
        let mut times = Histogram::new(0);
        assert_eq!(times.quantiles(1), [0.0; 6]);
        for value in 1..=1000 {
            times.record(value, 1);
        }
        for (found, quantile) in times.quantiles(1).into_iter().zip(QUANTILES) {
            let exact = 1000.0 * quantile;
            assert!((found - exact).abs() <= exact / 25.0, "{quantile}: {found}");
        }
        // Half a window later they still count, after two more nothing does; the sum stays.
        times.record(7, WINDOW_US + 1);
        assert!(times.quantiles(WINDOW_US + 2)[0] > 400.0);
        assert_eq!(times.quantiles(2 * WINDOW_US + 1), [7.0; 6]);
        assert_eq!(times.quantiles(9 * WINDOW_US), [0.0; 6]);
        assert_eq!(times.count, 1001);
    }

    #[test]
    fn a_fetch_counts_for_its_kind_too() {
        let mut meter = Meter::default();
        meter.answered(FETCH, 11, false, 100);
        meter.answered(FETCH, 11, true, 100);
        meter.answered(3, 9, false, 50);
        let seen: Vec<_> = meter
            .apis()
            .map(|(key, api)| (key, api.bytes.count, api.versions.iter().sum::<u64>()))
            .collect();
        assert_eq!(seen, [(-2, 1, 1), (-1, 1, 1), (1, 2, 2), (3, 1, 1)]);
    }
    #[test]
    fn meters_of_several_hubs_are_summed() {
        let started = Instant::now();
        let mut meters = [(); 2].map(|()| Meter::of(Arc::default(), started));
        for meter in &mut meters {
            meter.answered(3, 9, false, 50);
            meter.noted(3, [0, 7].into_iter());
        }
        let [one, other] = &mut meters;
        other.answered(3, 11, false, 800);
        other.answered(18, 0, false, 10);
        one.add(other);
        let seen: Vec<_> = one
            .apis()
            .map(|(key, api)| (key, api.bytes.count, api.errors.clone()))
            .collect();
        assert_eq!(seen, [(3, 3, vec![(0, 2), (7, 2)]), (18, 1, vec![])]);
        let (_, api) = one.apis().next().unwrap();
        assert_eq!((api.versions[9], api.versions[11]), (2, 1));
        assert_eq!(api.bytes.quantiles(1)[0], middle(place(50)));
    }

    #[test]
    fn errors_and_throttle_times_by_api() {
        let mut meter = Meter::default();
        meter.answered(FETCH, 11, false, 100);
        meter.throttled(FETCH, 0);
        meter.noted(FETCH, [0, 3, 0].into_iter());
        meter.noted(3, [0].into_iter());
        let seen: Vec<_> = meter
            .apis()
            .map(|(key, api)| (key, api.throttle_ms.count, api.errors.clone()))
            .collect();
        let errors = vec![(0, 2), (3, 1)];
        assert_eq!(
            seen,
            [
                (FETCH_CONSUMER, 1, vec![]),
                (FETCH, 1, errors),
                (3, 0, vec![(0, 1)])
            ]
        );
    }
}
