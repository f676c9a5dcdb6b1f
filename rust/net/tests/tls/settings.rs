//! Settings that are wrong are refused by name.

use super::*;
use crate::net::tls::{Part, Wrong};

fn refused(change: impl FnOnce(&mut Given<'_>)) -> (Part, String) {
    let protocols = both();
    let mut given = given(ClientAuth::Required, &protocols);
    change(&mut given);
    let Wrong(part, how) = server_config(&given).err().unwrap();
    (part, how)
}

#[test]
fn certificates_and_keys() {
    assert_eq!(
        refused(|given| given.certificates = "nothing"),
        (Part::Certificates, "has no certificates".to_owned())
    );
    let (part, _) = refused(|given| {
        given.certificates = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    });
    assert_eq!(part, Part::Certificates);
    let (part, how) = refused(|given| given.key = AUTHORITY);
    assert_eq!(part, Part::Key);
    assert!(how.starts_with("is no private key"), "{how}");
    assert_eq!(
        refused(|given| given.key = CLIENT.1),
        (Part::Key, "does not belong to the certificate".to_owned())
    );
    assert_eq!(
        refused(|given| given.trusted = ""),
        (Part::Trusted, "has no certificates".to_owned())
    );
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(refused(|given| given.trusted = garbage).0, Part::Trusted);
}

#[test]
fn protocols_and_suites() {
    let old = ["TLSv1.3".to_owned(), "TLSv1.1".to_owned()];
    let (part, how) = server_config(&given(ClientAuth::None, &old))
        .map_err(|Wrong(part, how)| (part, how))
        .err()
        .unwrap();
    assert_eq!(part, Part::Protocols);
    assert!(how.starts_with("TLSv1.1 is not possible"), "{how}");
    let none = given(ClientAuth::None, &[]);
    assert_eq!(server_config(&none).err().unwrap().0, Part::Protocols);
    let suites = |name: &str| [name.to_owned()];
    let cbc = suites("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384");
    let protocols = both();
    let mut given = given(ClientAuth::None, &protocols);
    given.suites = &cbc;
    let Wrong(part, how) = server_config(&given).err().unwrap();
    assert_eq!(part, Part::Suites);
    assert!(how.starts_with("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384 is not"));
    assert!(how.contains("TLS_AES_128_GCM_SHA256"), "{how}");
    let new = suites("TLS_AES_128_GCM_SHA256");
    given.suites = &new;
    assert!(server_config(&given).is_ok());
    given.protocols = &protocols[..1];
    assert_eq!(server_config(&given).err().unwrap().0, Part::Suites);
}

#[test]
fn the_suite_that_is_chosen_is_spoken() {
    let protocols = both();
    let mut given = given(ClientAuth::None, &protocols);
    let chosen = ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256".to_owned()];
    given.suites = &chosen;
    let mut pair = Pair::new(&server_config(&given).unwrap());
    while pair.tls.handshake() != Ok(Progress::Done) {
        pair.send();
        pair.receive();
    }
    assert_eq!(
        pair.client.negotiated_cipher_suite().unwrap().suite(),
        rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
    );
}
