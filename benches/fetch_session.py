"""The CPU that a Fetch costs the broker over a socket, in a session of one partition (KIP-227) and without one.

One client in turns with the broker: each request names the partition and gets one record of 100 bytes. Told is the CPU
of the broker's main thread for each request, in microseconds, of blocks of 300 that take turns.

    python benches/fetch_session.py [--blocks 30]
"""

import argparse
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ottla.wire.headers import request_frame
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.peers.ottla import Broker, Brokers
from tests.support.client import batch, connect

TOPIC = "t"
REQUESTS = 300
NO_SESSION, FIRST_EPOCH, LAST_EPOCH = 0, 0, -1
#: Behind the size, the correlation id, the throttle time and the error code.
SESSION_ID_AT = 4 + 4 + 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=30)
    blocks = parser.parse_args().blocks
    with tempfile.TemporaryDirectory() as folder, Brokers(Path(folder)) as brokers:
        broker = brokers()
        with connect(broker) as client:
            client.create(TOPIC)
            for _ in range(REQUESTS):
                client.produce(TOPIC, batch(b"x" * 100))
        with Turns(broker) as turns:
            costs = [(turns.without(), turns.in_session()) for _ in range(blocks)]
    for name, values in zip(("without a session", "in a session"), zip(*costs, strict=True), strict=True):
        ranked = sorted(values)
        print(f"{name}: least {ranked[0]:.1f}, median {ranked[len(ranked) // 2]:.1f}")


class Turns:
    def __init__(self, broker: Broker) -> None:
        self._schedstat = Path(f"/proc/{broker.pid}/task/{broker.pid}/schedstat")
        self._socket = socket.create_connection(("127.0.0.1", broker.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Turns":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def without(self) -> float:
        return self._cost(lambda offset: fetch(offset, NO_SESSION, LAST_EPOCH))

    def in_session(self) -> float:
        (session,) = struct.unpack_from(">i", self._ask(fetch(0, NO_SESSION, FIRST_EPOCH)), SESSION_ID_AT)
        assert session > 0
        cost = self._cost(lambda offset: fetch(offset, session, offset + 1))
        self._ask(fetch(0, session, LAST_EPOCH))
        return cost

    def _cost(self, frame: Callable[[int], bytes]) -> float:
        frames = [frame(offset) for offset in range(REQUESTS)]
        before = self._cpu_ns()
        answers = [self._ask(each) for each in frames]
        cost = (self._cpu_ns() - before) / REQUESTS / 1000
        assert min(map(len, answers)) > 100
        return cost

    def _cpu_ns(self) -> int:
        return int(self._schedstat.read_text().split()[0])

    def _ask(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data


def fetch(offset: int, session_id: int, session_epoch: int) -> bytes:
    rows = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)]
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=TOPIC, partitions=rows)],
    )
    return request_frame(1, 11, 1, "bench", FETCH.encode_request(11, request))


if __name__ == "__main__":
    main()
