//! A connection that waits for one answer at a time, for what is not measured by the request.

use std::io::{Read, Write};
use std::net::TcpStream;

use ottla_core::wire::headers::{parse_response_header, request_frame};

pub const CLIENT_ID: &str = "load";

pub fn connect(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address)
        .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
    socket.set_nodelay(true).expect("TCP_NODELAY");
    socket
}

/// Reads one frame into `frame`, without its size.
pub fn read_frame(socket: &mut impl Read, frame: &mut Vec<u8>) -> std::io::Result<()> {
    let mut size = [0; 4];
    socket.read_exact(&mut size)?;
    frame.resize(u32::from_be_bytes(size) as usize, 0);
    socket.read_exact(frame)
}

/// Sends a request of a version that is not flexible, and gives where the answer's body begins in `frame`.
pub fn call(
    socket: &mut TcpStream,
    api: (i16, i16),
    body: &[u8],
    frame: &mut Vec<u8>,
) -> std::io::Result<usize> {
    let request =
        request_frame(api.0, api.1, false, 1, Some(CLIENT_ID), body).expect("a small request");
    socket.write_all(&request)?;
    read_frame(socket, frame)?;
    let (_, body) = parse_response_header(api.0, false, frame).expect("a header of a response");
    Ok(body)
}
