"""A failure detector for one broker: it knows sooner than ZooKeeper's session ends that a process is positively gone.

When a process dies its machine closes the connections that the process had, and refuses new ones. Both together are the
proof: a connection that was there is closed by the other side, and then two attempts to connect are refused, at least
`APART_S` apart. All else proves nothing: silence and timeouts may be the network's, a refusal without a connection
before may be a firewall's, and an end that is followed by a good connection was a limit of idle time.

A firewall or a proxy between the two can still lie. Who acts on the proof must be right also if the process lives.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from ottla.errors import KafkaError, ProtocolError

#: How far apart both attempts are at least.
APART_S: Final = 0.1
#: How long connecting may take, and how long to wait where nothing was proved.
PATIENCE_S: Final = 1.0
#: A connection that has lasted so long is one to a process that lives. While a process ends, its machine closes the
#: connections before it refuses others, and one that is made in between ends at once.
LASTS_S: Final = 0.05
#: The first wait after a connection that did not last.
AGAIN_S: Final = 0.005

#: Says who this is on a connection to this host and port. Raises KafkaError if it is refused; OSError, ProtocolError.
Greet = Callable[[trio.SocketStream, str, int], Awaitable[None]]

_socket = trio.socket.socket
_Address = tuple[socket.AddressFamily, Any]


async def gone(
    host: str, port: int, doubt: Callable[[bool], None] = lambda is_doubted: None, greet: Greet | None = None
) -> None:
    """Returns once the process that listens there is positively gone. Until then it keeps a connection there, on which
    nothing is said but by `greet`: a broker that wants to know who comes ends connections on which nobody says it.
    `doubt` is told at once when the other side has closed it, and when that proved nothing.
    """
    was_closed, again_s = False, AGAIN_S
    while True:
        try:
            connection = await _connect(host, port)
        except ConnectionRefusedError:
            await trio.sleep(APART_S if was_closed else PATIENCE_S)
            if was_closed and await is_refused(host, port):
                return
            continue
        except ConnectionResetError:
            # Taken, and closed before it was noticed.
            again_s = await _again(again_s)
            continue
        except OSError:
            if was_closed:
                doubt(False)
            was_closed = False
            await trio.sleep(PATIENCE_S)
            continue
        with connection:
            with trio.move_on_after(LASTS_S) as briefly:
                was_closed = await _is_closed(connection)
            if briefly.cancelled_caught:
                again_s = AGAIN_S
                if was_closed:
                    doubt(False)
                was_closed = await _ends(greet, connection, host, port)
            else:
                again_s = await _again(again_s)
        if was_closed:
            doubt(True)


async def _ends(greet: Greet | None, connection: trio.socket.SocketType, host: str, port: int) -> bool:
    """Says who this is, and waits for the end of the connection. True if the other side closed it; False if it lives,
    and does not let this broker in.
    """
    try:
        if greet is not None:
            await greet(trio.SocketStream(connection), host, port)
    except (KafkaError, ProtocolError, TimeoutError):
        await trio.sleep(PATIENCE_S)
        return False
    except OSError:
        return True
    return await _is_closed(connection)


async def _again(after_s: float) -> float:
    """Waits before the next attempt, since the process ends just now, or takes no more connections. Returns how long to
    wait after that.
    """
    await trio.sleep(after_s)
    return min(2 * after_s, PATIENCE_S)


async def _connect(host: str, port: int) -> trio.socket.SocketType:
    """Connects to one of the host's addresses. Raises ConnectionRefusedError if all of them refuse, else OSError."""
    problems: list[OSError] = []
    for family, address in await _addresses(host, port):
        connection = _socket(family, socket.SOCK_STREAM)
        try:
            with trio.fail_after(PATIENCE_S):
                await connection.connect(address)
        except OSError as problem:
            problems.append(problem)
        except trio.TooSlowError:
            problems.append(TimeoutError(f"{host}:{port} does not answer"))
        else:
            return connection
        connection.close()
    others = [problem for problem in problems if not isinstance(problem, ConnectionRefusedError)]
    raise (others or problems or [OSError(f"{host} has no address")])[0]


async def _is_closed(connection: trio.socket.SocketType) -> bool:
    """Waits for the end of a connection. Whether the other side has closed it."""
    try:
        while await connection.recv(4096):
            pass
    except OSError as error:
        return error.errno == errno.ECONNRESET
    return True


async def is_refused(host: str, port: int) -> bool:
    """True if all addresses of a host refuse a connection now."""
    try:
        (await _connect(host, port)).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False


async def _addresses(host: str, port: int) -> list[_Address]:
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]
