//! The records that are fetched, and in which session.

use super::leader::{Leader, failing, good};
use super::*;

#[test]
fn records_are_appended_then_the_high_watermark_moves_then_the_start() {
    for version in [11, 12] {
        let (leader, one, two) = (Leader::new(), log(), log());
        let fetching = Fetching::start(FetcherSettings {
            fetch_version: version,
            ..settings(&leader)
        });
        fetching.fetcher.add(vec![
            (key("a-0"), Arc::new(Arc::clone(&one.log)), 7),
            (key("b-3"), Arc::new(Arc::clone(&two.log)), 4),
        ]);
        assert_eq!(fetching.lag("a-0"), -1);
        let mut peer = leader.accept();
        let asked = peer.asked();
        assert_eq!(asked.version, version);
        assert_eq!(asked.session(), (0, 0));
        assert_eq!(asked.request.replica_id, 2);
        assert_eq!(
            (
                asked.request.max_wait_ms,
                asked.request.min_bytes,
                asked.request.max_bytes
            ),
            (500, 1, 10 << 20)
        );
        assert_eq!(asked.request.isolation_level, 0);
        assert_eq!(asked.request.partitions[0].bytes_max, 1 << 20);
        let rows = [("a-0", 0, 7, -1, 0), ("b-3", 0, 4, -1, 0)];
        assert_eq!(
            asked.rows,
            rows.map(|row| (row.0.to_owned(), row.1, row.2, row.3, row.4))
        );

        let first = [records(0, 7, &["x", "y"]), records(2, 7, &["z"])].concat();
        peer.answer(
            &asked,
            55,
            vec![good("a-0", 2, first.clone()), good("b-3", 0, Vec::new())],
        );
        let asked = peer.asked();
        assert_eq!(asked.session(), (55, 1));
        let last_epoch = if version == 12 { 7 } else { -1 };
        assert_eq!(asked.rows, [("a-0".to_owned(), 3, 7, last_epoch, 0)]);
        assert_eq!(bytes(&one.log), first);
        assert_eq!((one.log.end_offset(), one.log.high_watermark()), (3, 2));
        assert_eq!(one.log.leader_epochs().entries().len(), 1);
        assert_eq!(fetching.lag("a-0"), 0);

        // The leader has more than it sends, and its log begins above the high watermark that was told before.
        let mut row = good("a-0", 9, records(3, 7, &["w"]));
        row.1.log_start_offset = 4;
        peer.answer(&asked, 55, vec![row]);
        let asked = peer.asked();
        assert_eq!(asked.session(), (55, 2));
        assert_eq!(asked.offsets(), [("a-0", 4)]);
        assert_eq!(asked.rows[0].4, 4);
        assert_eq!((one.log.start_offset(), one.log.high_watermark()), (4, 4));
        assert_eq!(fetching.lag("a-0"), 5);

        // Nothing is named where nothing changed, and a watermark moves without records, also down.
        peer.answer(&asked, 55, vec![good("b-3", 0, records(0, 4, &["v"]))]);
        let asked = peer.asked();
        assert_eq!(asked.names(), ["b-3"]);
        assert_eq!(two.log.high_watermark(), 0);
        peer.answer(&asked, 55, vec![good("b-3", 1, Vec::new())]);
        let asked = peer.asked();
        assert!(asked.rows.is_empty() && asked.forgotten.is_empty());
        assert_eq!(two.log.high_watermark(), 1);
        peer.answer(&asked, 55, vec![good("b-3", 0, Vec::new())]);
        peer.asked();
        assert_eq!(two.log.high_watermark(), 0);
        let figures = fetching.fetcher.figures();
        assert_eq!((figures.requests, figures.active), (5, 2));
        assert!(figures.bytes > first.len() as u64);
        fetching.has_no_events();
    }
}

#[test]
fn a_log_does_not_start_above_its_high_watermark() {
    let (leader, one) = (Leader::new(), log());
    let fetching = Fetching::start(settings(&leader));
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let mut row = good("a-0", 1, records(0, 1, &["x", "y", "z"]));
    row.1.log_start_offset = 2;
    peer.answer(&asked, 9, vec![row]);
    let asked = peer.asked();
    assert_eq!(asked.rows, [("a-0".to_owned(), 3, 1, 1, 1)]);
    assert_eq!((one.log.start_offset(), one.log.high_watermark()), (1, 1));
    fetching.has_no_events();
}

