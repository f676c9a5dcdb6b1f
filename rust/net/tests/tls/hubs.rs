//! The hub with TLS on its listener.

use std::net::SocketAddr;

use super::*;
use crate::net::limits::HANDSHAKES_MAX;
use crate::net::listeners::Handshaken;

type Stream = rustls::StreamOwned<ClientConnection, TcpStream>;

fn secured(client_auth: ClientAuth) -> Rig {
    let mut rig = rig(Limits::default());
    rig.hub.secure("PLAINTEXT", &server(client_auth)).unwrap();
    rig
}

fn stream(rig: &Rig, own: Option<(&str, &str)>) -> Stream {
    rustls::StreamOwned::new(client_of(AUTHORITY, own), rig.connect())
}

/// A client's thread: sends, then reads so many bytes.
fn talk(
    mut stream: Stream,
    said: Vec<u8>,
    bytes: usize,
) -> std::thread::JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        stream.write_all(&said)?;
        let mut all = vec![0; bytes];
        stream.read_exact(&mut all)?;
        Ok(all)
    })
}

fn last_byte(hub: &mut Hub<u32>, incoming: Incoming) {
    let last = *incoming.frame.last().unwrap();
    hub.reply(incoming.ticket, |to| to.push(last), vec![]);
}

/// Serves until a connection has ended, and says why.
fn end_of(rig: &mut Rig) -> Option<String> {
    rig.serve(&mut last_byte, &mut |rig| !rig.ended.is_empty());
    rig.ended.remove(0).reason
}

#[test]
fn requests_are_served_however_they_come() {
    for own in [None, Some(CLIENT)] {
        let mut rig = secured(ClientAuth::Requested);
        let bodies: Vec<Vec<u8>> = [1usize, 3, 70_000, 1, 3_000_000, 12]
            .iter()
            .zip(1..)
            .map(|(length, last)| [pattern(length - 1), vec![last]].concat())
            .collect();
        let frames: Vec<u8> = bodies
            .iter()
            .flat_map(|body| request(METADATA, 5, body))
            .collect();
        let client = talk(stream(&rig, own), frames, 6 * 9);
        rig.serve(&mut last_byte, &mut |_| client.is_finished());
        let got = client.join().unwrap().unwrap();
        let last: Vec<u8> = got.chunks(9).map(|answer| answer[8]).collect();
        assert_eq!(last, [1, 2, 3, 4, 5, 6]);
        assert_eq!(end_of(&mut rig), None);
        assert_eq!(rig.hub.figures().connections, 0);
    }
}

#[test]
fn a_client_that_says_good_bye_with_its_last_request_hears_the_same() {
    let mut rig = secured(ClientAuth::None);
    let mut client = stream(&rig, None);
    let client = std::thread::spawn(move || {
        client.conn.complete_io(&mut client.sock)?;
        client
            .conn
            .writer()
            .write_all(&request(METADATA, 1, b"x"))?;
        client.conn.send_close_notify();
        // Until the other side says good-bye, too.
        client.read_to_end(&mut Vec::new())
    });
    rig.serve(&mut last_byte, &mut |_| client.is_finished());
    client.join().unwrap().unwrap();
    assert_eq!(end_of(&mut rig), None);
}

#[test]
fn slices_of_files_are_encrypted() {
    let content = pattern(5_000_000);
    let file = file_with(&content);
    let mut rig = secured(ClientAuth::None);
    let frame = request(METADATA, 9, b"");
    let client = talk(stream(&rig, None), frame, 8 + 5 + content.len() + 3);
    let length = content.len() as u64;
    rig.serve(
        &mut |hub, incoming| {
            let rest = vec![
                slice(&file, 0, length / 3),
                Piece::Bytes(b"---".to_vec()),
                slice(&file, length / 3, length - length / 3),
            ];
            hub.reply(incoming.ticket, |to| to.extend_from_slice(b"head:"), rest);
        },
        &mut |_| client.is_finished(),
    );
    let got = client.join().unwrap().unwrap();
    let third = content.len() / 3;
    assert_eq!(&got[8..13], b"head:");
    assert!(got[13..13 + third] == content[..third]);
    assert!(got[16 + third..] == content[third..]);
}

#[test]
fn a_certificate_is_asked_for_where_it_is_required() {
    let mut rig = secured(ClientAuth::Required);
    let client = talk(stream(&rig, None), request(METADATA, 1, b"x"), 9);
    let reason = end_of(&mut rig).unwrap();
    assert!(reason.contains("peer sent no certificates"), "{reason}");
    assert!(client.join().unwrap().is_err());
    let client = talk(stream(&rig, Some(CLIENT)), request(METADATA, 1, b"x"), 9);
    rig.serve(&mut last_byte, &mut |_| client.is_finished());
    client.join().unwrap().unwrap();
}

