"""Certificates of TLS: until when they are valid, and for which hosts."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import trio

from ottla.broker import certificates
from ottla.broker.distinguished_names import written
from ottla.doctor.findings import Report

CHECK: Final = "certificate"
#: From so many days before its end on a certificate is worth a line.
SOON_DAYS: Final = 30
RENEW: Final = "have a new one made; a broker takes it from the same file within seconds"
_DNS, _IP = 0x82, 0x87


class Expiry(NamedTuple):
    """text: What is to be said of a certificate that is not valid for long. is_over: it is not valid now."""

    text: str
    is_over: bool


class Names(NamedTuple):
    """The hosts that a certificate is for, in small letters; addresses as they are usually written."""

    shown: list[str]

    def cover(self, host: str) -> bool:
        """True if a client that connects to this host takes the certificate."""
        wanted = _address(host) or host.lower().rstrip(".")
        rest = wanted.partition(".")[2]
        return wanted in self.shown or bool(rest and not _address(host) and f"*.{rest}" in self.shown)


def expiry(chain: Sequence[str], now: datetime) -> Expiry | None:
    """Returns words about certificates in PEM that end soon or are not valid; None if all are good for a while yet."""
    soon: Expiry | None = None
    for text in chain:
        found = certificates.read(text)
        whose = f"the certificate of {written(found.subject)}"
        if found.end <= now:
            return Expiry(f"{whose} has expired on {found.end:%Y-%m-%d}: clients refuse it", True)
        if found.begin > now:
            return Expiry(f"{whose} is not valid before {found.begin:%Y-%m-%d %H:%M}: clients refuse it", True)
        if found.end - now < timedelta(days=SOON_DAYS) and soon is None:
            soon = Expiry(f"{whose} expires on {found.end:%Y-%m-%d}, in {(found.end - now).days} days", False)
    return soon


def names(certificate: str) -> Names:
    """The hosts of a certificate in PEM: its alternative names; without any, its common name."""
    found = certificates.read(certificate)
    shown: list[str] = []
    for each in found.alternative_names:
        tag, content, _ = certificates.first(each)
        if tag == _DNS:
            shown.append(content.decode("latin-1").lower())
        elif tag == _IP and len(content) in (4, 16):
            shown.append(str(ipaddress.ip_address(content)))
    if not shown:
        common = [part.strip()[3:] for part in written(found.subject).split(",") if part.strip().startswith("CN=")]
        shown = [each.lower() for each in common[:1]]
    return Names(sorted(shown))


async def check_shown(report: Report, host: str, port: int, timeout_s: float) -> None:
    """Looks at the certificate that a port with TLS shows. One that shows none to strangers has no line."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    der = None
    with trio.move_on_after(timeout_s):
        try:
            plain = await trio.open_tcp_stream(host, port)
            stream = trio.SSLStream(plain, context, server_hostname=host, https_compatible=True)
            try:
                await stream.do_handshake()
                der = stream.getpeercert(binary_form=True)
            finally:
                await trio.aclose_forcefully(stream)
        except (OSError, trio.BrokenResourceError, ssl.SSLError):
            return
    if der is None:
        return
    found = expiry([ssl.DER_cert_to_PEM_cert(der)], datetime.now(UTC))
    if found is None:
        report.ok(CHECK, f"the one that {host}:{port} shows is valid for more than {SOON_DAYS} days")
    else:
        (report.problem if found.is_over else report.warning)(CHECK, f"{host}:{port}: {found.text}", RENEW)


def _address(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None
