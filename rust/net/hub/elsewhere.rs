//! Where the connections are that are not at the hub that their ids name ([`moving`](super::moving) has the states).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::*;

/// As tables have them: to take one out of its box would copy it.
#[allow(clippy::vec_box)]
type Boxed = Vec<Box<Connection>>;

/// One hub, as others see it.
#[derive(Default)]
struct Door {
    /// On their way to it.
    coming: Mutex<Boxed>,
    has_coming: AtomicBool,
    /// Its own that ended elsewhere.
    ended: Mutex<Vec<u64>>,
}

pub(super) struct Elsewhere {
    doors: Vec<Door>,
    /// The hubs of connections that are not at home, and how many there are.
    hubs: RwLock<HashMap<u64, usize>>,
    count: AtomicUsize,
    moved_total: AtomicU64,
    /// Nobody moves while this is not 0.
    stands_still: AtomicUsize,
}

impl Elsewhere {
    /// Of so many hubs.
    pub fn of(hubs: usize) -> Self {
        Self {
            doors: (0..hubs).map(|_| Door::default()).collect(),
            hubs: RwLock::default(),
            count: AtomicUsize::new(0),
            moved_total: AtomicU64::new(0),
            stands_still: AtomicUsize::new(0),
        }
    }

    /// The number of the hub that has a connection, or will have it when it arrives.
    pub fn hub_of(&self, connection: u64) -> usize {
        if self.count.load(Ordering::Acquire) == 0 {
            return hub_of(connection);
        }
        let hub = self.hubs.read().get(&connection).copied();
        hub.unwrap_or_else(|| hub_of(connection))
    }

    /// A connection goes to another hub. Its present hub's lock is held.
    pub fn send_on(&self, to: usize, connection: Box<Connection>) {
        let id = connection.id;
        if let Some(door) = self.doors.get(to) {
            door.coming.lock().push(connection);
            door.has_coming.store(true, Ordering::Release);
        }
        let mut hubs = self.hubs.write();
        match to == hub_of(id) {
            true => hubs.remove(&id),
            false => hubs.insert(id, to),
        };
        self.count.store(hubs.len(), Ordering::Release);
        self.moved_total.fetch_add(1, Ordering::Relaxed);
    }

    /// Those that have come to a hub. Its lock is held.
    pub fn come(&self, number: usize) -> Boxed {
        match self.doors.get(number) {
            Some(door) if door.has_coming.swap(false, Ordering::AcqRel) => {
                mem::take(&mut door.coming.lock())
            }
            _ => Vec::new(),
        }
    }

    /// A guest is no more.
    pub fn ended(&self, connection: u64) {
        let mut hubs = self.hubs.write();
        hubs.remove(&connection);
        self.count.store(hubs.len(), Ordering::Release);
        if let Some(door) = self.doors.get(hub_of(connection)) {
            door.ended.lock().push(connection);
        }
    }

    /// Those of a hub that ended elsewhere.
    pub fn ended_of(&self, number: usize) -> Vec<u64> {
        let door = self.doors.get(number);
        door.map_or_else(Vec::new, |door| mem::take(&mut door.ended.lock()))
    }

    pub fn moved_total(&self) -> u64 {
        self.moved_total.load(Ordering::Relaxed)
    }

    /// Nobody moves from now on, or as before. One that is leaving its hub goes on: it holds the hub's lock.
    pub fn stand_still(&self, stands: bool) {
        match stands {
            true => self.stands_still.fetch_add(1, Ordering::SeqCst),
            false => self.stands_still.fetch_sub(1, Ordering::SeqCst),
        };
    }

    pub fn stands_still(&self) -> bool {
        self.stands_still.load(Ordering::SeqCst) > 0
    }
}