#[test]
fn who_speaks_otherwise_is_closed_with_a_reason() {
    let mut rig = secured(ClientAuth::None);
    let mut client = rig.connect();
    client.write_all(&request(API_VERSIONS, 1, b"")).unwrap();
    let reason = end_of(&mut rig).unwrap();
    assert!(reason.contains("the client does not speak TLS"), "{reason}");
    let mut said = Vec::new();
    client.read_to_end(&mut said).unwrap();
    assert_eq!(said.first(), Some(&21), "an alert");
    let mut plain = super::super::rig(Limits::default());
    let client = talk(stream(&plain, None), request(METADATA, 1, b"x"), 9);
    let reason = end_of(&mut plain).unwrap();
    assert!(reason.contains("this looks like TLS"), "{reason}");
    assert!(client.join().unwrap().is_err());
}

#[test]
fn a_session_that_breaks_is_told() {
    let mut rig = secured(ClientAuth::None);
    let mut stream = stream(&rig, None);
    let client = std::thread::spawn(move || {
        stream.write_all(&request(METADATA, 1, b"x")).unwrap();
        stream.read_exact(&mut [0; 9]).unwrap();
        stream.sock.write_all(b"\x17\x03\x03\0\x14").unwrap();
        stream.sock.write_all(&[0; 20]).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    rig.serve(&mut last_byte, &mut |_| client.is_finished());
    client.join().unwrap();
    let reason = end_of(&mut rig).unwrap();
    assert_eq!(
        reason,
        "the TLS session failed: cannot decrypt peer's message"
    );
}

#[test]
fn who_says_too_little_is_closed_in_time_and_the_others_are_served() {
    let mut rig = secured(ClientAuth::None);
    let mut slow = rig.connect();
    slow.write_all(b"\x16\x03\x01").unwrap();
    let client = talk(stream(&rig, None), request(METADATA, 1, b"x"), 9);
    rig.serve(&mut last_byte, &mut |_| client.is_finished());
    client.join().unwrap().unwrap();
    assert_eq!(end_of(&mut rig), None);
    let reason = end_of(&mut rig).unwrap();
    assert!(
        reason.starts_with("the TLS handshake took longer than"),
        "{reason}"
    );
}

#[test]
fn bytes_that_come_one_by_one_give_a_handshake_no_more_time() {
    let mut rig = secured(ClientAuth::None);
    let mut slow = rig.connect();
    let client = std::thread::spawn(move || {
        // A hello that has the bytes for hours.
        slow.write_all(b"\x16\x03\x01\x40\0\x01\0\x3f\xfc").unwrap();
        slow.set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        while !matches!(slow.read(&mut [0; 100]), Ok(0)) {
            if slow.write_all(b"\x03").is_err() {
                break;
            }
        }
    });
    let reason = end_of(&mut rig).unwrap();
    assert!(
        reason.starts_with("the TLS handshake took longer than"),
        "{reason}"
    );
    client.join().unwrap();
}

#[test]
fn of_too_many_the_oldest_is_closed() {
    let mut rig = secured(ClientAuth::None);
    let silent: Vec<TcpStream> = (0..=HANDSHAKES_MAX)
        .map(|_| {
            rig.turn(0, &mut |_, _| {});
            rig.connect()
        })
        .collect();
    let first = silent[0].local_addr().unwrap();
    rig.serve(&mut last_byte, &mut |rig| !rig.ended.is_empty());
    let ended = rig.ended.remove(0);
    assert_eq!(ended.origin.peer, first);
    assert!(ended.reason.unwrap().starts_with("too many TLS handshakes"));
}

/// A client that says nothing, from another address of this machine.
fn connect_from(address: [u8; 4], rig: &Rig) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((address, 0))).unwrap();
    connect(&socket, &SocketAddr::from(([127, 0, 0, 1], rig.port))).unwrap();
    socket.into()
}

