//! Readers of committed records.

use super::waiting::again;
use super::*;
use crate::log::AppendOrigin;
use crate::records::{BatchBuilder, BatchHeader, BatchOptions, Marker, Outcome};
use std::sync::atomic::AtomicI64;

/// An answer about one partition.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    high_watermark: i64,
    last_stable_offset: i64,
    aborted: Option<Vec<(i64, i64)>>,
    bytes: usize,
}

fn committed(offset: i64) -> Fetch {
    Fetch {
        isolation_level: 1,
        offset,
        ..Fetch::default()
    }
}

fn waiting(offset: i64) -> Fetch {
    Fetch {
        wait_ms: 600_000,
        ..committed(offset)
    }
}

impl Client {
    fn told(&mut self, asked: &Fetch) -> Option<Told> {
        self.send(FETCH, asked.version, &asked.body());
        self.hears(asked)
    }

    fn hears(&mut self, asked: &Fetch) -> Option<Told> {
        let body = self.answer(FETCH, asked.version)?;
        let mut answer = fetch::decode_response(&body, asked.version).unwrap();
        let one = answer.partitions.pop().unwrap();
        assert_eq!(one.error_code, 0);
        Some(Told {
            high_watermark: one.high_watermark,
            last_stable_offset: one.last_stable_offset,
            aborted: one.aborted_transactions,
            bytes: one.records.unwrap_or_default().len(),
        })
    }
}

impl Rig {
    /// Appends a record of a producer's transaction, as Python does. Returns its size.
    fn write(&self, producer_id: i64, sequence: i32) -> usize {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence: sequence,
            transactional: true,
            ..BatchOptions::default()
        });
        builder.append(1000, None, Some(b"v"), &[]).unwrap();
        let mut batch = builder.finish().unwrap();
        self.log
            .append(&mut batch, EPOCH, AppendOrigin::Client, 1000)
            .unwrap();
        batch.len()
    }

    /// Appends the marker that ends a producer's transaction.
    fn mark(&self, producer_id: i64, outcome: Outcome) {
        let marker = Marker {
            outcome,
            coordinator_epoch: 0,
        };
        let mut batch = marker.batch(producer_id, 0, 1000).unwrap();
        self.log
            .append(&mut batch, EPOCH, AppendOrigin::Coordinator, 1000)
            .unwrap();
    }

    fn advance(&self, lease: &OneLease) {
        self.log.advance_high_watermark();
        self.direct.advanced(&self.hub, lease);
    }
}

#[test]
fn a_reader_of_committed_records_ends_at_the_last_stable_offset() {
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    let mut client = rig.connect();
    let size = rig.write(1, 0);
    rig.mark(1, Outcome::Abort);
    rig.write(2, 0);
    rig.advance(&lease);
    // A plain record behind what is open.
    assert_eq!(client.produce(&Produce::default()), Some((0, 3)));
    for version in 4..=12 {
        let asked = Fetch {
            version,
            ..committed(0)
        };
        let told = client.told(&asked).unwrap();
        assert_eq!((told.high_watermark, told.last_stable_offset), (4, 2));
        assert_eq!(told.aborted, Some(vec![(1, 0)]));
        assert!((size + 1..2 * size + 100).contains(&told.bytes));
    }
    let nothing = Told {
        high_watermark: 4,
        last_stable_offset: 2,
        aborted: Some(vec![]),
        bytes: 0,
    };
    assert_eq!(client.told(&committed(2)), Some(nothing));
    // Whoever reads everything is told of the last stable offset, too.
    let told = client.told(&Fetch::default()).unwrap();
    assert_eq!((told.last_stable_offset, told.aborted), (2, None));
    rig.mark(2, Outcome::Commit);
    rig.advance(&lease);
    let told = client.told(&committed(2)).unwrap();
    assert_eq!((told.last_stable_offset, told.aborted), (5, Some(vec![])));
    assert!(told.bytes > 2 * size);
    assert_eq!(rig.handed_on(), 0);
}

#[test]
fn a_transaction_that_begins_under_a_lease_holds_readers_back() {
    let rig = Rig::new();
    rig.grant(TERMS);
    let mut client = rig.connect();
    assert_eq!(client.produce(&Produce::default()), Some((0, 0)));
    rig.write(1, 0);
    // The hub's next turn moves the high watermark over both.
    assert_eq!(client.produce(&Produce::default()), Some((0, 2)));
    let told = client.told(&committed(0)).unwrap();
    assert_eq!((told.high_watermark, told.last_stable_offset), (3, 1));
    assert_eq!(told.bytes, batch(&["v"], 1000).len());
}

