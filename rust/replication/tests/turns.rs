//! Partitions that are removed, or come into another epoch, while their answer is on the way; and panics.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use super::leader::{Leader, good};
use super::*;

#[test]
fn nothing_is_appended_after_a_removal() {
    let (leader, one, other) = (Leader::new(), log(), log());
    let fetching = Fetching::start(settings(&leader));
    fetching.fetcher.add(vec![
        (key("a-0"), Arc::new(Arc::clone(&one.log)), 1),
        (key("b-0"), Arc::new(Arc::clone(&other.log)), 1),
    ]);
    let mut peer = leader.accept();
    let asked = peer.asked();
    fetching.fetcher.remove(&[key("a-0")]);
    let rows = ["a-0", "b-0"].map(|name| good(name, 1, records(0, 1, &["x"])));
    peer.answer(&asked, 9, Vec::from(rows));
    let asked = peer.asked();
    assert_eq!((one.log.end_offset(), one.log.high_watermark()), (0, 0));
    assert_eq!(asked.session(), (9, 1));
    assert_eq!(asked.offsets(), [("b-0", 1)]);
    assert_eq!(asked.forgotten, ["a-0"]);
}

#[test]
fn a_removal_waits_for_the_append_of_its_partition_alone() {
    let (leader, one, other) = (Leader::new(), log(), log());
    let fetching = Fetching::start(settings(&leader));
    let (entered, enters) = sync_channel(0);
    let (leave, leaves) = sync_channel::<()>(0);
    let leaves = parking_lot::Mutex::new(leaves);
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let act = move |_: &[u8], _| {
        entered.send(()).unwrap();
        leaves.lock().recv_timeout(LONG).unwrap();
        done.store(true, Ordering::Release);
        Ok(())
    };
    let log = Arc::clone(&one.log);
    fetching.add_replica("a-0", Arc::new(Acting { log, act }), 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    fetching.add("b-0", &other.log, 1);
    peer.answer(&asked, 9, vec![good("a-0", 1, records(0, 1, &["x"]))]);
    enters.recv_timeout(LONG).unwrap();
    // Nobody else waits for this append.
    fetching.fetcher.remove(&[key("b-0")]);
    fetching.add("c-0", &other.log, 1);
    assert_eq!(fetching.fetcher.figures().active, 2);
    fetching.has_no_events();
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| {
            fetching.fetcher.remove(&[key("a-0")]);
            (is_done.load(Ordering::Acquire), one.log.high_watermark())
        });
        while fetching.fetcher.figures().active == 2 {
            std::thread::yield_now();
        }
        leave.send(()).unwrap();
        assert_eq!(removal.join().unwrap(), (true, 1));
    });
    let asked = peer.asked();
    assert_eq!(asked.names(), ["c-0"]);
}

#[test]
fn an_answer_to_an_earlier_epoch_is_dropped() {
    let (leader, one, other) = (Leader::new(), log(), log());
    let fetching = Fetching::start(settings(&leader));
    fetching.fetcher.add(vec![
        (key("a-0"), Arc::new(Arc::clone(&one.log)), 1),
        (key("b-0"), Arc::new(Arc::clone(&other.log)), 1),
    ]);
    let mut peer = leader.accept();
    let asked = peer.asked();
    fetching.add("a-0", &one.log, 2);
    let rows = ["a-0", "b-0"].map(|name| good(name, 1, records(0, 1, &["x"])));
    peer.answer(&asked, 9, Vec::from(rows));
    // The leader believes that it told the watermark, so it is asked for everything anew.
    let asked = peer.asked();
    assert_eq!(asked.session(), (9, 0));
    assert_eq!(asked.rows[0], ("a-0".to_owned(), 0, 2, -1, 0));
    assert_eq!(asked.rows[1].1, 1);
    assert_eq!((one.log.end_offset(), one.log.high_watermark()), (0, 0));
    fetching.has_no_events();
}