#[test]
fn whoever_begins_too_many_takes_the_place_of_his_own() {
    let mut rig = secured(ClientAuth::None);
    // The oldest of all, and the only one of its address.
    let mut other = connect_from([127, 0, 0, 2], &rig);
    rig.turn(0, &mut |_, _| {});
    let silent: Vec<TcpStream> = (0..HANDSHAKES_MAX)
        .map(|_| {
            rig.turn(0, &mut |_, _| {});
            rig.connect()
        })
        .collect();
    let first = silent[0].local_addr().unwrap();
    rig.serve(&mut last_byte, &mut |rig| !rig.ended.is_empty());
    let ended = rig.ended.remove(0);
    assert_eq!(ended.origin.peer, first);
    let reason = ended.reason.unwrap();
    assert!(
        reason.contains("most of them are from 127.0.0.1"),
        "{reason}"
    );
    // It may still say that it does not speak TLS.
    other.write_all(b"GET").unwrap();
    let reason = end_of(&mut rig).unwrap();
    assert!(reason.contains("does not speak TLS"), "{reason}");
}

#[test]
fn handshakes_are_counted_by_how_they_end() {
    let mut rig = secured(ClientAuth::Required);
    rig.hub.listen("127.0.0.1", 0, "PLAIN").unwrap();
    let client = talk(stream(&rig, Some(CLIENT)), request(METADATA, 1, b"x"), 9);
    rig.serve(&mut last_byte, &mut |_| client.is_finished());
    client.join().unwrap().unwrap();
    assert_eq!(end_of(&mut rig), None);
    let client = talk(stream(&rig, None), request(METADATA, 1, b"x"), 9);
    assert!(end_of(&mut rig).is_some());
    assert!(client.join().unwrap().is_err());
    // Whoever says nothing has not failed: load balancers look whether a port is open.
    drop(rig.connect());
    assert_eq!(end_of(&mut rig), None);
    let expected = Handshaken {
        succeeded: 1,
        failed: 1,
    };
    let found = rig.hub.handshakes();
    assert_eq!(found[0], ("PLAINTEXT".to_owned(), expected));
    assert_eq!(found[1], ("PLAIN".to_owned(), Handshaken::default()));
}

#[test]
fn where_descriptors_are_short_a_handshake_makes_room() {
    let few = ConnectionLimits {
        descriptors_max: 3,
        ..ConnectionLimits::default()
    };
    let mut rig = rig_of(Limits::default(), few);
    rig.hub
        .secure("PLAINTEXT", &server(ClientAuth::None))
        .unwrap();
    let _silent: Vec<TcpStream> = (0..3).map(|_| rig.connect()).collect();
    rig.serve(&mut last_byte, &mut |rig| {
        rig.hub.figures().accepted_total == 3
    });
    let client = talk(stream(&rig, None), request(METADATA, 1, b"x"), 9);
    rig.serve(&mut last_byte, &mut |_| client.is_finished());
    client.join().unwrap().unwrap();
    let reason = rig.ended.remove(0).reason.unwrap();
    assert!(
        reason.starts_with("RLIMIT_NOFILE leaves no descriptor"),
        "{reason}"
    );
}

#[test]
fn a_hub_that_drains_ends_handshakes() {
    let mut rig = secured(ClientAuth::None);
    let _silent = rig.connect();
    rig.serve(&mut last_byte, &mut |rig| {
        rig.hub.figures().accepted_total == 1
    });
    rig.hub.drain();
    assert_eq!(end_of(&mut rig), None);
}

#[test]
fn a_client_that_takes_nothing_keeps_nobody_and_is_sent_all_in_the_end() {
    let content = pattern(8 << 20);
    let file = file_with(&content);
    let mut rig = secured(ClientAuth::None);
    let mut lazy = stream(&rig, None);
    let (go, gone) = std::sync::mpsc::channel();
    let bytes = 8 + content.len();
    let lazy = std::thread::spawn(move || {
        lazy.write_all(&request(METADATA, 1, b"L")).unwrap();
        gone.recv().unwrap();
        let mut all = vec![0; bytes];
        lazy.read_exact(&mut all).unwrap();
        all
    });
    let mut answer = |hub: &mut Hub<u32>, incoming: Incoming| match incoming.frame.last() {
        Some(b'L') => hub.reply(incoming.ticket, |_| (), vec![slice(&file, 0, 8 << 20)]),
        _ => last_byte(hub, incoming),
    };
    for _ in 0..3 {
        let client = talk(stream(&rig, None), request(METADATA, 1, b"x"), 9);
        rig.serve(&mut answer, &mut |_| client.is_finished());
        client.join().unwrap().unwrap();
    }
    go.send(()).unwrap();
    rig.serve(&mut answer, &mut |_| lazy.is_finished());
    assert!(lazy.join().unwrap()[8..] == content);
}
