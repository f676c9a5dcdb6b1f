"""TCP proxies between a client and its broker that lose answers, or hold requests back.

A Produce request reaches the broker, is appended, and its connection dies: that is the case for which idempotent
producers exist, since the client cannot know whether the write happened and must send it again. A request that arrives
late is the case for epochs. A proxy names itself in answers that name brokers (same length, the port replaced), so that
clients stay with it.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Collection
from types import TracebackType

from tests.support.waiting import PATIENCE_S

PRODUCE, METADATA, FIND_COORDINATOR = 0, 3, 10


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return bytes(data)


def _frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


class CuttingProxy:
    """Forwards 127.0.0.1:port to 127.0.0.1:target; of the Produce requests numbered in `cut` (from 1, over all
    connections) the answer is awaited from the broker, dropped, and the connection closed. `lost` counts them.
    """

    def __init__(self, target: int, cut: Collection[int]) -> None:
        self._target = target
        self._cut = frozenset(cut)
        self.produces = 0
        self.lost = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> "CuttingProxy":
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(self._listener, *self._sockets)
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _close(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                target = self._target  # which may be another one by the time of an answer
                try:
                    broker = socket.create_connection(("127.0.0.1", target))
                except OSError:  # between its death and its next start
                    client.close()
                    continue
                for one in (client, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, broker]
                keys: dict[int, int] = {}  # correlation id -> API key, or -1 for an answer to lose
                self._start(self._requests, client, broker, keys)
                self._start(self._answers, client, broker, keys, target)

    def _requests(self, client: socket.socket, broker: socket.socket, keys: dict[int, int]) -> None:
        with contextlib.suppress(OSError):
            while True:
                frame = _frame(client)
                key, _, correlation = struct.unpack_from(">hhi", frame)
                keys[correlation] = self._seen(key)
                broker.sendall(struct.pack(">i", len(frame)) + frame)
        self._close(client, broker)

    def _seen(self, key: int) -> int:
        """Called for each request before it goes on: its API key, or -1 if its answer is to be lost."""
        if key == PRODUCE:
            with self._lock:
                self.produces += 1
                if self.produces in self._cut:
                    return -1
        return key

    def _answers(self, client: socket.socket, broker: socket.socket, keys: dict[int, int], target: int) -> None:
        host = b"127.0.0.1"
        with contextlib.suppress(OSError):
            while True:
                frame = _frame(broker)
                (correlation,) = struct.unpack_from(">i", frame)
                key = keys.pop(correlation, None)
                if key == -1:
                    with self._lock:
                        self.lost += 1
                    break
                if key in (METADATA, FIND_COORDINATOR):
                    real, ours = (host + struct.pack(">i", port) for port in (target, self.port))
                    frame = frame.replace(real, ours)
                client.sendall(struct.pack(">i", len(frame)) + frame)
        self._close(client, broker)


class HoldingProxy(CuttingProxy):
    """Forwards everything; the first request of the API `key` waits for `release`, even if its client hangs up."""

    def __init__(self, target: int, key: int) -> None:
        super().__init__(target, ())
        self._key = key
        self.holds = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    def __exit__(self, *error: object) -> None:
        self.release()
        super().__exit__(None, None, None)

    def _seen(self, key: int) -> int:
        if key == self._key and not self.holds.is_set():
            self.holds.set()
            self._released.wait(120)
        return key
