//! TLS: sessions over a pair of sockets, byte by byte where that matters, and the hub with listeners that have it.
//!
//! The certificates in `tls/` are good until 2126. `broker` (localhost) and `client` are signed by `authority`;
//! `stranger` is another authority.

mod clients;
mod hubs;
mod servers;
mod settings;

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use super::*;
use crate::net::tls::{ClientAuth, Failed, Given, Progress, SLICE_BYTES, Tls, server_config};

const AUTHORITY: &str = include_str!("tls/authority.pem");
const STRANGER: &str = include_str!("tls/stranger.pem");
const BROKER: (&str, &str) = (
    include_str!("tls/broker.pem"),
    include_str!("tls/broker.key"),
);
const CLIENT: (&str, &str) = (
    include_str!("tls/client.pem"),
    include_str!("tls/client.key"),
);

fn given<'a>(client_auth: ClientAuth, protocols: &'a [String]) -> Given<'a> {
    Given {
        certificates: BROKER.0,
        key: BROKER.1,
        trusted: AUTHORITY,
        client_auth,
        protocols,
        suites: &[],
    }
}

fn both() -> Vec<String> {
    vec!["TLSv1.2".to_owned(), "TLSv1.3".to_owned()]
}

fn server(client_auth: ClientAuth) -> Arc<ServerConfig> {
    server_config(&given(client_auth, &both())).unwrap()
}

/// A client that trusts this authority, and has a certificate if it is told so.
fn client_of(trusted: &str, own: Option<(&str, &str)>) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap()
}

/// A session and its client, with a socket for each.
struct Pair {
    tls: Tls,
    client: ClientConnection,
    far: UnixStream,
}

