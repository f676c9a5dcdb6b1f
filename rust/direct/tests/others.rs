//! Produces with acks=all that wait for other replicas.

use super::*;

const OTHERS: Terms = Terms {
    is_alone: false,
    accepts_all: true,
    ..TERMS
};
const TIMED_OUT: i16 = 7;

fn all(timeout_ms: i32) -> Produce {
    Produce {
        acks: -1,
        timeout_ms,
        ..Produce::default()
    }
}

/// A lease, and a client whose Produce waits.
fn waiting(rig: &Rig, timeout_ms: i32) -> (OneLease, Client) {
    let lease = rig.grant(OTHERS);
    let mut client = rig.connect();
    let asked = all(timeout_ms);
    client.send(PRODUCE, asked.version, &asked.body());
    eventually(|| rig.direct.waiting_produces() == 1);
    (lease, client)
}

fn move_to(rig: &Rig, lease: &OneLease, high_watermark: i64) {
    rig.log.set_high_watermark(high_watermark);
    rig.direct.advanced(&rig.hub, lease);
}

#[test]
fn each_is_answered_when_others_have_all_of_it() {
    let rig = Rig::new();
    let (lease, mut first) = waiting(&rig, 600_000);
    let mut second = rig.connect();
    second.send(PRODUCE, 8, &all(600_000).body());
    eventually(|| rig.direct.waiting_produces() == 2);
    move_to(&rig, &lease, 0);
    assert_eq!(rig.direct.waiting_produces(), 2);
    move_to(&rig, &lease, 1);
    assert_eq!(first.produced(8), Some((0, 0)));
    assert_eq!(rig.direct.waiting_produces(), 1);
    // What is below already does not wait.
    move_to(&rig, &lease, 2);
    assert_eq!(second.produced(8), Some((0, 1)));
    assert_eq!(rig.handed_on(), 0);
    assert!(rig.python.unacknowledged.lock().is_empty());
}

#[test]
fn each_has_its_own_deadline() {
    let rig = Rig::new();
    let (lease, mut patient) = waiting(&rig, 600_000);
    let mut others: Vec<_> = [40, 10, 30].map(|wait_ms| (rig.connect(), wait_ms)).into();
    for (client, wait_ms) in &mut others {
        client.send(PRODUCE, 8, &all(*wait_ms).body());
    }
    for (client, _) in &mut others {
        assert_eq!(client.produced(8), Some((TIMED_OUT, -1)));
    }
    assert_eq!(rig.direct.waiting_produces(), 1);
    let mut late = rig.connect();
    late.send(PRODUCE, 8, &all(10).body());
    assert_eq!(late.produced(8), Some((TIMED_OUT, -1)));
    move_to(&rig, &lease, 5);
    assert_eq!(patient.produced(8), Some((0, 0)));
}

#[test]
fn who_waits_when_the_lease_ends_goes_to_python() {
    let rig = Rig::new();
    let (lease, mut client) = waiting(&rig, 600_000);
    let undecided = rig.direct.end(&rig.hub, &lease);
    let [one] = undecided.as_slice() else {
        panic!("one waits");
    };
    assert_eq!((one.info.last_offset, one.acks), (0, -1));
    assert!((500_000..=600_000).contains(&one.timeout_ms));
    // Nobody here answers it any more.
    move_to(&rig, &lease, 1);
    assert_eq!(rig.direct.waiting_produces(), 0);
    one.answer_at(&rig.hub, 20);
    assert_eq!(client.produced(8), Some((20, -1)));
}

#[test]
fn nobody_waits_for_others_under_a_lease_that_has_ended() {
    let rig = Rig::new();
    let lease = rig.grant(OTHERS);
    let mut client = rig.connect();
    *rig.python.to_end.lock() = Some(lease);
    // The second request of the turn ends it.
    let handed_on = Produce {
        version: 2,
        ..Produce::default()
    };
    let frames = [all(5000), handed_on]
        .map(|asked| request_frame(PRODUCE, asked.version, false, 7, None, &asked.body()).unwrap());
    client.socket.write_all(&frames.concat()).unwrap();
    eventually(|| !rig.python.unacknowledged.lock().is_empty());
    let one = rig.python.unacknowledged.lock().pop().unwrap();
    assert_eq!(rig.direct.waiting_produces(), 0);
    one.answer_at(&rig.hub, 0);
    assert_eq!(client.produced(8), Some((0, 0)));
}

#[test]
fn nobody_waits_where_no_deadline_is_looked_at() {
    let rig = Rig::new();
    rig.direct.let_wait(&rig.hub, false);
    rig.grant(OTHERS);
    let mut client = rig.connect();
    client.send(PRODUCE, 8, &all(5000).body());
    eventually(|| !rig.python.unacknowledged.lock().is_empty());
    let one = rig.python.unacknowledged.lock().pop().unwrap();
    one.answer_at(&rig.hub, 0);
    assert_eq!(client.produced(8), Some((0, 0)));
}

#[test]
fn a_lease_in_place_of_another_leaves_nobody_waiting() {
    let rig = Rig::new();
    let (_, mut client) = waiting(&rig, 600_000);
    rig.grant(OTHERS);
    assert_eq!(client.produced(8), Some((6, -1)));
}

#[test]
fn one_record_is_not_acknowledged_before_a_flush_of_it_that_is_due() {
    let folder = Folder::new();
    let config = LogConfig {
        flush_messages: 1,
        ..LogConfig::default()
    };
    let log = folder.open(config, true);
    let rig = Rig::of(log, Some(folder), 0);
    let lease = rig.grant(OTHERS);
    let mut client = rig.connect();
    client.send(PRODUCE, 8, &all(600_000).body());
    eventually(|| !rig.python.unacknowledged.lock().is_empty());
    assert_eq!(rig.direct.waiting_produces(), 0);
    move_to(&rig, &lease, 1);
    let one = rig.python.unacknowledged.lock().pop().unwrap();
    one.answer_at(&rig.hub, 0);
    assert_eq!(client.produced(8), Some((0, 0)));
}

#[test]
fn deadlines_that_nobody_has_are_not_kept() {
    let rig = Rig::new();
    let (lease, mut client) = waiting(&rig, i32::MAX);
    for number in 1..1000 {
        move_to(&rig, &lease, number);
        assert_eq!(client.produced(8).unwrap().0, 0);
        // Each is over earlier than the one before.
        client.send(PRODUCE, 8, &all(i32::MAX - 10_000 * number as i32).body());
        eventually(|| rig.direct.waiting_produces() == 1);
        assert!(rig.direct.deadlines() < 100);
    }
}
