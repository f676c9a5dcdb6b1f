"""TLS by hand, as scanners of servers speak it: records, hellos with anything in them, and the answers.

The numbers are those of RFC 8446 (TLS 1.3), RFC 5246 (TLS 1.2) and IANA's registries.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.support.waiting import PATIENCE_S

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, DATA, HEARTBEAT = range(20, 25)
CLIENT_HELLO, SERVER_HELLO = 1, 2
WARNING, FATAL = 1, 2
SSL_3, TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3 = range(0x0300, 0x0305)
#: Suites of TLS 1.3, and those of TLS 1.2 for a certificate with a key of an elliptic curve.
SUITES_1_3 = (0x1301, 0x1302, 0x1303)
SUITES_1_2 = (0xC02B, 0xC02C, 0xCCA9)
#: They say that a client speaks less than it could (RFC 7507), and that it knows of renegotiation (RFC 5746).
FALLBACK, RENEGOTIATION = 0x5600, 0x00FF
X25519, P_256 = 0x001D, 0x0017

SERVER_NAME, GROUPS, POINT_FORMATS, SIGNATURES, ALPN, BEAT = 0, 10, 11, 13, 16, 15
EXTENDED_MASTER_SECRET, TICKET, PRE_SHARED_KEY, EARLY_DATA, VERSIONS = 23, 35, 41, 42, 43
PSK_MODES, KEY_SHARE, RENEGOTIATION_INFO = 45, 51, 0xFF01

Extensions = dict[int, bytes | None]


def sized(content: bytes, width: int = 2) -> bytes:
    """The content behind its length, which takes so many bytes."""
    return len(content).to_bytes(width, "big") + content


def numbers(values: Iterable[int]) -> bytes:
    return b"".join(value.to_bytes(2, "big") for value in values)


def record(content: bytes, kind: int = HANDSHAKE, version: int = TLS_1_0) -> bytes:
    return bytes([kind]) + version.to_bytes(2, "big") + sized(content)


def records(content: bytes, size: int) -> bytes:
    """A message of a handshake in records of at most so many bytes."""
    return b"".join(record(content[at : at + size]) for at in range(0, len(content), size))


def server_name(name: bytes, kind: int = 0) -> bytes:
    return sized(bytes([kind]) + sized(name))


def hello(
    suites: Sequence[int] = SUITES_1_3,
    *,
    versions: Sequence[int] = (TLS_1_3,),
    legacy: int = TLS_1_2,
    compressions: bytes = b"\0",
    extensions: Mapping[int, bytes | None] | None = None,
) -> bytes:
    """A ClientHello, without the bounds of a record. Without `versions`, `legacy` alone says what the client speaks.
    `extensions` are beside the usual ones or in their place; None leaves one out.
    """
    present: Extensions = {
        GROUPS: sized(numbers([X25519, P_256])),
        POINT_FORMATS: b"\1\0",
        SIGNATURES: sized(numbers([0x0403, 0x0503, 0x0804, 0x0805, 0x0806, 0x0807])),
        EXTENDED_MASTER_SECRET: b"",
        **({VERSIONS: sized(numbers(versions), 1), PSK_MODES: b"\1\1"} if versions else {}),
        **({KEY_SHARE: sized(numbers([X25519]) + sized(os.urandom(32)))} if TLS_1_3 in versions else {}),
        **(extensions or {}),
    }
    # A key that was shared before stands last.
    order = sorted(present, key=lambda number: number == PRE_SHARED_KEY)
    listed = b"".join(numbers([number]) + sized(body) for number in order if (body := present[number]) is not None)
    body = legacy.to_bytes(2, "big") + os.urandom(32) + sized(os.urandom(32), 1)
    body += sized(numbers(suites)) + sized(compressions, 1) + sized(listed)
    return bytes([CLIENT_HELLO]) + sized(body, 3)


@dataclass(frozen=True)
class Answer:
    """The records that a server sent, and whether it has closed the connection."""

    records: tuple[tuple[int, bytes], ...]
    is_closed: bool

    @property
    def alert(self) -> int | None:
        """The number of the fatal alert."""
        found = [body[1] for kind, body in self.records if kind == ALERT and len(body) == 2 and body[0] == FATAL]
        return found[-1] if found else None

    @property
    def hello(self) -> ServerHello | None:
        said = b"".join(body for kind, body in self.records if kind == HANDSHAKE)
        return ServerHello.read(said) if said[:1] == bytes([SERVER_HELLO]) else None


@dataclass(frozen=True)
class ServerHello:
    version: int
    random: bytes
    suite: int
    compression: int
    extensions: Extensions

    @classmethod
    def read(cls, said: bytes) -> ServerHello | None:
        """None: it is not whole."""
        end = 4 + int.from_bytes(said[1:4], "big")
        if len(said) < end:
            return None
        version, random = int.from_bytes(said[4:6], "big"), said[6:38]
        at = 39 + said[38]
        suite, compression = int.from_bytes(said[at : at + 2], "big"), said[at + 2]
        extensions: Extensions = {}
        at += 5
        while at < end:
            number, length = (int.from_bytes(said[at + part : at + part + 2], "big") for part in (0, 2))
            extensions[number] = said[at + 4 : at + 4 + length]
            at += 4 + length
        if chosen := extensions.get(VERSIONS):
            version = int.from_bytes(chosen, "big")
        return cls(version, random, suite, compression, extensions)


class Scanner:
    """One connection to a server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def __enter__(self) -> Scanner:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, data: bytes) -> None:
        """Sends it, as far as the server takes it."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def answer(self, *, until_closed: bool = False) -> Answer:
        """Waits for a whole ServerHello, or for the end."""
        is_closed = False
        while not is_closed and (until_closed or self._parsed(is_closed=False).hello is None):
            try:
                some = self.socket.recv(1 << 16)
            except ConnectionResetError:
                some = b""
            self._received += some
            is_closed = not some
        return self._parsed(is_closed)

    def _parsed(self, is_closed: bool) -> Answer:
        found, rest = [], self._received
        while len(rest) >= 5 and len(rest) >= (end := 5 + int.from_bytes(rest[3:5], "big")):
            found.append((rest[0], rest[5:end]))
            rest = rest[end:]
        return Answer(tuple(found), is_closed)


def asked(port: int, data: bytes) -> Answer:
    """The answer to these bytes: up to a ServerHello, else all until the server has closed."""
    with Scanner(port) as scanner:
        scanner.say(data)
        return scanner.answer()


def refused(port: int, data: bytes) -> int | None:
    """The fatal alert that these bytes are answered with, before the server closes the connection. None: there is none.
    Fails if the server goes on.
    """
    with Scanner(port) as scanner:
        scanner.say(data)
        answer = scanner.answer(until_closed=True)
        assert answer.hello is None
        return answer.alert
