//! Which servers this side trusts where it is the client, and what both sides say.

use super::*;
use crate::net::tls::{self, Client, GivenToClient, Part, client_config};

const PEER: (&str, &str) = (include_str!("peer.pem"), include_str!("peer.key"));
const EXPIRED: &str = include_str!("expired.pem");

fn to_client<'a>(trusted: &'a str, protocols: &'a [String]) -> GivenToClient<'a> {
    GivenToClient {
        certificates: CLIENT.0,
        key: CLIENT.1,
        trusted,
        checks_name: true,
        protocols,
        suites: &[],
    }
}

fn trusts(trusted: &str) -> Client {
    client_config(&to_client(trusted, &both())).unwrap()
}

fn shows((certificates, key): (&str, &str)) -> Arc<ServerConfig> {
    let protocols = both();
    let given = Given {
        certificates,
        key,
        ..given(ClientAuth::None, &protocols)
    };
    server_config(&given).unwrap()
}

fn sockets() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

/// Both ends after their handshakes, or what either said.
fn meet(client: &Client, host: &str, config: &Arc<ServerConfig>) -> Result<(Tls, Tls), String> {
    let (near, far) = sockets();
    let mut client = Tls::to_server(near.into(), client, host)?;
    let mut server = Tls::new(far.into(), config).unwrap();
    loop {
        let ends = (client.handshake(), server.handshake());
        match ends {
            (Ok(Progress::Done), Ok(Progress::Done)) => return Ok((client, server)),
            (Err(failed), _) | (_, Err(failed)) => return Err(failed.reason().unwrap_or_default()),
            _ => {}
        }
    }
}

#[test]
fn bytes_go_both_ways_in_each_protocol() {
    for version in both() {
        let protocols = [version];
        let client = client_config(&to_client(AUTHORITY, &protocols)).unwrap();
        let config = server(ClientAuth::Required);
        let (mut client, mut server) = meet(&client, "localhost", &config).unwrap();
        assert!(server.peer().unwrap().unwrap().ends_with(b"client"));
        let mut to = [0; 16];
        assert_eq!(client.write(&[IoSlice::new(b"hello")], false), Ok(5));
        assert_eq!(server.read(&mut to), Ok(5));
        assert_eq!(server.write(&[IoSlice::new(b"hi")], false), Ok(2));
        assert_eq!(client.read(&mut to), Ok(2));
        server.close();
        assert_eq!(client.read(&mut to), Ok(0));
    }
}

#[test]
fn settings_are_tried_without_a_network() {
    let asks = server(ClientAuth::Required);
    let tried = |trusted| tls::meet(&trusts(trusted), "localhost", &asks);
    assert_eq!(tried(AUTHORITY), Ok(()));
    assert!(tried(STRANGER).unwrap_err().contains("UnknownIssuer"));
    let protocols = ["TLSv1.3".to_owned()];
    let nobody = client_config(&GivenToClient {
        certificates: "",
        ..to_client(AUTHORITY, &protocols)
    });
    let refused = tls::meet(&nobody.unwrap(), "localhost", &asks).unwrap_err();
    assert!(refused.contains("sent no certificates"), "{refused}");
}

#[test]
fn a_server_is_trusted_as_java_would() {
    let signed = &shows(BROKER);
    let meets = |trusted, config| meet(&trusts(trusted), "localhost", config).map(|_| ());
    assert_eq!(meets(AUTHORITY, signed), Ok(()));
    assert_eq!(meets(BROKER.0, signed), Ok(()));
    let refused = meets(STRANGER, signed).unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    // It is no authority's, but says that it is one.
    let own = &shows(PEER);
    let peer = meet(&trusts(PEER.0), "peer", own).map(|_| ());
    assert_eq!(peer, Ok(()));
    let refused = meets(AUTHORITY, own).unwrap_err();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    let refused = meets(EXPIRED, &shows((EXPIRED, PEER.1))).unwrap_err();
    assert!(refused.contains("Expired"), "{refused}");
}

#[test]
fn a_certificate_is_for_one_host() {
    let client = &trusts(AUTHORITY);
    let refused = |client, host, shown| match meet(client, host, &shows(shown)) {
        Ok(_) => panic!("{host}"),
        Err(reason) => reason,
    };
    // It names localhost, so its common name is of no account.
    for host in ["broker", "127.0.0.1"] {
        let reason = refused(client, host, BROKER);
        assert!(reason.contains("not valid for name"), "{reason}");
    }
    // This one names no host.
    assert!(meet(client, "Client", &shows(CLIENT)).is_ok());
    let reason = refused(client, "localhost", CLIENT);
    assert!(reason.contains("not valid for name"), "{reason}");
    let protocols = both();
    let unchecked = client_config(&GivenToClient {
        checks_name: false,
        ..to_client(AUTHORITY, &protocols)
    });
    assert!(meet(&unchecked.unwrap(), "somewhere.else", &shows(BROKER)).is_ok());
    let reason = refused(client, "no host", BROKER);
    assert!(reason.contains("no certificate can be for"), "{reason}");
}

#[test]
fn a_server_that_refuses_is_heard() {
    let protocols = ["TLSv1.3".to_owned()];
    let given = GivenToClient {
        certificates: "",
        ..to_client(AUTHORITY, &protocols)
    };
    let (near, far) = sockets();
    let client = client_config(&given).unwrap();
    let mut client = Tls::to_server(near.into(), &client, "localhost").unwrap();
    let mut server = Tls::new(far.into(), &server(ClientAuth::Required)).unwrap();
    assert_eq!(client.handshake(), Ok(Progress::Reads));
    assert_eq!(server.handshake(), Ok(Progress::Reads));
    // For the client the handshake is done before the server has looked for its certificate.
    assert_eq!(client.handshake(), Ok(Progress::Done));
    assert!(server.handshake().is_err());
    assert_eq!(client.read(&mut [0; 16]), Err(Errno::PROTO));
    let reason = client.failure().unwrap();
    assert!(reason.contains("CertificateRequired"), "{reason}");
}

#[test]
fn a_server_without_tls_is_known_by_its_first_byte() {
    let (near, mut far) = sockets();
    let mut client = Tls::to_server(near.into(), &trusts(AUTHORITY), "localhost").unwrap();
    assert_eq!(client.handshake(), Ok(Progress::Reads));
    far.write_all(b"\0\0\0\x04none").unwrap();
    let reason = client.handshake().unwrap_err().reason().unwrap();
    assert!(reason.contains("does not speak TLS"), "{reason}");
}

#[test]
fn settings_that_are_wrong_are_named() {
    let protocols = both();
    let right = || to_client(AUTHORITY, &protocols);
    let part = |given: &GivenToClient<'_>| client_config(given).unwrap_err().0;
    for (wrong, given) in [
        (
            Part::Trusted,
            GivenToClient {
                trusted: "",
                ..right()
            },
        ),
        (Part::Key, GivenToClient { key: "", ..right() }),
        (
            Part::Key,
            GivenToClient {
                key: BROKER.1,
                ..right()
            },
        ),
        (
            Part::Certificates,
            GivenToClient {
                certificates: "x",
                ..right()
            },
        ),
        (
            Part::Protocols,
            GivenToClient {
                protocols: &[],
                ..right()
            },
        ),
    ] {
        assert_eq!(part(&given), wrong);
    }
}
