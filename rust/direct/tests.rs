//! Plain requests over real sockets and a real log, without Python; other threads have their say meanwhile.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::python::{Python, serve};
use super::serving::Threads;
use super::{Appended, Direct, Lease, Terms, Turn};
use crate::log::tests::{Folder, batch};
use crate::log::{Log, LogConfig};
use crate::net::admission::Api;
use crate::net::hub::{Event, Hubs, Incoming};
use crate::net::limits::{ConnectionLimits, Limits};
use crate::records::stamp;
use crate::wire::fetch::{self, PartitionToFetch, RequestToSend};
use crate::wire::headers::{parse_response_header, request_frame};
use crate::wire::keys::{FETCH, PRODUCE};
use crate::wire::produce::{self, PartitionRecords};

mod beside;
mod committed;
mod followers;
mod model;
mod others;
mod python;
mod rights;
mod sessions;
mod several;
mod threads;
mod waiting;

const TOPIC: &str = "t";
const EPOCH: i32 = 3;
const TERMS: Terms = Terms {
    leader_epoch: EPOCH,
    is_alone: true,
    accepts_all: false,
    everyone_may: true,
    is_zstd: false,
    is_internal: false,
};
/// What is answered to requests that are handed on.
const HANDED_ON: &[u8] = b"handed on";

type Shared = Arc<Hubs<()>>;
type OneLease = Arc<Lease<&'static str>>;

/// A hub that serves a log, and hands on to a stub.
struct Rig {
    direct: Arc<Direct<&'static str>>,
    hub: Shared,
    log: Arc<Log>,
    port: u16,
    python: Arc<Python>,
    threads: Vec<JoinHandle<()>>,
    beside: Threads,
    _folder: Option<Folder>,
}

impl Rig {
    fn new() -> Self {
        Self::beside(0)
    }

    /// With so many threads beside the loop.
    fn beside(threads: usize) -> Self {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        Self::of(log, Some(folder), threads)
    }

    /// The loop, with room for so many threads.
    fn with_room(threads_max: usize) -> Self {
        let folder = Folder::new();
        let log = folder.open(LogConfig::default(), true);
        Self::made(log, Some(folder), threads_max)
    }

    fn of(log: Arc<Log>, folder: Option<Folder>, threads: usize) -> Self {
        let rig = Self::made(log, folder, threads);
        rig.beside.serve(&rig.direct, &rig.hub, threads).unwrap();
        rig
    }

    fn made(log: Arc<Log>, folder: Option<Folder>, threads_max: usize) -> Self {
        log.begin_epoch(EPOCH).unwrap();
        let fetch = Api {
            flexible_from: fetch::FLEXIBLE_SINCE,
            ..Api::plain(0, 12)
        };
        let apis = HashMap::from([(PRODUCE, Api::plain(0, 8)), (FETCH, fetch)]);
        let (limits, connections) = (Limits::default(), ConnectionLimits::default());
        let hub = Arc::new(Hubs::new(limits, connections, &apis, threads_max).unwrap());
        let port = hub
            .loops()
            .lock()
            .listen("127.0.0.1", 0, "PLAINTEXT")
            .unwrap();
        let direct: Arc<Direct<&'static str>> = Arc::default();
        direct.limit_fetches(1 << 20, false);
        direct.let_wait(&hub, true);
        let mut rig = Self {
            beside: Threads::default(),
            direct,
            hub,
            log,
            port,
            python: Arc::default(),
            threads: Vec::new(),
            _folder: folder,
        };
        rig.serve();
        rig
    }

    /// With one more thread.
    fn serve(&mut self) {
        let (direct, hub) = (Arc::clone(&self.direct), Arc::clone(&self.hub));
        let python = Arc::clone(&self.python);
        self.threads
            .push(thread::spawn(move || serve(&direct, &hub, &python)));
    }

    fn grant(&self, terms: Terms) -> OneLease {
        let lease = Lease::new(TOPIC, 0, Arc::clone(&self.log), terms, "owner");
        self.direct.grant(&self.hub, lease)
    }

    fn connect(&self) -> Client {
        let socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let timeout = Some(Duration::from_secs(20));
        socket.set_read_timeout(timeout).unwrap();
        Client { socket }
    }

    fn handed_on(&self) -> usize {
        self.python.handed_on.load(Ordering::Acquire)
    }

    fn turns(&self) -> usize {
        self.python.turns.load(Ordering::Acquire)
    }

    /// Until so many Fetches wait.
    fn wait_for_waiting(&self, count: usize) {
        eventually(|| self.direct.waiting() == count);
    }
}

