//! The hub over real sockets and real files, driven as its task drives it.

mod descriptors;
mod leaving;
mod memory;
mod memory_of_threads;
mod moving;
mod sessions;
mod tls;
mod transports;
mod waiting;

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::admission::Api;
use super::hub::{Disconnected, Event, Hub, Incoming};
use super::limits::{ConnectionLimits, Limits, SENT_BYTES_MAX};
use crate::wire::headers::request_frame;
use crate::wire::keys::{API_VERSIONS, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE};
use crate::wire::piece::{FileSlice, Piece, Source};

const METADATA: i16 = 3;
const LEADER_AND_ISR: i16 = 4;

struct Rig {
    hub: Hub<u32>,
    port: u16,
    /// Of a listener that is not for clients.
    brokers_port: Option<u16>,
    ended: Vec<Disconnected>,
    /// Memory for answers: by token, whether it was granted.
    reserved: Vec<(u64, bool)>,
}

fn rig(limits: Limits) -> Rig {
    rig_of(limits, ConnectionLimits::default())
}

fn rig_of(limits: Limits, connections: ConnectionLimits) -> Rig {
    let produce = Api {
        has_small_answers: true,
        ..Api::plain(0, 8)
    };
    let between_brokers = Api {
        is_between_brokers: true,
        ..Api::plain(0, 4)
    };
    let apis = HashMap::from([
        (PRODUCE, produce),
        (METADATA, Api::plain(0, 9)),
        (LEADER_AND_ISR, between_brokers),
        (SASL_HANDSHAKE, Api::plain(0, 1)),
        (SASL_AUTHENTICATE, Api::plain(0, 1)),
        (API_VERSIONS, Api::plain(0, 3)),
    ]);
    let mut hub = Hub::alone(limits, connections, &apis).unwrap();
    let port = hub.listen("127.0.0.1", 0, "PLAINTEXT").unwrap();
    Rig {
        hub,
        port,
        brokers_port: None,
        ended: Vec::new(),
        reserved: Vec::new(),
    }
}

impl Rig {
    fn connect(&self) -> TcpStream {
        self.connect_at(self.port)
    }

    /// As a broker does, where they have a listener of their own.
    fn connect_as_broker(&self) -> TcpStream {
        self.connect_at(self.brokers_port.unwrap_or(self.port))
    }

    fn connect_at(&self, port: u16) -> TcpStream {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        socket
    }

    /// Until there is anything to do, at most `wait_ms`.
    fn wait(&self, wait_ms: i64) {
        let wait = Timespec {
            tv_sec: wait_ms / 1000,
            tv_nsec: wait_ms % 1000 * 1_000_000,
        };
        poll(
            &mut [PollFd::new(&self.hub.fd(), PollFlags::IN)],
            Some(&wait),
        )
        .unwrap();
    }

    /// One turn, if there is anything to do within `wait_ms`; what `handle` did not want is kept.
    fn turn(&mut self, wait_ms: i64, handle: &mut dyn FnMut(&mut Hub<u32>, Incoming)) {
        self.wait(wait_ms);
        while let Some(event) = self.hub.next_event().unwrap() {
            match event {
                Event::Request(incoming) => handle(&mut self.hub, incoming),
                Event::Disconnected(ended) => self.ended.push(ended),
                Event::Completion(_) | Event::Served => {}
                Event::Reserved { token, is_granted } => self.reserved.push((token, is_granted)),
                Event::Failed(reason) => panic!("{reason}"),
            }
        }
    }

    /// Turns until `done`, at most 20 s.
    fn serve(
        &mut self,
        handle: &mut dyn FnMut(&mut Hub<u32>, Incoming),
        done: &mut dyn FnMut(&mut Self) -> bool,
    ) {
        let start = Instant::now();
        while !done(self) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "it does not come"
            );
            self.turn(5, handle);
        }
    }
}

fn request(key: i16, correlation_id: i32, body: &[u8]) -> Vec<u8> {
    request_frame(key, 1, false, correlation_id, Some("test"), body).unwrap()
}

