//! Frames to a server, on many connections, by one thread.
//!
//! Closed loop: DEPTH requests in flight on each connection, the next when one is answered; the latency is the time in flight.
//! Open loop (`rate`): each request has a time at which it should be sent, and its latency counts from then, whether or not the
//! server's earlier slowness let it be sent: no coordinated omission. Connections take turns. Everything that was sent is also
//! answered before the run ends, so that what a broker holds afterwards can be compared with `sent`.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::latency::Latencies;
use crate::link::{Entrance, Link, Opener};
use crate::process;

#[derive(Deserialize)]
pub struct Options {
    address: String,
    /// Each connection sends the frames of these files in turns, connection i beginning with file i.
    frames: Vec<String>,
    #[serde(default = "one")]
    connections: usize,
    #[serde(default = "one")]
    depth: usize,
    #[serde(default)]
    warm_up_s: f64,
    seconds: f64,
    /// Requests a second over all connections; without it the loop is closed.
    rate: Option<f64>,
    /// So many in all, if the time is not over before.
    requests: Option<u64>,
    /// Connections that only exist.
    #[serde(default)]
    idle: usize,
    /// The server never answers (acks=0).
    #[serde(default)]
    unanswered: bool,
    /// By the plain socket and without a login, unless something else is said.
    #[serde(default)]
    entrance: Entrance,
    /// Whose CPU is taken over the measured time.
    #[serde(default)]
    pids: Vec<u32>,
}

fn one() -> usize {
    1
}

const TIMER: u64 = u64::MAX;
const RECEIVE_BYTES: usize = 1 << 20;

struct Connection {
    socket: Link,
    frame: usize,
    buffer: Vec<u8>,
    filled: usize,
    /// Bytes of a large answer that are still to be thrown away.
    skip: usize,
    /// Since when each request under way counts.
    since: VecDeque<Instant>,
    /// How much of the frame that is being sent has gone out.
    sent_bytes: usize,
    /// Requests that wait for the socket or for the depth: since when each counts.
    due: VecDeque<Instant>,
}

impl Connection {
    /// Sends what is due as far as the socket and the depth allow; whether the socket is full.
    fn send(
        &mut self,
        frames: &[Vec<u8>],
        sent: &mut [u64],
        depth: usize,
        unanswered: bool,
    ) -> bool {
        while let Some(&since) = self.due.front() {
            if self.since.len() >= depth {
                return false;
            }
            let frame = &frames[self.frame];
            match self.socket.write(&frame[self.sent_bytes..]) {
                Ok(count) => self.sent_bytes += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) => panic!("sending: {error}"),
            }
            if self.sent_bytes == frame.len() {
                self.sent_bytes = 0;
                sent[self.frame] += 1;
                self.frame = (self.frame + 1) % frames.len();
                self.due.pop_front();
                if !unanswered {
                    self.since.push_back(since);
                }
            }
        }
        false
    }

    /// Reads what is there; the number of answers that ended.
    fn receive(&mut self, bytes: &mut u64) -> usize {
        let mut answers = 0;
        let count = match self.socket.read(&mut self.buffer[self.filled..]) {
            Ok(0) => panic!("the server closed the connection"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return 0,
            Err(error) => panic!("receiving: {error}"),
        };
        *bytes += count as u64;
        let (mut start, end) = (0, self.filled + count);
        loop {
            if self.skip > 0 {
                let skipped = self.skip.min(end - start);
                start += skipped;
                self.skip -= skipped;
                if self.skip > 0 {
                    break;
                }
                answers += 1;
            }
            let Some(length) = self.buffer[start..end].first_chunk() else {
                break;
            };
            self.skip = 4 + u32::from_be_bytes(*length) as usize;
        }
        self.buffer.copy_within(start..end, 0);
        self.filled = end - start;
        answers
    }
}

struct Driver<'a> {
    options: &'a Options,
    frames: Vec<Vec<u8>>,
    /// How often each frame was sent.
    sent: Vec<u64>,
    /// Requests that may still be begun.
    left: u64,
    all: Vec<Connection>,
    latencies: Latencies,
    answers: u64,
    bytes: u64,
    stopping: bool,
}

impl Driver<'_> {
    fn send(&mut self, index: usize) -> bool {
        let connection = &mut self.all[index];
        let (depth, unanswered) = (self.options.depth, self.options.unanswered);
        let is_full = connection.send(&self.frames, &mut self.sent, depth, unanswered);
        if unanswered && connection.due.is_empty() && !self.stopping {
            // There is no answer that could call for the next one.
            self.begin(index, 1, Instant::now());
            return true;
        }
        is_full
    }

    /// `count` more requests for a connection, as far as there are to be more.
    fn begin(&mut self, index: usize, count: usize, since: Instant) {
        let count = self.left.min(count as u64);
        self.left -= count;
        self.stopping |= self.left == 0;
        let due = &mut self.all[index].due;
        due.extend(std::iter::repeat_n(since, count as usize));
    }

    fn receive(&mut self, index: usize) {
        let connection = &mut self.all[index];
        let count = connection.receive(&mut self.bytes);
        let now = Instant::now();
        for since in connection.since.drain(..count) {
            self.latencies.record(now - since);
        }
        self.answers += count as u64;
        if self.options.rate.is_none() && !self.stopping {
            self.begin(index, count, now);
        }
    }

    fn under_way(&self) -> bool {
        self.all
            .iter()
            .any(|one| !one.since.is_empty() || !one.due.is_empty())
    }
}

/// The times at which requests should be sent, for an open loop.
struct Schedule {
    begun: Instant,
    gap: Duration,
    next: u64,
}

