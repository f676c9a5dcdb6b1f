//! Whose certificate lets a client in: that of somebody whom a trusted authority has signed, or one
//! that is itself among those that are trusted.
//!
//! Java accepts both, and so key stores of one peer are used as trust stores of another. Such
//! certificates sign themselves and often say that they are authorities, which webpki refuses at
//! the end of a chain. One that is trusted itself is known by all of its bytes. Its time is looked
//! at, which Java does not do. Whoever shows it proves as everybody does that he has its key.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::certificate::Certificate;

#[derive(Debug)]
pub struct Clients {
    pub trusted: Vec<CertificateDer<'static>>,
    /// Judges all others, and signatures.
    pub by_authorities: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for Clients {
    fn offer_client_auth(&self) -> bool {
        self.by_authorities.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.by_authorities.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_authorities.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if !self.trusted.iter().any(|one| one == end_entity) {
            let judge = &self.by_authorities;
            return judge.verify_client_cert(end_entity, intermediates, now);
        }
        let certificate = Certificate::read(end_entity).ok_or(CertificateError::BadEncoding)?;
        certificate.check_time(now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authorities
            .verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authorities
            .verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authorities.supported_verify_schemes()
    }
}
