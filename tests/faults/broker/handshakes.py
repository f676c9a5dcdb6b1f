"""Handshakes of TLS that go wrong, by a seed: a real client's, of which one flight is cut, flipped, repeated, put in
another order or into other records on its way. Keys are new in each, so a seed repeats the change and not the bytes.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
from collections import Counter, deque
from collections.abc import Callable

from tests.faults.broker.mutate import mutated
from tests.peers.processes import is_readable
from tests.support.hellos import ALERT, CHANGE_CIPHER_SPEC, DATA, HANDSHAKE, HEARTBEAT, record
from tests.support.waiting import PATIENCE_S

RESET = struct.pack("ii", 1, 0)
#: How long an answer is waited for that may never come.
MOMENT_S = 0.01
#: Flights of a client: its hello, the end of its handshake, and what it says then.
FLIGHTS = 3
KINDS = (CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, DATA, HEARTBEAT, 0, 99, 0x80)

Records = list[bytes]


def split(flight: bytes) -> Records:
    """The records of a flight. What is none stays whole at the end."""
    found = []
    while flight:
        end = 5 + int.from_bytes(flight[3:5], "big")
        found.append(flight[:end])
        flight = flight[end:]
    return found


class Stranger:
    """A client whose handshakes are changed on their way to `port`. Its latest deeds are in `last`."""

    def __init__(self, contexts: list[tuple[int, ssl.SSLContext]], request: bytes) -> None:
        """`contexts` are ports, each with the settings of a client that is let in there. `request` is what it says."""
        self._contexts, self._request = contexts, request
        self._flights: deque[bytes] = deque([b""], maxlen=50)
        self._sessions: dict[int, ssl.SSLSession] = {}
        self.counts: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=20)

    def meet(self, seed: int) -> None:
        """One connection. Raises TimeoutError if the server does not end it when this side has ended."""
        chance = random.Random(seed)
        place = chance.randrange(len(self._contexts))
        port, context = self._contexts[place]
        changed_at = chance.randrange(FLIGHTS)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = self._sessions.get(place) if chance.random() < 0.5 else None
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = context.wrap_bio(incoming, outgoing, server_hostname="localhost", session=session)
            for number in range(FLIGHTS):
                is_done = self._goes_on(client)
                flight = outgoing.read()
                if number == changed_at:
                    flight = self._changed(flight, chance)
                if not self._sent(connection, flight, chance):
                    break
                if is_done and number > changed_at:
                    self.counts["let in"] += 1
                    if client.session is not None and client.session.has_ticket:
                        self._sessions[place] = client.session
                wait_s = PATIENCE_S if number < changed_at and not is_done else MOMENT_S
                if number > changed_at or chance.random() < 0.5:
                    self._hear(connection, incoming, wait_s)
            self._end(connection, chance)

    def _goes_on(self, client: ssl.SSLObject) -> bool:
        """Takes the client as far as it goes. True if it has said its request."""
        try:
            client.do_handshake()
            client.write(self._request)
        except ssl.SSLError:
            return False
        with contextlib.suppress(ssl.SSLError):
            client.read(1 << 16)
        return True

    def _changed(self, flight: bytes, chance: random.Random) -> bytes:
        change = chance.choice(_CHANGES)
        self.counts[change.__name__.strip("_")] += 1
        changed = change(split(flight), chance, chance.choice(self._flights))
        self._flights.append(flight)
        self.last.append(f"{change.__name__} {changed[:300].hex()}")
        return changed

    @staticmethod
    def _sent(connection: socket.socket, flight: bytes, chance: random.Random) -> bool:
        """Sends it at once or in two pieces. False: the other side has closed the connection."""
        middle = chance.randrange(len(flight) + 1) if chance.random() < 0.3 else 0
        try:
            connection.sendall(flight[:middle])
            connection.sendall(flight[middle:])
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    @staticmethod
    def _hear(connection: socket.socket, incoming: ssl.MemoryBIO, wait_s: float) -> None:
        if is_readable(connection, wait_s):
            try:
                incoming.write(connection.recv(1 << 16))
            except ConnectionResetError:
                return

    @staticmethod
    def _end(connection: socket.socket, chance: random.Random) -> None:
        if chance.random() < 0.1:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            return
        try:
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        except TimeoutError:
            raise
        except OSError:
            return


# --- changes of a flight ---


def _bytes(records: Records, chance: random.Random, other: bytes) -> bytes:
    return mutated(b"".join(records), chance, other)


def _inside(records: Records, chance: random.Random, other: bytes) -> bytes:
    """A record's content, whose length is right again."""
    place = chance.randrange(len(records)) if records else 0
    return b"".join(
        one
        if number != place
        else record(mutated(one[5:], chance, other)[: (1 << 16) - 1], one[0], int.from_bytes(one[1:3], "big"))
        for number, one in enumerate(records)
    )


