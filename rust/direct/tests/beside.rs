//! Threads beside the loop, each with a hub of its own.

use super::threads::{TwoThreads, of};
use super::*;
use crate::storage::faulty::{Fault, Operation};

#[test]
fn what_a_lease_allows_is_served_without_the_loop() {
    let rig = Rig::beside(2);
    let _lease = rig.grant(TERMS);
    let mut clients = [(); 4].map(|()| rig.connect());
    for offset in 0..8 {
        let client = &mut clients[offset % 4];
        assert_eq!(
            client.produce(&Produce::default()),
            Some((0, offset as i64))
        );
    }
    for client in &mut clients {
        assert_eq!(client.fetch(&Fetch::default()).unwrap().0, 8);
    }
    assert_eq!((rig.handed_on(), rig.turns()), (0, 0));
    let counts = rig.hub.all().map(|hub| hub.lock().figures().connections);
    let counts: Vec<_> = counts.collect();
    assert!(
        counts[0] == 0 && counts[1] > 0 && counts[2] > 0,
        "{counts:?}"
    );
    drop(clients);
    eventually(|| rig.hub.figures().connections == 0);
}

/// The loop answers them, each in its place.
#[test]
fn what_is_handed_to_the_loop_keeps_its_place() {
    let rig = Rig::beside(1);
    let _lease = rig.grant(TERMS);
    let mut client = rig.connect();
    let leased = Produce::default();
    let handed_on = Produce {
        version: 2,
        ..Produce::default()
    };
    let frames = [&leased, &handed_on, &leased, &leased].map(|asked| {
        request_frame(
            PRODUCE,
            asked.version,
            false,
            7,
            Some("test"),
            &asked.body(),
        )
        .unwrap()
    });
    client.socket.write_all(&frames.concat()).unwrap();
    let answers = [8, 2, 8, 8].map(|version| client.produced(version));
    assert_eq!(answers, [Some((0, 0)), None, Some((0, 1)), Some((0, 2))]);
    assert_eq!(rig.handed_on(), 1);
}

/// Somebody in Python waits for the high watermark, which moves before the answer leaves.
#[test]
fn the_loop_ends_a_turn_of_which_it_has_to_hear() {
    let rig = Rig::beside(2);
    rig.grant(TERMS).watch(true);
    let mut clients = [rig.connect(), rig.connect()];
    for offset in 0..6 {
        let client = &mut clients[offset % 2];
        assert_eq!(
            client.produce(&Produce::default()),
            Some((0, offset as i64))
        );
        assert_eq!(rig.log.high_watermark(), offset as i64 + 1);
    }
    assert_eq!(rig.handed_on(), 0);
    assert!(rig.turns() > 0);
}

/// A follower comes while a thread writes: what the thread appended is the loop's to acknowledge.
#[test]
fn a_lease_that_ends_in_the_middle_of_a_threads_turn() {
    let TwoThreads { storage, logs, rig } = &TwoThreads::beside(1);
    for lease in rig.direct.leases.all() {
        assert!(rig.direct.end(&rig.hub, &lease).is_empty());
    }
    let lease = rig.grant(Terms {
        accepts_all: true,
        ..TERMS
    });
    let mut client = rig.connect();
    let written = storage.stop_at(0);
    let asked = Produce {
        acks: -1,
        ..of(0, "v")
    };
    client.send(PRODUCE, 8, &asked.body());
    written.wait_until_reached();
    // Others have been in sync since.
    rig.python.others_are_in_sync.store(true, Ordering::Release);
    assert!(rig.direct.end(&rig.hub, &lease).is_empty());
    written.go_on();
    eventually(|| !rig.python.unacknowledged.lock().is_empty());
    assert_eq!((logs[0].end_offset(), logs[0].high_watermark()), (2, 1));
    assert_eq!((rig.handed_on(), rig.turns()), (0, 1));
    let waiting = rig.python.unacknowledged.lock().pop().unwrap();
    waiting.answer_at(&rig.hub, 0);
    assert_eq!(client.produced(8), Some((0, 1)));
}

#[test]
fn an_append_on_one_thread_ends_a_wait_on_another() {
    let rig = Rig::beside(2);
    let _lease = rig.grant(TERMS);
    let (mut reader, mut writer) = (rig.connect(), rig.connect());
    let asked = Fetch {
        wait_ms: 20_000,
        ..Fetch::default()
    };
    reader.send(FETCH, asked.version, &asked.body());
    rig.wait_for_waiting(1);
    assert_eq!(writer.produce(&Produce::default()), Some((0, 0)));
    let (high_watermark, bytes) = reader.fetched(&asked).unwrap();
    assert_eq!(high_watermark, 1);
    assert!(bytes > 0);
}

