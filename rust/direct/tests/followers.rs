//! Fetches of followers, in sessions that are lent.

use super::*;
use crate::direct::Followers;
use crate::direct::followers::Follower;
use crate::direct::rights::{FOLLOW, READ};
use crate::direct::session::{Asked, Entry, Following, Loan, Session, Told};
use crate::log::Reader;
use crate::replication::{Quota, Throttled, Window};

const ID: i32 = 5;
const TWO: i32 = 2;
const THREE: i32 = 3;
const WITH_OTHERS: Terms = Terms {
    is_alone: false,
    accepts_all: true,
    ..TERMS
};

/// A leader, and its follower in a session that is lent.
struct Led {
    rig: Rig,
    lease: OneLease,
    two: Arc<Follower>,
    three: Arc<Follower>,
    quota: Arc<Quota>,
    client: Client,
    epoch: i32,
    replica_id: i32,
    start_offset: i64,
    last_epoch: i32,
}

impl Led {
    fn new() -> Self {
        Self::under(WITH_OTHERS)
    }

    /// Both followers are in sync, and have nothing of a log that has nothing.
    fn under(terms: Terms) -> Self {
        let rig = Rig::new();
        let [two, three] = [TWO, THREE].map(|_| Arc::new(Follower::new(Some(0))));
        for one in [&two, &three] {
            let mut known = one.known();
            known.fetched(0, 0, 0, 0);
            known.is_member = true;
        }
        let followers: Followers = [(TWO, Arc::clone(&two)), (THREE, Arc::clone(&three))]
            .into_iter()
            .collect();
        let lease = Lease::new(TOPIC, 0, Arc::clone(&rig.log), terms, "owner");
        let lease = rig.direct.grant(&rig.hub, lease.with_followers(followers));
        let window = Window {
            samples: 1,
            size: Duration::from_secs(1),
        };
        let mut led = Self {
            client: rig.connect(),
            lease,
            two,
            three,
            quota: Arc::new(Quota::new(window)),
            epoch: 1,
            replica_id: TWO,
            start_offset: 0,
            last_epoch: -1,
            rig,
        };
        led.lend();
        led
    }

    /// Lends the session for the connection that the follower has.
    fn lend(&mut self) {
        let entry = Entry {
            topic: TOPIC.into(),
            partition: 0,
            asked: Asked {
                leader_epoch: EPOCH,
                offset: 0,
                log_start_offset: 0,
                bytes_max: 1 << 20,
                last_epoch: -1,
            },
            told: Told {
                high_watermark: 0,
                log_start_offset: 0,
            },
        };
        let loan = Loan {
            epoch: self.epoch,
            entries: vec![entry],
        };
        let connection = self.connection();
        let session = Session::new(ID, Reader::Replica, loan, 3).of_follower(Following {
            broker: TWO,
            connection,
            quota: Arc::clone(&self.quota),
        });
        self.rig.direct.lend(session);
    }

    /// The number of the connection, which a request that is handed on tells.
    fn connection(&mut self) -> u64 {
        let other = Fetch {
            topic: "other",
            ..Fetch::default()
        };
        assert_eq!(self.client.fetch(&other), None);
        self.rig.python.connection.load(Ordering::Acquire)
    }

    /// How many requests and turns have come to Python, in which nothing is under way.
    fn python_had(&self) -> (usize, usize) {
        eventually(|| self.rig.turns() > 0);
        (self.rig.handed_on(), self.rig.turns())
    }

    /// The follower has all before `offset`, and wants what comes then.
    fn send(&mut self, offset: i64, wait_ms: i32) {
        let request = RequestToSend {
            cluster_id: None,
            replica_id: self.replica_id,
            max_wait_ms: wait_ms,
            min_bytes: 1,
            max_bytes: 1 << 20,
            isolation_level: 0,
            session_id: ID,
            session_epoch: self.epoch,
            rack_id: "",
        };
        let row = PartitionToFetch {
            topic: TOPIC,
            partition: 0,
            current_leader_epoch: EPOCH,
            fetch_offset: offset,
            last_fetched_epoch: self.last_epoch,
            log_start_offset: self.start_offset,
            bytes_max: 1 << 20,
        };
        let body = fetch::encode_request(12, &request, &[row], &[]).unwrap();
        self.client.send(FETCH, 12, &body);
    }