def _resized(records: Records, chance: random.Random, other: bytes) -> bytes:
    """The same messages of the handshake in other records, with records of nothing between them at times."""
    size = chance.choice((1, 2, 3, 4, 5, 50, 1000, 16_384, 40_000))
    content = b"".join(one[5:] for one in records)
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    nothing = chance.random() < 0.2
    return b"".join(record(part) + (record(b"") if nothing else b"") for part in parts)


def _repeated(records: Records, chance: random.Random, other: bytes) -> bytes:
    place = chance.randrange(len(records) + 1)
    return b"".join(records[:place] + records[place : place + 1] * chance.choice((2, 3, 50, 1000)) + records[place:])


def _reordered(records: Records, chance: random.Random, other: bytes) -> bytes:
    mixed = records + split(other)[: chance.randrange(3)]
    chance.shuffle(mixed)
    return b"".join(mixed)


def _missing(records: Records, chance: random.Random, other: bytes) -> bytes:
    place = chance.randrange(len(records) + 1)
    return b"".join(records[:place] + records[place + 1 :])


def _renamed(records: Records, chance: random.Random, other: bytes) -> bytes:
    """A record of another kind or version, or with another length."""
    changed = [bytearray(one) for one in records]
    if changed:
        one = chance.choice(changed)
        kind = chance.randrange(3)
        if kind == 0:
            one[0] = chance.choice(KINDS)
        elif kind == 1:
            one[1:3] = chance.choice((b"\3\0", b"\3\4", b"\2\0", b"\xff\xff", b"\0\0"))
        else:
            one[3:5] = chance.choice((0, 1, len(one), 1 << 14, (1 << 14) + 257, 0xFFFF)).to_bytes(2, "big")
    return b"".join(changed)


def _between(records: Records, chance: random.Random, other: bytes) -> bytes:
    """Records of each kind between those of the flight, or one that is cut."""
    content = chance.choice((b"", b"\1", b"\1\0", b"\2\x28", b"\1\x5a", b"\1\x40\0", chance.randbytes(40)))
    strange = record(content, chance.choice(KINDS), chance.choice((0x0301, 0x0303)))
    place = chance.randrange(len(records) + 1)
    return b"".join([*records[:place], strange * chance.choice((1, 1, 2, 40)), *records[place:]])


def _long(records: Records, chance: random.Random, other: bytes) -> bytes:
    """A message of the handshake that says that it is long, and goes on for some time."""
    kind = chance.choice((1, 2, 11, 15, 16, 20, 24, 255))
    length = chance.choice((0xFFFF, 0x1_0000, 0xFF_FFFF))
    head = bytes([kind]) + length.to_bytes(3, "big")
    return b"".join([record(head), *(record(bytes(16_000)) for _ in range(chance.randrange(8))), *records])


def _other(records: Records, chance: random.Random, other: bytes) -> bytes:
    """Another connection's flight."""
    return other


Change = Callable[[Records, random.Random, bytes], bytes]
_CHANGES: tuple[Change, ...] = (
    _bytes,
    _bytes,
    _inside,
    _inside,
    _inside,
    _resized,
    _repeated,
    _reordered,
    _missing,
    _renamed,
    _between,
    _long,
    _other,
)
