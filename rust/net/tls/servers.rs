//! Which servers are trusted, on connections that this broker opens.
//!
//! As in Java, a certificate is trusted if it is in the trust store itself, or if one that is in there signed it or
//! those above it. It is for the host that was asked for, by its alternative names, or by its common name if it names
//! no host there.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate::Certificate;

#[derive(Debug)]
pub struct Servers {
    pub trusted: Vec<CertificateDer<'static>>,
    pub roots: Arc<RootCertStore>,
    pub checks_name: bool,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl Servers {
    fn check_trust(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if self.trusted.iter().any(|one| one == end_entity) {
            // It may say that it is an authority, which is refused at the end of a chain.
            let certificate = Certificate::read(end_entity).ok_or(CertificateError::BadEncoding)?;
            return Ok(certificate.check_time(now)?);
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )
    }

    fn check_name(
        &self,
        end_entity: &CertificateDer<'_>,
        name: &ServerName<'_>,
    ) -> Result<(), Error> {
        if !self.checks_name {
            return Ok(());
        }
        let refused = match verify_server_name(&ParsedCertificate::try_from(end_entity)?, name) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let certificate = Certificate::read(end_entity).ok_or(CertificateError::BadEncoding)?;
        match name {
            ServerName::DnsName(host) if certificate.is_for_by_common_name(host.as_ref()) => Ok(()),
            _ => Err(refused),
        }
    }
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check_trust(end_entity, intermediates, now)?;
        self.check_name(end_entity, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
