//! Throttled partitions, while more was fetched than the quota allows.

use std::collections::HashSet;

use super::leader::{Leader, Peer, good};
use super::*;
use crate::replication::Throttled;

/// A fetcher of `a-0`, which lags behind, and `b-0`, which has all; both are throttled, and the quota is exceeded. And the request that names what is
/// fetched then.
struct Throttling {
    fetching: Fetching,
    peer: Peer,
    asked: leader::Asked,
    one: Local,
    other: Local,
}

fn these(partitions: &[i32]) -> Throttled {
    Throttled::These(partitions.iter().copied().collect::<HashSet<_>>())
}

fn throttling() -> Throttling {
    let (leader, one, other) = (Leader::new(), log(), log());
    let fetching = Fetching::start(FetcherSettings {
        wait_max_ms: 5000,
        ..settings(&leader)
    });
    fetching.quota.throttle("a", Throttled::All);
    fetching.quota.throttle("b", these(&[0, 7]));
    fetching.fetcher.add(vec![
        (key("a-0"), Arc::new(Arc::clone(&one.log)), 1),
        (key("b-0"), Arc::new(Arc::clone(&other.log)), 1),
    ]);
    let mut peer = leader.accept();
    let asked = peer.asked();
    fetching.quota.limit(Some(1));
    let rows = vec![
        good("a-0", 9, records(0, 1, &["x"])),
        good("b-0", 1, records(0, 1, &["x"])),
    ];
    peer.answer(&asked, 9, rows);
    let asked = peer.asked();
    Throttling {
        fetching,
        peer,
        asked,
        one,
        other,
    }
}

#[test]
fn what_lags_is_left_out_while_the_quota_is_exceeded() {
    let Throttling {
        fetching,
        mut peer,
        asked,
        one,
        other,
    } = throttling();
    // What has all that is committed is in sync, and stays so.
    assert_eq!(asked.offsets(), [("b-0", 1)]);
    assert_eq!(asked.forgotten, ["a-0"]);
    let both = (bytes(&one.log).len() + bytes(&other.log).len()) as u64;
    assert_eq!(fetching.quota.bytes(), both);
    // The request does not wait as long as it may: then it is looked whether there is room.
    let wait_ms = asked.request.max_wait_ms;
    assert!((2..=1001).contains(&wait_ms), "{wait_ms}");
    // What an in-sync replica gets counts too.
    peer.answer(&asked, 9, vec![good("b-0", 2, records(1, 1, &["y"]))]);
    let asked = peer.asked();
    assert_eq!(asked.offsets(), [("b-0", 2)]);
    assert!(fetching.quota.bytes() > both);
    fetching.quota.limit(Some(1 << 30));
    peer.answer(&asked, 9, Vec::new());
    let asked = peer.asked();
    assert_eq!(asked.offsets(), [("a-0", 1)]);
    assert!(asked.forgotten.is_empty());
    fetching.has_no_events();
}

#[test]
fn nothing_is_asked_where_all_have_to_wait() {
    let (leader, one) = (Leader::new(), log());
    let fetching = Fetching::start(settings(&leader));
    fetching.quota.throttle("a", Throttled::All);
    fetching.quota.limit(Some(1));
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    peer.answer(&asked, 9, vec![good("a-0", 9, records(0, 1, &["x"]))]);
    while fetching.fetcher.figures().requests == 0 || fetching.lag("a-0") != 8 {
        std::thread::yield_now();
    }
    // It fetches again without being told: the quota is another one, or the partition is not throttled.
    assert!(fetching.quota.is_exceeded());
    fetching.quota.throttle("a", these(&[]));
    let asked = peer.asked();
    assert_eq!(fetching.fetcher.figures().requests, 1);
    assert_eq!(asked.offsets(), [("a-0", 1)]);
    assert!(asked.forgotten.is_empty());
    fetching.has_no_events();
}

#[test]
fn what_is_not_throttled_does_not_count() {
    let Throttling {
        fetching,
        mut peer,
        asked,
        one: _one,
        other: _other,
    } = throttling();
    let before = fetching.quota.bytes();
    fetching.quota.throttle("b", these(&[1]));
    let row = good("b-0", 9, records(1, 1, &["y"]));
    peer.answer(&asked, 9, vec![row]);
    assert_eq!(peer.asked().offsets(), [("b-0", 2)]);
    assert_eq!(fetching.quota.bytes(), before);
}

/// In a new leader epoch nobody knows whether it is in sync.
#[test]
fn what_was_not_answered_yet_is_asked_once() {
    let Throttling {
        fetching,
        mut peer,
        asked,
        one,
        other: _other,
    } = throttling();
    fetching.add("a-0", &one.log, 2);
    peer.answer(&asked, 9, Vec::new());
    let asked = peer.asked();
    assert_eq!(asked.offsets(), [("a-0", 1)]);
    peer.answer(&asked, 9, vec![good("a-0", 9, records(1, 2, &["y"]))]);
    let asked = peer.asked();
    assert_eq!(asked.forgotten, ["a-0"]);
    assert_eq!(one.log.end_offset(), 2);
}

/// The bytes of a long time, by the clock: a second of them at once, and then as many as there is time.
#[test]
fn the_rate_is_kept() {
    let (leader, one) = (Leader::new(), log());
    let fetching = Fetching::start(settings(&leader));
    let value = "x".repeat(10_000);
    let size = records(0, 1, &[&value]).len() as u64;
    fetching.quota.throttle("a", Throttled::All);
    fetching.quota.limit(Some(20 * size));
    let begin = std::time::Instant::now();
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    for number in 0..61 {
        let asked = peer.asked();
        let from = asked.rows[0].1;
        assert_eq!(from, number);
        let row = good("a-0", 1000, records(from, 1, &[&value]));
        peer.answer(&asked, 9, vec![row]);
    }
    // The 61st was asked for once 60 batches are no more than the quota allows.
    let seconds = begin.elapsed().as_secs_f64();
    assert!((2.9..10.0).contains(&seconds), "{seconds}");
}