#[test]
fn a_wait_is_over_in_time() {
    let rig = Rig::beside(1);
    let _lease = rig.grant(TERMS);
    let asked = Fetch {
        wait_ms: 20,
        ..Fetch::default()
    };
    assert_eq!(rig.connect().fetch(&asked), Some((0, 0)));
    assert_eq!(rig.handed_on(), 0);
}

/// Nothing is lost of what many clients write at once, whoever serves them; each knows where its records are.
#[test]
fn many_clients_of_one_partition() {
    let rig = Rig::beside(3);
    let lease = rig.grant(TERMS);
    let writers: Vec<_> = (0..6)
        .map(|_| {
            let mut client = rig.connect();
            thread::spawn(move || {
                let asked = Produce::default();
                let one = |_| match client.produce(&asked) {
                    Some((0, offset)) => offset,
                    // The log was busy.
                    None => -1,
                    failed => panic!("{failed:?}"),
                };
                (0..200).map(one).collect::<Vec<i64>>()
            })
        })
        .collect();
    for _ in 0..50 {
        // Somebody begins and ends to wait meanwhile.
        lease.watch(true);
        thread::yield_now();
        lease.watch(false);
    }
    let written = writers.into_iter().flat_map(|one| one.join().unwrap());
    let mut offsets: Vec<_> = written.filter(|offset| *offset >= 0).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..rig.log.end_offset()).collect::<Vec<_>>());
    assert_eq!(offsets.len() + rig.handed_on(), 1200);
}

#[test]
fn all_connections_end_with_the_hubs() {
    let rig = Rig::beside(2);
    let mut clients = [rig.connect(), rig.connect(), rig.connect()];
    eventually(|| rig.hub.figures().connections == 3);
    rig.beside.end(&rig.hub);
    rig.hub.close();
    for client in &mut clients {
        assert_eq!(client.socket.read(&mut [0]).unwrap(), 0);
    }
    assert_eq!(rig.hub.figures().connections, 0);
}

/// A thread that waits for a disk has work enough.
#[test]
fn who_comes_goes_to_the_thread_that_has_worked_least() {
    let two = &TwoThreads::beside(2);
    let waits = two.storage.stop_at(0);
    let mut first = two.rig.connect();
    first.send(PRODUCE, 8, &of(0, "v").body());
    waits.wait_until_reached();
    let counts = || two.rig.hub.threads().into_iter().map(|(count, _)| count);
    let busy = counts().position(|count| count == 1).unwrap();
    eventually(|| two.rig.hub.threads()[busy].1 == 1_000_000);
    let others = [(); 3].map(|()| two.rig.connect());
    eventually(|| two.rig.hub.figures().connections == 1 + others.len());
    assert_eq!(counts().nth(busy), Some(1));
    waits.go_on();
    assert_eq!(first.produced(8), Some((0, 1)));
}

#[test]
fn a_thread_that_dies_costs_its_connections() {
    let TwoThreads { storage, logs, rig } = &TwoThreads::beside(2);
    let (mut unlucky, mut other) = (rig.connect(), rig.connect());
    eventually(|| rig.hub.threads().iter().all(|(count, _)| *count == 1));
    storage.break_at(Some(Operation::Write), 0, Fault::Panic, false);
    // Too large to be staged: the append itself writes. What is staged before it is the other partition's.
    let staged = of(1, "staged");
    let large = of(0, &"v".repeat(8 << 10));
    let frames = [&staged, &large]
        .map(|asked| request_frame(PRODUCE, 8, false, 7, Some("test"), &asked.body()).unwrap());
    unlucky.socket.write_all(&frames.concat()).unwrap();
    assert_eq!(unlucky.socket.read(&mut [0]).unwrap(), 0);
    eventually(|| logs[1].end_offset() == 2);
    assert_eq!(other.produce(&of(1, "other")), Some((0, 2)));
    // Another thread serves its hub. The log on which the panic came is out of use.
    assert!(logs[0].is_broken());
    let mut clients = [(); 3].map(|()| rig.connect());
    eventually(|| rig.hub.threads().iter().all(|(count, _)| *count > 0));
    for (client, offset) in clients.iter_mut().zip(3..) {
        assert_eq!(client.produce(&of(1, "more")), Some((0, offset)));
        assert_eq!(client.produce(&of(0, "none")), None);
    }
    assert_eq!(rig.hub.figures().connections, 4);
    assert!(rig.python.failures.lock().is_empty());
}