#[test]
fn work_of_a_turn_starts_when_its_answers_are_sent() {
    let mut rig = rig(Limits::default());
    let mut client = rig.connect();
    let late = client.try_clone().unwrap();
    late.set_nonblocking(true).unwrap();
    let (sender, starts) = std::sync::mpsc::channel();
    client.write_all(&request(METADATA, 9, b"")).unwrap();
    let mut sent = None;
    rig.serve(
        &mut |hub, incoming| {
            hub.reply(incoming.ticket, |to| to.extend_from_slice(b"body"), vec![]);
            let (sender, client) = (sender.clone(), late.try_clone().unwrap());
            hub.completions().after_sending(move || {
                let sent = client.peek(&mut [0; 100]).unwrap_or(0);
                sender.send(sent).unwrap();
            });
            assert!(starts.try_recv().is_err(), "the turn is not over");
        },
        &mut |_| {
            sent = starts.try_recv().ok();
            sent.is_some()
        },
    );
    assert_eq!(sent, Some(12));
    // Outside of a turn there is nothing to wait for.
    rig.hub
        .completions()
        .after_sending(move || sender.send(0).unwrap());
    assert_eq!(starts.try_recv(), Ok(0));
}

#[test]
fn work_of_a_turn_that_never_ends_starts_when_the_hub_is_closed() {
    let mut rig = rig(Limits::default());
    let mut client = rig.connect();
    client.write_all(&request(METADATA, 9, b"")).unwrap();
    let (sender, starts) = std::sync::mpsc::channel();
    while !matches!(rig.hub.next_event().unwrap(), Some(Event::Request(_))) {
        rig.wait(20_000);
    }
    rig.hub
        .completions()
        .after_sending(move || sender.send(()).unwrap());
    assert!(starts.try_recv().is_err());
    rig.hub.close();
    assert!(starts.try_recv().is_ok());
}

/// A client's thread: what it returns comes with `join`.
fn reader(mut socket: TcpStream, bytes: usize) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = vec![0; bytes];
        socket.read_exact(&mut all).unwrap();
        all
    })
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 % 251) as u8).collect()
}

fn slice(file: &File, position: u64, length: u64) -> Piece {
    let descriptor: OwnedFd = file.try_clone().unwrap().into();
    Piece::File(FileSlice {
        file: Arc::new(Arc::new(descriptor)),
        position,
        length,
    })
}

/// Serves one request with slices of `file` between pieces of memory, and returns what the client got and how many cold reads it took.
fn send_slices(file: &File, content: &[u8]) -> u64 {
    let mut rig = rig(Limits::default());
    let mut client = rig.connect();
    client.write_all(&request(METADATA, 9, b"")).unwrap();
    let total = 8 + 5 + content.len() + 3;
    let got = reader(client, total);
    let length = content.len() as u64;
    rig.serve(
        &mut |hub, incoming| {
            let (first, second) = (length / 3, length - length / 3);
            let rest = vec![
                slice(file, 0, first),
                Piece::Bytes(b"---".to_vec()),
                slice(file, first, second),
            ];
            hub.reply(incoming.ticket, |to| to.extend_from_slice(b"head:"), rest);
        },
        &mut |_| got.is_finished(),
    );
    let got = got.join().unwrap();
    assert_eq!(&got[..4], (total as u32 - 4).to_be_bytes());
    assert_eq!(&got[8..13], b"head:");
    let third = content.len() / 3;
    assert!(got[13..13 + third] == content[..third]);
    assert_eq!(&got[13 + third..16 + third], b"---");
    assert!(got[16 + third..] == content[third..]);
    rig.hub.figures().cold_reads_total
}

fn file_with(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    file
}

#[test]
fn slices_are_sent_between_bytes() {
    let content = pattern(5_000_000);
    let file = file_with(&content);
    // Some systems take pages back that nobody has used for seconds, and others beside them.
    assert!((0..20).any(|_| send_slices(&file, &content) == 0));
}

#[test]
fn cold_slices_are_brought_in_by_a_thread() {
    let content = pattern(5_000_000);
    let file = file_with(&content);
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let reads = send_slices(&file, &content);
    // The kernel may read ahead of the thread, by an amount that is its own business.
    assert!((1..=8).contains(&reads), "{reads} cold reads");
}

