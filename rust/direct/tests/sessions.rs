//! Fetches in sessions that are lent.

use super::several::Two;
use super::*;
use crate::direct::session::{Asked, Entry, Loan, Session, Told};
use crate::log::Reader;

const ID: i32 = 5;
const MAX: usize = 3;

type OneSession = Arc<Session<&'static str>>;

fn entry(partition: i32, offset: i64, told: (i64, i64)) -> Entry {
    Entry {
        topic: TOPIC.into(),
        partition,
        asked: Asked {
            leader_epoch: -1,
            offset,
            log_start_offset: -1,
            bytes_max: 1 << 20,
            last_epoch: -1,
        },
        told: Told {
            high_watermark: told.0,
            log_start_offset: told.1,
        },
    }
}

impl Rig {
    fn lend(&self, epoch: i32, entries: Vec<Entry>) -> OneSession {
        let loan = Loan { epoch, entries };
        self.direct
            .lend(Session::new(ID, Reader::Consumer, loan, MAX))
    }
}

/// A request in a session.
#[derive(Clone)]
struct Next {
    version: i16,
    id: i32,
    epoch: i32,
    isolation_level: i8,
    max_bytes: i32,
    min_bytes: i32,
    wait_ms: i32,
    /// Partition, offset and leader epoch.
    rows: Vec<(i32, i64, i32)>,
    last_epoch: i32,
    forgotten: Vec<i32>,
}

impl Default for Next {
    fn default() -> Self {
        Self {
            version: 12,
            id: ID,
            epoch: 1,
            isolation_level: 0,
            max_bytes: 1 << 20,
            min_bytes: 1,
            wait_ms: 0,
            rows: Vec::new(),
            last_epoch: -1,
            forgotten: Vec::new(),
        }
    }
}

impl Next {
    fn of(epoch: i32) -> Self {
        Self {
            epoch,
            ..Self::default()
        }
    }

    fn with(epoch: i32, rows: &[(i32, i64)]) -> Self {
        let rows = rows
            .iter()
            .map(|&(partition, offset)| (partition, offset, -1));
        Self {
            rows: rows.collect(),
            ..Self::of(epoch)
        }
    }

    fn waits(self) -> Self {
        Self {
            wait_ms: 600_000,
            ..self
        }
    }

    fn body(&self) -> Vec<u8> {
        let request = RequestToSend {
            cluster_id: None,
            replica_id: -1,
            max_wait_ms: self.wait_ms,
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            isolation_level: self.isolation_level,
            session_id: self.id,
            session_epoch: self.epoch,
            rack_id: "",
        };
        let rows = self
            .rows
            .iter()
            .map(|&(partition, fetch_offset, epoch)| PartitionToFetch {
                topic: TOPIC,
                partition,
                current_leader_epoch: epoch,
                fetch_offset,
                last_fetched_epoch: self.last_epoch,
                log_start_offset: -1,
                bytes_max: 1 << 20,
            });
        let forgotten: Vec<_> = self.forgotten.iter().map(|&one| (TOPIC, one)).collect();
        let rows: Vec<_> = rows.collect();
        fetch::encode_request(self.version, &request, &rows, &forgotten).unwrap()
    }
}

/// Of each partition that is named: its number, its high watermark, and bytes of records. None: handed on.
type Heard = Option<Vec<(i32, i64, usize)>>;

impl Client {
    fn next(&mut self, asked: &Next) -> Heard {
        self.send(FETCH, asked.version, &asked.body());
        self.hears_next(asked.version)
    }

    fn hears_next(&mut self, version: i16) -> Heard {
        let body = self.answer(FETCH, version)?;
        let answer = fetch::decode_response(&body, version).unwrap();
        assert_eq!((answer.head.error_code, answer.head.session_id), (0, ID));
        let rows = answer.partitions.into_iter().map(|one| {
            assert_eq!(one.error_code, 0);
            let records = one.records.unwrap_or_default();
            (one.partition, one.high_watermark, records.len())
        });
        Some(rows.collect())
    }
}