impl Schedule {
    fn next_at(&self) -> Instant {
        self.begun + Duration::from_nanos(self.gap.as_nanos() as u64 * self.next)
    }
}

pub fn run(options: &Options) -> Value {
    let opener = Opener::new(&options.entrance);
    let _idle: Vec<_> = (0..options.idle)
        .map(|_| opener.open(&options.address))
        .collect();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let frames: Vec<_> = options
        .frames
        .iter()
        .map(|path| std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}")))
        .collect();
    let all: Vec<_> = (0..options.connections)
        .map(|index| open(&epoll, &opener, options, index, frames.len()))
        .collect();
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).expect("timerfd");
    epoll::add(
        &epoll,
        &timer,
        epoll::EventData::new_u64(TIMER),
        epoll::EventFlags::IN,
    )
    .expect("epoll");
    let mut driver = Driver {
        options,
        sent: vec![0; frames.len()],
        frames,
        left: options.requests.unwrap_or(u64::MAX),
        all,
        latencies: Latencies::new(),
        answers: 0,
        bytes: 0,
        stopping: false,
    };
    let (start, warm_up) = (Instant::now(), Duration::from_secs_f64(options.warm_up_s));
    let length = Duration::from_secs_f64(options.seconds);
    let mut schedule = options.rate.map(|rate| Schedule {
        begun: start,
        gap: Duration::from_secs_f64(1.0 / rate),
        next: 0,
    });
    let mut blocked = vec![false; options.connections];
    if schedule.is_none() {
        for (index, is_blocked) in blocked.iter_mut().enumerate() {
            let due = if options.unanswered { 1 } else { options.depth };
            driver.begin(index, due, start);
            *is_blocked = driver.send(index);
        }
    }
    let own_cpu_s = || process::cpu_s(&[std::process::id()]);
    // (since when, CPU of the server, requests sent, CPU of this process) of the measured time.
    let mut measured: Option<(Instant, f64, u64, f64)> = None;
    let mut result = Value::Null;
    let finish = |driver: &Driver, since: (Instant, f64, u64, f64), now: Instant| {
        let seconds = (now - since.0).as_secs_f64();
        let requests = if options.unanswered {
            driver.sent.iter().sum::<u64>() - since.2
        } else {
            driver.answers
        };
        json!({
            "seconds": seconds,
            "requests": requests,
            "requests_per_s": requests as f64 / seconds,
            "received_mb_per_s": driver.bytes as f64 / seconds / 1e6,
            "cpu_s": process::cpu_s(&options.pids) - since.1,
            "own_cpu_s": own_cpu_s() - since.3,
        })
    };
    loop {
        let now = Instant::now();
        match measured {
            None if now - start >= warm_up => {
                (driver.answers, driver.bytes) = (0, 0);
                driver.latencies.clear();
                let sent = driver.sent.iter().sum();
                measured = Some((now, process::cpu_s(&options.pids), sent, own_cpu_s()));
            }
            Some(since) if result.is_null() && now - since.0 >= length => {
                result = finish(&driver, since, now);
                driver.stopping = true;
            }
            _ => {}
        }
        if driver.stopping && !driver.under_way() {
            break;
        }
        let mut timeout = Some(Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        });
        if let Some(schedule) = &mut schedule
            && !driver.stopping
        {
            while schedule.next_at() <= now {
                let index = schedule.next as usize % options.connections;
                let since = schedule.next_at();
                driver.begin(index, 1, since);
                schedule.next += 1;
                blocked[index] = driver.send(index);
            }
            arm(
                &timer,
                schedule.next_at().saturating_duration_since(Instant::now()),
            );
        }
        for (index, is_blocked) in blocked.iter_mut().enumerate() {
            if *is_blocked {
                *is_blocked = driver.send(index);
                timeout = Some(Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                });
            }
        }
        let mut space = [const { MaybeUninit::uninit() }; 64];
        let (ready, _) = epoll::wait(&epoll, &mut space, timeout.as_ref()).expect("epoll");
        for event in ready {
            if event.data.u64() == TIMER {
                let _ = rustix::io::read(&timer, &mut [0; 8]);
                continue;
            }
            let index = event.data.u64() as usize;
            driver.receive(index);
            blocked[index] = driver.send(index);
        }
    }
    if let (true, Some(since)) = (result.is_null(), measured) {
        result = finish(&driver, since, Instant::now());
    }
    result["sent"] = driver.sent.clone().into();
    result["latency"] = driver.latencies.summary();
    result
}

fn open(
    epoll: &rustix::fd::OwnedFd,
    opener: &Opener,
    options: &Options,
    index: usize,
    frames: usize,
) -> Connection {
    let socket = opener.open(&options.address);
    socket.socket().set_nonblocking(true).expect("O_NONBLOCK");
    epoll::add(
        epoll,
        socket.socket(),
        epoll::EventData::new_u64(index as u64),
        epoll::EventFlags::IN,
    )
    .expect("epoll");
    Connection {
        socket,
        frame: index % frames,
        // An open connection costs only the pages that it touches.
        buffer: vec![0; RECEIVE_BYTES],
        filled: 0,
        skip: 0,
        since: VecDeque::new(),
        sent_bytes: 0,
        due: VecDeque::new(),
    }
}

fn arm(timer: &rustix::fd::OwnedFd, after: Duration) {
    let value = Timespec {
        tv_sec: after.as_secs() as i64,
        // Zero would switch it off.
        tv_nsec: i64::from(after.subsec_nanos().max(1)),
    };
    let once = Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: value,
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).expect("timerfd");
}