#[test]
fn a_truncated_file_closes_the_connection_and_is_never_padded() {
    let content = pattern(300_000);
    let file = file_with(&content);
    file.set_len(200_000).unwrap();
    let mut rig = rig(Limits::default());
    let mut client = rig.connect();
    client.write_all(&request(METADATA, 9, b"")).unwrap();
    let got = std::thread::spawn(move || {
        let mut all = Vec::new();
        client.read_to_end(&mut all).map(|_| all.len())
    });
    let mut answer = |hub: &mut Hub<u32>, incoming: Incoming| {
        hub.reply(incoming.ticket, |_| (), vec![slice(&file, 0, 300_000)]);
    };
    rig.serve(&mut answer, &mut |rig| !rig.ended.is_empty());
    assert_eq!(got.join().unwrap().unwrap(), 8 + 200_000);
    assert_eq!(
        rig.ended[0].reason.as_deref().unwrap(),
        "the file of an answer ends 100000 bytes before what was promised"
    );
}

#[test]
fn a_large_answer_does_not_stop_a_small_client() {
    let content = pattern(64 << 20);
    let file = file_with(&content);
    let mut rig = rig(Limits::default());
    let mut large = rig.connect();
    let mut small = rig.connect();
    large.write_all(&request(METADATA, 1, b"L")).unwrap();
    let large = reader(large, 8 + content.len());
    let mut answer = |hub: &mut Hub<u32>, incoming: Incoming| {
        let is_large = incoming.frame.last() == Some(&b'L');
        let rest = if is_large {
            vec![slice(&file, 0, 64 << 20)]
        } else {
            Vec::new()
        };
        hub.reply(incoming.ticket, |_| (), rest);
    };
    let mut rounds = 0;
    small.set_nonblocking(true).unwrap();
    small.write_all(&request(METADATA, 2, b"S")).unwrap();
    let mut got = [0; 8];
    rig.serve(&mut answer, &mut |_| {
        if matches!(small.read(&mut got), Ok(8)) {
            rounds += 1;
            small.write_all(&request(METADATA, 2, b"S")).unwrap();
        }
        large.is_finished()
    });
    // At most 1 MiB of the large answer leaves in each turn: four times what goes to one before the others are looked at.
    assert!(rounds >= 20, "{rounds} small answers beside one of 64 MiB");
}

type Counter = Arc<AtomicUsize>;

/// A file that does something each time it is about to be sent from.
struct Watched(Arc<OwnedFd>, Box<dyn Fn() + Send + Sync>);

impl Source for Watched {
    fn descriptor(&self) -> std::io::Result<Arc<OwnedFd>> {
        (self.1)();
        Ok(Arc::clone(&self.0))
    }
}

#[test]
fn who_has_more_to_send_goes_on_after_the_others() {
    let length = 16 * SENT_BYTES_MAX as u64;
    let descriptor: OwnedFd = file_with(&pattern(length as usize)).into();
    let mut rig = rig(Limits::default());
    let (mut large, small) = (rig.connect(), rig.connect());
    large.write_all(&request(METADATA, 1, b"L")).unwrap();
    let large = reader(large, 8 + length as usize);
    small.set_nonblocking(true).unwrap();
    // When the large client is about to be sent to, what was answered to the small one before is sent; then it asks again.
    let (asks, answers, late) = <(Counter, Counter, Counter)>::default();
    let watch = {
        let (asks, answers, late) = (asks.clone(), answers.clone(), late.clone());
        let small = Mutex::new(small);
        Box::new(move || {
            let mut small = small.lock();
            if answers.swap(0, Ordering::Relaxed) == 1 {
                let is_sent = matches!(small.read(&mut [0; 8]), Ok(8));
                late.fetch_add(usize::from(!is_sent), Ordering::Relaxed);
                asks.store(0, Ordering::Relaxed);
            }
            if asks.swap(1, Ordering::Relaxed) == 0 {
                small.write_all(&request(METADATA, 2, b"S")).unwrap();
            }
        })
    };
    let file: Arc<dyn Source> = Arc::new(Watched(Arc::new(descriptor), watch));
    let mut asked = None;
    let (begin, mut rounds) = (Instant::now(), 0);
    while !large.is_finished() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not end");
        rig.wait(5);
        while let Some(event) = rig.hub.next_event().unwrap() {
            match event {
                Event::Request(incoming) if incoming.frame.last() == Some(&b'L') => {
                    let file = Arc::clone(&file);
                    let slice = FileSlice {
                        file,
                        position: 0,
                        length,
                    };
                    rig.hub
                        .reply(incoming.ticket, |_| (), vec![Piece::File(slice)]);
                }
                Event::Request(incoming) => asked = Some(incoming.ticket),
                // As an answer that is given when a turn's appends are written.
                Event::Served => {
                    if let Some(ticket) = asked.take() {
                        rig.hub.reply(ticket, |_| (), vec![]);
                        answers.store(1, Ordering::Relaxed);
                        rounds += 1;
                    }
                }
                Event::Disconnected(_)
                | Event::Completion(_)
                | Event::Reserved { .. }
                | Event::Failed(_) => {}
            }
        }
    }
    assert!(rounds >= 8, "{rounds} answers to the small client");
    assert_eq!(late.load(Ordering::Relaxed), 0, "of {rounds}");
}

