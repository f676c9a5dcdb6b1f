"""Certificates and keys where Kafka's settings say they are, as PEM.

A file's content tells what it is, not its name nor its type: Java's type "JKS", the default, opens PKCS12 too. PKCS12
needs the package `cryptography` (the extra `security`); PEM needs nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.security import Security

JKS = bytes.fromhex("feedfeed"), bytes.fromhex("cececece")
"""How Java's own formats begin: JKS, and JCEKS."""
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
LINE = 64


class Pem(tuple[tuple[str, str], ...]):
    """Blocks of PEM: what each is (CERTIFICATE, PRIVATE KEY, ...), and its text. Prints nothing of them."""

    def __repr__(self) -> str:
        return f"<{len(self)} blocks of PEM>"

    def of(self, what: str) -> list[str]:
        """The texts of those that are that, or a kind of it."""
        return [text for kind, text in self if kind.endswith(what)]


def pem(text: str) -> Pem:
    """The blocks in a text. Settings have PEM in one line at times, with blanks where lines ended."""
    return Pem((kind, _block(kind, body)) for kind, body in _BLOCK.findall(text))


def _block(kind: str, body: str) -> str:
    # A colon is in the header lines that old encrypted keys have, whose line ends matter.
    if ":" not in body:
        characters = re.sub(r"\s|\\n", "", body)
        lines = [characters[start : start + LINE] for start in range(0, len(characters), LINE)]
        body = "\n" + "\n".join(lines) + "\n"
    return f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"


def trusted(security: Security) -> list[str] | None:
    """The certificates that are trusted, in PEM; None: those of the system.

    Raises:
        ValueError: there are none, or they cannot be read; it names the setting and the file.
    """
    if security.truststore_certificates is not None:
        found, where = pem(security.truststore_certificates), "ssl.truststore.certificates"
    elif security.truststore_location is not None:
        where = f"ssl.truststore.location: {security.truststore_location}"
        content = _read(where, security.truststore_location)
        if not is_pem(content):
            found = read_pkcs12(where, content, security.truststore_password, "ssl.truststore.password")
        else:
            found = pem(content.decode("latin-1"))
    else:
        return None
    if not (certificates := found.of("CERTIFICATE")):
        raise ValueError(f"{where} has no certificates")
    return certificates


def own(security: Security) -> tuple[str, str | None, str] | None:
    """Our key with its certificate and those that signed it, in PEM; the key's password; and where they were found,
    for messages. None: there is none.

    Raises:
        ValueError: they cannot be read; it names the setting and the file.
    """
    password = security.key_password
    if security.keystore_key is not None and security.keystore_certificate_chain is not None:
        where = "ssl.keystore.key"
        keys, chain = pem(security.keystore_key), pem(security.keystore_certificate_chain)
    elif security.keystore_location is not None:
        where = f"ssl.keystore.location: {security.keystore_location}"
        content = _read(where, security.keystore_location)
        if is_pem(content):
            keys = chain = pem(content.decode("latin-1"))
        else:
            keys = chain = read_pkcs12(where, content, security.keystore_password, "ssl.keystore.password")
            password = None
    else:
        return None
    if len(keys.of("PRIVATE KEY")) != 1 or not chain.of("CERTIFICATE"):
        raise ValueError(f"{where} must be one private key, with its certificate and those that signed it")
    key = keys.of("PRIVATE KEY")[0]
    if "ENCRYPTED" in key and password is None:
        raise ValueError(f"{where} has an encrypted key, and ssl.key.password is missing")
    return key + "".join(chain.of("CERTIFICATE")), password, where


def _read(where: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as problem:
        raise ValueError(f"{where} cannot be read: {problem.strerror}") from None
    if content.startswith(JKS):
        raise ValueError(
            f"{where} is a JKS file, which only Java reads. As PKCS12 it does: keytool -importkeystore -srckeystore "
            f"{path} -destkeystore {path.removesuffix('.jks')}.p12 -deststoretype PKCS12"
        )
    return content


def is_pem(content: bytes) -> bool:
    """True if there is PEM in the content of a file."""
    return b"-----BEGIN " in content


def read_pkcs12(where: str, content: bytes, password: str | None, setting: str) -> Pem:
    """Returns what is in a PKCS12 file, its own certificate before those that signed it, and all others behind them.

    Raises:
        ValueError: It cannot be opened; the text begins with `where`.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ValueError(
            f"{where}: PKCS12 files need the package cryptography: pip install 'ottla[security]'"
        ) from None
    try:
        found = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError as problem:
        if password is None:
            raise ValueError(f"{where} is no PEM, and as PKCS12 it needs {setting}, which is missing") from None
        what = f"{where} cannot be opened with {setting}"
        raise ValueError(f"{what}: wrong password, or neither PKCS12 nor PEM ({problem})") from None
    others = [each.certificate for each in found.additional_certs]
    chain = others if found.cert is None else _chain(found.cert.certificate, others)
    blocks = "".join(each.public_bytes(serialization.Encoding.PEM).decode() for each in chain)
    if found.key is not None:
        no_password = serialization.NoEncryption()
        form = serialization.PrivateFormat.PKCS8
        blocks += found.key.private_bytes(serialization.Encoding.PEM, form, no_password).decode()
    return pem(blocks)


def _chain(first: Any, others: list[Any]) -> list[Any]:
    """Each certificate before the one that signed it; others, which somebody may trust, at the end."""
    chain, left = [first], [each for each in others if each != first]
    while signer := next((each for each in left if each.subject == chain[-1].issuer), None):
        chain.append(signer)
        left.remove(signer)
    return chain + left
