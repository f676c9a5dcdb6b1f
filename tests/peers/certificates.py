"""Certificates for tests: an authority, and keys that it signs, as PEM and PKCS12. They are good for a day."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import rsa as rivest
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certified:
    """A key, its certificate, and that of who signed it."""

    key: ec.EllipticCurvePrivateKey | rivest.RSAPrivateKey
    certificate: x509.Certificate
    signer: x509.Certificate | None = None

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        """PKCS8, encrypted if there is a password."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, _encryption(password)
        ).decode()

    def pkcs12(self, path: Path, password: str) -> Path:
        signers = [] if self.signer is None else [self.signer]
        content = pkcs12.serialize_key_and_certificates(
            b"own", self.key, self.certificate, signers, _encryption(password)
        )
        path.write_bytes(content)
        return path


def _encryption(password: str | None) -> serialization.KeySerializationEncryption:
    if password is None:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())


def certified(name: str, signer: Certified | None = None, hosts: Sequence[str] = (), *, rsa: bool = False) -> Certified:
    """A new key with a certificate: an authority's, signed by itself, or one for `hosts`, names or addresses. The key
    is one of ECDSA, P-256, unless it is to be one of RSA, with 2,048 bits.
    """
    key: ec.EllipticCurvePrivateKey | rivest.RSAPrivateKey = (
        rivest.generate_private_key(65537, 2048) if rsa else ec.generate_private_key(ec.SECP256R1())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if signer is None else signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
    certificate = builder.sign(key if signer is None else signer.key, hashes.SHA256())
    return Certified(key, certificate, None if signer is None else signer.certificate)


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