#[test]
fn half_closed_clients_still_have_their_frames_started() {
    let mut rig = rig(Limits::default());
    let mut client = rig.connect();
    let frames: Vec<u8> = (0..10)
        .flat_map(|id| request(PRODUCE, id, b"records"))
        .collect();
    client.write_all(&frames).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut started = Vec::new();
    // acks=0: no answers, and nothing passes a Produce that is not appended.
    let mut held = Vec::new();
    for _ in 0..1000 {
        let mut handle = |_: &mut Hub<u32>, incoming: Incoming| {
            started.push(incoming.ticket.correlation_id);
            held.push(incoming.ticket);
        };
        rig.turn(1, &mut handle);
        if let Some(ticket) = held.pop() {
            rig.hub.skip(ticket);
        }
        if !rig.ended.is_empty() {
            break;
        }
    }
    assert_eq!(started, (0..10).collect::<Vec<_>>());
    assert_eq!(rig.ended.len(), 1);
    assert_eq!(rig.ended[0].reason, None);
}

#[test]
fn a_full_budget_stops_reading() {
    let mut rig = rig(Limits {
        queued_bytes_max: 1_000_000,
        ..Limits::default()
    });
    let mut held = Vec::new();
    let mut large: Vec<TcpStream> = (0..6).map(|_| rig.connect()).collect();
    let senders: Vec<_> = large
        .drain(..)
        .enumerate()
        .map(|(index, mut socket)| {
            std::thread::spawn(move || {
                socket
                    .write_all(&request(METADATA, index as i32, &vec![1; 400_000]))
                    .unwrap();
                let mut got = [0; 8];
                socket.read_exact(&mut got).unwrap();
            })
        })
        .collect();
    // What has begun fills the budget; one at a time goes on beyond it, until requests that could be answered hold a tenth.
    let start = Instant::now();
    while held.is_empty() || start.elapsed() < Duration::from_millis(200) {
        rig.turn(5, &mut |_, incoming| held.push(incoming));
    }
    assert!(
        held.len() <= 3,
        "{} frames of 400 kB in a budget of 1 MB",
        held.len()
    );
    assert!(rig.hub.figures().queued_bytes < 1_000_000 + 100_000 + 2 * 400_000);
    // Answering lets the others in.
    let mut finished = |rig: &mut Rig| {
        for incoming in held.drain(..) {
            rig.hub.reply(incoming.ticket, |_| (), Vec::new());
        }
        senders.iter().all(|sender| sender.is_finished())
    };
    let start = Instant::now();
    while !finished(&mut rig) {
        assert!(start.elapsed() < Duration::from_secs(20));
        rig.turn(5, &mut |hub, incoming| {
            hub.reply(incoming.ticket, |_| (), Vec::new());
        });
    }
}

