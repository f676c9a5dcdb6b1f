"""Checks that an address leads to a broker, and finds out what else is there: the name, the port, and who answers
there.

What listens is asked ApiVersions in version 0, which every broker since 0.10 answers. Who answers with something else
often gives himself away: a web server by `HTTP/`, TLS by its alert. Who closes without a word is asked again as TLS and
as HTTP.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import struct
from contextlib import suppress
from enum import Enum

import trio

#: ApiVersions version 0, correlation id 1, no client id.
_ASK = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
_ANSWER_BYTES_MAX = 1 << 20


class Speaks(Enum):
    """The protocol in which a port answers."""

    KAFKA = "Kafka"
    TLS = "TLS"
    HTTP = "HTTP"
    ELSE = "something else"
    NOTHING = "nothing"


async def addresses(host: str) -> list[str]:
    """The addresses that a name stands for here. Raises OSError if there are none."""
    rows = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def why(problem: Exception) -> str:
    """In the system's words, without those around them."""
    # Those of getaddrinfo are negative.
    if isinstance(problem, OSError) and problem.errno is not None and problem.errno > 0:
        return os.strerror(problem.errno)
    return str(getattr(problem, "strerror", None) or problem)


async def connect(address: str, port: int, timeout_s: float) -> trio.SocketStream:
    """Raises OSError, TimeoutError among them."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with trio.move_on_after(timeout_s):
        end = trio.socket.socket(family, socket.SOCK_STREAM)
        try:
            await end.connect((address, port))
        except BaseException:
            end.close()
            raise
        return trio.SocketStream(end)
    raise TimeoutError(f"no answer within {timeout_s:g} s")


async def speaks(address: str, port: int, timeout_s: float) -> Speaks:
    """The protocol in which the port answers. Raises OSError if nobody listens."""
    answer = await _ask(address, port, _ASK, timeout_s)
    if len(answer) >= 8:
        size, correlation_id = struct.unpack_from(">ii", answer)
        if correlation_id == 1 and 4 < size < _ANSWER_BYTES_MAX:
            return Speaks.KAFKA
    if answer.startswith(b"HTTP/"):
        return Speaks.HTTP
    # An alert or a handshake of TLS.
    if answer[:1] in (b"\x15", b"\x16") and answer[1:2] == b"\x03":
        return Speaks.TLS
    if await _is_tls(address, port, timeout_s):
        return Speaks.TLS
    if (await _ask(address, port, b"GET / HTTP/1.0\r\n\r\n", timeout_s)).startswith(b"HTTP/"):
        return Speaks.HTTP
    return Speaks.ELSE if answer else Speaks.NOTHING


async def _ask(address: str, port: int, question: bytes, timeout_s: float) -> bytes:
    """The beginning of the answer; empty if there is none."""
    async with await connect(address, port, timeout_s) as stream:
        answer = b""
        with trio.move_on_after(timeout_s), suppress(trio.BrokenResourceError):
            await stream.send_all(question)
            while len(answer) < 8 and (more := await stream.receive_some(4096)):
                answer += more
        return answer


async def _is_tls(address: str, port: int, timeout_s: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # who it is does not matter: nothing is said to him
    try:
        stream = await connect(address, port, timeout_s)
    except OSError:
        return False
    async with stream:
        with trio.move_on_after(timeout_s):
            try:
                await trio.SSLStream(stream, context).do_handshake()
            except trio.BrokenResourceError as error:
                # A server that wants a certificate of ours, or other versions, answers in TLS all the same.
                cause = error.__cause__
                return isinstance(cause, ssl.SSLError) and "ALERT" in str(cause)
            return True
    return False


def is_loopback(addresses: list[str]) -> bool:
    """True if a program on another machine would reach itself there."""
    return bool(addresses) and all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in addresses)


def is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def looks_internal(host: str) -> bool:
    """True if a name is one that only containers or one machine know."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".internal", ".local", ".svc", ".localdomain"))
    return False