fn size() -> usize {
    batch(&["v"], 1000).len()
}

fn nothing() -> Heard {
    Some(Vec::new())
}

/// Both partitions, of which the client knows all.
fn both() -> Vec<Entry> {
    vec![entry(0, 0, (0, 0)), entry(1, 0, (0, 0))]
}

#[test]
fn an_answer_names_what_the_client_does_not_know() {
    let two = Two::new();
    let leases = two.grant();
    let rig = &two.rig;
    rig.lend(1, both());
    let mut client = rig.connect();
    assert_eq!(client.next(&Next::of(1)), nothing());
    two.write(&leases[1]);
    assert_eq!(client.next(&Next::of(2)), Some(vec![(1, 1, size())]));
    // It did not say that it has them.
    assert_eq!(client.next(&Next::of(3)), Some(vec![(1, 1, size())]));
    assert_eq!(client.next(&Next::with(4, &[(1, 1)])), nothing());
    // A high watermark is told once, and so is the start of the log.
    two.write(&leases[1]);
    assert_eq!(
        client.next(&Next::with(5, &[(1, 2)])),
        Some(vec![(1, 2, 0)])
    );
    assert_eq!(client.next(&Next::of(6)), nothing());
    two.other.set_start_offset(2).unwrap();
    assert_eq!(client.next(&Next::of(7)), Some(vec![(1, 2, 0)]));
    for version in 7..=12 {
        let asked = Next {
            version,
            ..Next::of(i32::from(version) + 1)
        };
        assert_eq!(client.next(&asked), nothing());
    }
    assert_eq!(rig.handed_on(), 0);
}

#[test]
fn who_is_named_comes_last_in_the_next_answer() {
    let two = Two::new();
    let leases = two.grant();
    two.write(&leases[0]);
    two.write(&leases[1]);
    let rig = &two.rig;
    let session = rig.lend(1, vec![entry(0, 0, (1, 0)), entry(1, 0, (1, 0))]);
    let mut client = rig.connect();
    let named = (1..=4).map(|epoch| {
        let small = Next {
            max_bytes: 1,
            ..Next::of(epoch)
        };
        client.next(&small).unwrap()[0].0
    });
    assert_eq!(named.collect::<Vec<_>>(), [0, 1, 0, 1]);
    let three = Next {
        max_bytes: 1,
        ..Next::of(5)
    };
    assert_eq!(client.next(&three), Some(vec![(0, 1, size())]));
    let loan = rig.direct.take_back(&rig.hub, &session);
    let order: Vec<_> = loan.entries.iter().map(|entry| entry.partition).collect();
    assert_eq!((loan.epoch, order), (6, vec![1, 0]));
}

#[test]
fn what_is_not_plain_is_handed_on_and_changes_nothing() {
    let two = Two::new();
    let leases = two.grant();
    two.write(&leases[0]);
    let rig = &two.rig;
    let session = rig.lend(3, both());
    let mut client = rig.connect();
    let plain = || Next::with(3, &[(0, 1)]);
    let others = [
        Next::of(2),
        Next::of(4),
        Next::of(0),
        Next::of(-1),
        Next::of(-5),
        Next { id: 6, ..plain() },
        Next { id: 0, ..plain() },
        Next {
            isolation_level: 1,
            ..plain()
        },
        Next {
            max_bytes: -1,
            ..plain()
        },
        Next {
            last_epoch: 0,
            ..plain()
        },
        // Of another leader epoch, beyond the end, of a partition without a lease.
        Next {
            rows: vec![(0, 1, EPOCH + 1)],
            ..plain()
        },
        Next::with(3, &[(0, 1), (1, 7)]),
        Next::with(3, &[(0, 1), (2, 0)]),
        // All leave, or too many are named.
        Next {
            forgotten: vec![0, 1],
            ..plain()
        },
        Next::with(3, &[(0, 1), (1, 0), (2, 0), (3, 0)]),
        Next {
            forgotten: vec![4, 5, 6, 7],
            ..plain()
        },
        // Nobody adds up what several have.
        Next {
            min_bytes: 2,
            ..plain()
        }
        .waits(),
    ];
    for (at, other) in others.iter().enumerate() {
        assert_eq!(client.next(other), None, "{at}");
    }
    let loan = rig.direct.take_back(&rig.hub, &session);
    let entries = both();
    assert_eq!(loan, Loan { epoch: 3, entries });
    // Python has it.
    assert_eq!(client.next(&plain()), None);
    assert_eq!(rig.direct.take_back(&rig.hub, &session).entries, []);
}

