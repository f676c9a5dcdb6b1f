//! A connection to a listener of either kind: as it is, or by TLS 1.3; and the words that a client says first.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde::Deserialize;

use crate::socket;

/// How a listener is entered.
#[derive(Default, Deserialize)]
pub struct Entrance {
    /// A file of PEM with the authority of the server's certificate, which names 127.0.0.1: the connection is by TLS.
    authority: Option<String>,
    /// Files of frames that are sent before all else, each when the one before is answered: a login.
    #[serde(default)]
    login: Vec<String>,
}

/// Opens connections that enter in one way.
pub struct Opener {
    tls: Option<Arc<ClientConfig>>,
    login: Vec<Vec<u8>>,
}

impl Opener {
    pub fn new(entrance: &Entrance) -> Self {
        let read =
            |path: &String| std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self {
            tls: entrance.authority.as_deref().map(trusting),
            login: entrance.login.iter().map(read).collect(),
        }
    }

    /// A connection that has entered. Nothing is resumed from an earlier one.
    pub fn open(&self, address: &str) -> Link {
        let mut plain = socket::connect(address);
        let mut link = match &self.tls {
            None => Link::Plain(plain),
            Some(config) => {
                let name = ServerName::try_from("127.0.0.1").expect("an address");
                let mut session =
                    ClientConnection::new(config.clone(), name).expect("a session of TLS");
                while session.is_handshaking() {
                    session
                        .complete_io(&mut plain)
                        .unwrap_or_else(|error| panic!("handshake with {address}: {error}"));
                }
                Link::Tls(Box::new(StreamOwned::new(session, plain)))
            }
        };
        let mut answer = Vec::new();
        for frame in &self.login {
            link.write_all(frame).expect("sending a login");
            socket::read_frame(&mut link, &mut answer).expect("an answer to a login");
        }
        link
    }
}

fn trusting(authority: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for each in CertificateDer::pem_file_iter(authority).expect("a file of PEM") {
        roots
            .add(each.expect("a certificate"))
            .expect("an authority");
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

pub enum Link {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Link {
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
