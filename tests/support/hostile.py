"""Clients that hold a broker's memory, and an honest one beside them whose waits are measured."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from types import TracebackType

import psutil

from ottla.client.blocking import BlockingConnection
from ottla.wire.headers import request_frame
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S

FRAME_BYTES = 99_000_000


def connect(port: int, address: str = "127.0.0.1") -> socket.socket:
    """A connection from this address of the loopback."""
    one = socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(address, 0))
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def begun(port: int, address: str = "127.0.0.1", length: int = FRAME_BYTES, count: int = 1) -> socket.socket:
    """A connection that announced a frame of `length` bytes and sent `count` of them."""
    one = connect(port, address)
    send(one, struct.pack(">i", length) + bytes(count))
    return one


def send(one: socket.socket, data: bytes, seconds: float = 1.0) -> bool:
    """Sends as much as the broker takes in this time. False: not all, or the connection was closed."""
    deadline = time.monotonic() + seconds
    view = memoryview(data)
    with contextlib.suppress(OSError):
        while view and (left := deadline - time.monotonic()) > 0:
            one.settimeout(left)
            view = view[one.send(view[: 1 << 20]) :]
    return not view


def produce_frame(topic: str, records: bytes, acks: int = 1) -> bytes:
    row = TopicProduceData(name=topic, partitions=[PartitionProduceData(partition_index=0, records=records)])
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=60_000, topics=[row])
    return request_frame(PRODUCE.key, 8, 1, "honest", PRODUCE.encode_request(8, request))


class Honest:
    """One Produce of 100 B with acks=1 every 50 ms while the block runs: `waits_s` are the times to their answers."""

    def __init__(self, port: int, pid: int, topic: str = "honest") -> None:
        self._port = port
        self._topic = topic
        self._process = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.waits_s: list[float] = []
        self.rss_max = 0
        self.error: BaseException | None = None
        with Client.connect("127.0.0.1", port, "creator") as creator:
            creator.create(topic)

    def __enter__(self) -> "Honest":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        if error is None and self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            with BlockingConnection.connect("127.0.0.1", self._port, "honest", timeout_ms=PATIENCE_S * 1000) as client:
                row = TopicProduceData(
                    name=self._topic, partitions=[PartitionProduceData(partition_index=0, records=batch(b"x" * 30))]
                )
                request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=60_000, topics=[row])
                while not self._stop.wait(0.05):
                    began = time.monotonic()
                    (answer,) = client.call(PRODUCE, request, 8).responses
                    self.waits_s.append(time.monotonic() - began)
                    assert answer.partitions[0].error_code == 0
                    self.rss_max = max(self.rss_max, self._process.memory_info().rss)
        except BaseException as error:
            self.error = error

    @property
    def longest_s(self) -> float:
        return max(self.waits_s)

    def percentile_s(self, part: float) -> float:
        ordered = sorted(self.waits_s)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


@contextlib.contextmanager
def closing(sockets: list[socket.socket]) -> Iterator[None]:
    try:
        yield
    finally:
        for one in sockets:
            one.close()
