"""The sockets of the HTTP side, and who comes in: by TLS, and by a password.

A socket of the file system (`unix:PATH`) has no password: the rights of its file say who may connect.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import hmac
import os
import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import trio

#: Every address of the machine.
WILDCARDS: Final = ("", "0.0.0.0", "::")
#: The beginning of an address that is a path.
UNIX: Final = "unix:"
#: The owner and the group may connect.
MODE: Final = 0o660


class Login:
    """The name and the password that a client has to send with each request (RFC 7617)."""

    def __init__(self, user: str, password: str) -> None:
        self._digest = hashlib.sha256(f"{user}:{password}".encode()).digest()

    def fits(self, header: str | None) -> bool:
        """True if a header `Authorization` has both. How long that takes does not depend on what is wrong."""
        scheme, given = _given(header)
        return hmac.compare_digest(hashlib.sha256(given).digest(), self._digest) and scheme == "basic"


def claimed(header: str | None) -> str | None:
    """The name in a header `Authorization`, whether it is right or not; None if there is none."""
    name, colon, _ = _given(header)[1].partition(b":")
    return name.decode(errors="replace") if colon else None


def _given(header: str | None) -> tuple[str, bytes]:
    """The scheme, and the name and the password with a colon between them."""
    scheme, _, text = (header or "").partition(" ")
    try:
        return scheme.lower(), base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return scheme.lower(), b""


class Secured(NamedTuple):
    """Who comes in. `tls` and `login` are asked anew for each connection and each request.

    tls: Gives the context for a new connection; None: connections are plain.
    login: None: everybody may ask.
    refused: Is told of each request that was refused: the address of its client, and the name that it claimed.
    """

    tls: Callable[[], ssl.SSLContext] | None = None
    login: Callable[[], Login] | None = None
    refused: Callable[[str, str | None], None] | None = None


async def tcp(host: str, port: int) -> list[trio.SocketListener]:
    """Each of the addresses that mean all takes both families where the system has IPv6, as where brokers listen.

    Raises OSError.
    """
    if host in WILDCARDS and socket.has_dualstack_ipv6():
        try:
            everywhere = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as problem:
            if host == "::" or problem.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise
        else:
            everywhere.setblocking(False)
            return [trio.SocketListener(trio.socket.from_stdlib_socket(everywhere))]
    return await trio.open_tcp_listeners(port, host=host)


def unix(path: str) -> list[trio.SocketListener]:
    """A socket of the file system, in place of one that nobody listens at any more. Raises OSError."""
    _remove_left_over(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(path)
        # Nobody can connect before `listen`.
        os.chmod(path, MODE)
        made.listen(128)
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return [trio.SocketListener(trio.socket.from_stdlib_socket(made))]


def _remove_left_over(path: str) -> None:
    try:
        mode = os.stat(path, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "it is there, and no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
