"""Who answers where a broker should: a web server, a port with TLS, another service's port.

A broker's first answer is short, and begins with its length. What others say first is mostly text; its first four
letters would be a length of hundreds of megabytes, for which a client would wait. So the first answer has a limit of
its own, and what is over it is looked at here. What cannot be named is quoted.
"""

from __future__ import annotations

from ottla.client.errors import NotABroker
from ottla.client.protocol import Protocol
from ottla.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.k03_metadata import METADATA

FIRST_ANSWER_BYTES_MAX = 1 << 20
"""Of the answer to ApiVersions, which has six bytes for each API."""
QUOTED_CHARACTERS_MAX = 60
QUOTED_BYTES_MAX = 16

TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""An alert or a handshake."""
BANNERS = (
    (b"SSH-", "an SSH server"),
    (b"220 ", "a mail or FTP server"),
    (b"220-", "a mail or FTP server"),
    (b"-ERR", "Redis"),
    (b"-DEN", "Redis"),
    (b"AMQP", "RabbitMQ"),
    (b"RFB ", "a VNC server"),
)
CONTROLLERS_APIS = frozenset({52, 55, 62, 63})
"""Vote, DescribeQuorum, BrokerRegistration and BrokerHeartbeat, which controllers of KRaft have."""


def said(received: bytes) -> str | None:
    """Names a server that begins so and quotes it, as the end of a sentence; None if that cannot be told."""
    quoted = _quoted(received)
    if received.startswith(b"HTTP"):
        return f"it answers in HTTP{quoted}. Is this the port of a web server or of a proxy?"
    for begins, who in BANNERS:
        if received.startswith(begins):
            return f"it answers as {who} does{quoted}. Is the port right?"
    # MySQL's greeting: three bytes of length, the greeting's number, the protocol's version.
    if received[3:5] == b"\0\x0a":
        return "it answers as MySQL does. Is the port right?"
    if quoted:
        return f"it answers{quoted}. Is the port right?"
    return None


def is_no_broker(place: str, received: bytes, problem: RemoteProtocolError) -> NotABroker:
    """The error of a first answer that makes no sense, of which this much was received and is no frame."""
    if received[:2] in TLS_RECORDS:
        return NotABroker(
            f"{place} speaks TLS: set security.protocol to SSL or SASL_SSL, or name the port of a listener without TLS"
        )
    words = said(received)
    if words is None:
        shown = f", which begins with the bytes {received[:QUOTED_BYTES_MAX].hex(' ')}" if received else ""
        words = f"{problem}{shown}. Is the port right, and is there nothing in between?"
    return NotABroker(f"{place} is no Kafka broker: {words}")


def need_metadata(place: str, protocol: Protocol) -> None:
    """Raises NotABroker if what was negotiated has no Metadata: whoever serves clients has it."""
    try:
        protocol.version(METADATA)
    except LocalProtocolError as problem:
        versions = protocol.versions or {}
        if METADATA.key in versions:
            why = str(problem)
        elif CONTROLLERS_APIS & versions.keys():
            why = f"{place} is a controller (KRaft), which serves no clients. Name the port of a broker's listener"
        else:
            why = f"{place} is no Kafka broker: it has no Metadata. Is the port right, and is there nothing in between?"
        raise NotABroker(why) from problem


def _quoted(received: bytes) -> str:
    """The first line, if it is text."""
    line = received.lstrip().partition(b"\n")[0].rstrip(b"\r")[:QUOTED_CHARACTERS_MAX]
    text = line.decode("latin-1")
    return f' ("{text}")' if len(text) > 4 and text.isascii() and text.isprintable() else ""
