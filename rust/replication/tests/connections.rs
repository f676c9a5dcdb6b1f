//! Connections that end, and answers that are none.

use std::time::Instant;

use super::leader::{Leader, Peer, frame, good};
use super::*;
use crate::replication::{Begun, Conversation, Greeting, Next};
use crate::wire::fetch::ResponseHead;

/// A fetcher of one partition that has a session, the leader's end of its connection, and what it asked there last.
fn begun(
    settings: FetcherSettings,
    leader: &Leader,
    log: &Arc<Log>,
) -> (Fetching, Peer, leader::Asked) {
    let fetching = Fetching::start(settings);
    fetching.add("a-0", log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    peer.answer(&asked, 9, vec![good("a-0", 0, Vec::new())]);
    let asked = peer.asked();
    assert_eq!(asked.session(), (9, 1));
    (fetching, peer, asked)
}

#[track_caller]
fn is_connection(event: &Event, part: &str) {
    assert_eq!(said(event), (String::new(), Kind::Connection, -1, -1, -1));
    assert!(event.message.contains(part), "{event:?}");
}

#[test]
fn a_connection_that_ends_in_an_answer_is_made_anew_with_a_new_session() {
    let (leader, one) = (Leader::new(), log());
    let (fetching, mut peer, asked) = begun(settings(&leader), &leader, &one.log);
    let rows = vec![good("a-0", 1, records(0, 1, &["x"]))];
    let whole = frame(&asked, ResponseHead::default(), rows);
    let sent = Instant::now();
    peer.send(&whole[..whole.len() - 1]);
    drop(peer);
    is_connection(&fetching.event(), "in the middle of an answer");
    let mut peer = leader.accept();
    assert!(sent.elapsed() >= Duration::from_millis(300));
    let asked = peer.asked();
    assert_eq!(asked.session(), (9, 0));
    assert_eq!(asked.offsets(), [("a-0", 0)]);
    // The same reason is not told again, another one is.
    peer.send(&whole[..9]);
    drop(peer);
    let mut peer = leader.accept();
    peer.asked();
    fetching.has_no_events();
    drop(peer);
    is_connection(&fetching.event(), "the leader closed the connection");
    // A good answer is the end of it.
    let mut peer = leader.accept();
    let asked = peer.asked();
    peer.answer(&asked, 10, vec![good("a-0", 0, Vec::new())]);
    assert_eq!(peer.asked().session(), (10, 1));
    drop(peer);
    is_connection(&fetching.event(), "the leader closed the connection");
}

#[test]
fn a_leader_that_is_not_there() {
    let (leader, one) = (Leader::new(), log());
    let (nobody, nowhere) = (settings(&leader), settings(&leader));
    drop(leader);
    let fetching = Fetching::start(nobody);
    fetching.add("a-0", &one.log, 1);
    is_connection(&fetching.event(), "no connection to 127.0.0.1:");
    let fetching = Fetching::start(FetcherSettings {
        host: "no-such-host.invalid".to_owned(),
        ..nowhere
    });
    fetching.add("a-0", &one.log, 1);
    is_connection(&fetching.event(), "the address of no-such-host.invalid");
}

#[test]
fn a_frame_that_announces_too_much_costs_no_memory() {
    // An answer of one partition may have this much, and not a byte more.
    let most: i32 = (11 << 20) + 512 + 64;
    for announced in [most + 1, i32::MAX, -1] {
        let (leader, one) = (Leader::new(), log());
        let (fetching, mut peer, _) = begun(settings(&leader), &leader, &one.log);
        peer.send(&announced.to_be_bytes());
        let event = fetching.event();
        is_connection(&event, &format!("announced an answer of {announced} bytes"));
        assert!(peer.is_closed());
        assert_eq!(leader.accept().asked().session(), (9, 0));
        assert_eq!(fetching.fetcher.figures().buffer_bytes, 64 * 1024);
    }
    let (leader, one) = (Leader::new(), log());
    let (fetching, mut peer, _) = begun(settings(&leader), &leader, &one.log);
    peer.send(&most.to_be_bytes());
    peer.send(&[0; 100]);
    drop(peer);
    is_connection(&fetching.event(), "in the middle of an answer");
    assert_eq!(fetching.fetcher.figures().buffer_bytes, 64 * 1024);
}

/// A change to the bytes of an answer.
type Damage = fn(&mut Vec<u8>);

#[test]
fn an_answer_that_is_not_one() {
    let (leader, one) = (Leader::new(), log());
    let (fetching, mut peer, mut asked) = begun(settings(&leader), &leader, &one.log);
    let of = |asked: &leader::Asked, head, names: &[&str]| {
        let rows = names.iter().map(|name| good(name, 0, Vec::new()));
        frame(asked, head, rows.collect())
    };
    let is_lost: [(&str, Damage); 4] = [
        ("to another request", |bytes| bytes[7] ^= 1),
        ("not one to a Fetch", |bytes| {
            bytes.truncate(12);
            bytes[3] = 8;
        }),
        ("not one to a Fetch", |bytes| bytes[8..].fill(0xff)),
        ("more than the answer that it announced", |bytes| {
            bytes.push(0)
        }),
    ];
    for (part, damage) in is_lost {
        let head = ResponseHead {
            session_id: asked.session().0,
            ..ResponseHead::default()
        };
        let mut bytes = of(&asked, head, &["a-0"]);
        damage(&mut bytes);
        peer.send(&bytes);
        is_connection(&fetching.event(), part);
        assert!(peer.is_closed());
        peer = leader.accept();
        asked = peer.asked();
        assert_eq!(asked.session(), (9, 0));
    }
    // What can be read, but is not what was asked for, leaves the connection as it is.
    for names in [&["a-0", "a-1"][..], &["b-0"], &[]] {
        let bytes = of(&asked, ResponseHead::default(), names);
        peer.send(&bytes);
        asked = peer.asked();
        let events = fetching.fetcher.take_events();
        assert_eq!(events.len(), 1, "{names:?}");
        assert_eq!(asked.session(), (0, 0));
    }
    peer.refuse(&asked, -1);
    asked = peer.asked();
    let events = fetching.fetcher.take_events();
    assert!(events[0].message.contains("error -1"), "{events:?}");
    assert_eq!(asked.session(), (0, 0));
    assert_eq!(one.log.end_offset(), 0);
}

#[test]
fn a_leader_that_does_not_answer() {
    let (leader, one) = (Leader::new(), log());
    let impatient = FetcherSettings {
        socket_timeout: Duration::from_millis(200),
        ..settings(&leader)
    };
    let (fetching, mut peer, _) = begun(impatient, &leader, &one.log);
    is_connection(&fetching.event(), "did not answer in time");
    assert!(peer.is_closed());
    let mut peer = leader.accept();
    peer.asked();
    peer.send(&[0, 0]);
    is_connection(&fetching.event(), "did not end in time");
}

#[test]
fn closing_interrupts_whatever_the_thread_waits_for() {
    let began = Instant::now();
    let (leader, one) = (Leader::new(), log());
    // Nothing to do: nobody tells when the thread has come to wait, so it is tried often.
    for looks in 0..50 {
        let fetching = Fetching::start(settings(&leader));
        (0..looks * 10).for_each(|_| std::thread::yield_now());
        fetching.fetcher.close();
    }
    // A back-off, then an answer.
    let patient = FetcherSettings {
        backoff: 2 * LONG,
        socket_timeout: 2 * LONG,
        ..settings(&leader)
    };
    let (fetching, peer, _) = begun(patient.clone(), &leader, &one.log);
    drop(peer);
    fetching.event();
    fetching.fetcher.close();
    let (fetching, mut peer, _) = begun(patient, &leader, &one.log);
    fetching.fetcher.close();
    assert!(peer.is_closed());
    fetching.fetcher.close();
    assert!(began.elapsed() < LONG);
}

#[test]
fn memory_of_a_large_answer_is_given_back() {
    let (leader, one, other) = (Leader::new(), log(), log());
    let (fetching, mut peer, asked) = begun(settings(&leader), &leader, &one.log);
    let large = records(0, 1, &[&"v".repeat(9 << 20)]);
    peer.answer(&asked, 9, vec![good("a-0", 0, large)]);
    let mut asked = peer.asked();
    assert_eq!(asked.offsets(), [("a-0", 1)]);
    let bytes = fetching.fetcher.figures().buffer_bytes;
    assert!((9 << 20..20 << 20).contains(&bytes), "{bytes}");
    for _ in 0..64 {
        peer.answer(&asked, 9, Vec::new());
        asked = peer.asked();
    }
    // One more answer, so that the figures are those after the last.
    peer.answer(&asked, 9, Vec::new());
    peer.asked();
    assert_eq!(fetching.fetcher.figures().buffer_bytes, 1 << 20);
    drop(other);
}

/// Settings with which an answer of more than 64 KiB and some rows is a large one.
fn asking_for_little(leader: &Leader) -> FetcherSettings {
    FetcherSettings {
        response_bytes_max: 64 << 10,
        batch_bytes_max: 8 << 20,
        ..settings(leader)
    }
}

#[test]
fn a_large_answer_waits_for_a_place_and_small_ones_do_not() {
    let (leader, other, one, two) = (Leader::new(), Leader::new(), log(), log());
    let large = Arc::new(LargeAnswers::new(1).unwrap());
    let taken = large.take().unwrap();
    assert!(large.take().is_none());
    let fetching = Fetching::start_with(asking_for_little(&leader), &large);
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let waiting = std::thread::spawn(move || {
        let records = records(0, 1, &[&"v".repeat(4 << 20)]);
        peer.answer(&asked, 9, vec![good("a-0", 0, records)]);
        let asked = peer.asked();
        assert_eq!(asked.offsets(), [("a-0", 1)]);
        peer
    });
    let beside = Fetching::start_with(asking_for_little(&other), &large);
    beside.add("b-0", &two.log, 1);
    let mut peer = other.accept();
    for offset in 0..50 {
        let asked = peer.asked();
        let records = records(offset, 1, &[&"v".repeat(60 << 10)]);
        peer.answer(&asked, 9, vec![good("b-0", 0, records)]);
    }
    peer.asked();
    assert_eq!((one.log.end_offset(), two.log.end_offset()), (0, 50));
    drop(taken);
    let peer = waiting.join().unwrap();
    assert_eq!(one.log.end_offset(), 1);
    // The place is free, and the memory that it was for is given back.
    assert!(large.take().is_some());
    let bytes = fetching.fetcher.figures().buffer_bytes;
    assert!(bytes <= (64 << 10) + 1024, "{bytes}");
    drop(peer);
}

#[test]
fn a_large_answer_that_does_not_end_leaves_its_place() {
    let (leader, one) = (Leader::new(), log());
    let large = Arc::new(LargeAnswers::new(1).unwrap());
    let fetching = Fetching::start_with(asking_for_little(&leader), &large);
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let rows = vec![good("a-0", 0, records(0, 1, &[&"v".repeat(4 << 20)]))];
    let whole = frame(&asked, ResponseHead::default(), rows);
    peer.send(&whole[..whole.len() - 1]);
    drop(peer);
    is_connection(&fetching.event(), "in the middle of an answer");
    assert!(large.take().is_some());
}

#[test]
fn closing_interrupts_who_waits_for_a_place() {
    let (leader, one) = (Leader::new(), log());
    let large = Arc::new(LargeAnswers::new(1).unwrap());
    let _taken = large.take();
    let fetching = Fetching::start_with(asking_for_little(&leader), &large);
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = peer.asked();
    let rows = vec![good("a-0", 0, records(0, 1, &[&"v".repeat(100 << 10)]))];
    peer.send(&frame(&asked, ResponseHead::default(), rows));
    fetching.fetcher.close();
    assert!(peer.is_closed());
}

#[test]
fn answers_are_read_on_where_the_transport_holds_them() {
    let (leader, one) = (Leader::new(), log());
    let fetching = Fetching::start(FetcherSettings {
        transport: Transport::holding,
        ..settings(&leader)
    });
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    for offset in 0..3 {
        let asked = peer.asked();
        let rows = vec![good("a-0", offset, records(offset, 1, &["a record"]))];
        peer.answer(&asked, 9, rows);
    }
    assert_eq!(peer.asked().session(), (9, 3));
    assert_eq!(one.log.end_offset(), 3);
    fetching.has_no_events();
}

/// Says a word, and another one when it was answered; knows for how long that is good.
#[derive(Debug)]
struct TwoWords(Option<Duration>);

impl Greeting for TwoWords {
    fn begin(&self) -> Result<Begun, String> {
        Ok(Begun {
            tls: None,
            conversation: Box::new(Said(0, self.0)),
        })
    }
}

struct Said(usize, Option<Duration>);

impl Conversation for Said {
    fn next(&mut self, answer: Option<&[u8]>) -> Result<Next, String> {
        self.0 += 1;
        match (self.0, answer) {
            (1, None) => Ok(Next::Send(b"\0\0\0\x01a".to_vec())),
            (2, Some(b"yes")) => Ok(Next::Send(b"\0\0\0\x01b".to_vec())),
            (3, Some(b"yes")) => Ok(Next::Done(self.1)),
            other => Err(format!("not expected: {other:?}")),
        }
    }
}

/// Answers both words, and returns the first request behind them.
fn greeted(peer: &mut Peer) -> leader::Asked {
    for word in [b"a", b"b"] {
        assert_eq!(peer.frame(), word);
        peer.send(b"\0\0\0\x03yes");
    }
    peer.asked()
}

#[test]
fn each_connection_begins_with_a_greeting() {
    let (leader, one) = (Leader::new(), log());
    let greeting = Some(Arc::new(TwoWords(None)) as Arc<dyn Greeting>);
    let fetching = Fetching::start(FetcherSettings {
        greeting,
        ..settings(&leader)
    });
    fetching.add("a-0", &one.log, 1);
    let mut peer = leader.accept();
    let asked = greeted(&mut peer);
    peer.answer(&asked, 9, vec![good("a-0", 0, Vec::new())]);
    assert_eq!(peer.asked().session(), (9, 1));
    drop(peer);
    is_connection(&fetching.event(), "the leader closed the connection");
    let mut peer = leader.accept();
    assert_eq!(peer.frame(), b"a");
    peer.send(b"\0\0\0\x02no");
    is_connection(&fetching.event(), "not expected");
    assert!(peer.is_closed());
    greeted(&mut leader.accept());
}

#[test]
fn a_connection_whose_time_is_over_is_made_anew_without_a_word() {
    let (leader, one) = (Leader::new(), log());
    let greeting = Some(Arc::new(TwoWords(Some(Duration::ZERO))) as Arc<dyn Greeting>);
    let fetching = Fetching::start(FetcherSettings {
        greeting,
        ..settings(&leader)
    });
    fetching.add("a-0", &one.log, 1);
    for epoch in 0..3 {
        let mut peer = leader.accept();
        let asked = greeted(&mut peer);
        // Sessions are the leader's, whatever connection they come by.
        assert_eq!(asked.request.session_epoch, epoch);
        peer.answer(&asked, 9, vec![good("a-0", 0, Vec::new())]);
    }
    fetching.has_no_events();
}
