"""The authority of `ottla serve --dev-security`, and the certificate of its broker.

Imports the package cryptography.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
#: Some clients take no certificate that is valid for longer.
BROKER_DAYS: Final = 397
#: A certificate is made anew so long before its end.
RENEW_DAYS: Final = 30


def make(folder: Path, hosts: Collection[str]) -> None:
    """Sees to it that a folder has `authority.pem`, `authority.key`, and `broker.pem` with the key and a certificate
    for these hosts, names or addresses. What is there and still good is kept.

    Raises OSError, and ValueError for files that are something else.
    """
    key_file, authority_file, broker_file = folder / "authority.key", folder / "authority.pem", folder / "broker.pem"
    if not (key_file.exists() and authority_file.exists()):
        key = ec.generate_private_key(ec.SECP256R1())
        authority = _authority(key)
        write_private(key_file, _pem(key))
        authority_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    found = serialization.load_pem_private_key(key_file.read_bytes(), None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{key_file} is not the key that --dev-security makes")
    authority = x509.load_pem_x509_certificate(authority_file.read_bytes())
    if not broker_file.exists() or not _is_good(broker_file, hosts):
        own = ec.generate_private_key(ec.SECP256R1())
        signed = _signed(own, hosts, authority, found)
        write_private(broker_file, _pem(own) + signed.public_bytes(serialization.Encoding.PEM))


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that its owner alone may read, in place of one that is there. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    made: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Clocks of other machines may be behind.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = "Ottla, for trying"
    return (
        _builder(name, _name(name), key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _signed(
    own: ec.EllipticCurvePrivateKey,
    hosts: Collection[str],
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return (
        _builder("broker", authority.subject, own.public_key(), BROKER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(each) for each in sorted(hosts)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _is_good(file: Path, hosts: Collection[str]) -> bool:
    """True if the certificate is for these hosts, and for a while yet."""
    found = x509.load_pem_x509_certificate(file.read_bytes())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    is_for_all = {_host(each) for each in hosts} <= set(names)
    return is_for_all and found.not_valid_after_utc > datetime.now(UTC) + timedelta(days=RENEW_DAYS)