#[test]
fn who_waits_is_woken_by_a_marker_and_not_by_the_high_watermark() {
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    rig.write(1, 0);
    rig.advance(&lease);
    let (mut reader, mut writer) = (rig.connect(), rig.connect());
    let asked = waiting(0);
    reader.send(FETCH, asked.version, &asked.body());
    rig.wait_for_waiting(1);
    assert_eq!(writer.produce(&Produce::default()), Some((0, 1)));
    assert_eq!(rig.direct.waiting(), 1);
    rig.mark(1, Outcome::Abort);
    rig.advance(&lease);
    let told = reader.hears(&asked).unwrap();
    assert_eq!((told.high_watermark, told.last_stable_offset), (3, 3));
    assert_eq!(told.aborted, Some(vec![(1, 0)]));
    // The turn of the hub itself moves the high watermark over a marker.
    rig.write(1, 1);
    rig.advance(&lease);
    let asked = waiting(3);
    reader.send(FETCH, asked.version, &asked.body());
    rig.wait_for_waiting(1);
    rig.mark(1, Outcome::Commit);
    assert_eq!(writer.produce(&Produce::default()), Some((0, 5)));
    assert_eq!(reader.hears(&asked).unwrap().last_stable_offset, 6);
    rig.wait_for_waiting(0);
    assert_eq!(rig.handed_on(), 0);
}

#[test]
fn a_marker_that_comes_before_a_fetch_waits_is_seen() {
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    rig.write(1, 0);
    rig.advance(&lease);
    let mut client = rig.connect();
    let asked = waiting(0);
    client.send(FETCH, asked.version, &asked.body());
    rig.wait_for_waiting(1);
    // As a thread that has read, while another one appends the marker.
    let fetch = again(&lease.line.remove(1).unwrap());
    rig.mark(1, Outcome::Commit);
    rig.advance(&lease);
    assert!(
        rig.direct
            .park(&rig.hub, fetch, Duration::from_secs(600), None)
    );
    assert_eq!(client.hears(&asked).unwrap().last_stable_offset, 2);
}

#[test]
fn who_waits_for_a_marker_is_answered_when_the_lease_or_its_time_ends() {
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    rig.write(1, 0);
    rig.advance(&lease);
    let nothing = || Told {
        high_watermark: 1,
        last_stable_offset: 0,
        aborted: Some(vec![]),
        bytes: 0,
    };
    let mut client = rig.connect();
    let soon = Fetch {
        wait_ms: 10,
        ..committed(0)
    };
    assert_eq!(client.told(&soon), Some(nothing()));
    let asked = waiting(0);
    client.send(FETCH, asked.version, &asked.body());
    rig.wait_for_waiting(1);
    assert!(rig.direct.end(&rig.hub, &lease).is_empty());
    assert_eq!(client.hears(&asked), Some(nothing()));
}

#[test]
fn consumers_that_cannot_read_zstd_are_handed_on_where_it_is() {
    let rig = Rig::new();
    rig.grant(Terms {
        is_zstd: true,
        ..TERMS
    });
    let mut client = rig.connect();
    for version in 4..=12 {
        let asked = Fetch {
            version,
            ..Fetch::default()
        };
        assert_eq!(client.fetch(&asked).is_some(), version >= 10, "{version}");
    }
}

/// One thread serves plain Produces, one writes transactions as an I/O thread does; a reader that mostly waits gets
/// each of them when it has ended, and none before.
#[test]
fn no_open_transaction_is_seen_and_no_wait_is_forgotten_between_threads() {
    const TRANSACTIONS: i32 = 200;
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    // Where the last transaction that has ended began.
    let ended = AtomicI64::new(-1);
    let is_written = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for sequence in 0..TRANSACTIONS {
                let size = rig.write(1, sequence);
                assert!(size > 0);
                let start = rig.log.producers()[0].transaction_start.unwrap();
                rig.advance(&lease);
                thread::yield_now();
                ended.store(start, Ordering::Release);
                rig.mark(1, Outcome::Commit);
                rig.advance(&lease);
            }
            is_written.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let mut client = rig.connect();
            while !is_written.load(Ordering::Acquire) {
                client.produce(&Produce::default());
            }
        });
        let mut reader = rig.connect();
        let (mut offset, mut seen) = (0, 0);
        let start = Instant::now();
        while seen < TRANSACTIONS {
            assert!(start.elapsed() < Duration::from_secs(60), "{offset}");
            let asked = Fetch {
                wait_ms: 15_000,
                partition_bytes: 1,
                ..committed(offset)
            };
            let body = asked.body();
            reader.send(FETCH, asked.version, &body);
            let body = reader.answer(FETCH, asked.version).unwrap();
            let answer = fetch::decode_response(&body, asked.version).unwrap();
            let one = &answer.partitions[0];
            let records = &body[one.records.clone().unwrap()];
            if records.is_empty() {
                continue;
            }
            let header = BatchHeader::parse(records).unwrap();
            if header.is_transactional() && !header.is_control() {
                assert!(header.base_offset <= ended.load(Ordering::Acquire));
                seen += 1;
            }
            offset = header.last_offset() + 1;
        }
        assert!(
            start.elapsed() < Duration::from_secs(14),
            "a wait was forgotten"
        );
    });
}
