//! Problems that pause a partition: each time the other one of the same leader goes on, and adding
//! it again resumes it.

use super::leader::{Leader, Row, failing, good};
use super::*;

/// The leader answers a partition with `row`; returns the event, and the log with what was appended to it.
fn event_of(row: Row<'_>, replica: impl Fn(&Arc<Log>) -> Arc<dyn Replica>) -> (Event, Local) {
    let (leader, one, other) = (Leader::new(), log(), log());
    one.log
        .append_as_follower(&records(0, 3, &["x", "y"]), i32::MAX, 1_000)
        .unwrap();
    let fetching = Fetching::start(settings(&leader));
    fetching.fetcher.add(vec![
        (key("a-0"), replica(&one.log), 5),
        (key("b-0"), Arc::new(Arc::clone(&other.log)), 5),
    ]);
    let mut peer = leader.accept();
    let asked = peer.asked();
    assert_eq!(asked.rows[0], ("a-0".to_owned(), 2, 5, 3, 0));
    let more = good("b-0", 1, records(0, 5, &["z"]));
    peer.answer(&asked, 9, vec![row, more]);
    let asked = peer.asked();
    let event = fetching.event();
    assert_eq!(asked.forgotten, ["a-0"]);
    assert_eq!(asked.offsets(), [("b-0", 1)]);
    assert_eq!(event.leader_epoch, 5);
    assert!(!event.message.is_empty());
    assert_eq!(fetching.fetcher.figures().active, 1);
    peer.answer(&asked, 9, vec![]);
    assert!(peer.asked().rows.is_empty());
    fetching.has_no_events();
    (event, one)
}

fn real(log: &Arc<Log>) -> Arc<dyn Replica> {
    Arc::new(Arc::clone(log))
}

#[test]
fn a_diverging_log() {
    let mut row = good("a-0", 2, Vec::new());
    row.1.diverging_epoch = Some((2, 1));
    let (event, one) = event_of(row, real);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::Diverged, 0, 2, 1));
    assert_eq!((one.log.end_offset(), one.log.high_watermark()), (2, 0));
}

#[test]
fn an_offset_out_of_range() {
    let (event, _one) = event_of(failing("a-0", 1), real);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::OutOfRange, 1, -1, 2));
}

#[test]
fn an_old_epoch() {
    let (event, _one) = event_of(failing("a-0", 74), real);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::Fenced, 74, -1, -1));
}

#[test]
fn an_epoch_that_our_log_does_not_have() {
    let acting = |log: &Arc<Log>| -> Arc<dyn Replica> {
        let act = |_: &[u8], given| Err(LogError::OtherEpoch { given, current: 6 });
        let log = Arc::clone(log);
        Arc::new(Acting { log, act })
    };
    let (event, one) = event_of(good("a-0", 3, records(2, 5, &["z"])), acting);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::Fenced, 6, 6, -1));
    assert!(event.message.contains("leader epoch 5"), "{event:?}");
    assert_eq!((one.log.end_offset(), one.log.high_watermark()), (2, 0));
}

#[test]
fn a_batch_of_a_newer_epoch_than_the_leaders() {
    let (event, one) = event_of(good("a-0", 3, records(2, 7, &["z"])), real);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::NewerEpoch, 2, 7, -1));
    assert_eq!((one.log.end_offset(), one.log.high_watermark()), (2, 0));
}

/// The leader's coordination tree is older than the records: it cannot compare their epochs, and has them all the same.
#[test]
fn logs_that_agree_are_fetched_without_epochs() {
    let (leader, one) = (Leader::new(), log());
    let newer = |base_offset, epoch| records(base_offset, epoch, &["x"]);
    one.log
        .append_as_follower(&newer(0, 7), i32::MAX, 1_000)
        .unwrap();
    let fetching = Fetching::start(settings(&leader));
    let terms = Terms {
        is_agreed: true,
        ..Terms::default()
    };
    let added = vec![(key("a-0"), real(&one.log), 5)];
    fetching.fetcher.add_under(added, terms);
    let mut peer = leader.accept();
    let asked = peer.asked();
    assert_eq!(asked.rows[0], ("a-0".to_owned(), 1, 5, -1, 0));
    peer.answer(&asked, 9, vec![good("a-0", 2, newer(1, 7))]);
    let asked = peer.asked();
    assert_eq!(asked.rows[0], ("a-0".to_owned(), 2, 5, -1, 0));
    peer.answer(&asked, 9, vec![good("a-0", 3, newer(2, 5))]);
    assert_eq!(peer.asked().offsets(), [("a-0", 3)]);
    fetching.has_no_events();
    let epochs = one.log.leader_epochs();
    let epochs = epochs.entries().iter();
    let epochs: Vec<_> = epochs.map(|at| (at.epoch, at.start_offset)).collect();
    assert_eq!(epochs, [(5, 2)]);
}