/// Whether a request of `bytes` on a new connection starts, while held ones take the common part of the budget and the lane.
fn passes_the_reserve(bytes: usize, is_reserved: bool) -> bool {
    let mut rig = rig(Limits {
        queued_bytes_max: 1_000_000,
        ..Limits::default()
    });
    if is_reserved {
        let port = rig.hub.listen("127.0.0.1", 0, "BROKERS").unwrap();
        rig.hub.reserve_for(vec!["BROKERS".into()]);
        rig.brokers_port = Some(port);
    }
    let holders = [rig.connect(), rig.connect()];
    let mut other = rig.connect_as_broker();
    let met = std::cell::Cell::new(false);
    other.write_all(&request(METADATA, 1, b"")).unwrap();
    rig.serve(
        &mut |hub, incoming| {
            hub.reply(incoming.ticket, |_| (), Vec::new());
            met.set(true);
        },
        &mut |_| met.get(),
    );
    let mut frames = Vec::new();
    let mut senders = Vec::new();
    for (mut holder, length) in holders.into_iter().zip([480_000, 300_000]) {
        senders.push(std::thread::spawn(move || {
            let frame = request(METADATA, 2, &vec![0; length]);
            holder.write_all(&frame).unwrap();
            holder
        }));
        let (start, before) = (Instant::now(), frames.len());
        while frames.len() == before {
            assert!(start.elapsed() < Duration::from_secs(20));
            rig.turn(5, &mut |_, incoming| frames.push(incoming));
        }
    }
    let used = rig.hub.figures().queued_bytes;
    assert!((780_000..800_000).contains(&used), "{used}");
    senders.push({
        let frame = request(METADATA, 3, &vec![0; bytes]);
        std::thread::spawn(move || {
            other.write_all(&frame).unwrap();
            other
        })
    });
    let start = Instant::now();
    while frames.len() == 2 && start.elapsed() < Duration::from_millis(300) {
        rig.turn(5, &mut |_, incoming| frames.push(incoming));
    }
    let passed = frames.len() == 3;
    for incoming in frames.drain(..) {
        rig.hub.reply(incoming.ticket, |_| (), Vec::new());
    }
    // Once there is room, everybody is read.
    let mut started = passed;
    let start = Instant::now();
    while !started {
        assert!(start.elapsed() < Duration::from_secs(20));
        rig.turn(5, &mut |_, _| started = true);
    }
    for sender in senders {
        sender.join().unwrap();
    }
    passed
}

#[test]
fn the_reserve_is_for_brokers_and_small_frames() {
    assert!(passes_the_reserve(10_000, false));
    assert!(!passes_the_reserve(100_000, false));
    assert!(passes_the_reserve(100_000, true));
}

#[test]
fn other_threads_wake_the_hub() {
    let mut rig = rig(Limits::default());
    let completions = Arc::clone(rig.hub.completions());
    let thread = std::thread::spawn(move || completions.push(5, 55));
    let start = Instant::now();
    let completion = loop {
        assert!(start.elapsed() < Duration::from_secs(20));
        match rig.hub.next_event().unwrap() {
            Some(Event::Completion(completion)) => break completion,
            _ => rig.wait(1000),
        }
    };
    assert_eq!((completion.token, completion.value), (5, 55));
    thread.join().unwrap();
}

/// How long the slowest request of an API was in each part of its time, in microseconds.
fn longest_us(hub: &mut Hub<u32>) -> Vec<f64> {
    let meter = hub.meter.as_mut().unwrap();
    let now_us = meter.now_us();
    let (_, api) = meter.apis().find(|(key, _)| *key == METADATA).unwrap();
    let times = api.times_us.iter_mut();
    times.map(|times| times.quantiles(now_us)[5]).collect()
}

#[test]
fn a_requests_time_is_measured_in_its_parts() {
    let mut rig = rig(Limits::default());
    rig.hub.meter = Some(Default::default());
    let clients = [rig.connect(), rig.connect()];
    let mut seen = 0;
    rig.serve(&mut |_, _| {}, &mut |rig| {
        rig.hub.figures().connections == 2
    });
    for mut client in &clients {
        client.write_all(&request(METADATA, 1, b"x")).unwrap();
    }
    // Both are there before the first look, and the first is handled for long and answered much later.
    let work = Duration::from_millis(20);
    let mut first = None;
    rig.serve(
        &mut |hub, incoming| {
            seen += 1;
            if seen == 1 {
                std::thread::sleep(work);
                first = Some(incoming.ticket);
            } else {
                hub.reply(incoming.ticket, |to| to.push(1), Vec::new());
                std::thread::sleep(work);
            }
        },
        &mut |rig| rig.hub.meter.as_mut().unwrap().apis().count() == 1,
    );
    rig.hub.reply(first.unwrap(), |to| to.push(1), Vec::new());
    rig.serve(&mut |_, _| {}, &mut |rig| {
        let meter = rig.hub.meter.as_mut().unwrap();
        meter.apis().all(|(_, api)| api.times_us[0].count == 2)
    });
    let [total, queue, local, remote, response_queue, send] =
        longest_us(&mut rig.hub).try_into().unwrap();
    // Read back from places that are off by 3 %.
    let least = work.as_micros() as f64 * 0.96;
    assert!(queue >= least, "the other was handled before it: {queue}");
    assert!(local >= least, "its own handler: {local}");
    assert!(remote >= least, "its handler had returned: {remote}");
    assert!(total >= local + remote - least * 0.1, "{total}");
    assert!(response_queue >= 0.0 && send >= 0.0);
}
