//! Where not everybody may do everything, requests are served of clients that are known to be allowed them.

use super::*;
use crate::direct::rights::{READ, WRITE, WRITE_IDEMPOTENTLY};
use crate::records::batch::set_crc;

const ASKS: Terms = Terms {
    everyone_may: false,
    ..TERMS
};

impl Rig {
    /// The next request that is handed on is of a client with this number, and these rights.
    fn allow(&self, lease: &OneLease, client: u64, rights: u8) {
        *self.python.to_allow.lock() = Some((Arc::clone(lease), client, rights));
    }
}

fn idempotent(sequence: i32) -> Produce {
    let mut records = batch(&["v"], 1000);
    records[43..51].copy_from_slice(&9_i64.to_be_bytes());
    records[51..53].copy_from_slice(&0_i16.to_be_bytes());
    records[53..57].copy_from_slice(&sequence.to_be_bytes());
    set_crc(&mut records);
    Produce {
        records: Some(records),
        ..Produce::default()
    }
}

#[test]
fn each_right_allows_what_it_is_for() {
    let rig = Rig::new();
    append_in_epoch(&rig.log);
    let lease = rig.grant(ASKS);
    let mut client = rig.connect();
    assert_eq!(client.produce(&Produce::default()), None);
    rig.allow(&lease, 1, READ);
    assert_eq!(client.fetch(&Fetch::default()), None);
    assert!(client.fetch(&Fetch::default()).is_some());
    rig.allow(&lease, 1, WRITE);
    assert_eq!(client.produce(&Produce::default()), None);
    assert_eq!(client.produce(&Produce::default()), Some((0, 1)));
    rig.allow(&lease, 1, WRITE_IDEMPOTENTLY);
    assert_eq!(client.produce(&idempotent(0)), None);
    assert_eq!(client.produce(&idempotent(0)), Some((0, 2)));
    assert_eq!(rig.handed_on(), 4);
}

#[test]
fn a_right_is_one_clients_on_all_its_connections() {
    let rig = Rig::new();
    append_in_epoch(&rig.log);
    let lease = rig.grant(ASKS);
    let (mut client, mut same, mut other) = (rig.connect(), rig.connect(), rig.connect());
    rig.allow(&lease, 1, READ);
    assert_eq!(client.fetch(&Fetch::default()), None);
    assert!(client.fetch(&Fetch::default()).is_some());
    // It is not known yet who these are.
    rig.allow(&lease, 1, 0);
    assert_eq!(same.fetch(&Fetch::default()), None);
    assert!(same.fetch(&Fetch::default()).is_some());
    rig.allow(&lease, 2, WRITE);
    assert_eq!(other.fetch(&Fetch::default()), None);
    assert_eq!(other.fetch(&Fetch::default()), None);
}

#[test]
fn what_was_known_ends_with_the_lease() {
    let rig = Rig::new();
    append_in_epoch(&rig.log);
    let lease = rig.grant(ASKS);
    let mut client = rig.connect();
    rig.allow(&lease, 1, READ | WRITE);
    assert_eq!(client.fetch(&Fetch::default()), None);
    let waits = Fetch {
        offset: 1,
        wait_ms: 60_000,
        ..Fetch::default()
    };
    client.send(FETCH, waits.version, &waits.body());
    rig.wait_for_waiting(1);
    let next = rig.grant(ASKS);
    assert_eq!(client.fetched(&waits), Some((0, 0)));
    assert_eq!(client.fetch(&waits), None);
    assert_eq!(client.produce(&Produce::default()), None);
    // Said too late, of a lease that nobody finds.
    rig.allow(&lease, 1, WRITE);
    assert_eq!(client.produce(&Produce::default()), None);
    assert_eq!(client.produce(&Produce::default()), None);
    rig.allow(&next, 1, WRITE);
    assert_eq!(client.produce(&Produce::default()), None);
    assert_eq!(client.produce(&Produce::default()), Some((0, 1)));
}