#[test]
fn a_wrong_checksum() {
    let mut bytes = records(2, 5, &["z"]);
    *bytes.last_mut().unwrap() ^= 1;
    let (event, one) = event_of(good("a-0", 3, bytes), real);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::Corrupt, 2, -1, -1));
    assert_eq!((one.log.end_offset(), one.log.high_watermark()), (2, 0));
}

#[test]
fn records_that_do_not_continue_the_log() {
    let (event, one) = event_of(good("a-0", 3, records(1, 5, &["z", "w"])), real);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::Corrupt, -1, -1, -1));
    assert_eq!((one.log.end_offset(), one.log.high_watermark()), (2, 0));
}

#[test]
fn records_without_a_whole_batch() {
    let bytes = records(2, 5, &["z"]);
    let (event, one) = event_of(good("a-0", 3, bytes[..70].to_vec()), real);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::Corrupt, 2, -1, -1));
    assert_eq!(one.log.end_offset(), 2);
}

#[test]
fn bytes_that_are_no_batches() {
    for bytes in [vec![0xff; 200], vec![0; 200]] {
        let (event, one) = event_of(good("a-0", 3, bytes), real);
        assert_eq!((event.kind, event.code), (Kind::Corrupt, 2));
        assert_eq!(one.log.end_offset(), 2);
    }
}

#[test]
fn a_log_that_cannot_be_written_to() {
    let closed = |log: &Arc<Log>| {
        log.close(false).unwrap();
        real(log)
    };
    let (event, _one) = event_of(good("a-0", 3, records(2, 5, &["z"])), closed);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::Storage, 56, -1, -1));
}

#[test]
fn a_panic_in_an_append() {
    let acting = |log: &Arc<Log>| -> Arc<dyn Replica> {
        let act = |_: &[u8], _| panic!("in the append");
        let log = Arc::clone(log);
        Arc::new(Acting { log, act })
    };
    let (event, _one) = event_of(good("a-0", 3, records(2, 5, &["z"])), acting);
    assert_eq!(said(&event), ("a-0".to_owned(), Kind::Panic, -1, -1, -1));
    assert!(event.message.contains("in the append"), "{event:?}");
}

#[test]
fn a_paused_partition_is_resumed_from_its_logs_end() {
    let (leader, one) = (Leader::new(), log());
    one.log
        .append_as_follower(&records(0, 3, &["x", "y"]), i32::MAX, 1_000)
        .unwrap();
    let fetching = Fetching::start(settings(&leader));
    fetching.add("a-0", &one.log, 5);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let mut row = good("a-0", 2, Vec::new());
    row.1.diverging_epoch = Some((2, 0));
    peer.answer(&asked, 9, vec![row]);
    assert_eq!(fetching.event().kind, Kind::Diverged);
    one.log.truncate_to(0, None).unwrap();
    fetching.add("a-0", &one.log, 6);
    let asked = peer.asked();
    assert_eq!(asked.rows, [("a-0".to_owned(), 0, 6, -1, 0)]);
    peer.answer(&asked, 9, vec![good("a-0", 1, records(0, 6, &["z"]))]);
    assert_eq!(peer.asked().offsets(), [("a-0", 1)]);
    assert_eq!(one.log.high_watermark(), 1);
}

#[test]
fn what_was_not_taken_of_an_event_ends_with_its_partition() {
    for is_added in [true, false] {
        let (leader, one, other) = (Leader::new(), log(), log());
        let fetching = Fetching::start(settings(&leader));
        fetching.add("a-0", &one.log, 5);
        let mut peer = leader.accept();
        let asked = peer.asked();
        peer.answer(&asked, 9, vec![failing("a-0", 74)]);
        fetching.notified.recv_timeout(LONG).unwrap();
        if is_added {
            fetching.add("a-0", &one.log, 6);
        } else {
            fetching.fetcher.remove(&[key("a-0")]);
            fetching.add("b-0", &other.log, 6);
        }
        assert_eq!(fetching.fetcher.take_events(), []);
        peer.asked();
    }
}
