"""A new controller that finds a hundred thousand partitions in ZooKeeper.

They are made up in the tree, and so are the brokers that have and lead them: a server that answers yes to whatever a
controller says. Thus the one broker that runs has no partition, and its work is a controller's: reading the tree, and
telling four brokers what is in it.
"""

from __future__ import annotations

import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio
from kazoo.client import KazooClient

from benches.suite import figures as f
from benches.suite.members import members, wait
from benches.suite.proof import NotEqual
from benches.suite.runner import Run, Scenario
from benches.suite.servers import cpu_s, memory_mb
from benches.tree import PARTITIONS, fill
from ottla.coordination.znodes import BROKER_IDS, BrokerRegistration, Endpoint

BROKER = 1
MADE_UP = (11, 12, 13)
MADE = "100,000 partitions"
NONE = "no partitions"
TOLD = "from its election until all brokers are told, s"
USED = "CPU since its start, s"
# Nothing was said for so long: everything was.
QUIET_S = 1.0
LIMIT_S = 600.0
# What both kinds say then has the same versions.
SETTINGS = {"inter.broker.protocol.version": "2.7"}
LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
# No error, no partitions that have one, no tagged fields; with the versions of protocol 2.7.
YES = {LEADER_AND_ISR: b"\0\0\1\0", STOP_REPLICA: b"\0\0\1\0", UPDATE_METADATA: b"\0\0\0"}


class MadeUp(socketserver.ThreadingTCPServer):
    """Brokers that agree. `last` is when a controller said something, `bytes` how much it has said in all."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Agrees)
        self.last = time.time()
        self.bytes = 0
        self._lock = threading.Lock()

    def heard(self, size: int) -> None:
        with self._lock:
            self.last = time.time()
            self.bytes += size


class _Agrees(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, MadeUp)
        while len(head := self.rfile.read(4)) == 4:
            frame = self.rfile.read(struct.unpack(">i", head)[0])
            key, _, correlation = struct.unpack_from(">hhi", frame)
            # A header of a response with tagged fields, as all three have.
            answer = struct.pack(">ib", correlation, 0) + YES[key]
            self.wfile.write(struct.pack(">i", len(answer)) + answer)
            self.server.heard(len(frame))


@contextmanager
def made_up() -> Iterator[MadeUp]:
    with MadeUp() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def controller(run: Run) -> f.Figures:
    found: f.Figures = {}
    if not run.contestant.knows_zookeeper:
        return found
    for case, partitions in ((NONE, 0), (MADE, run.size.count(100_000, PARTITIONS))):
        with run.case(case, found) as row:
            row.update(_elected(run, partitions // PARTITIONS))
    return found


def _elected(run: Run, topics: int) -> dict[str, float]:
    with made_up() as others:
        port = others.server_address[1]

        def fill_tree(zookeeper: str, tree: KazooClient) -> None:
            trio.run(fill, zookeeper, topics, MADE_UP)
            for number in MADE_UP:
                told = BrokerRegistration((Endpoint("PLAINTEXT", "127.0.0.1", port),)).encode()
                tree.create(f"{BROKER_IDS}/{number}", told, ephemeral=True, makepath=True)

        with members(run, [BROKER], SETTINGS, fill_tree, f"with-{topics}") as cluster:
            server = cluster.brokers[BROKER]
            elected = cluster.tree.get("/controller")[1].ctime / 1e3
            names = [f"topic-{number}" for number in {0, topics - 1} if topics]

            def is_told() -> bool:
                told = cluster.metadata(server, *names) if names else None
                return told is None or all(len(topic.partitions) == PARTITIONS for topic in told.topics)

            wait(is_told, "the controller tells itself", LIMIT_S, 0.02)
            last = time.time()
            wait(lambda: time.time() - others.last > QUIET_S, "everybody was told", LIMIT_S, 0.05)
            there = cluster.metadata(server).topics
            if len(there) != topics or any(len(topic.partitions) != PARTITIONS for topic in there):
                raise NotEqual(f"clients are told of {len(there)} topics, not of {topics}")
            return {
                TOLD: max(last, others.last) - elected,
                USED: cpu_s(server),
                f.PEAK: memory_mb(server, peak=True),
                "told to the others, MB": others.bytes / 1e6,
            }


SCENARIOS = [
    Scenario(
        "cluster-controller",
        "A new controller with partitions that were made up in the tree, on three made-up brokers",
        "no load",
        controller,
        owns_life=True,
        is_long=True,
        expected_s=300,
    )
]
