//! A client that is never the bottleneck: `load ADDRESS CONNECTIONS DEPTH SECONDS FRAME_FILE`.
//!
//! Opens the connections, keeps DEPTH copies of the frame in the file in flight on each, and after half a second of warm-up counts answers
//! for SECONDS. Prints one line: answers per second, megabytes per second, latency p50, p99 and p99.9 in microseconds. Driven by the Python
//! benchmarks beside it.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::epoll;

struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    /// Bytes of a large answer that are still to be thrown away.
    skip: usize,
    sent_at: VecDeque<Instant>,
}

fn send(connection: &mut Connection, burst: &[u8], count: usize, frame_bytes: usize) {
    let mut bytes = &burst[..count * frame_bytes];
    let now = Instant::now();
    connection.sent_at.extend(std::iter::repeat_n(now, count));
    while !bytes.is_empty() {
        match connection.socket.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::yield_now()
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads what is there; the number of answers that ended.
fn receive(connection: &mut Connection, bytes: &mut usize) -> usize {
    let mut answers = 0;
    let filled = connection.filled;
    let count = match connection.socket.read(&mut connection.buffer[filled..]) {
        Ok(0) => panic!("the server closed the connection"),
        Ok(count) => count,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return 0,
        Err(error) => panic!("{error}"),
    };
    *bytes += count;
    let (mut start, end) = (0, filled + count);
    loop {
        if connection.skip > 0 {
            let skipped = connection.skip.min(end - start);
            start += skipped;
            connection.skip -= skipped;
            if connection.skip > 0 {
                break;
            }
            answers += 1;
        }
        let Some(length) = connection.buffer[start..end].first_chunk() else {
            break;
        };
        connection.skip = 4 + u32::from_be_bytes(*length) as usize;
    }
    connection.buffer.copy_within(start..end, 0);
    connection.filled = end - start;
    answers
}

fn main() {
    let arguments: Vec<String> = std::env::args().filter(|one| one != "--bench").collect();
    let [_, address, connections, depth, seconds, file] = &arguments[..] else {
        eprintln!("usage: load ADDRESS CONNECTIONS DEPTH SECONDS FRAME_FILE");
        return;
    };
    let depth: usize = depth.parse().unwrap();
    let frame = std::fs::read(file).unwrap();
    let burst = frame.repeat(depth);
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let mut all: Vec<Connection> = (0..connections.parse().unwrap())
        .map(|index| {
            let socket = TcpStream::connect(address).unwrap();
            socket.set_nodelay(true).unwrap();
            socket.set_nonblocking(true).unwrap();
            let data = epoll::EventData::new_u64(index);
            epoll::add(&epoll, &socket, data, epoll::EventFlags::IN).unwrap();
            Connection {
                socket,
                buffer: vec![0; 1 << 20],
                filled: 0,
                skip: 0,
                sent_at: VecDeque::new(),
            }
        })
        .collect();
    for connection in &mut all {
        send(connection, &burst, depth, frame.len());
    }
    let (mut answers, mut bytes) = (0, 0);
    let mut latencies_us: Vec<f32> = Vec::with_capacity(1 << 22);
    let (mut begun, warm_up) = (Instant::now(), Duration::from_millis(500));
    let mut measuring = false;
    let length = Duration::from_secs_f64(seconds.parse().unwrap());
    loop {
        let elapsed = begun.elapsed();
        if !measuring && elapsed > warm_up {
            (measuring, begun, answers, bytes) = (true, Instant::now(), 0, 0);
            latencies_us.clear();
        } else if measuring && elapsed > length {
            break;
        }
        let mut space = [const { MaybeUninit::uninit() }; 64];
        let (ready, _) = epoll::wait(&epoll, &mut space, None).unwrap();
        for event in ready {
            let connection = &mut all[event.data.u64() as usize];
            let count = receive(connection, &mut bytes);
            let now = Instant::now();
            for sent_at in connection.sent_at.drain(..count) {
                latencies_us.push((now - sent_at).as_secs_f32() * 1e6);
            }
            answers += count;
            if count > 0 {
                send(connection, &burst, count, frame.len());
            }
        }
    }
    let elapsed = begun.elapsed().as_secs_f64();
    latencies_us.sort_by(f32::total_cmp);
    let at = |part: f64| latencies_us[((latencies_us.len() - 1) as f64 * part) as usize];
    println!(
        "{:.0} {:.1} {:.0} {:.0} {:.0}",
        answers as f64 / elapsed,
        bytes as f64 / elapsed / 1e6,
        at(0.5),
        at(0.99),
        at(0.999)
    );
}
