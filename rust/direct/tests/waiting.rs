//! Fetches that wait under a lease.

use super::*;
use crate::direct::parked::Parked;

/// A Fetch that waits, as it was before it did.
pub fn again<O>(fetch: &Parked<O>) -> Parked<O> {
    Parked {
        ticket: fetch.ticket,
        wanted: fetch.wanted,
        bytes_max: fetch.bytes_max,
        id: 0,
        session: None,
        follows: false,
        parts: Mutex::new(fetch.take()),
    }
}

#[test]
fn a_fetch_waits_for_no_more_than_it_may_have() {
    let rig = Rig::new();
    rig.grant(TERMS);
    let size = batch(&["v"], 1000).len();
    let asked = Fetch {
        wait_ms: 600_000,
        min_bytes: 5000,
        max_bytes: i32::try_from(size).unwrap(),
        ..Fetch::default()
    };
    let (mut reader, mut writer) = (rig.connect(), rig.connect());
    reader.send(FETCH, asked.version, &asked.body());
    rig.wait_for_waiting(1);
    assert_eq!(writer.produce(&Produce::default()), Some((0, 0)));
    assert_eq!(reader.fetched(&asked), Some((1, size)));
    rig.wait_for_waiting(0);
}

#[test]
fn fetches_wait_for_records_for_their_time_and_for_the_end_of_the_lease() {
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    let waits = |wait_ms| Fetch {
        wait_ms,
        ..Fetch::default()
    };
    let mut client = rig.connect();
    assert_eq!(client.fetch(&waits(10)), Some((0, 0)));
    client.send(FETCH, 12, &waits(600_000).body());
    rig.wait_for_waiting(1);
    assert!(rig.direct.end(&rig.hub, &lease).is_empty());
    assert_eq!(client.fetched(&waits(0)), Some((0, 0)));
    let lease = rig.grant(TERMS);
    client.send(FETCH, 12, &waits(600_000).body());
    rig.wait_for_waiting(1);
    // Another thread appends.
    append_in_epoch(&rig.log);
    assert!(rig.log.advance_high_watermark());
    rig.direct.advanced(&rig.hub, &lease);
    assert_eq!(client.fetched(&waits(0)).unwrap().0, 1);
    client.send(
        FETCH,
        12,
        &Fetch {
            offset: 1,
            ..waits(600_000)
        }
        .body(),
    );
    rig.wait_for_waiting(1);
    rig.direct.let_wait(&rig.hub, false);
    assert_eq!(client.fetched(&waits(0)), Some((1, 0)));
    let asked = Fetch {
        offset: 1,
        ..waits(600_000)
    };
    assert_eq!(client.fetch(&asked), None, "nobody looks at deadlines");
}

#[test]
fn nobody_waits_under_a_lease_that_has_ended() {
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    let mut client = rig.connect();
    let waits = Fetch {
        wait_ms: 600_000,
        ..Fetch::default()
    };
    client.send(FETCH, 12, &waits.body());
    rig.wait_for_waiting(1);
    // As a thread that has found the lease, while another one ends it.
    let fetch = again(&lease.line.remove(1).unwrap());
    assert!(rig.direct.end(&rig.hub, &lease).is_empty());
    let wait = Duration::from_secs(600);
    assert!(!rig.direct.park(&rig.hub, fetch, wait, None));
}

/// One thread serves, one grants and ends, one appends as an I/O thread does; a reader that mostly waits gets every
/// record.
#[test]
fn no_record_and_no_waiting_fetch_is_lost_between_threads() {
    const RECORDS: i64 = 400;
    let rig = Rig::new();
    let written = AtomicBool::new(false);
    let size = batch(&["v"], 1000).len();
    rig.grant(TERMS);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !written.load(Ordering::Acquire) {
                let lease = rig.grant(TERMS);
                thread::yield_now();
                lease.watch(true);
                rig.direct.advanced(&rig.hub, &lease);
                lease.watch(false);
                assert!(rig.direct.end(&rig.hub, &lease).is_empty());
                rig.grant(TERMS);
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            for _ in 0..RECORDS / 2 {
                append_in_epoch(&rig.log);
                rig.log.advance_high_watermark();
                let lease = rig.grant(TERMS);
                rig.direct.advanced(&rig.hub, &lease);
            }
        });
        scope.spawn(|| {
            let mut client = rig.connect();
            for _ in 0..RECORDS / 2 {
                if client.produce(&Produce::default()).is_none() {
                    // No lease at that moment, or a slow disk, which only an append finds quick again.
                    append_in_epoch(&rig.log);
                    rig.log.advance_high_watermark();
                    rig.direct.advanced(&rig.hub, &rig.grant(TERMS));
                }
            }
            // The reader may have failed: nobody waits for it then.
            written.store(true, Ordering::Release);
        });
        let mut reader = rig.connect();
        let mut offset = 0;
        let start = Instant::now();
        while offset < RECORDS {
            assert!(start.elapsed() < Duration::from_secs(60), "{offset}");
            let asked = Fetch {
                wait_ms: 15_000,
                offset,
                partition_bytes: 1,
                ..Fetch::default()
            };
            if let Some((high_watermark, bytes)) = reader.fetch(&asked) {
                assert!(bytes == 0 || bytes == size && high_watermark > offset);
                offset += i64::from(bytes > 0);
            }
        }
    });
    assert_eq!(rig.log.end_offset(), RECORDS);
    rig.wait_for_waiting(0);
}
