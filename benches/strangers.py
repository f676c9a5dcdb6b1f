"""Attacks of those who are not let in: on listeners with TLS, and with SASL. `hostile.py` runs them."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

from ottla.wire.headers import request_frame
from tests.peers.certificates import certified
from tests.peers.ports import free_port
from tests.support.hostile import closing, connect, send
from tests.support.tls import store

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
#: Processes that attack at once.
ATTACKERS = 2
#: Connections that say little and stay.
SILENT = 500

tls_port, sasl_port = free_port(), free_port()


def settings(folder: Path, plaintext: int) -> dict[str, object]:
    """A broker that has both kinds of listeners beside that of the honest client."""
    own = certified("broker", hosts=["127.0.0.1"])
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{plaintext},SSL://127.0.0.1:{tls_port},SASL://127.0.0.1:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL:SASL_PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(folder / "broker.pem", own),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} required user_alice="p";',
    }


def _handshake(context: ssl.SSLContext) -> None:
    with (
        socket.create_connection(("127.0.0.1", tls_port), 10) as plain,
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


def _greeting() -> bytes:
    named = struct.pack(">h", 5) + b"PLAIN"
    return request_frame(SASL_HANDSHAKE, 1, 1, "stranger", named)


def _token(password: bytes) -> bytes:
    token = b"\0alice\0" + password
    return request_frame(SASL_AUTHENTICATE, 0, 2, "stranger", struct.pack(">i", len(token)) + token)


def _wrong_password(_: ssl.SSLContext) -> None:
    with socket.create_connection(("127.0.0.1", sasl_port), 10) as one:
        one.sendall(_greeting() + _token(b"wrong"))
        while one.recv(4096):
            pass


def _repeat(ports: tuple[int, int], act: Callable[[ssl.SSLContext], None], stop: Event) -> None:
    """In a process of its own: this module's ports are those of the one that started it."""
    global tls_port, sasl_port
    tls_port, sasl_port = ports
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    while not stop.is_set():
        with contextlib.suppress(OSError):
            act(context)


def _flood(act: Callable[[ssl.SSLContext], None]) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    attackers = [spawn.Process(target=_repeat, args=((tls_port, sasl_port), act, stop)) for _ in range(ATTACKERS)]
    for one in attackers:
        one.start()
    try:
        yield
    finally:
        stop.set()
        for one in attackers:
            one.join()


def handshakes(_: int) -> Iterator[None]:
    """Whole handshakes, one after the other."""
    yield from _flood(_handshake)


def wrong_passwords(_: int) -> Iterator[None]:
    """Logins that fail, one after the other."""
    yield from _flood(_wrong_password)


def half_handshakes(_: int) -> Iterator[None]:
    """Connections that send the first half of what a client says first, and stay."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        half.do_handshake()
    hello = outgoing.read()
    yield from _stay(tls_port, hello[: len(hello) // 2])


def slow_tokens(_: int) -> Iterator[None]:
    """Connections that greet, and send half of a token of 500 KB."""
    yield from _stay(sasl_port, _greeting() + _token(bytes(500_000))[:250_000])


def _stay(port: int, said: bytes) -> Iterator[None]:
    attackers = [connect(port) for _ in range(SILENT)]
    with closing(attackers):
        for one in attackers:
            send(one, said, 0.02)
        yield