    /// High watermark and bytes of records; nothing, if the follower knows all. None: handed on.
    fn hears(&mut self) -> Option<Vec<(i64, usize)>> {
        let body = self.client.answer(FETCH, 12)?;
        self.epoch += 1;
        let answer = fetch::decode_response(&body, 12).unwrap();
        assert_eq!((answer.head.error_code, answer.head.session_id), (0, ID));
        let rows = answer.partitions.into_iter();
        let rows = rows.map(|one| (one.high_watermark, one.records.unwrap_or_default().len()));
        Some(rows.collect())
    }

    fn fetch(&mut self, offset: i64) -> Option<Vec<(i64, usize)>> {
        self.send(offset, 0);
        self.hears()
    }

    /// True if a request is handed on, and nothing of it is noted.
    fn is_handed_on(&mut self) -> bool {
        let before = (*self.two.known(), self.rig.log.high_watermark());
        let heard = self.fetch(1);
        assert_eq!(before, (*self.two.known(), self.rig.log.high_watermark()));
        heard.is_none()
    }

    /// The other follower has all before `offset`.
    fn other_has(&self, offset: i64) {
        let end_offset = self.rig.log.end_offset();
        self.three.known().fetched(offset, 0, end_offset, 0);
    }

    fn produce(&self) -> Client {
        let mut producer = self.rig.connect();
        let end_offset = self.rig.log.end_offset();
        let all = Produce {
            acks: -1,
            timeout_ms: 600_000,
            ..Produce::default()
        };
        producer.send(PRODUCE, 8, &all.body());
        eventually(|| self.rig.log.end_offset() == end_offset + 1);
        producer
    }
}

fn size() -> usize {
    batch(&["v"], 1000).len()
}

#[test]
fn what_all_followers_have_is_committed() {
    let mut led = Led::new();
    let python_had = led.python_had();
    let mut producer = led.produce();
    eventually(|| led.rig.direct.waiting_produces() == 1);
    led.other_has(1);
    assert_eq!(led.fetch(0), Some(vec![(0, size())]));
    assert_eq!(led.rig.log.high_watermark(), 0);
    // The answer tells the high watermark from before.
    assert_eq!(led.fetch(1), Some(vec![]));
    assert_eq!(producer.produced(8), Some((0, 0)));
    assert_eq!(led.fetch(1), Some(vec![(1, 0)]));
    let known = *led.two.known();
    assert_eq!((known.end_offset, known.leader_end_offset), (1, 1));
    assert!(known.fetched_ms > Some(0) && known.caught_up_ms == known.fetched_ms);
    assert_eq!(led.python_had(), python_had);
}

#[test]
fn the_slowest_that_counts_holds_the_high_watermark_back() {
    let mut led = Led::new();
    drop(led.produce());
    assert_eq!(led.fetch(1), Some(vec![]));
    assert_eq!(led.rig.log.high_watermark(), 0);
    // It left, and is about to come back.
    led.three.known().is_member = false;
    led.three.known().is_near = true;
    assert_eq!(led.fetch(1), Some(vec![]));
    assert_eq!(led.rig.log.high_watermark(), 0);
    led.three.known().is_near = false;
    assert_eq!(led.fetch(1), Some(vec![]));
    assert_eq!(led.rig.log.high_watermark(), 1);
}

#[test]
fn a_follower_waits_for_the_logs_end() {
    let mut led = Led::new();
    let python_had = led.python_had();
    led.send(0, 600_000);
    led.rig.wait_for_waiting(1);
    // High watermarks are nothing to it.
    led.rig.direct.advanced(&led.rig.hub, &led.lease);
    led.rig.wait_for_waiting(1);
    let _producer = led.produce();
    assert_eq!(led.hears(), Some(vec![(0, size())]));
    led.send(1, 600_000);
    led.rig.wait_for_waiting(1);
    // Python appends what no lease covers.
    append_in_epoch(&led.rig.log);
    led.rig.direct.grown(&led.rig.hub, &led.lease);
    assert!(led.hears().unwrap()[0].1 > 0);
    assert_eq!(led.python_had(), python_had);
}

