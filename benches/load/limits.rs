//! Measures the machine without a broker: sockets, the file system, memory.

use std::fs::File;
use std::io::{ErrorKind, Read, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use rustix::event::epoll;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::latency::Latencies;
use crate::process;

/// An epoll server that answers each frame with as many bytes as `answer_bytes` says; says its port, ends with its input.
#[derive(Deserialize)]
pub struct Echo {
    answer_bytes: usize,
}

/// The same, but each answer is a size and then `answer_bytes` of the file, by sendfile.
#[derive(Deserialize)]
pub struct Sendfile {
    path: String,
    answer_bytes: usize,
}

/// Appends blocks to a new file for some seconds.
#[derive(Deserialize)]
pub struct Write {
    path: String,
    block_bytes: usize,
    seconds: f64,
    /// The file ends there; the next is begun.
    file_bytes: u64,
    /// fdatasync after each block.
    #[serde(default)]
    synced: bool,
}

/// Copies blocks from memory to memory.
#[derive(Deserialize)]
pub struct Memory {
    block_bytes: usize,
    seconds: f64,
}

struct Peer {
    socket: TcpStream,
    filled: Vec<u8>,
}

/// Serves until standard input ends; `answer` sends one answer.
fn serve(mut answer: impl FnMut(&mut TcpStream)) -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("bound").port());
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let watch = |fd: &dyn std::os::fd::AsFd, data: u64| {
        epoll::add(
            &epoll,
            fd.as_fd(),
            epoll::EventData::new_u64(data),
            epoll::EventFlags::IN,
        )
        .expect("epoll");
    };
    watch(&std::io::stdin(), 0);
    watch(&listener, 1);
    let mut peers: Vec<Option<Peer>> = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let mut space = [const { MaybeUninit::uninit() }; 64];
        let (ready, _) = epoll::wait(&epoll, &mut space, None).expect("epoll");
        for event in ready {
            let slot = match event.data.u64() {
                0 => return Value::Null,
                1 => {
                    let (socket, _) = listener.accept().expect("accepted");
                    socket.set_nodelay(true).expect("TCP_NODELAY");
                    watch(&socket, 2 + peers.len() as u64);
                    peers.push(Some(Peer {
                        socket,
                        filled: Vec::new(),
                    }));
                    continue;
                }
                index => &mut peers[index as usize - 2],
            };
            if slot
                .as_mut()
                .is_some_and(|peer| !turn(peer, &mut buffer, &mut answer))
            {
                *slot = None;
            }
        }
    }
}

/// Reads once and answers every frame that is whole; whether the peer is still there.
fn turn(peer: &mut Peer, buffer: &mut [u8], answer: &mut impl FnMut(&mut TcpStream)) -> bool {
    let count = match peer.socket.read(buffer) {
        Ok(0) => return false,
        Ok(count) => count,
        Err(error) => return error.kind() == ErrorKind::Interrupted,
    };
    peer.filled.extend_from_slice(&buffer[..count]);
    let mut start = 0;
    while let Some(size) = peer.filled[start..].first_chunk() {
        let end = start + 4 + u32::from_be_bytes(*size) as usize;
        if peer.filled.len() < end {
            break;
        }
        start = end;
        answer(&mut peer.socket);
    }
    peer.filled.drain(..start);
    true
}

pub fn echo(options: &Echo) -> Value {
    let mut frame = vec![0; 4 + options.answer_bytes];
    frame[..4].copy_from_slice(&(options.answer_bytes as u32).to_be_bytes());
    serve(|socket| socket.write_all(&frame).expect("sending"))
}

pub fn sendfile(options: &Sendfile) -> Value {
    let file = File::open(&options.path).expect("the file");
    let size = (options.answer_bytes as u32).to_be_bytes();
    serve(|socket| {
        socket.write_all(&size).expect("sending");
        let (mut position, mut left) = (0, options.answer_bytes);
        while left > 0 {
            left -=
                rustix::fs::sendfile(&*socket, &file, Some(&mut position), left).expect("sendfile");
        }
    })
}

pub fn write(options: &Write) -> Value {
    let block = vec![b'x'; options.block_bytes];
    let mut latencies = Latencies::new();
    let mut written = 0u64;
    let me = [std::process::id()];
    let (begun, used) = (Instant::now(), process::cpu_s(&me));
    let mut file = File::create(&options.path).expect("a new file");
    let mut in_file = 0;
    while begun.elapsed().as_secs_f64() < options.seconds {
        if in_file >= options.file_bytes {
            file = File::create(&options.path).expect("a new file");
            in_file = 0;
        }
        file.write_all(&block).expect("writing");
        if options.synced {
            let since = Instant::now();
            file.sync_data().expect("fdatasync");
            latencies.record(since.elapsed());
        }
        written += block.len() as u64;
        in_file += block.len() as u64;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_s = process::cpu_s(&me) - used;
    let _ = std::fs::remove_file(&options.path);
    json!({
        "seconds": seconds,
        "mb_per_s": written as f64 / seconds / 1e6,
        "cpu_ms_per_mb": cpu_s * 1e3 / (written as f64 / 1e6),
        "fdatasync": if options.synced { latencies.summary() } else { Value::Null },
    })
}

pub fn memory(options: &Memory) -> Value {
    let from = vec![1u8; options.block_bytes];
    let mut to = vec![0u8; options.block_bytes];
    let (begun, mut copied) = (Instant::now(), 0u64);
    while begun.elapsed().as_secs_f64() < options.seconds {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        copied += from.len() as u64;
    }
    json!({"mb_per_s": copied as f64 / begun.elapsed().as_secs_f64() / 1e6})
}