#[test]
fn a_thread_that_dies_twice_in_a_minute_is_the_brokers_end() {
    let rig = Rig::beside(1);
    for reason in ["one reason", "another reason"] {
        let mut client = rig.connect();
        eventually(|| rig.hub.figures().connections == 1);
        rig.hub.other(0).unwrap().lock().fail(reason.to_owned());
        assert_eq!(client.socket.read(&mut [0]).unwrap(), 0);
        eventually(|| rig.hub.figures().connections == 0);
    }
    eventually(|| !rig.python.failures.lock().is_empty());
    let failures = rig.python.failures.lock();
    let [told] = failures.as_slice() else {
        panic!("{failures:?}");
    };
    assert!(told.starts_with("ottla-network-1 died twice in a minute"));
    assert!(told.ends_with(": another reason"), "{told}");
}

/// Hubs count time in milliseconds.
fn next_moment() {
    let start = Instant::now();
    eventually(|| start.elapsed() > Duration::from_millis(2));
}

/// Files need the descriptors that are left, and all connections are other threads'. Those that were idle for longest
/// go.
#[test]
fn idle_connections_of_all_threads_make_room() {
    let rig = Rig::beside(2);
    let _lease = rig.grant(TERMS);
    let limits = ConnectionLimits {
        descriptors_max: 4,
        ..ConnectionLimits::default()
    };
    rig.hub.loops().lock().limit_connections(limits);
    let mut clients = Vec::new();
    for offset in 0..12 {
        let mut client = rig.connect();
        assert_eq!(client.produce(&Produce::default()), Some((0, offset)));
        clients.push(client);
        next_moment();
    }
    assert_eq!(rig.hub.figures().connections, 4);
    let closed = clients.iter_mut().map(|client| client.is_closed());
    let (gone, stays) = ([true; 8], [false; 4]);
    assert_eq!(closed.collect::<Vec<_>>(), [&gone[..], &stays].concat());
    let last = clients.last_mut().unwrap();
    assert_eq!(last.produce(&Produce::default()), Some((0, 12)));
}

/// Clients go on while threads come and go, and each request has one answer.
#[test]
fn no_request_is_lost_while_the_number_of_threads_changes() {
    let rig = Rig::with_room(4);
    let lease = rig.grant(TERMS);
    let is_over = AtomicBool::new(false);
    let count = || rig.hub.serving();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|_| {
                let mut client = rig.connect();
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut answered = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let produced = client.produce(&Produce::default());
                        assert!(matches!(produced, None | Some((0, _))), "{produced:?}");
                        assert!(
                            client
                                .fetch(&Fetch::default())
                                .is_some_and(|one| one.0 >= 0)
                        );
                        answered += 1;
                    }
                    answered
                })
            })
            .collect();
        for threads in [1, 4, 0, 2, 3, 1, 0, 4].repeat(4) {
            rig.beside.serve(&rig.direct, &rig.hub, threads).unwrap();
            assert_eq!(count(), threads);
            let before = rig.log.end_offset();
            eventually(|| rig.log.end_offset() > before + 40);
            // Those that leave have no connections in the end.
            eventually(|| {
                let held = rig.hub.threads().into_iter().map(|(count, _)| count);
                held.sum::<usize>() == if threads == 0 { 0 } else { clients.len() }
            });
        }
        is_over.store(true, Ordering::Relaxed);
        let answered: i32 = clients.into_iter().map(|one| one.join().unwrap()).sum();
        assert!(answered > 0);
    });
    drop(lease);
    eventually(|| rig.hub.figures().connections == 0);
}

#[test]
fn a_thread_that_nobody_needs_ends() {
    let rig = Rig::with_room(2);
    let _lease = rig.grant(TERMS);
    rig.beside.serve(&rig.direct, &rig.hub, 2).unwrap();
    let mut clients = [rig.connect(), rig.connect()];
    for offset in 0..4 {
        let produced = clients[offset % 2].produce(&Produce::default());
        assert_eq!(produced, Some((0, offset as i64)));
    }
    assert_eq!(rig.beside.running(), 2);
    rig.beside.serve(&rig.direct, &rig.hub, 1).unwrap();
    eventually(|| rig.beside.running() == 1);
    assert_eq!(rig.hub.threads()[0].0, 2);
    for (client, offset) in clients.iter_mut().zip(4..) {
        assert_eq!(client.produce(&Produce::default()), Some((0, offset)));
    }
    assert_eq!(rig.handed_on(), 0);
    rig.beside.serve(&rig.direct, &rig.hub, 0).unwrap();
    eventually(|| rig.beside.running() == 0);
    for (client, offset) in clients.iter_mut().zip(6..) {
        assert_eq!(client.produce(&Produce::default()), Some((0, offset)));
    }
}