fn eventually(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(20), "it does not come");
        thread::yield_now();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.python.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking());
        }
        self.beside.end(&self.hub);
    }
}

fn is_flexible(key: i16, version: i16) -> bool {
    key == FETCH && version >= fetch::FLEXIBLE_SINCE
}

struct Client {
    socket: TcpStream,
}

impl Client {
    fn send(&mut self, key: i16, version: i16, body: &[u8]) {
        let is_flexible = is_flexible(key, version);
        let frame = request_frame(key, version, is_flexible, 7, Some("test"), body).unwrap();
        self.socket.write_all(&frame).unwrap();
    }

    /// The body of an answer; None if the request was handed on.
    fn answer(&mut self, key: i16, version: i16) -> Option<Vec<u8>> {
        let mut size = [0; 4];
        self.socket.read_exact(&mut size).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.socket.read_exact(&mut frame).unwrap();
        let (correlation_id, start) =
            parse_response_header(key, is_flexible(key, version), &frame).unwrap();
        assert_eq!(correlation_id, 7);
        let body = frame.split_off(start);
        (body != HANDED_ON).then_some(body)
    }

    /// True if the other side has closed it. No answer is expected.
    fn is_closed(&mut self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let read = self.socket.read(&mut [0]);
        self.socket.set_nonblocking(false).unwrap();
        match read {
            Ok(count) => count == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    fn produce(&mut self, asked: &Produce) -> Option<(i16, i64)> {
        self.send(PRODUCE, asked.version, &asked.body());
        self.produced(asked.version)
    }

    /// Error code and first offset.
    fn produced(&mut self, version: i16) -> Option<(i16, i64)> {
        let body = self.answer(PRODUCE, version)?;
        let answer = produce::decode_response(&body, version).unwrap();
        let [result] = answer.results.as_slice() else {
            panic!("one result is asked for");
        };
        Some((result.error_code, result.base_offset))
    }

    /// High watermark and bytes of records.
    fn fetch(&mut self, asked: &Fetch) -> Option<(i64, usize)> {
        self.send(FETCH, asked.version, &asked.body());
        self.fetched(asked)
    }

    fn fetched(&mut self, asked: &Fetch) -> Option<(i64, usize)> {
        let body = self.answer(FETCH, asked.version)?;
        let answer = fetch::decode_response(&body, asked.version).unwrap();
        let one = answer.partitions.first().unwrap();
        assert_eq!(one.error_code, 0);
        let records = one.records.clone().unwrap_or_default();
        Some((one.high_watermark, records.len()))
    }
}

struct Produce {
    version: i16,
    acks: i16,
    timeout_ms: i32,
    transactional_id: Option<&'static str>,
    partitions: Vec<(&'static str, i32)>,
    records: Option<Vec<u8>>,
}

impl Default for Produce {
    fn default() -> Self {
        Self {
            version: 8,
            acks: 1,
            timeout_ms: 5000,
            transactional_id: None,
            partitions: vec![(TOPIC, 0)],
            records: Some(batch(&["v"], 1000)),
        }
    }
}

impl Produce {
    fn body(&self) -> Vec<u8> {
        let row = |&(topic, partition)| PartitionRecords {
            topic,
            partition,
            records: self.records.as_deref(),
        };
        let rows: Vec<_> = self.partitions.iter().map(row).collect();
        let (acks, timeout_ms) = (self.acks, self.timeout_ms);
        produce::encode_request(self.version, self.transactional_id, acks, timeout_ms, &rows)
            .unwrap()
    }
}

struct Fetch {
    version: i16,
    replica_id: i32,
    wait_ms: i32,
    min_bytes: i32,
    max_bytes: i32,
    isolation_level: i8,
    session: (i32, i32),
    rack: &'static str,
    topic: &'static str,
    offset: i64,
    epoch: i32,
    last_epoch: i32,
    partition_bytes: i32,
}

impl Default for Fetch {
    fn default() -> Self {
        Self {
            version: 12,
            replica_id: -1,
            wait_ms: 0,
            min_bytes: 1,
            max_bytes: 1 << 20,
            isolation_level: 0,
            session: (0, -1),
            rack: "",
            topic: TOPIC,
            offset: 0,
            epoch: -1,
            last_epoch: -1,
            partition_bytes: 1 << 20,
        }
    }
}

impl Fetch {
    fn body(&self) -> Vec<u8> {
        let request = RequestToSend {
            cluster_id: None,
            replica_id: self.replica_id,
            max_wait_ms: self.wait_ms,
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            isolation_level: self.isolation_level,
            session_id: self.session.0,
            session_epoch: self.session.1,
            rack_id: self.rack,
        };
        let row = PartitionToFetch {
            topic: self.topic,
            partition: 0,
            current_leader_epoch: self.epoch,
            fetch_offset: self.offset,
            last_fetched_epoch: self.last_epoch,
            log_start_offset: -1,
            bytes_max: self.partition_bytes,
        };
        fetch::encode_request(self.version, &request, &[row], &[]).unwrap()
    }
}

#[test]
fn it_may_go_from_thread_to_thread() {
    fn check<T: Send + Sync>() {}
    check::<Direct<&'static str>>();
    check::<Lease<&'static str>>();
}

#[test]
fn plain_requests_are_served() {
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    let mut client = rig.connect();
    for offset in 0..5 {
        assert_eq!(client.produce(&Produce::default()), Some((0, offset)));
    }
    let silent = Produce {
        acks: 0,
        ..Produce::default()
    };
    client.send(PRODUCE, 8, &silent.body());
    assert_eq!(client.produce(&Produce::default()), Some((0, 6)));
    let size = batch(&["v"], 1000).len();
    for version in 4..=12 {
        for epoch in [-1, EPOCH] {
            let asked = Fetch {
                version,
                epoch,
                ..Fetch::default()
            };
            assert_eq!(client.fetch(&asked), Some((7, 7 * size)));
        }
    }
    assert_eq!((rig.handed_on(), rig.turns()), (0, 0));
    assert!(rig.direct.end(&rig.hub, &lease).is_empty());
    assert_eq!(client.produce(&Produce::default()), None);
    assert_eq!(client.fetch(&Fetch::default()), None);
    // A lease that took another's place is not ended with the other.
    let newer = rig.grant(TERMS);
    assert!(rig.direct.end(&rig.hub, &lease).is_empty());
    assert_eq!(client.produce(&Produce::default()), Some((0, 7)));
    assert!(rig.direct.end(&rig.hub, &newer).is_empty());
    assert_eq!(client.produce(&Produce::default()), None);
}

#[test]
fn acks_all_is_served_where_nothing_else_is_waited_for() {
    let rig = Rig::new();
    let all = || Produce {
        acks: -1,
        ..Produce::default()
    };
    let mut client = rig.connect();
    rig.grant(TERMS);
    assert_eq!(client.produce(&all()), None);
    rig.grant(Terms {
        accepts_all: true,
        ..TERMS
    });
    assert_eq!(client.produce(&all()), Some((0, 0)));
}

#[test]
fn what_a_lease_acknowledges_alone_waits_for_others_when_it_has_ended() {
    let rig = Rig::new();
    let lease = rig.grant(Terms {
        accepts_all: true,
        ..TERMS
    });
    let mut client = rig.connect();
    *rig.python.to_end.lock() = Some(lease);
    // In the turn of the append, somebody comes whom it has to wait for.
    rig.python.others_are_in_sync.store(true, Ordering::Release);
    let all = Produce {
        acks: -1,
        ..Produce::default()
    };
    let handed_on = Produce {
        version: 2,
        ..Produce::default()
    };
    let frames = [all, handed_on]
        .map(|asked| request_frame(PRODUCE, asked.version, false, 7, None, &asked.body()).unwrap());
    client.socket.write_all(&frames.concat()).unwrap();
    eventually(|| !rig.python.unacknowledged.lock().is_empty());
    assert_eq!((rig.log.end_offset(), rig.log.high_watermark()), (1, 0));
    let waiting = rig.python.unacknowledged.lock().pop().unwrap();
    assert_eq!((waiting.info.last_offset, waiting.timeout_ms), (0, 5000));
    waiting.answer_at(&rig.hub, 0);
    assert_eq!(client.produced(8), Some((0, 0)));
    assert_eq!(client.produced(2), None);
}

#[test]
fn produces_that_are_not_plain_are_handed_on_as_they_came() {
    let rig = Rig::new();
    rig.grant(TERMS);
    let mut client = rig.connect();
    let mut damaged = batch(&["v"], 1000);
    *damaged.last_mut().unwrap() ^= 1;
    let mut offset = batch(&["v"], 1000);
    stamp(&mut offset, 0, EPOCH, None);
    let transactional = {
        let mut bytes = batch(&["v"], 1000);
        bytes[22] |= 0x10;
        crate::records::batch::set_crc(&mut bytes);
        bytes
    };
    let old_format = {
        let mut bytes = batch(&["v"], 1000);
        bytes[16] = 1;
        bytes
    };
    let plain = Produce::default;
    let others = [
        Produce { acks: 2, ..plain() },
        Produce {
            acks: -1,
            ..plain()
        },
        Produce {
            acks: -2,
            ..plain()
        },
        Produce {
            version: 2,
            ..plain()
        },
        Produce {
            transactional_id: Some("x"),
            ..plain()
        },
        Produce {
            partitions: vec![(TOPIC, 0), (TOPIC, 1)],
            ..plain()
        },
        Produce {
            partitions: vec![(TOPIC, 0), (TOPIC, 0)],
            ..plain()
        },
        Produce {
            partitions: vec![],
            ..plain()
        },
        Produce {
            partitions: vec![(TOPIC, 1)],
            ..plain()
        },
        Produce {
            partitions: vec![("other", 0)],
            ..plain()
        },
        Produce {
            records: None,
            ..plain()
        },
        Produce {
            records: Some(Vec::new()),
            ..plain()
        },
        Produce {
            records: Some(damaged),
            ..plain()
        },
        Produce {
            records: Some(transactional),
            ..plain()
        },
        Produce {
            records: Some(old_format),
            ..plain()
        },
    ];
    for (at, other) in others.iter().enumerate() {
        assert_eq!(client.produce(other), None, "{at}");
        assert_eq!(rig.handed_on(), at + 1);
    }
    assert_eq!(rig.log.end_offset(), 0);
    assert_eq!(client.produce(&plain()), Some((0, 0)));
    // The log fences the epoch, whatever the lease believes.
    rig.log.begin_epoch(EPOCH + 1).unwrap();
    assert_eq!(client.produce(&plain()), None);
}

#[test]
fn fetches_that_are_not_plain_are_handed_on() {
    let rig = Rig::new();
    rig.grant(TERMS);
    append_in_epoch(&rig.log);
    rig.log.advance_high_watermark();
    let mut client = rig.connect();
    let plain = Fetch::default;
    let others = [
        Fetch {
            version: 3,
            ..plain()
        },
        Fetch {
            replica_id: 1,
            ..plain()
        },
        Fetch {
            replica_id: -2,
            ..plain()
        },
        Fetch {
            isolation_level: 2,
            ..plain()
        },
        Fetch {
            session: (0, 0),
            ..plain()
        },
        Fetch {
            session: (5, 1),
            ..plain()
        },
        Fetch {
            session: (5, -1),
            ..plain()
        },
        Fetch {
            rack: "east",
            ..plain()
        },
        Fetch {
            version: 11,
            rack: "east",
            ..plain()
        },
        Fetch {
            topic: "other",
            ..plain()
        },
        Fetch {
            offset: 5,
            ..plain()
        },
        Fetch {
            offset: -1,
            ..plain()
        },
        Fetch {
            epoch: EPOCH - 1,
            ..plain()
        },
        Fetch {
            epoch: EPOCH + 1,
            ..plain()
        },
        Fetch {
            last_epoch: 0,
            ..plain()
        },
        Fetch {
            max_bytes: -1,
            ..plain()
        },
        Fetch {
            partition_bytes: -1,
            ..plain()
        },
    ];
    for (at, other) in others.iter().enumerate() {
        assert_eq!(client.fetch(other), None, "{at}");
    }
    assert!(client.fetch(&plain()).is_some());
}

#[test]
fn a_rack_is_nothing_to_a_broker_that_chooses_no_replica() {
    let rig = Rig::new();
    rig.grant(TERMS);
    let mut client = rig.connect();
    let asked = Fetch {
        rack: "east",
        ..Fetch::default()
    };
    assert_eq!(client.fetch(&asked), None, "nobody has said so yet");
    rig.direct.limit_fetches(1 << 20, true);
    assert_eq!(client.fetch(&asked), Some((0, 0)));
    rig.direct.limit_fetches(1 << 20, false);
    assert_eq!(client.fetch(&asked), None);
}

#[test]
fn the_end_of_a_turn_is_told_to_those_who_watch() {
    let rig = Rig::new();
    let lease = rig.grant(TERMS);
    let mut client = rig.connect();
    let turns = || rig.turns();
    assert!(client.produce(&Produce::default()).is_some());
    assert_eq!(turns(), 0);
    lease.watch(true);
    assert!(client.produce(&Produce::default()).is_some());
    assert_eq!(turns(), 1);
    lease.watch(false);
    assert!(client.produce(&Produce::default()).is_some());
    assert_eq!(turns(), 1);
    rig.grant(Terms {
        is_alone: false,
        ..TERMS
    });
    assert!(client.produce(&Produce::default()).is_some());
    assert_eq!(turns(), 2);
}

fn append_in_epoch(log: &Log) {
    let mut records = batch(&["v"], 1000);
    log.append(&mut records, EPOCH, crate::log::AppendOrigin::Client, 1000)
        .unwrap();
}
