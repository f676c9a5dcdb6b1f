"""TLS for both kinds of connection: the context out of the settings, and what a failed handshake means."""

from __future__ import annotations

import functools
import os
import socket
import ssl
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ottla.client import stores
from ottla.client.errors import ConnectionLost, TlsFailed

if TYPE_CHECKING:
    from ottla.client.security import Security

CONTEXTS = 8
VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
SUITES_1_3 = ("TLS_AES_", "TLS_CHACHA20_")
"""How TLS 1.3's suites are called, which belong to no key exchange."""
NAME_MISMATCHES = 62, 64
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")
REFUSED = ("CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_ACCESS_DENIED")
NOTHING_IN_COMMON = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "HANDSHAKE_FAILURE", "NO_PROTOCOLS", "NO_CIPHERS")


def context(security: Security) -> ssl.SSLContext:
    """A context with what is trusted and who we are; made anew when one of the files has changed.

    Raises:
        ValueError: a file, a password or a suite is wrong; it names the setting.
    """
    paths = [path for path in (security.truststore_location, security.keystore_location) if path is not None]
    return _context(security, tuple(_state(path) for path in paths))


def _state(path: str) -> tuple[int, int]:
    """What is different when the file has changed."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0  # reading it will tell
    return found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=CONTEXTS)
def _context(security: Security, states: tuple[tuple[int, int], ...]) -> ssl.SSLContext:
    # Not ssl.create_default_context, which is stricter with certificates than Java from Python 3.13 on.
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = security.checks_name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of old versions, which somebody asked for by name
        made.minimum_version, made.maximum_version = (VERSIONS[each] for each in security.tls_versions)
    if security.cipher_suites:
        _choose_suites(made, security.cipher_suites)
    certificates = stores.trusted(security)
    if certificates is None:
        made.load_default_certs()
    else:
        # Whatever stands in a trust store is trusted, as in Java, and not only what signed itself.
        made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            made.load_verify_locations(cadata="".join(certificates))
        except ssl.SSLError as problem:
            where = f"ssl.truststore.location: {security.truststore_location}"
            if security.truststore_location is None:
                where = "ssl.truststore.certificates"
            raise ValueError(f"{where} has a certificate that cannot be read ({_reason(problem)})") from None
    if (own := stores.own(security)) is not None:
        text, password, where = own
        try:
            with private_file(text) as path:
                made.load_cert_chain(path, password=password or "")
        except ssl.SSLError as problem:
            wrong = "" if password is None else "; is ssl.key.password right?"
            raise ValueError(f"{where}: key and certificate cannot be used ({_reason(problem)}){wrong}") from None
    return made


def _reason(problem: ssl.SSLError) -> str:
    return problem.reason or str(problem.args[-1])


def _choose_suites(made: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Java's names are those of IANA, for which this library has names of its own."""
    new = [each for each in suites if each.startswith(SUITES_1_3)]
    old = [each for each in suites if each not in new]
    if not new:
        made.maximum_version = min(made.maximum_version, ssl.TLSVersion.TLSv1_2)
    if not old:
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        made.set_ciphers(":".join(_name(each) for each in old))
    except ssl.SSLError:
        raise ValueError(
            f"ssl.cipher.suites has none that this machine's TLS library knows: {', '.join(old)}"
        ) from None


def _name(suite: str) -> str:
    """`ECDHE-RSA-AES256-GCM-SHA384` of `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`."""
    short = suite.removeprefix("TLS_").removeprefix("RSA_WITH_").replace("_WITH_", "_").replace("AES_", "AES")
    return short.replace("_CBC", "").replace("POLY1305_SHA256", "POLY1305").replace("_", "-")


@contextmanager
def private_file(text: str) -> Iterator[str]:
    """A path that the library can read a key from, which it takes from nowhere else: memory where there is such a
    thing (Linux), else a file of ours alone that is gone at once.
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            os.write(number, text.encode())
            yield f"/proc/self/fd/{number}"
        finally:
            os.close(number)
    else:
        with tempfile.TemporaryDirectory(prefix="ottla-") as folder:
            path = Path(folder, "key.pem")
            path.touch(mode=0o600)
            path.write_text(text)
            yield str(path)


async def encrypted(stream: trio.abc.Stream, host: str, port: int, security: Security) -> trio.abc.Stream:
    """The stream with TLS, its handshake done; after an error the caller closes what he gave.

    Raises:
        TlsFailed: with what this means. ConnectionLost: the other side closed the connection.
        ValueError: what `security` names cannot be read.
    """
    # "https" only means that an end without a farewell is an end like any other: frames have lengths of their own.
    made = trio.SSLStream(stream, context(security), server_hostname=host, https_compatible=True)
    try:
        await made.do_handshake()
    except trio.BrokenResourceError as problem:
        raise _failed(problem, f"{host}:{port}") from problem
    _check_suite(security, made.cipher(), f"{host}:{port}")
    return made


def encrypted_socket(endpoint: socket.socket, host: str, port: int, security: Security) -> ssl.SSLSocket:
    """The same for a blocking socket with a timeout, which passes on to the new one and is closed after an error."""
    try:
        made = context(security).wrap_socket(endpoint, server_hostname=host)
    except TimeoutError:
        raise
    except OSError as problem:
        raise _failed(problem, f"{host}:{port}") from problem
    try:
        _check_suite(security, made.cipher(), f"{host}:{port}")
    except TlsFailed:
        made.close()
        raise
    return made


def _failed(problem: BaseException, place: str) -> TlsFailed | ConnectionLost:
    return failure(problem, place) or ConnectionLost(
        f"{place} closed the connection instead of beginning TLS; does security.protocol fit this port?"
    )


def _check_suite(security: Security, cipher: tuple[str, str, int] | None, place: str) -> None:
    """Python cannot say which of TLS 1.3's suites to offer, so what was agreed is looked at."""
    chosen, suites = cipher[0] if cipher else "nothing", security.cipher_suites
    if suites and chosen not in suites and chosen not in map(_name, suites):
        raise TlsFailed(f"{place}: the broker chose {chosen}, which ssl.cipher.suites does not have")


def failure(problem: BaseException, place: str) -> TlsFailed | None:
    """What an error of a TLS connection means, if it is one that trying again does not mend; it may be the cause of
    other errors.
    """
    at: BaseException | None = problem
    while at is not None and (not isinstance(at, ssl.SSLError) or isinstance(at, ssl.SSLEOFError)):
        at = at.__cause__
    if at is None:
        return None
    if isinstance(at, ssl.SSLCertVerificationError):
        if at.verify_code in NAME_MISMATCHES:
            return TlsFailed(
                f"{place}: {at.verify_message.rstrip('.')}. Name the broker as its certificate does, or accept any "
                "with an empty ssl.endpoint.identification.algorithm"
            )
        return TlsFailed(
            f"{place}: its certificate is not trusted ({at.verify_message}); ssl.truststore.location says whom to trust"
        )
    reason = _reason(at)
    if any(each in reason for each in NOT_TLS):
        return TlsFailed(f"{place} does not speak TLS ({reason}); security.protocol does not fit this port")
    if any(each in reason for each in REFUSED):
        return TlsFailed(f"{place} refuses our certificate, or wants one ({reason}): ssl.keystore.location says which")
    if any(each in reason for each in NOTHING_IN_COMMON):
        return TlsFailed(
            f"{place} has no TLS in common with us ({reason}): see ssl.enabled.protocols, ssl.cipher.suites"
        )
    return TlsFailed(f"{place}: TLS failed ({reason})")