#[test]
fn partitions_enter_and_leave() {
    let two = Two::new();
    let leases = two.grant();
    let rig = &two.rig;
    let session = rig.lend(i32::MAX, vec![entry(0, 0, (0, 0))]);
    let mut client = rig.connect();
    // A new one is told of, whatever there is.
    let first = Next::with(i32::MAX, &[(1, 0)]);
    assert_eq!(client.next(&first), Some(vec![(1, 0, 0)]));
    let forgets = |epoch, partition| Next {
        forgotten: vec![partition],
        ..Next::of(epoch)
    };
    assert_eq!(client.next(&forgets(1, 0)), nothing());
    two.write(&leases[0]);
    two.write(&leases[1]);
    assert_eq!(client.next(&forgets(2, 0)), Some(vec![(1, 1, size())]));
    let again = Next {
        forgotten: vec![1],
        ..Next::with(3, &[(0, 0)])
    };
    assert_eq!(client.next(&again), Some(vec![(0, 1, size())]));
    let loan = rig.direct.take_back(&rig.hub, &session);
    assert_eq!(loan.epoch, 4);
    assert_eq!(loan.entries, [entry(0, 0, (1, 0))]);
    assert_eq!(rig.handed_on(), 0);
}

#[test]
fn each_request_asks_for_the_leases_of_all_its_partitions() {
    let two = Two::new();
    let rig = &two.rig;
    let mut client = rig.connect();
    two.grant();
    rig.lend(1, both());
    assert_eq!(client.next(&Next::of(1)), nothing());
    let others = [
        Terms {
            everyone_may: false,
            ..TERMS
        },
        Terms {
            leader_epoch: EPOCH + 1,
            ..TERMS
        },
        Terms {
            is_zstd: true,
            ..TERMS
        },
    ];
    let known = Next {
        version: 9,
        rows: vec![(1, 0, EPOCH)],
        ..Next::of(2)
    };
    assert_eq!(client.next(&known), nothing());
    for other in others {
        let lease = Lease::new(TOPIC, 1, Arc::clone(&two.other), other, "owner");
        let lease = rig.direct.grant(&rig.hub, lease);
        let asked = Next {
            version: 9,
            ..Next::of(3)
        };
        assert_eq!(client.next(&asked), None, "{other:?}");
        assert!(rig.direct.end(&rig.hub, &lease).is_empty());
        assert_eq!(client.next(&asked), None);
    }
    two.grant();
    assert_eq!(client.next(&Next::of(3)), nothing());
}

