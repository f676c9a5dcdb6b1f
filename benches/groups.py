"""What groups cost, beside Apache Kafka in the same run: `python benches/groups.py [--against 2.7.2] [--members 1000]`.

join        members that join an empty group at once and sync: seconds from the first join to the last assignment, less
            the delay of the first rebalance; the members are plain sockets in this process
heartbeat   CPU of the broker per Heartbeat of a member of that group, 50 connections with one in flight
commit      CPU of the broker per OffsetCommit of one partition, 50 connections with one in flight, answered when it is
            on disk (with Apache Kafka: in its page cache)

The commits per second of one core are 1 s divided by their CPU. CPU is user and system time of the broker's process.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benches import broker as bench  # noqa: E402
from ottla.client.blocking import BlockingConnection  # noqa: E402
from ottla.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator  # noqa: E402
from ottla.wire.headers import request_frame  # noqa: E402
from ottla.wire.k08_offset_commit import (  # noqa: E402
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest  # noqa: E402
from ottla.wire.k11_join_group import (  # noqa: E402
    JOIN_GROUP,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest  # noqa: E402
from ottla.wire.k14_sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupRequestAssignment  # noqa: E402
from tests.peers.apache import Apache  # noqa: E402
from tests.peers.ottla import Brokers  # noqa: E402

DELAY_MS = 1_000
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x05topic\x00\x00\x00\x00"
RETRY = (CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code)


class Member:
    """One socket that waits for one answer at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.received = bytearray()
        self.id = ""

    def send(self, key: int, version: int, body: bytes) -> None:
        self.socket.sendall(request_frame(key, version, 1, "bench", body))

    def receive(self) -> bytes | None:
        self.received += self.socket.recv(1 << 20)
        if len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[:4], "big"):
            return None
        answer = bytes(self.received[8:])
        self.received.clear()
        return answer


def answers(members: list[Member]) -> dict[Member, bytes]:
    """One answer for each member."""
    waiting = selectors.DefaultSelector()
    for member in members:
        waiting.register(member.socket, selectors.EVENT_READ, member)
    found: dict[Member, bytes] = {}
    while len(found) < len(members):
        for key, _ in waiting.select():
            answer = key.data.receive()
            if answer is not None:
                found[key.data] = answer
                waiting.unregister(key.fileobj)
    return found


def wait_for_coordinator(port: int, group: str) -> None:
    with BlockingConnection.connect("127.0.0.1", port) as connection:
        while connection.call(FIND_COORDINATOR, FindCoordinatorRequest(group), 1).error_code:
            time.sleep(0.1)
        request = HeartbeatRequest(group, 0, "nobody")
        while connection.call(HEARTBEAT, request, 1).error_code in RETRY:
            time.sleep(0.1)


def join(port: int, group: str, count: int) -> tuple[float, list[Member], int]:
    """Seconds, the members, and their generation."""
    members = [Member(port) for _ in range(count)]
    request = JoinGroupRequest(
        group, 60_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("r", SUBSCRIPTION)]
    )
    begin = time.perf_counter()
    for member in members:
        member.send(11, 3, JOIN_GROUP.encode_request(3, request))
    leader, generation, everybody = members[0], 0, []
    for member, data in answers(members).items():
        joined: JoinGroupResponse = JOIN_GROUP.decode_response(3, data)
        assert joined.error_code == 0, joined
        member.id, generation = joined.member_id, joined.generation_id
        if joined.members:
            leader, everybody = member, [row.member_id for row in joined.members]
    assert len(everybody) == count
    for member in members:
        rows = [SyncGroupRequestAssignment(name, bytes(100)) for name in everybody] if member is leader else []
        member.send(
            14, 2, SYNC_GROUP.encode_request(2, SyncGroupRequest(group, generation, member.id, assignments=rows))
        )
    for data in answers(members).values():
        synced = SYNC_GROUP.decode_response(2, data)
        assert (synced.error_code, len(synced.assignment)) == (0, 100)
    # Members that come during the delay prolong it once.
    return time.perf_counter() - begin - 2 * DELAY_MS / 1000, members, generation


def measure(server: bench.Server, count: int) -> dict[str, dict[str, float]]:
    port = int(server.bootstrap.rpartition(":")[2])
    bench.create_topic(server, "topic")
    wait_for_coordinator(port, "bench")
    wait_for_coordinator(port, "alone")
    used = bench.cpu_seconds(server)
    seconds, members, generation = join(port, "bench", count)
    figures = {"join": {"seconds": seconds, "CPU seconds": bench.cpu_seconds(server) - used}}
    beat = HEARTBEAT.encode_request(3, HeartbeatRequest("bench", generation, members[-1].id))
    figures["heartbeat"] = bench.load(server, request_frame(12, 3, 1, "bench", beat), connections=50)
    for member in members:
        member.socket.close()
    row = OffsetCommitRequestPartition(0, 12_345, committed_metadata="")
    commit = OffsetCommitRequest("alone", topics=[OffsetCommitRequestTopic("topic", [row])])
    body = OFFSET_COMMIT.encode_request(7, commit)
    figures["commit"] = bench.load(server, request_frame(8, 7, 1, "bench", body), connections=50)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="2.7.2", help="a release of Apache Kafka, or none")
    parser.add_argument("--members", type=int, default=1_000)
    options = parser.parse_args()
    bench.LOAD = bench.build_load()
    settings = {"group.initial.rebalance.delay.ms": DELAY_MS, "group.max.session.timeout.ms": 300_000}
    with tempfile.TemporaryDirectory() as folder:
        with Brokers(Path(folder)) as brokers:
            print("ours", measure(brokers(settings=settings), options.members), flush=True)
        if options.against != "none":
            with Apache(Path(folder)) as apache:
                kafka = apache.broker(options.against, zookeeper=apache.zookeeper(), settings=settings, heap_mb=1024)
                print("Apache Kafka", options.against, measure(kafka, options.members), flush=True)


if __name__ == "__main__":
    main()
