//! Certificates, who is trusted, and what is spoken, of listeners and of the connections that this broker opens: from
//! PEM and Kafka's names to what rustls wants.

use std::sync::Arc;

use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use rustls::{Error, RootCertStore, SupportedProtocolVersion, version};

use super::clients::Clients;
use super::provider;
use super::servers::Servers;

/// `ssl.client.auth`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    None,
    Requested,
    Required,
}

/// The settings of a listener.
pub struct Given<'a> {
    /// The certificate, and those that signed it, as PEM.
    pub certificates: &'a str,
    /// PEM, not encrypted.
    pub key: &'a str,
    /// The certificates of those who sign clients' certificates, and of clients, as PEM.
    pub trusted: &'a str,
    pub client_auth: ClientAuth,
    /// By Kafka's names: `TLSv1.3`.
    pub protocols: &'a [String],
    /// By IANA's names, in the order of preference; none: all that there are.
    pub suites: &'a [String],
}

/// The settings of the connections that this broker opens.
pub struct GivenToClient<'a> {
    /// The certificate that is shown to servers that ask for one, and those that signed it, as PEM. Empty: none.
    pub certificates: &'a str,
    /// PEM, not encrypted.
    pub key: &'a str,
    /// The certificates of those who sign servers' certificates, and of servers, as PEM.
    pub trusted: &'a str,
    /// The server's certificate must be for the host that was asked for.
    pub checks_name: bool,
    pub protocols: &'a [String],
    pub suites: &'a [String],
}

/// The part that all sessions with servers share.
#[derive(Clone, Debug)]
pub struct Client(pub(super) Arc<ClientConfig>);

/// The setting that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Certificates,
    Key,
    Trusted,
    Protocols,
    Suites,
}

/// A setting that is wrong, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong(pub Part, pub String);

/// Makes the part that all sessions of a listener share. Its key for tickets is its own: a client that was let in
/// elsewhere shows its certificate here.
pub fn server_config(given: &Given<'_>) -> Result<Arc<ServerConfig>, Wrong> {
    let versions = versions(given.protocols)?;
    let provider = with_suites(given.suites)?;
    let chain = certificates(given.certificates, Part::Certificates)?;
    let key = private_key(given.key)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(no_suite)?;
    let builder = if given.client_auth == ClientAuth::None {
        builder.with_no_client_auth()
    } else {
        let trusted = certificates(given.trusted, Part::Trusted)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots(&trusted)?, provider);
        let verifier = match given.client_auth {
            ClientAuth::Required => verifier,
            _ => verifier.allow_unauthenticated(),
        };
        let verifier = verifier.build();
        let by_authorities = verifier.map_err(|error| Wrong(Part::Trusted, error.to_string()))?;
        builder.with_client_cert_verifier(Arc::new(Clients {
            trusted,
            by_authorities,
        }))
    };
    let config = builder.with_single_cert(chain, key);
    let mut config = config.map_err(wrong_certificate)?;
    // Clients keep what a session that goes on needs, so it costs no memory here.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = provider::Ticketer::new().map_err(|error| {
        Wrong(
            Part::Key,
            format!("cannot be used: no random numbers ({error})"),
        )
    })?;
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

/// Makes the part that all sessions share which this broker opens under these settings. A session never goes on from an
/// earlier one, so that every connection has its server's certificate looked at.
pub fn client_config(given: &GivenToClient<'_>) -> Result<Client, Wrong> {
    let versions = versions(given.protocols)?;
    let provider = with_suites(given.suites)?;
    let trusted = certificates(given.trusted, Part::Trusted)?;
    let servers = Servers {
        roots: roots(&trusted)?,
        trusted,
        checks_name: given.checks_name,
        algorithms: provider.signature_verification_algorithms,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(no_suite)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(servers));
    let mut config = if given.certificates.is_empty() {
        builder.with_no_client_auth()
    } else {
        let chain = certificates(given.certificates, Part::Certificates)?;
        let config = builder.with_client_auth_cert(chain, private_key(given.key)?);
        config.map_err(wrong_certificate)?
    };
    config.resumption = Resumption::disabled();
    Ok(Client(Arc::new(config)))
}

fn with_suites(names: &[String]) -> Result<Arc<CryptoProvider>, Wrong> {
    Ok(Arc::new(CryptoProvider {
        cipher_suites: suites(names)?,
        ..provider::default_provider()
    }))
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, Wrong> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes());
    key.map_err(|error| Wrong(Part::Key, format!("is no private key ({error})")))
}

fn no_suite(_: Error) -> Wrong {
    let reason = "has no suite for the protocols that are enabled";
    Wrong(Part::Suites, reason.to_owned())
}

fn wrong_certificate(error: Error) -> Wrong {
    match error {
        Error::InconsistentKeys(_) => {
            Wrong(Part::Key, "does not belong to the certificate".to_owned())
        }
        Error::InvalidCertificate(_) => {
            Wrong(Part::Certificates, format!("cannot be used ({error})"))
        }
        _ => Wrong(Part::Key, format!("cannot be used ({error})")),
    }
}

fn certificates(pem: &str, part: Part) -> Result<Vec<CertificateDer<'static>>, Wrong> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(Wrong(part, "has no certificates".to_owned())),
        Err(error) => Err(Wrong(
            part,
            format!("has a certificate that cannot be read ({error})"),
        )),
    }
}

fn roots(trusted: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, Wrong> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        let added = roots.add(certificate.clone());
        added.map_err(|error| {
            Wrong(
                Part::Trusted,
                format!("has a certificate that cannot be read ({error})"),
            )
        })?;
    }
    Ok(Arc::new(roots))
}

fn versions(names: &[String]) -> Result<Vec<&'static SupportedProtocolVersion>, Wrong> {
    let found = names.iter().map(|name| match name.as_str() {
        "TLSv1.2" => Ok(&version::TLS12),
        "TLSv1.3" => Ok(&version::TLS13),
        other => Err(Wrong(
            Part::Protocols,
            format!("{other} is not possible, only TLSv1.2 and TLSv1.3 are"),
        )),
    });
    let found: Vec<_> = found.collect::<Result<_, _>>()?;
    match found.is_empty() {
        true => Err(Wrong(
            Part::Protocols,
            "at least one is needed: TLSv1.2 or TLSv1.3".to_owned(),
        )),
        false => Ok(found),
    }
}

/// IANA's name of a suite; rustls has a prefix of its own for those of TLS 1.3.
fn name_of(suite: &rustls::SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replacen("TLS13_", "TLS_", 1)
}

fn suites(names: &[String]) -> Result<Vec<rustls::SupportedCipherSuite>, Wrong> {
    if names.is_empty() {
        return Ok(provider::ALL_CIPHER_SUITES.to_vec());
    }
    let found = names.iter().map(|name| {
        let suite = provider::ALL_CIPHER_SUITES
            .iter()
            .find(|suite| name_of(suite) == *name);
        suite.copied().ok_or_else(|| {
            let known: Vec<_> = provider::ALL_CIPHER_SUITES.iter().map(name_of).collect();
            Wrong(
                Part::Suites,
                format!("{name} is not possible, only {} are", known.join(", ")),
            )
        })
    });
    found.collect()
}
