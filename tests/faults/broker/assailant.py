"""A client that does everything wrong, by a seed: each case is one thing done to one connection."""

import contextlib
import random
import socket
import struct
from collections import Counter, deque

from tests.faults.broker.mutate import mutated
from tests.faults.broker.plausible import Plausible
from tests.support.waiting import PATIENCE_S

SLOW_MAX = 40
RESET = struct.pack("ii", 1, 0)


class Assailant:
    """A hostile client. Its latest deeds are in `last`, for when something breaks."""

    def __init__(self, port: int, requests: Plausible) -> None:
        self.port, self.requests = port, requests
        self.slow: deque[tuple[socket.socket, bytes]] = deque()
        self.counts: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=20)
        self._socket: socket.socket | None = None

    def attack(self, seed: int) -> None:
        chance = random.Random(seed)
        kinds = {
            self.right: 6,
            self.almost_right: 10,
            self.noise: 1,
            self.another_header: 1,
            self.size: 1,
            self.half: 2,
            self.many_at_once: 2,
            self.slowly: 1,
        }
        (kind,) = chance.choices([*kinds], [*kinds.values()])
        self.counts[kind.__name__] += 1
        with contextlib.suppress(OSError):
            kind(chance)
        self.drip()

    def close(self) -> None:
        self.hang_up()
        while self.slow:
            self.slow.pop()[0].close()

    def connection(self) -> socket.socket:
        """The one that is still open, or a new one."""
        if self._socket is None:
            self._socket = self.connect()
        return self._socket

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def hang_up(self, chance: random.Random | None = None) -> None:
        if self._socket is not None:
            if chance is not None and chance.random() < 0.3:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._socket.close()
            self._socket = None

    def exchange(self, frame: bytes, chance: random.Random) -> None:
        """Sends it; then mostly waits a little for an answer, or hangs up in the middle of one."""
        self.last.append(frame[:300].hex())
        try:
            connection = self.connection()
            connection.sendall(frame)
            if chance.random() < 0.15:
                self.hang_up(chance)
                return
            connection.settimeout(0.03)
            if not connection.recv(chance.choice((3, 65536))):
                self.hang_up()
            elif chance.random() < 0.2:
                self.hang_up(chance)
        except TimeoutError:
            self.hang_up(chance)  # no answer yet, or none at all: acks=0, a parked fetch
        except OSError:
            self.hang_up()

    def right(self, chance: random.Random) -> None:
        self.exchange(self.requests.request(chance), chance)

    def almost_right(self, chance: random.Random) -> None:
        """Of the right size, so that it is the body that is wrong."""
        body = mutated(self.requests.request(chance)[4:], chance, self.requests.request(chance)[12:])
        self.exchange(struct.pack(">i", len(body)) + body, chance)

    def noise(self, chance: random.Random) -> None:
        self.exchange(chance.randbytes(chance.randrange(1, 3000)), chance)

    def another_header(self, chance: random.Random) -> None:
        """A key and a version at random before a body that is right for another."""
        key, version = chance.choice(self.requests.keys), chance.choice((*range(14), -1, 99, 32767))
        body = struct.pack(">hh", key, version) + self.requests.request(chance)[8:]
        self.exchange(struct.pack(">i", len(body)) + body, chance)

    def size(self, chance: random.Random) -> None:
        announced = chance.choice((0x7FFFFFFF, 104_857_600, 104_857_601, 1 << 20, 0, 1, 7, -1, -0x80000000))
        self.exchange(struct.pack(">i", announced) + chance.randbytes(chance.randrange(50)), chance)
        self.hang_up(chance)

    def half(self, chance: random.Random) -> None:
        frame = self.requests.request(chance)
        with contextlib.suppress(OSError):
            self.connection().sendall(frame[: chance.randrange(len(frame))])
        self.hang_up(chance)

    def many_at_once(self, chance: random.Random) -> None:
        frames = [self.requests.request(chance) for _ in range(chance.randrange(2, 30))]
        self.exchange(b"".join(frames), chance)
        self.hang_up(chance)

    def slowly(self, chance: random.Random) -> None:
        self.slow.append((self.connect(), self.requests.request(chance)))
        if len(self.slow) > SLOW_MAX:
            self.slow.popleft()[0].close()

    def drip(self) -> None:
        """One byte more from the slow connection whose turn it is."""
        if self.slow:
            connection, rest = self.slow.popleft()
            try:
                connection.sendall(rest[:1])
            except OSError:
                connection.close()
                return
            if rest[1:]:
                self.slow.append((connection, rest[1:]))
            else:
                connection.close()