#[test]
fn what_python_has_to_hear_of_is_handed_on() {
    type Change = fn(&mut Led);
    let changes: [(Change, Change); 7] = [
        (|led| led.replica_id = THREE, |led| led.replica_id = TWO),
        (|led| led.replica_id = -1, |led| led.replica_id = TWO),
        (|led| led.start_offset = 1, |led| led.start_offset = 0),
        // An epoch that is not in the log.
        (|led| led.last_epoch = EPOCH + 1, |led| led.last_epoch = -1),
        (
            |led| led.two.known().is_member = false,
            |led| led.two.known().is_member = true,
        ),
        (
            |led| led.quota.throttle(TOPIC, Throttled::All),
            |led| led.quota.throttle(TOPIC, Throttled::These([].into())),
        ),
        (|led| led.client = led.rig.connect(), |led| led.lend()),
    ];
    let mut led = Led::new();
    drop(led.produce());
    for (place, (change, change_back)) in changes.into_iter().enumerate() {
        change(&mut led);
        assert!(led.is_handed_on(), "{place}");
        change_back(&mut led);
        assert!(led.fetch(0).is_some(), "{place}");
    }
    led.last_epoch = EPOCH;
    assert_eq!(led.fetch(1), Some(vec![]));
}

#[test]
fn who_waits_in_python_is_told_there() {
    let mut led = Led::new();
    drop(led.produce());
    led.other_has(1);
    led.lease.watch(true);
    let turns = led.rig.turns();
    assert_eq!(led.fetch(1), Some(vec![]));
    eventually(|| led.rig.turns() > turns);
    assert_eq!(
        (led.two.known().end_offset, led.rig.log.high_watermark()),
        (1, 0)
    );
}

#[test]
fn nobody_is_told_of_what_is_committed_already() {
    let mut led = Led::new();
    let _producer = led.produce();
    led.other_has(1);
    assert_eq!(led.fetch(1), Some(vec![]));
    assert_eq!(led.rig.log.high_watermark(), 1);
    led.lease.watch(true);
    let python_had = led.python_had();
    assert_eq!(led.fetch(1), Some(vec![(1, 0)]));
    assert_eq!(led.fetch(1), Some(vec![]));
    assert_eq!(led.python_had(), python_had);
}

#[test]
fn without_others_in_sync_the_high_watermark_is_for_python_to_move() {
    let mut led = Led::new();
    drop(led.produce());
    led.other_has(1);
    led.send(0, 600_000);
    assert_eq!(led.hears(), Some(vec![(0, size())]));
    // Both leave before what they have is looked at.
    led.two.known().is_member = false;
    led.three.known().is_member = false;
    assert_eq!(led.lease.raise(), None);
    assert_eq!(led.lease.advance(), None);
    assert_eq!(led.rig.log.high_watermark(), 0);
}

#[test]
fn a_lease_that_has_ended_moves_nothing() {
    let mut led = Led::new();
    drop(led.produce());
    led.other_has(1);
    led.two.known().fetched(1, 0, 1, 0);
    let _ = led.rig.direct.end(&led.rig.hub, &led.lease);
    assert_eq!(led.lease.raise(), None);
    assert_eq!(led.rig.log.high_watermark(), 0);
    assert!(led.is_handed_on());
}

#[test]
fn an_internal_topic_is_for_followers_alone() {
    let mut led = Led::under(Terms {
        is_internal: true,
        ..WITH_OTHERS
    });
    append_in_epoch(&led.rig.log);
    let mut client = led.rig.connect();
    assert_eq!(client.fetch(&Fetch::default()), None);
    assert_eq!(client.produce(&Produce::default()), None);
    assert!(led.fetch(0).is_some());
}

#[test]
fn a_follower_may_do_what_brokers_do() {
    let mut led = Led::under(Terms {
        everyone_may: false,
        ..WITH_OTHERS
    });
    for (rights, is_served) in [(READ, false), (FOLLOW, true)] {
        *led.rig.python.to_allow.lock() = Some((Arc::clone(&led.lease), 1, rights));
        let _ = led.connection();
        assert_eq!(led.fetch(0).is_some(), is_served);
    }
}
