"""TCP ports for servers that are started in a moment, each given to one server only.

A port that is only seen to be free is taken by somebody else now and then: a server of Kafka's binds it seconds later,
beside other processes of tests that look for ports as well. So a process reserves a block of ports: it binds the first
of them as long as it lives, and nobody draws from a block whose first port is taken. All lie below the ports that
Linux gives to outgoing connections.
"""

import atexit
import random
import socket
from collections import deque
from pathlib import Path

#: A KRaft node has its controller so far above the broker's port, as `tests/peers/kafka` does: those ports are drawn by
#: nobody.
CONTROLLER = 10_000
#: Above those that pages use as examples, which tests follow.
LOWEST = 10_000
BLOCK = 50
#: So many blocks a process keeps: its servers of before are stopped, as a rule.
KEPT = 10

_RANDOM = random.SystemRandom()  # the global one is set back by tests with seeds


class Ports:
    """The blocks that this process has reserved. A port is given once: those that come after it are free longer."""

    def __init__(self) -> None:
        self._reserved: deque[socket.socket] = deque()
        self._left: list[int] = []

    def free(self) -> int:
        """A port on 127.0.0.1 to which nothing is bound, nor to the one `CONTROLLER` above it."""
        while True:
            while self._left:
                port = self._left.pop()
                if _is_free(port) and _is_free(port + CONTROLLER):
                    return port
            self._reserve()

    def close(self) -> None:
        """Gives the blocks back."""
        for each in self._reserved:
            each.close()

    def _reserve(self) -> None:
        while True:
            first = LOWEST + BLOCK * _RANDOM.randrange((_end() - LOWEST) // BLOCK)
            if (guard := _bound(first)) is not None:
                self._reserved.append(guard)
                self._left = [*range(first + BLOCK - 1, first, -1)]
                break
        while len(self._reserved) > KEPT:
            self._reserved.popleft().close()


def _end() -> int:
    """The first port that is not drawn. There are enough of them also where outgoing connections begin early."""
    return max(min(_first_of_outgoing() - CONTROLLER, LOWEST + CONTROLLER), LOWEST + 40 * BLOCK)


def _first_of_outgoing() -> int:
    try:
        return max(int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]), 20_000)
    except OSError:
        return 49_152  # RFC 6335


def _bound(port: int) -> socket.socket | None:
    listener = socket.socket()
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        listener.close()
        return None
    return listener


def _is_free(port: int) -> bool:
    if (listener := _bound(port)) is None:
        return False
    listener.close()
    return True


_ports = Ports()
atexit.register(_ports.close)


def free_port() -> int:
    """A port on 127.0.0.1 that no other server of any tests is given, nor that `CONTROLLER` above it, for long."""
    return _ports.free()
