"""Consumer groups: a thousand members at once, their heartbeats, commits."""

from __future__ import annotations

import selectors
import socket
import time

from benches.suite import figures as f
from benches.suite.runner import Run, Scenario
from benches.suite.scenarios.small import request_figures
from benches.suite.servers import connect, cpu_s, create_topic
from ottla.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from ottla.wire.headers import request_frame
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k11_join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest
from ottla.wire.k14_sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupRequestAssignment

DELAY_MS = 1_000
SETTINGS = {"group.initial.rebalance.delay.ms": DELAY_MS, "group.max.session.timeout.ms": 300_000}
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


def wait_for_coordinator(run: Run, group: str) -> None:
    with connect(run.server) as connection:
        while connection.call(FIND_COORDINATOR, FindCoordinatorRequest(group), 1).error_code:
            time.sleep(0.1)
        request = HeartbeatRequest(group, 0, "nobody")
        while connection.call(HEARTBEAT, request, 1).error_code in RETRY:
            time.sleep(0.1)


def join(port: int, group: str, count: int) -> tuple[float, list[Member], int]:
    """Seconds, the members, and their generation."""
    members = [Member(port) for _ in range(count)]
    protocols = [JoinGroupRequestProtocol("r", SUBSCRIPTION)]
    request = JoinGroupRequest(group, 60_000, 60_000, "", None, "consumer", protocols)
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
    assert len(everybody) == count, f"{len(everybody)} of {count} members are in the generation"
    for member in members:
        rows = [SyncGroupRequestAssignment(name, bytes(100)) for name in everybody] if member is leader else []
        request = SyncGroupRequest(group, generation, member.id, assignments=rows)
        member.send(14, 2, SYNC_GROUP.encode_request(2, request))
    for data in answers(members).values():
        synced = SYNC_GROUP.decode_response(2, data)
        assert (synced.error_code, len(synced.assignment)) == (0, 100), synced
    # Members that come during the delay prolong it once.
    return time.perf_counter() - begin - 2 * DELAY_MS / 1000, members, generation


def groups(run: Run) -> f.Figures:
    found: f.Figures = {}
    create_topic(run.server, "topic")
    wait_for_coordinator(run, "bench")
    wait_for_coordinator(run, "alone")
    used = cpu_s(run.server)
    seconds, members, generation = join(run.server.port, "bench", run.size.count(1_000, 20))
    name = "1,000 members join and sync, less the delay"
    found[name] = {"seconds": seconds, "CPU, s": cpu_s(run.server) - used}
    beat = HEARTBEAT.encode_request(3, HeartbeatRequest("bench", generation, members[-1].id))
    found["Heartbeat, 50 connections"] = _requests(run, 12, 3, beat)
    for member in members:
        member.socket.close()
    row = OffsetCommitRequestPartition(0, 12_345, committed_metadata="")
    commit = OffsetCommitRequest("alone", topics=[OffsetCommitRequestTopic("topic", [row])])
    found["OffsetCommit of one partition, 50 connections"] = _requests(
        run, 8, 7, OFFSET_COMMIT.encode_request(7, commit)
    )
    return found


def _requests(run: Run, key: int, version: int, body: bytes) -> dict[str, float]:
    path = run.folder / f"request-{key}"
    path.write_bytes(request_frame(key, version, 1, "bench", body))
    return request_figures(run.drive(frames=[str(path)], connections=50))


SCENARIOS = [Scenario("groups", "Consumer groups", "one client; load drive", groups, SETTINGS, is_long=True)]
