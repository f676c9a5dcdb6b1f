//! The number of threads that serve changes, and connections leave those that serve no more.

use super::moving::{Several, ask, heard, talk};
use super::*;
use crate::net::table::hub_of;

fn serve_by(several: &Several, threads: usize) {
    several.hubs.serve_by(threads, |_| Ok(())).unwrap();
}

#[test]
fn the_loop_hands_its_connections_to_threads_and_takes_theirs() {
    let mut several = Several::alone(2);
    let (mut client, id, _) = several.settled();
    assert_eq!(hub_of(id), 0);
    serve_by(&several, 2);
    several.until(|several| several.hubs.number_of(id) > 0);
    assert!(talk(&mut several, &mut client, id) > 0);
    let counts = several.hubs.threads().into_iter().map(|(count, _)| count);
    assert_eq!(counts.sum::<usize>(), 1);
    serve_by(&several, 0);
    several.until(|several| several.hubs.number_of(id) == 0);
    assert_eq!(talk(&mut several, &mut client, id), 0);
    assert!(several.hubs.rests(0) && several.hubs.rests(1));
    // And one that comes.
    let (mut other, other_id, _) = several.settled();
    assert_eq!(talk(&mut several, &mut other, other_id), 0);
    assert_eq!(several.hubs.figures().connections, 2);
}

/// It goes when its answer has left, though it was busy when the others went.
#[test]
fn a_connection_with_a_request_under_way_goes_after_the_answer() {
    let mut several = Several::alone(2);
    let (mut client, id, _) = several.settled();
    ask(&mut client);
    let (_, ticket) = several.request();
    serve_by(&several, 1);
    for _ in 0..3 {
        (0..3).for_each(|number| drop(several.turn(number)));
    }
    assert_eq!(several.hubs.number_of(id), 0);
    several.answer(ticket);
    heard(&mut client);
    several.until(|several| several.hubs.number_of(id) == 1);
    assert_eq!(talk(&mut several, &mut client, id), 1);
}

/// A part of the next frame stays with it until that frame is answered.
#[test]
fn half_a_frame_keeps_a_connection_and_its_thread() {
    let mut several = Several::new();
    let (mut client, id, _) = several.settled();
    let home = hub_of(id);
    client.write_all(&[0, 0]).unwrap();
    several.until(|several| !several.hubs.of(id).holds_nothing(id));
    serve_by(&several, 0);
    for _ in 0..3 {
        (0..3).for_each(|number| drop(several.turn(number)));
    }
    assert_eq!(several.hubs.number_of(id), home);
    assert!(!several.hubs.rests(home - 1));
    let frame = request_frame(METADATA, 0, false, 7, None, b"").unwrap();
    client.write_all(&frame[2..]).unwrap();
    let (number, ticket) = several.request();
    assert_eq!(number, home);
    several.answer(ticket);
    heard(&mut client);
    several.until(|several| several.hubs.number_of(id) == 0);
    assert!(several.hubs.rests(home - 1));
    assert_eq!(talk(&mut several, &mut client, id), 0);
}

#[test]
fn nobody_leaves_while_a_listener_closes_and_all_do_after() {
    let mut several = Several::new();
    let (client, id, _) = several.settled();
    let home = hub_of(id);
    several.hubs.stand_still(true);
    serve_by(&several, 0);
    (0..3).for_each(|number| drop(several.turn(number)));
    assert_eq!(several.hubs.number_of(id), home);
    several.hubs.stand_still(false);
    // Nothing happens on the connection, and nobody signals.
    several.until(|several| several.hubs.number_of(id) == 0);
    drop(client);
}

/// A thread of a hub that has left does not end before its news is told.
#[test]
fn an_end_that_was_not_told_keeps_the_thread() {
    let mut several = Several::new();
    let (client, id, _) = several.settled();
    let home = hub_of(id);
    several.hubs.of(id).end_session(id, "a reason".to_owned());
    serve_by(&several, 0);
    assert!(!several.hubs.rests(home - 1));
    several.until(|several| several.ended.len() == 1);
    assert!(several.hubs.rests(home - 1));
    drop(client);
}

#[test]
fn a_hub_that_rested_serves_again() {
    let mut several = Several::new();
    let (mut client, id, _) = several.settled();
    serve_by(&several, 0);
    several.until(|several| several.hubs.number_of(id) == 0);
    assert!(several.hubs.rests(0) && several.hubs.rests(1));
    serve_by(&several, 2);
    several.until(|several| several.hubs.number_of(id) > 0);
    assert!(talk(&mut several, &mut client, id) > 0);
    // It goes home, or is a guest; others come to both.
    let mut others: Vec<_> = (0..8).map(|_| several.settled()).collect();
    for (client, id, _) in &mut others {
        assert!(talk(&mut several, client, *id) > 0);
    }
    let counts = several.hubs.threads().into_iter().map(|(count, _)| count);
    assert!(counts.clone().all(|count| count > 0));
    assert_eq!(counts.sum::<usize>(), 9);
}

/// Only the time counts in which a hub served.
#[test]
fn the_time_of_those_that_serve_is_measured() {
    let mut several = Several::new();
    several.hubs.measure(&Arc::default());
    let (mut client, id, _) = several.settled();
    serve_by(&several, 0);
    several.until(|several| several.hubs.number_of(id) == 0);
    let (before_us, busy_before_us) = several.hubs.served_us();
    let began = Instant::now();
    for _ in 0..20 {
        talk(&mut several, &mut client, id);
    }
    let (after_us, busy_us) = several.hubs.served_us();
    let passed_us = began.elapsed().as_micros() as u64;
    // One thread's time, not three.
    assert!(after_us - before_us <= passed_us + 1_000);
    assert!(busy_us > busy_before_us && busy_us - busy_before_us <= passed_us);
}