#[test]
fn a_fetch_that_waits_is_answered_once_by_whatever_comes_first() {
    let two = Two::new();
    let leases = two.grant();
    let rig = &two.rig;
    let session = rig.lend(1, both());
    let mut client = rig.connect();
    let mut waits = |asked: Next| {
        client.send(FETCH, 12, &asked.waits().body());
        rig.wait_for_waiting(1);
    };
    waits(Next::of(1));
    two.write(&leases[1]);
    rig.wait_for_waiting(0);
    // The next one names what it has now.
    waits(Next::with(2, &[(1, 1)]));
    // Another connection knows the epoch: Python is to decide.
    assert_eq!(rig.connect().next(&Next::of(3)), None);
    assert_eq!(rig.direct.waiting(), 1);
    assert!(rig.direct.end(&rig.hub, &leases[0]).is_empty());
    rig.wait_for_waiting(0);
    let leases = two.grant();
    waits(Next::of(3));
    // Nothing is told of partitions whose lease ended; what came meanwhile is news.
    append_in_epoch(&two.other);
    two.other.advance_high_watermark();
    let loan = rig.direct.take_back(&rig.hub, &session);
    rig.wait_for_waiting(0);
    assert_eq!(loan.entries, [entry(0, 0, (0, 0)), entry(1, 1, (2, 0))]);
    two.write(&leases[0]);
    assert_eq!(client.hears_next(12), Some(vec![(1, 1, size())]));
    assert_eq!(client.hears_next(12), nothing());
    assert_eq!(client.hears_next(12), Some(vec![(1, 2, size())]));
    assert_eq!(client.next(&Next::of(4)), None);
}

#[test]
fn the_answer_to_a_connection_that_is_gone_is_lost_and_not_the_session() {
    let two = Two::new();
    let leases = two.grant();
    let rig = &two.rig;
    rig.lend(1, both());
    let mut client = rig.connect();
    client.send(FETCH, 12, &Next::of(1).waits().body());
    rig.wait_for_waiting(1);
    drop(client);
    two.write(&leases[1]);
    rig.wait_for_waiting(0);
    let mut client = rig.connect();
    assert_eq!(client.next(&Next::of(2)), Some(vec![(1, 1, size())]));
}

#[test]
fn a_number_that_was_given_again_is_not_taken_away_with_the_older_one() {
    let two = Two::new();
    two.grant();
    let rig = &two.rig;
    let older = rig.lend(1, both());
    rig.lend(1, both());
    rig.direct.take_back(&rig.hub, &older);
    assert_eq!(rig.connect().next(&Next::of(1)), nothing());
}

#[test]
fn a_thread_that_has_found_it_before_its_end_hands_on() {
    let two = Two::new();
    two.grant();
    let session = two.rig.lend(1, both());
    assert!(session.lock().awaits(1));
    two.rig.direct.take_back(&two.rig.hub, &session);
    assert!(!session.lock().awaits(1));
}

/// Two threads serve, two append, and one takes the session back and lends it again: the reader gets each record, in
/// its epoch, and nothing twice.
#[test]
fn no_record_and_no_epoch_is_lost_between_threads() {
    const RECORDS: i64 = 300;
    let mut two = Two::new();
    two.rig.serve();
    let leases = two.grant();
    let rig = &two.rig;
    let session = Mutex::new(rig.lend(1, both()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for lease in &leases {
            let two = &two;
            scope.spawn(move || (0..RECORDS).for_each(|_| two.write(lease)));
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let mut session = session.lock();
                let loan = rig.direct.take_back(&rig.hub, &session);
                *session = rig.lend(loan.epoch, loan.entries);
                drop(session);
                thread::yield_now();
            }
        });
        let mut client = rig.connect();
        let (mut offsets, mut epoch) = ([0, 0], 1);
        let mut rows = Vec::new();
        let start = Instant::now();
        while offsets != [RECORDS; 2] {
            assert!(start.elapsed() < Duration::from_secs(60), "{offsets:?}");
            let asked = Next {
                max_bytes: 1,
                wait_ms: 15_000,
                ..Next::with(epoch, &rows)
            };
            let Some(heard) = client.next(&asked) else {
                continue; // it was taken back at that moment
            };
            epoch += 1;
            rows.clear();
            for (partition, high_watermark, bytes) in heard {
                let offset = &mut offsets[usize::try_from(partition).unwrap()];
                assert!(bytes == 0 || high_watermark > *offset);
                if bytes > 0 {
                    *offset += 1;
                    rows.push((partition, *offset));
                }
            }
        }
        is_over.store(true, Ordering::Release);
    });
    rig.wait_for_waiting(0);
}