impl Pair {
    fn new(config: &Arc<ServerConfig>) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        Self {
            tls: Tls::new(near.into(), config).unwrap(),
            client: client_of(AUTHORITY, None),
            far,
        }
    }

    fn connected() -> Self {
        let mut pair = Self::new(&server(ClientAuth::None));
        while pair.tls.handshake() != Ok(Progress::Done) {
            pair.send();
            pair.receive();
        }
        pair.receive();
        pair
    }

    /// The bytes that the client has to send.
    fn said(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    fn send(&mut self) {
        let bytes = self.said();
        self.far.write_all(&bytes).unwrap();
    }

    /// Has the client take what there is for it.
    fn receive(&mut self) {
        while self
            .client
            .read_tls(&mut self.far)
            .is_ok_and(|count| count > 0)
        {
            self.client.process_new_packets().unwrap();
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(10_000) {
            self.client.writer().write_all(part).unwrap();
            self.send();
        }
    }

    /// All that can be read, `step` bytes at a time.
    fn read_all(&mut self, step: usize) -> Vec<u8> {
        let (mut all, mut part) = (Vec::new(), vec![0; step]);
        while let Ok(count @ 1..) = self.tls.read(&mut part) {
            all.extend_from_slice(&part[..count]);
        }
        all
    }
}

#[test]
fn a_handshake_and_records_may_come_byte_by_byte() {
    for protocols in [&both()[..1], &both()[1..]] {
        let config = server_config(&given(ClientAuth::None, protocols)).unwrap();
        let mut pair = Pair::new(&config);
        assert_eq!(pair.tls.handshake(), Ok(Progress::Reads));
        while pair.client.is_handshaking() {
            for byte in pair.said() {
                pair.far.write_all(&[byte]).unwrap();
                pair.tls.handshake().unwrap();
            }
            pair.receive();
        }
        pair.send();
        assert_eq!(pair.tls.handshake(), Ok(Progress::Done));
        pair.client.writer().write_all(b"request").unwrap();
        let (mut to, record) = ([0; 100], pair.said());
        for (at, byte) in record.iter().enumerate() {
            assert_eq!(pair.tls.read(&mut to), Err(Errno::AGAIN), "byte {at}");
            pair.far.write_all(&[*byte]).unwrap();
        }
        assert_eq!(pair.tls.read(&mut to), Ok(7));
        assert_eq!(&to[..7], b"request");
    }
}

#[test]
fn what_came_with_the_end_of_a_handshake_is_not_lost() {
    let mut pair = Pair::new(&server(ClientAuth::None));
    pair.send();
    assert_eq!(pair.tls.handshake(), Ok(Progress::Reads));
    pair.receive();
    pair.say(b"early bird");
    assert_eq!(pair.tls.handshake(), Ok(Progress::Done));
    assert_eq!(pair.tls.buffered(), 10);
    assert_eq!(pair.read_all(3), b"early bird");
}

#[test]
fn plaintext_that_waits_inside_is_counted_and_can_be_looked_at() {
    let mut pair = Pair::connected();
    let requests = pattern(30_000);
    for part in requests.chunks(1000) {
        pair.say(part);
    }
    let mut head = [0; 4];
    for _ in 0..2 {
        assert_eq!(pair.tls.peek(&mut head), Ok(4));
        assert_eq!(head, requests[..4]);
    }
    let mut some = [0; 7];
    assert_eq!(pair.tls.read(&mut some), Ok(7));
    assert!(pair.tls.buffered() > 10_000);
    assert!(pair.tls.memory_bytes() < 40_000);
    assert_eq!(pair.tls.peek(&mut head), Ok(4));
    assert_eq!(head, requests[7..11]);
    assert_eq!(pair.read_all(999), requests[7..]);
    assert_eq!(pair.tls.buffered(), 0);
    assert_eq!(pair.tls.peek(&mut head), Err(Errno::AGAIN));
}

#[test]
fn both_sides_say_good_bye() {
    let mut pair = Pair::connected();
    pair.say(b"last words");
    pair.client.send_close_notify();
    pair.send();
    let mut to = [0; 100];
    assert_eq!(pair.tls.read(&mut to), Ok(10));
    assert_eq!(pair.tls.read(&mut to), Ok(0));
    assert_eq!(pair.tls.read(&mut to), Ok(0));
    pair.tls.close();
    pair.client.read_tls(&mut pair.far).unwrap();
    assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn an_end_without_good_bye_is_a_broken_connection() {
    let mut pair = Pair::connected();
    pair.say(b"last words");
    let record = pair.said();
    pair.far.write_all(&record).unwrap();
    pair.far.shutdown(Shutdown::Write).unwrap();
    let mut to = [0; 100];
    assert_eq!(pair.tls.read(&mut to), Ok(10));
    assert_eq!(pair.tls.read(&mut to), Err(Errno::CONNRESET));
}

#[test]
fn a_record_that_was_changed_ends_the_session_and_the_client_is_told() {
    let mut pair = Pair::connected();
    pair.say(b"untouched");
    pair.client.writer().write_all(b"touched").unwrap();
    let mut record = pair.said();
    record[8] ^= 1;
    pair.far.write_all(&record).unwrap();
    let mut to = [0; 100];
    assert_eq!(pair.tls.read(&mut to), Ok(9));
    assert_eq!(pair.tls.read(&mut to), Err(Errno::PROTO));
    pair.client.read_tls(&mut pair.far).unwrap();
    assert!(matches!(
        pair.client.process_new_packets(),
        Err(rustls::Error::AlertReceived(_))
    ));
}

#[test]
fn the_end_is_there_to_be_read_without_the_socket() {
    let mut pair = Pair::new(&server(ClientAuth::None));
    pair.send();
    pair.tls.handshake().unwrap();
    pair.receive();
    pair.client.send_close_notify();
    pair.send();
    assert_eq!(pair.tls.handshake(), Ok(Progress::Done));
    assert!(pair.tls.holds());
    assert_eq!(pair.tls.read(&mut [0; 10]), Ok(0));
    let mut pair = Pair::connected();
    pair.client.writer().write_all(b"last words").unwrap();
    pair.client.send_close_notify();
    pair.send();
    assert_eq!(pair.tls.read(&mut [0; 100]), Ok(10));
    assert_eq!((pair.tls.buffered(), pair.tls.holds()), (0, true));
}

#[test]
fn keys_may_change() {
    let mut pair = Pair::connected();
    pair.client.refresh_traffic_keys().unwrap();
    pair.say(b"under a new key");
    assert_eq!(pair.read_all(100), b"under a new key");
    pair.tls
        .write(&[IoSlice::new(b"and so is this")], false)
        .unwrap();
    pair.receive();
    let mut said = [0; 14];
    pair.client.reader().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"and so is this");
}

/// All that `write` writes arrives as it is, although the socket takes a few kilobytes at a time.
fn arrives(content: &[u8], write: &mut dyn FnMut(&mut Tls, usize) -> Result<usize, Errno>) {
    let mut pair = Pair::connected();
    rustix::net::sockopt::set_socket_send_buffer_size(pair.tls.as_fd(), 4096).unwrap();
    let (mut written, mut refused, mut all) = (0, 0, Vec::new());
    while all.len() < content.len() {
        if written < content.len() {
            match write(&mut pair.tls, written) {
                Ok(count) => written += count,
                Err(Errno::AGAIN) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(pair.tls.memory_bytes() <= SLICE_BYTES);
        pair.receive();
        let mut part = vec![0; 100_000];
        while let Ok(count @ 1..) = pair.client.reader().read(&mut part) {
            all.extend_from_slice(&part[..count]);
        }
        // Nothing counts as written that the socket did not take.
        assert!(written <= all.len() + SLICE_BYTES);
    }
    assert_eq!(written, content.len());
    assert!(all == content);
    assert!(refused > 0);
}

#[test]
fn large_answers_go_through_small_sockets() {
    let content = pattern(700_000);
    arrives(&content, &mut |tls, written| {
        tls.write(&[IoSlice::new(&content[written..])], false)
    });
    let mut turn = 0;
    arrives(&content, &mut |tls, written| {
        // Other pieces each time, of the same bytes, and at times more of them.
        turn += 1;
        let rest = &content[written..];
        let (first, rest) = rest.split_at(rest.len().min(turn % 1000));
        let (second, third) = rest.split_at(rest.len() / 2);
        tls.write(&[first, second, third].map(IoSlice::new), turn % 2 == 0)
    });
}

#[test]
fn files_go_through_small_sockets() {
    let content = pattern(700_000);
    let file = file_with(&content);
    let mut turn = 0;
    arrives(&content, &mut |tls, written| {
        // What is asked for changes with the bounds of a turn.
        turn += 1;
        let count = (content.len() - written).min([256 << 10, 100, 70_000][turn % 3]);
        tls.write_file(file.as_fd(), written as u64, count)
    });
    let mut pair = Pair::connected();
    assert_eq!(pair.tls.write_file(file.as_fd(), 700_000, 10), Ok(0));
    assert_eq!(pair.tls.write_file(file.as_fd(), 699_990, 100), Ok(10));
}

proptest::proptest! {
    #[test]
    fn a_handshake_that_was_changed_fails_or_waits(at in 0usize..250, to: u8, cut in 1usize..250) {
        let mut pair = Pair::new(&server(ClientAuth::Requested));
        let mut hello = pair.said();
        let place = at % hello.len();
        hello[place] = to;
        hello.truncate(cut.max(place + 1));
        pair.far.write_all(&hello).unwrap();
        let _ = pair.tls.handshake();
        pair.far.shutdown(Shutdown::Write).unwrap();
        assert!(pair.tls.handshake().is_err());
    }

    #[test]
    fn records_of_anything_fail(bytes: Vec<u8>) {
        let mut pair = Pair::connected();
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        pair.far.write_all(&[&[23, 3, 3], &length[..], &bytes].concat()).unwrap();
        assert_eq!(pair.tls.read(&mut [0; 100]), Err(Errno::PROTO));
        assert_eq!(pair.tls.read(&mut [0; 100]), Err(Errno::PROTO));
    }
}

#[test]
fn handshakes_fail_with_a_reason() {
    let failed = |bytes: &[u8]| {
        let mut pair = Pair::new(&server(ClientAuth::None));
        pair.far.write_all(bytes).unwrap();
        pair.far.shutdown(Shutdown::Write).unwrap();
        pair.tls.handshake().unwrap_err()
    };
    assert_eq!(failed(b""), Failed::Left);
    let said = |failed| match failed {
        Failed::Because(reason) => reason,
        Failed::Left => panic!("it said something"),
    };
    assert!(said(failed(b"\x16")).ends_with("the client left"));
    assert!(said(failed(b"\0\0\0\x10")).contains("does not speak TLS"));
    assert!(
        said(failed(b"\x16\x03\x01\0\x05\x01\0\0\x01\0")).starts_with("the TLS handshake failed: ")
    );
    // Whoever does not trust us says so.
    let mut pair = Pair::new(&server(ClientAuth::None));
    pair.client = client_of(STRANGER, None);
    pair.send();
    pair.tls.handshake().unwrap();
    pair.client.read_tls(&mut pair.far).unwrap();
    pair.client.process_new_packets().unwrap_err();
    pair.send();
    let reason = said(pair.tls.handshake().unwrap_err());
    assert!(reason.contains("UnknownCA"), "{reason}");
}
