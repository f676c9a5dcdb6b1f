"""A member of a group that says exactly what a test wants said, on a connection of its own."""

from typing import Self

from ottla.errors import CoordinatorLoadInProgress, MemberIdRequired
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k11_join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest
from ottla.wire.k13_leave_group import LEAVE_GROUP, LeaveGroupRequest, MemberIdentity
from ottla.wire.k14_sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.peers.ottla import Broker
from tests.support.client import Client
from tests.support.waiting import eventually

SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"


#: Connections of the test that runs, to be closed at its end.
OPENED: list[Client] = []


class Member:
    def __init__(self, client: Client, group: str, instance: str | None = None) -> None:
        self.client = client
        self.group = group
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.joined = JoinGroupResponse()

    @classmethod
    def connect(cls, broker: Broker, group: str, instance: str | None = None) -> Self:
        client = Client.connect("127.0.0.1", broker.port, f"client-{group}")
        OPENED.append(client)
        found = client.call(FIND_COORDINATOR, FindCoordinatorRequest(key=group))
        assert (found.error_code, found.port) == (0, broker.port), found
        return cls(client, group, instance)

    # --- joining ---

    def send_join(self, *, version: int = 7, metadata: bytes = SUBSCRIPTION, session_timeout_ms: int = 60_000) -> None:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=60_000 if version >= 1 else -1,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", metadata)],
        )
        self.client.send(JOIN_GROUP, request, version)

    def receive_join(self) -> int:
        self.joined = self.client.receive()
        if self.joined.error_code in (0, MemberIdRequired.code):
            self.id, self.generation = self.joined.member_id, self.joined.generation_id
        return self.joined.error_code

    def join(self, version: int = 7, **options: int) -> int:
        """With the second step of KIP-394, where that is asked for."""

        def is_answered() -> bool:
            self.send_join(version=version, **options)
            return self.receive_join() not in (MemberIdRequired.code, CoordinatorLoadInProgress.code)

        eventually("an answer to a join", is_answered)
        error: int = self.joined.error_code
        return error

    @property
    def leads(self) -> bool:
        return self.joined.leader == self.id

    # --- in the group ---

    def send_sync(self, assignments: dict[str, bytes] | None = None, version: int = 5) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance if version >= 3 else None,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
            assignments=[SyncGroupRequestAssignment(name, data) for name, data in (assignments or {}).items()],
        )
        self.client.send(SYNC_GROUP, request, version)

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5) -> SyncGroupResponse:
        self.send_sync(assignments, version)
        answer: SyncGroupResponse = self.client.receive()
        return answer

    def heartbeat(self, version: int = 4) -> int:
        request = HeartbeatRequest(self.group, self.generation, self.id, self.instance)
        return self.client.call(HEARTBEAT, request, version).error_code

    def leave(self, version: int = 4) -> int:
        if version < 3:
            return self.client.call(LEAVE_GROUP, LeaveGroupRequest(self.group, self.id), version).error_code
        request = LeaveGroupRequest(self.group, members=[MemberIdentity(self.id, self.instance)])
        answer = self.client.call(LEAVE_GROUP, request, version)
        if answer.error_code:
            return answer.error_code
        (row,) = answer.members
        return row.error_code

    # --- offsets ---

    def commit(self, topic: str, offset: int, *, partition: int = 0, version: int = 8, **fields: object) -> int:
        row = OffsetCommitRequestPartition(partition, offset, committed_metadata="note")
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance if version >= 7 else None,
            topics=[OffsetCommitRequestTopic(topic, [row])],
        )
        for name, value in fields.items():
            setattr(row if name.startswith("commit") else request, name, value)
        (answer,) = self.client.call(OFFSET_COMMIT, request, version).topics
        return answer.partitions[0].error_code

    def committed(
        self, topic: str, *, partition: int = 0, version: int = 7, require_stable: bool = False
    ) -> tuple[int, int]:
        """Offset and error."""
        request = OffsetFetchRequest(self.group, [OffsetFetchRequestTopic(topic, [partition])], require_stable)
        answer = self.client.call(OFFSET_FETCH, request, version)
        if answer.error_code:
            return -1, answer.error_code
        row = answer.topics[0].partitions[0]
        return row.committed_offset, row.error_code
