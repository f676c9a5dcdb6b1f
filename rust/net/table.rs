//! The open connections of a hub by id. An id is an index, the hub's number and a generation: an event or an answer for
//! a connection that is gone finds nothing, although its place in the table is used again.

use std::collections::HashMap;
use std::sync::Arc;

use super::connection::Connection;
use super::listeners::Origin;

#[derive(Default)]
struct Place {
    generation: u32,
    /// Of the connection that has the place, even while it is taken out.
    origin: Option<Arc<Origin>>,
    connection: Option<Box<Connection>>,
    /// The connection is at another hub.
    is_away: bool,
}

/// A connection whose home is another hub; without it while it is taken out.
struct Guest {
    origin: Arc<Origin>,
    connection: Option<Box<Connection>>,
}

/// An index has so many bits; above them is the hub's number.
const INDEX_BITS: u32 = 24;
/// No hub has a higher number.
pub const HUBS_MAX: usize = 1 << (32 - INDEX_BITS);

/// The number of the hub that a connection belongs to.
pub fn hub_of(id: u64) -> usize {
    (id as u32 >> INDEX_BITS) as usize
}

#[derive(Default)]
pub struct Table {
    /// The hub's number, where it is in an id.
    number: u32,
    places: Vec<Place>,
    free: Vec<u32>,
    /// By their ids.
    guests: HashMap<u64, Guest>,
    used: usize,
}

fn split(id: u64) -> (usize, u32) {
    ((id & ((1 << INDEX_BITS) - 1)) as usize, (id >> 32) as u32)
}

impl Table {
    /// The table of the hub of this number, which is below [`HUBS_MAX`].
    pub fn of(number: usize) -> Self {
        Self {
            number: (number as u32) << INDEX_BITS,
            ..Self::default()
        }
    }

    /// Open connections, including those taken out for a moment.
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// An id for a new connection, which is then `put`.
    pub fn reserve(&mut self, origin: &Arc<Origin>) -> u64 {
        self.used += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.origin = Some(Arc::clone(origin));
        // Generations begin at 1, so that no id is 0; 31 bits keep ids positive for whoever takes them as signed.
        place.generation = (place.generation + 1) & 0x7fff_ffff;
        self.id(index)
    }

    /// The id of a place as it is used now.
    fn id(&self, index: u32) -> u64 {
        let generation = self.places[index as usize].generation;
        u64::from(generation.max(1)) << 32 | u64::from(self.number | index)
    }

    pub fn get(&mut self, id: u64) -> Option<&mut Connection> {
        let connection = self.slot(id)?.as_deref_mut()?;
        (connection.id == id).then_some(connection)
    }

    /// Where a connection is, or whichever has its place.
    fn slot(&mut self, id: u64) -> Option<&mut Option<Box<Connection>>> {
        if !self.is_home_of(id) {
            return Some(&mut self.guests.get_mut(&id)?.connection);
        }
        let (index, _) = split(id);
        Some(&mut self.places.get_mut(index)?.connection)
    }

    fn is_home_of(&self, id: u64) -> bool {
        id as u32 >> INDEX_BITS == self.number >> INDEX_BITS
    }

    /// Takes a connection out, to be `put` back or `remove`d.
    pub fn take(&mut self, id: u64) -> Option<Box<Connection>> {
        self.get(id)?;
        self.slot(id)?.take()
    }

    pub fn put(&mut self, connection: Box<Connection>) {
        if let Some(slot) = self.slot(connection.id) {
            *slot = Some(connection);
        }
    }

    /// A connection that was taken out goes to another hub. Its place is kept.
    pub fn leave(&mut self, id: u64) {
        self.used -= 1;
        if !self.is_home_of(id) {
            self.guests.remove(&id);
        } else if let Some(place) = self.places.get_mut(split(id).0) {
            place.is_away = true;
        }
    }

    /// One that left another hub has come: home, or as a guest. It is then `put`.
    pub fn welcome(&mut self, id: u64, origin: &Arc<Origin>) {
        self.used += 1;
        if !self.is_home_of(id) {
            let guest = Guest {
                origin: Arc::clone(origin),
                connection: None,
            };
            self.guests.insert(id, guest);
        } else if let Some(place) = self.places.get_mut(split(id).0) {
            place.is_away = false;
        }
    }

    /// Frees the place of a connection that ended at another hub.
    pub fn ended_elsewhere(&mut self, id: u64) {
        let (index, _) = split(id);
        if let Some(place) = self.places.get_mut(index) {
            (place.is_away, place.origin) = (false, None);
            self.free.push(index as u32);
        }
    }

    /// Frees the place of a connection that was taken out.
    pub fn remove(&mut self, id: u64) {
        self.used -= 1;
        if !self.is_home_of(id) {
            self.guests.remove(&id);
            return;
        }
        let (index, _) = split(id);
        self.free.push(index as u32);
        if let Some(place) = self.places.get_mut(index) {
            place.origin = None;
        }
    }

    /// All connections that are not taken out.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        let own = self.places.iter().map(|place| &place.connection);
        let guests = self.guests.values().map(|guest| &guest.connection);
        own.chain(guests).filter_map(Option::as_deref)
    }

    /// Their ids.
    pub fn ids(&self) -> Vec<u64> {
        self.iter().map(|connection| connection.id).collect()
    }

    /// The ids and origins of those that are taken out.
    pub fn taken_out(&self) -> Vec<(u64, Arc<Origin>)> {
        let places = self.places.iter().enumerate();
        let taken = places.filter(|(_, place)| place.connection.is_none() && !place.is_away);
        let own =
            taken.filter_map(|(index, place)| Some((self.id(index as u32), place.origin.clone()?)));
        let guests = self.guests.iter();
        let taken = guests.filter(|(_, guest)| guest.connection.is_none());
        own.chain(taken.map(|(id, guest)| (*id, Arc::clone(&guest.origin))))
            .collect()
    }
}
