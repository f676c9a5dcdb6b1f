//! The leader's side of a socket, as the test scripts it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::LONG;
use crate::wire::fetch::{
    FLEXIBLE_SINCE, FetchRequest, PartitionResponse, RecordData, ResponseHead, decode_request,
    encode_response,
};
use crate::wire::headers::{parse_request_header, write_response_header};
use crate::wire::piece::Piece;

pub struct Leader {
    listener: TcpListener,
}

impl Leader {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { listener }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// The next connection.
    pub fn accept(&self) -> Peer {
        let timeout = Timespec {
            tv_sec: LONG.as_secs() as i64,
            tv_nsec: 0,
        };
        let mut descriptors = [PollFd::new(&self.listener, PollFlags::IN)];
        let ready = poll(&mut descriptors, Some(&timeout)).unwrap();
        assert_eq!(ready, 1, "nobody connects");
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Peer { stream }
    }
}

pub struct Peer {
    stream: TcpStream,
}

/// A request, with its partitions by name.
#[derive(Debug)]
pub struct Asked {
    pub version: i16,
    pub correlation_id: i32,
    pub request: FetchRequest,
    /// Name, fetch offset, leader epoch, last fetched epoch, log start offset.
    pub rows: Vec<(String, i64, i32, i32, i64)>,
    pub forgotten: Vec<String>,
}

impl Asked {
    pub fn session(&self) -> (i32, i32) {
        (self.request.session_id, self.request.session_epoch)
    }

    pub fn names(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.0.as_str()).collect()
    }

    pub fn offsets(&self) -> Vec<(&str, i64)> {
        self.rows
            .iter()
            .map(|row| (row.0.as_str(), row.1))
            .collect()
    }
}

/// One partition's part of an answer.
pub type Row<'a> = (&'a str, PartitionResponse<(), Vec<u8>>);

/// A row without an error; the log starts at 0.
pub fn good(name: &str, high_watermark: i64, records: Vec<u8>) -> Row<'_> {
    let mut row = PartitionResponse::empty((), 0, 0, records);
    row.high_watermark = high_watermark;
    row.last_stable_offset = high_watermark;
    row.log_start_offset = 0;
    (name, row)
}

pub fn failing(name: &str, error_code: i16) -> Row<'_> {
    (
        name,
        PartitionResponse::empty((), 0, error_code, Vec::new()),
    )
}

impl Peer {
    /// The next frame, without its size.
    pub fn frame(&mut self) -> Vec<u8> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).unwrap();
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame).unwrap();
        frame
    }

    pub fn asked(&mut self) -> Asked {
        let frame = self.frame();
        let header = parse_request_header(&frame, |_, version| version >= FLEXIBLE_SINCE).unwrap();
        assert_eq!(header.api_key, 1);
        let body = &frame[header.body_start..];
        let request = decode_request(body, header.api_version).unwrap();
        let text = |range: &std::ops::Range<usize>| std::str::from_utf8(&body[range.clone()]);
        let name = |topic, partition| format!("{}-{partition}", text(topic).unwrap());
        let rows = request.partitions.iter().map(|row| {
            (
                name(&row.topic, row.partition),
                row.fetch_offset,
                row.current_leader_epoch,
                row.last_fetched_epoch,
                row.log_start_offset,
            )
        });
        Asked {
            version: header.api_version,
            correlation_id: header.correlation_id,
            rows: rows.collect(),
            forgotten: request
                .forgotten
                .iter()
                .map(|(topic, partition)| name(topic, *partition))
                .collect(),
            request,
        }
    }

    pub fn answer(&mut self, asked: &Asked, session_id: i32, rows: Vec<Row<'_>>) {
        let head = ResponseHead {
            session_id,
            ..ResponseHead::default()
        };
        self.send(&frame(asked, head, rows));
    }

    /// An error that is about the whole request.
    pub fn refuse(&mut self, asked: &Asked, error_code: i16) {
        let head = ResponseHead {
            error_code,
            ..ResponseHead::default()
        };
        self.send(&frame(asked, head, Vec::new()));
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// True if the fetcher closed the connection.
    pub fn is_closed(&mut self) -> bool {
        !matches!(self.stream.read(&mut [0]), Ok(1))
    }
}

pub fn frame(asked: &Asked, head: ResponseHead, rows: Vec<Row<'_>>) -> Vec<u8> {
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(name, row)| {
            let (topic, partition) = name.rsplit_once('-').unwrap();
            PartitionResponse {
                topic: topic.as_bytes(),
                partition: partition.parse().unwrap(),
                error_code: row.error_code,
                high_watermark: row.high_watermark,
                last_stable_offset: row.last_stable_offset,
                log_start_offset: row.log_start_offset,
                diverging_epoch: row.diverging_epoch,
                current_leader: row.current_leader,
                aborted_transactions: None,
                preferred_read_replica: -1,
                records: RecordData::Bytes(row.records),
            }
        })
        .collect();
    let mut frame = vec![0; 4];
    write_response_header(
        1,
        asked.version >= FLEXIBLE_SINCE,
        asked.correlation_id,
        &mut frame,
    );
    for piece in encode_response(asked.version, head, rows).unwrap() {
        match piece {
            Piece::Bytes(bytes) => frame.extend(bytes),
            Piece::File(_) => unreachable!(),
        }
    }
    let size = frame.len() as i32 - 4;
    frame[..4].copy_from_slice(&size.to_be_bytes());
    frame
}
