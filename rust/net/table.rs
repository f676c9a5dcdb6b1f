//! The open connections by id. An id is an index and a generation: an event or an answer for a connection that is gone finds nothing, although
//! its place in the table is used again.

use super::connection::Connection;

#[derive(Default)]
struct Place {
    generation: u32,
    connection: Option<Box<Connection>>,
}

#[derive(Default)]
pub struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
    used: usize,
}

fn split(id: u64) -> (usize, u32) {
    ((id & 0xffff_ffff) as usize, (id >> 32) as u32)
}

impl Table {
    /// Open connections, including those taken out for a moment.
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// An id for a new connection, which is then `put`.
    pub fn reserve(&mut self) -> u64 {
        self.used += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        // Generations begin at 1, so that no id is 0; 31 bits keep ids positive for whoever takes them as signed.
        place.generation = (place.generation + 1) & 0x7fff_ffff;
        u64::from(place.generation.max(1)) << 32 | u64::from(index)
    }

    pub fn get(&mut self, id: u64) -> Option<&mut Connection> {
        let (index, _) = split(id);
        let connection = self.places.get_mut(index)?.connection.as_deref_mut()?;
        (connection.id == id).then_some(connection)
    }

    /// Takes a connection out, to be `put` back or `remove`d.
    pub fn take(&mut self, id: u64) -> Option<Box<Connection>> {
        self.get(id)?;
        self.places.get_mut(split(id).0)?.connection.take()
    }

    pub fn put(&mut self, connection: Box<Connection>) {
        let (index, _) = split(connection.id);
        if let Some(place) = self.places.get_mut(index) {
            place.connection = Some(connection);
        }
    }

    /// Frees the place of a connection that was taken out.
    pub fn remove(&mut self, id: u64) {
        self.used -= 1;
        self.free.push(split(id).0 as u32);
    }

    /// All connections that are not taken out.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        let places = self.places.iter();
        places.filter_map(|place| place.connection.as_deref())
    }

    /// Their ids.
    pub fn ids(&self) -> Vec<u64> {
        self.iter().map(|connection| connection.id).collect()
    }
}
