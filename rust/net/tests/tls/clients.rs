//! Who comes in with which certificate. `peer` has signed itself and says that it is an authority; `expired` is another
//! certificate of its key.

use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_ecdsa_type;
use rustls::sign::CertifiedKey;

use super::*;

const PEER: (&str, &str) = (include_str!("peer.pem"), include_str!("peer.key"));
const EXPIRED: &str = include_str!("expired.pem");

/// Shows its certificate, whoever's the key is.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl Shows {
    fn new(certificate: &str, key: &str) -> Self {
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = any_ecdsa_type(&key).unwrap();
        Self(Arc::new(CertifiedKey::new(vec![certificate], key)))
    }
}

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The outcome of a handshake with a server that trusts `trusted`.
fn met(
    trusted: &str,
    (certificate, key): (&str, &str),
    version: &'static rustls::SupportedProtocolVersion,
) -> Result<Pair, String> {
    let protocols = both();
    let mut given = given(ClientAuth::Required, &protocols);
    given.trusted = trusted;
    let mut pair = Pair::new(&server_config(&given).unwrap());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(Shows::new(certificate, key)));
    let name = ServerName::try_from("localhost").unwrap();
    pair.client = ClientConnection::new(Arc::new(config), name).unwrap();
    loop {
        match pair.tls.handshake() {
            Ok(Progress::Done) => return Ok(pair),
            Ok(_) => {}
            Err(Failed::Because(reason)) => return Err(reason),
            Err(Failed::Left) => return Err("left".to_owned()),
        }
        pair.send();
        pair.receive();
    }
}

fn refused(trusted: &str, own: (&str, &str), reason: &str) {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let said = met(trusted, own, version).err().unwrap();
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn a_peer_that_is_trusted_itself_comes_in() {
    let trusted = [AUTHORITY, PEER.0].concat();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        assert!(met(&trusted, PEER, version).is_ok());
        // The certificate of a client, without that of who signed it.
        assert!(met(CLIENT.0, CLIENT, version).is_ok());
        assert!(met(&trusted, CLIENT, version).is_ok());
    }
    refused(AUTHORITY, PEER, "invalid peer certificate");
}

#[test]
fn a_certificate_alone_lets_nobody_in() {
    let somebody_elses = (PEER.0, CLIENT.1);
    refused(PEER.0, somebody_elses, "BadSignature");
}

#[test]
fn a_certificate_that_is_trusted_ends_with_its_time() {
    refused(EXPIRED, (EXPIRED, PEER.1), "Expired");
    // The same key, name and signer, and another certificate.
    refused(EXPIRED, PEER, "invalid peer certificate");
}