#[test]
fn a_session_that_is_lost_begins_anew_at_once() {
    let (leader, one) = (Leader::new(), log());
    // A back-off would be too long.
    let fetching = Fetching::start(FetcherSettings {
        backoff: 2 * LONG,
        ..settings(&leader)
    });
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    for (error, id) in [(70, 0), (71, 9)] {
        let asked = peer.asked();
        peer.answer(&asked, 9, vec![good("a-0", 0, Vec::new())]);
        let asked = peer.asked();
        assert_eq!(asked.session(), (9, 1));
        assert!(asked.rows.is_empty());
        peer.refuse(&asked, error);
        let asked = peer.asked();
        assert_eq!(asked.session(), (id, 0));
        assert_eq!(asked.names(), ["a-0"]);
        peer.answer(&asked, 0, vec![good("a-0", 0, Vec::new())]);
    }
    // A leader without place for sessions gets full requests.
    assert_eq!(peer.asked().session(), (0, 0));
    fetching.has_no_events();
}

#[test]
fn partitions_come_and_go_in_a_session() {
    let (leader, logs) = (Leader::new(), [log(), log(), log()]);
    let fetching = Fetching::start(settings(&leader));
    fetching.add("b-0", &logs[0].log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    fetching.add("a-7", &logs[1].log, 1);
    fetching.add("b-1", &logs[2].log, 1);
    peer.answer(&asked, 9, vec![good("b-0", 0, Vec::new())]);
    let asked = peer.asked();
    assert_eq!(asked.names(), ["a-7", "b-1"]);
    fetching
        .fetcher
        .remove(&[key("b-0"), key("b-1"), key("c-9")]);
    peer.answer(&asked, 9, vec![good("b-1", 0, Vec::new())]);
    let asked = peer.asked();
    assert!(asked.rows.is_empty());
    assert_eq!(asked.forgotten, ["b-0", "b-1"]);
    fetching.has_no_events();
}

#[test]
fn without_a_session_another_partition_is_first_each_time() {
    let (leader, logs) = (Leader::new(), [log(), log()]);
    let fetching = Fetching::start(settings(&leader));
    fetching.fetcher.add(vec![
        (key("a-0"), Arc::new(Arc::clone(&logs[0].log)), 1),
        (key("a-1"), Arc::new(Arc::clone(&logs[1].log)), 1),
    ]);
    let mut peer = leader.accept();
    let asked = peer.asked();
    assert_eq!(asked.names(), ["a-0", "a-1"]);
    let rows = vec![
        good("a-0", 0, records(0, 1, &["x"])),
        good("a-1", 0, Vec::new()),
    ];
    peer.answer(&asked, 0, rows);
    assert_eq!(peer.asked().names(), ["a-1", "a-0"]);
}

#[test]
fn a_last_batch_that_is_not_whole_is_fetched_again() {
    let (leader, one) = (Leader::new(), log());
    let fetching = Fetching::start(settings(&leader));
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let (first, second) = (records(0, 1, &["x", "y"]), records(2, 1, &["z"]));
    let cut = [&first[..], &second[..second.len() - 1]].concat();
    peer.answer(&asked, 9, vec![good("a-0", 0, cut)]);
    let asked = peer.asked();
    assert_eq!(asked.offsets(), [("a-0", 2)]);
    peer.answer(&asked, 9, vec![good("a-0", 0, second.clone())]);
    assert_eq!(peer.asked().offsets(), [("a-0", 3)]);
    assert_eq!(bytes(&one.log), [first, second].concat());
}

#[test]
fn records_of_a_segment_that_is_larger_than_ours_are_appended_in_pieces() {
    let leader = Leader::new();
    let value = "v".repeat(400);
    let all: Vec<_> = (0..5).map(|at| records(at, 1, &[&value])).collect();
    let one = log_with(LogConfig {
        segment_bytes: 2 * all[0].len() as u32 + 1,
        ..LogConfig::default()
    });
    let fetching = Fetching::start(settings(&leader));
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let mut cut = all.concat();
    cut.extend(&records(5, 1, &[&value])[..99]);
    peer.answer(&asked, 9, vec![good("a-0", 5, cut)]);
    let asked = peer.asked();
    assert_eq!(asked.offsets(), [("a-0", 5)]);
    let segments: Vec<_> = one.log.segments().iter().map(|s| s.base_offset).collect();
    assert_eq!(segments, [0, 2, 4]);
    assert_eq!(one.log.high_watermark(), 5);

    // A batch that is larger than a segment of ours gets one of its own.
    let large = records(5, 1, &[&"v".repeat(1000)]);
    peer.answer(&asked, 9, vec![good("a-0", 6, large)]);
    assert_eq!(peer.asked().offsets(), [("a-0", 6)]);
    let segments: Vec<_> = one.log.segments().iter().map(|s| s.base_offset).collect();
    assert_eq!(segments, [0, 2, 4, 5]);
}

#[test]
fn a_delayed_partition_is_asked_for_again_after_the_back_off() {
    let (leader, logs) = (Leader::new(), [log(), log()]);
    let fetching = Fetching::start(settings(&leader));
    fetching.fetcher.add(vec![
        (key("a-0"), Arc::new(Arc::clone(&logs[0].log)), 1),
        (key("a-1"), Arc::new(Arc::clone(&logs[1].log)), 1),
    ]);
    let mut peer = leader.accept();
    let mut asked = peer.asked();
    let mut told = Vec::new();
    for code in [6, 6, 76, 3, 56, 9, 6, 0, 6] {
        let row = match code {
            0 => good("a-1", 0, Vec::new()),
            code => failing("a-1", code),
        };
        let other = good("a-0", 0, Vec::new());
        let rows = if asked.session().1 == 0 {
            vec![other, row]
        } else {
            vec![row]
        };
        peer.answer(&asked, 9, rows);
        asked = peer.asked();
        told.extend(fetching.fetcher.take_events());
        if code == 0 {
            continue;
        }
        assert_eq!(asked.forgotten, ["a-1"]);
        // The leader does not keep this for longer than the other one is put off.
        assert!((1..=301).contains(&asked.request.max_wait_ms));
        // The other one goes on, until the back-off is over.
        while asked.names() != ["a-1"] {
            assert!(asked.names().is_empty());
            peer.answer(&asked, 9, Vec::new());
            asked = peer.asked();
        }
    }
    let told: Vec<_> = told.iter().map(said).collect();
    let wanted =
        [6, 76, 3, 56, 9, 6, 6].map(|code| ("a-1".to_owned(), Kind::Delayed, code, -1, -1));
    assert_eq!(told, wanted);
}

#[test]
fn a_leader_that_throttles_is_left_alone() {
    let (leader, one) = (Leader::new(), log());
    let fetching = Fetching::start(FetcherSettings {
        backoff: 2 * LONG,
        ..settings(&leader)
    });
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    for rows in [Vec::new(), vec![good("a-0", 0, Vec::new())]] {
        let asked = peer.asked();
        let head = crate::wire::fetch::ResponseHead {
            throttle_time_ms: 100,
            ..Default::default()
        };
        let sent = std::time::Instant::now();
        peer.send(&leader::frame(&asked, head, rows));
        let asked = peer.asked();
        assert!(sent.elapsed() >= Duration::from_millis(100));
        assert_eq!(asked.session(), (0, 0));
        peer.answer(&asked, 0, vec![good("a-0", 0, Vec::new())]);
    }
    fetching.has_no_events();
}

#[test]
fn what_was_fetched_is_counted_and_apart_for_replicas_that_are_added() {
    let (leader, there, added) = (Leader::new(), log(), log());
    let fetching = Fetching::start(settings(&leader));
    let add = |name, local: &Local| -> Vec<(PartitionKey, Arc<dyn Replica>, i32)> {
        vec![(key(name), Arc::new(Arc::clone(&local.log)), 1)]
    };
    fetching.fetcher.add(add("a-0", &there));
    let terms = Terms {
        is_move: true,
        ..Terms::default()
    };
    fetching.fetcher.add_under(add("b-0", &added), terms);
    assert_eq!(
        (fetching.fetcher.requests(), fetching.fetcher.lag_max()),
        (0, 0)
    );
    let mut peer = leader.accept();
    let (mut asked, mut requests) = (peer.asked(), 1);
    // The fetcher may ask before it is given the second one.
    while asked.names().len() < 2 {
        peer.answer(&asked, 0, vec![good("a-0", 0, Vec::new())]);
        (asked, requests) = (peer.asked(), requests + 1);
    }
    let rows = vec![
        good("a-0", 3, records(0, 1, &["x"])),
        good("b-0", 9, records(0, 1, &["a", "longer", "one"])),
    ];
    peer.answer(&asked, 9, rows);
    let asked = peer.asked();
    let counted = |local: &Local, count: Count| local.log.traffic().counts()[count as usize];
    assert_eq!((there.log.end_offset(), added.log.end_offset()), (1, 3));
    for (local, moved) in [(&there, 0), (&added, bytes(&added.log).len())] {
        assert_eq!(
            counted(local, Count::ReplicationBytesIn),
            bytes(&local.log).len() as u64
        );
        assert_eq!(counted(local, Count::ReassignmentBytesIn), moved as u64);
        assert_eq!(counted(local, Count::BytesIn), 0, "no leader appended it");
    }
    assert_eq!(
        (fetching.fetcher.requests(), fetching.fetcher.lag_max()),
        (requests, 6)
    );
    // What the log does not take is not counted.
    let before = counted(&there, Count::ReplicationBytesIn);
    peer.answer(&asked, 9, vec![good("a-0", 3, records(0, 1, &["x"]))]);
    fetching.event();
    assert_eq!(counted(&there, Count::ReplicationBytesIn), before);
}