#[test]
fn an_answer_for_an_offset_that_is_not_the_end_any_more_is_dropped() {
    let (continues, diverges) = (records(2, 1, &["z"]), Vec::new());
    for (is_diverging, records_sent) in [(false, continues), (true, diverges)] {
        let (leader, one) = (Leader::new(), log());
        let fetching = Fetching::start(settings(&leader));
        fetching.add("a-0", &one.log, 1);
        let mut peer = leader.accept();
        let asked = peer.asked();
        let moved = records(0, 1, &["x", "y"]);
        one.log.append_as_follower(&moved, i32::MAX, 1_000).unwrap();
        let mut row = good("a-0", 3, records_sent);
        row.1.diverging_epoch = is_diverging.then_some((0, 0));
        peer.answer(&asked, 9, vec![row]);
        let asked = peer.asked();
        assert_eq!(asked.session(), (9, 0));
        assert_eq!(asked.offsets(), [("a-0", 2)]);
        assert_eq!((one.log.end_offset(), one.log.high_watermark()), (2, 0));
        fetching.has_no_events();
    }
}

#[test]
fn a_partition_that_an_answer_names_twice_is_appended_once() {
    let (leader, one) = (Leader::new(), log());
    let fetching = Fetching::start(settings(&leader));
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let row = || good("a-0", 1, records(0, 1, &["x"]));
    peer.answer(&asked, 9, vec![row(), row()]);
    let asked = peer.asked();
    assert_eq!(asked.offsets(), [("a-0", 1)]);
    assert_eq!(bytes(&one.log), records(0, 1, &["x"]));
    fetching.has_no_events();
}

/// A replica whose offsets cannot be looked at the first time.
struct Panicking {
    log: Arc<Log>,
    looks: AtomicUsize,
}

impl Replica for Panicking {
    fn start_offset(&self) -> i64 {
        self.log.start_offset()
    }

    fn end_offset(&self) -> i64 {
        assert_ne!(
            self.looks.fetch_add(1, Ordering::Relaxed),
            1,
            "at the second look"
        );
        self.log.end_offset()
    }

    fn last_epoch(&self) -> i32 {
        self.log.last_epoch()
    }

    fn append_bytes_max(&self) -> usize {
        self.log.append_bytes_max()
    }

    fn append(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError> {
        self.log.append(records, leader_epoch)
    }

    fn append_of_any_epoch(&self, records: &[u8], leader_epoch: i32) -> Result<(), LogError> {
        self.log.append_of_any_epoch(records, leader_epoch)
    }

    fn set_high_watermark(&self, offset: i64) {
        Replica::set_high_watermark(&self.log, offset);
    }

    fn move_start_offset(&self, offset: i64) -> Result<(), LogError> {
        self.log.move_start_offset(offset)
    }
}

#[test]
fn the_thread_goes_on_after_a_panic() {
    let (leader, one, other) = (Leader::new(), log(), log());
    let fetching = Fetching::start(settings(&leader));
    fetching.add("b-0", &other.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let log = Arc::clone(&one.log);
    let looks = AtomicUsize::new(1);
    fetching.add_replica("a-0", Arc::new(Panicking { log, looks }), 1);
    peer.answer(&asked, 9, vec![good("b-0", 1, records(0, 1, &["x"]))]);
    let event = fetching.event();
    assert_eq!(said(&event), (String::new(), Kind::Panic, -1, -1, -1));
    assert!(event.message.contains("at the second look"), "{event:?}");
    let mut peer = leader.accept();
    let asked = peer.asked();
    assert_eq!(asked.session(), (9, 0));
    assert_eq!(asked.offsets(), [("a-0", 0), ("b-0", 1)]);
    let rows = vec![
        good("a-0", 1, records(0, 1, &["x"])),
        good("b-0", 1, Vec::new()),
    ];
    peer.answer(&asked, 10, rows);
    assert_eq!(peer.asked().offsets(), [("a-0", 1)]);
}
