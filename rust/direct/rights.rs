//! Who may do what under a lease, where that is not everybody: as far as Python has decided it.
//!
//! A client is known here by a number, which Python gives to a principal at an address. Its connection bears the number
//! once Python has served a request of it; without one, a client is unknown. Python says of a decision in the moment in
//! which it is made, to the lease that the partition has then. A change of the rules that may concern the partition
//! ends the lease, and what was known goes with it. So nothing here is ever taken back, and what is unknown is asked in
//! Python.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// The number of a client of whom nothing is known.
pub const UNKNOWN: u64 = 0;

/// To read the topic's records.
pub const READ: u8 = 1;
/// To write records without a producer id.
pub const WRITE: u8 = 2;
/// To write records with a producer id (IDEMPOTENT_WRITE on the cluster, until Kafka 2.8). It is of use with [`WRITE`].
pub const WRITE_IDEMPOTENTLY: u8 = 4;
/// To fetch as a follower (CLUSTER_ACTION on the cluster).
pub const FOLLOW: u8 = 8;

/// More clients of one partition take turns in being known.
const CLIENTS_MAX: usize = 1024;

/// Ordered by clients.
type Known = Vec<(u64, u8)>;

/// The rights that are known under one lease. Threads look without waiting for one another, or for a change.
#[derive(Default)]
pub struct Rights(ArcSwap<Known>);

impl Rights {
    /// True if it is known that the client has all of these rights.
    pub fn has(&self, client: u64, rights: u8) -> bool {
        let known = self.0.load();
        let place = known.binary_search_by_key(&client, |one| one.0);
        place.is_ok_and(|place| known[place].1 & rights == rights)
    }

    /// A client has these rights, besides those that it is known to have.
    pub fn add(&self, client: u64, rights: u8) {
        if client == UNKNOWN || self.has(client, rights) {
            return;
        }
        self.0.rcu(|known| Arc::new(with(known, client, rights)));
    }
}

/// The rights that are known, with these of a client.
fn with(known: &Known, client: u64, rights: u8) -> Known {
    let mut known = known.clone();
    match known.binary_search_by_key(&client, |one| one.0) {
        Ok(place) => known[place].1 |= rights,
        Err(mut place) => {
            if known.len() >= CLIENTS_MAX {
                // Anybody's place will do, but not always the same one's.
                let leaves = (client % known.len() as u64) as usize;
                known.remove(leaves);
                place -= usize::from(leaves < place);
            }
            known.insert(place, (client, rights));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_rights_of_known_clients() {
        let rights = Rights::default();
        assert!(!rights.has(7, READ));
        rights.add(7, READ);
        assert!(rights.has(7, READ));
        assert!(!rights.has(7, WRITE));
        assert!(!rights.has(8, READ));
        rights.add(7, WRITE);
        assert!(rights.has(7, READ | WRITE));
        assert!(!rights.has(7, WRITE | WRITE_IDEMPOTENTLY));
    }

    #[test]
    fn nobody_is_known_by_no_number() {
        let rights = Rights::default();
        rights.add(UNKNOWN, READ);
        assert!(!rights.has(UNKNOWN, READ));
    }

    #[test]
    fn one_more_than_there_is_room_for_is_known_in_place_of_another() {
        let rights = Rights::default();
        let many = CLIENTS_MAX as u64;
        for client in (1..=2 * many).rev() {
            rights.add(client, READ);
            assert!(rights.has(client, READ));
        }
        let known = (1..=2 * many).filter(|&client| rights.has(client, READ));
        assert_eq!(known.count(), CLIENTS_MAX);
        assert!(rights.0.load().is_sorted());
    }
}
