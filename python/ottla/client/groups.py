"""Groups as an administrator sees them: who is in them, how far they have read, and how to change that.

A group is asked at its coordinator; where that moves or is still reading its log, the call is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ottla.client.answers import row_about
from ottla.client.cluster import Address, Cluster
from ottla.client.coordinators import find_coordinator, while_coordinator
from ottla.errors import NotCoordinator, UnstableOffsetCommit, check
from ottla.kafka import TopicPartition
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.k09_offset_fetch import OFFSET_FETCH, OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.k13_leave_group import LEAVE_GROUP, LeaveGroupRequest, MemberIdentity
from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from ottla.wire.k16_list_groups import LIST_GROUPS, ListGroupsRequest
from ottla.wire.k42_delete_groups import DELETE_GROUPS, DeleteGroupsRequest
from ottla.wire.k47_offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.schema import Api, Request, Response

#: The state of a group that is not known.
DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """`state` as Kafka writes it, such as `Stable`; empty if the broker is older than 2.6, which does not say."""

    group: str
    protocol_type: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member; `metadata` and `assignment` are as the group's protocol writes them."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Group:
    group: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """How far a group has read a partition: `offset` is the next one that it reads."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Groups:
    """Calls about groups over a `Cluster`. Errors are `KafkaError`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._coordinators: dict[str, Address] = {}

    async def listed(self, *, states: Iterable[str] = ()) -> list[ListedGroup]:
        """All groups of the cluster, by name, or those in some states (KIP-518)."""
        request = ListGroupsRequest(states_filter=list(states))

        async def once() -> list[ListedGroup]:
            await self.cluster.refresh([])
            found = []
            for address in self.cluster.metadata.brokers.values():
                connection = await self.cluster.connection(address)
                answer = await connection.call(LIST_GROUPS, request, timeout_ms=self.cluster.timeout_ms)
                check(answer.error_code)
                found += [ListedGroup(row.group_id, row.protocol_type, row.group_state) for row in answer.groups]
            return sorted(found, key=lambda row: row.group)

        return await self.cluster.retry(once)

    async def describe(self, group: str) -> Group:
        """A group; one that is not known is `Dead`."""
        answer = await self._call(
            group,
            DESCRIBE_GROUPS,
            DescribeGroupsRequest([group]),
            lambda a: row_about(f"group '{group}'", a.groups).error_code,
        )
        row = row_about(f"group '{group}'", answer.groups)
        members = tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.member_metadata,
                member.member_assignment,
            )
            for member in row.members
        )
        return Group(group, row.group_state, row.protocol_type, row.protocol_data, members)

    async def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, from_tree: bool = False
    ) -> dict[TopicPartition, Committed]:
        """The committed offsets of `partitions`, or of all; those without one are left out.

        `from_tree`: those that groups kept in the coordination tree before Kafka 0.9; needs `partitions`.
        """
        topics = None if partitions is None else [OffsetFetchRequestTopic(*row) for row in _by_topic(partitions)]
        if topics == []:
            return {}
        answer = await self._call(
            group,
            OFFSET_FETCH,
            OffsetFetchRequest(group, topics),
            lambda a: a.error_code,
            version=0 if from_tree else None,
        )
        committed = {}
        for topic in answer.topics:
            for row in topic.partitions:
                if row.committed_offset >= 0:
                    place = TopicPartition(topic.name, row.partition_index)
                    committed[place] = Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
                elif row.error_code and not from_tree:
                    check(row.error_code, f"{topic.name}-{row.partition_index}")
        return committed

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Stores offsets for a group that has no members.

        Raises:
            UnknownMemberId: it has members, who alone may commit.
            UnknownTopicOrPartition, OffsetMetadataTooLarge: of one of them; the others are stored.
        """
        topics = [
            OffsetCommitRequestTopic(
                topic,
                [
                    OffsetCommitRequestPartition(
                        number,
                        offsets[TopicPartition(topic, number)].offset,
                        offsets[TopicPartition(topic, number)].leader_epoch,
                        committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in _by_topic(offsets)
        ]
        if topics:
            await self._call(
                group,
                OFFSET_COMMIT,
                OffsetCommitRequest(group, topics=topics),
                lambda a: next((row.error_code for topic in a.topics for row in topic.partitions if row.error_code), 0),
            )

    async def delete(self, group: str) -> None:
        """Deletes a group and its offsets.

        Raises:
            NonEmptyGroup: it has members. GroupIdNotFound: there is none.
        """
        await self._call(
            group,
            DELETE_GROUPS,
            DeleteGroupsRequest([group]),
            lambda a: row_about(f"group '{group}'", a.results).error_code,
        )

    async def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Forgets offsets.

        Raises:
            GroupSubscribedToTopic: a member reads the topic. GroupIdNotFound: there is no such group.
        """
        topics = [
            OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(number) for number in numbers])
            for topic, numbers in _by_topic(partitions)
        ]
        await self._call(
            group,
            OFFSET_DELETE,
            OffsetDeleteRequest(group, topics),
            lambda a: (
                a.error_code
                or next((row.error_code for topic in a.topics for row in topic.partitions if row.error_code), 0)
            ),
        )

    async def remove_members(
        self, group: str, *, instance_ids: Iterable[str] = (), member_ids: Iterable[str] = ()
    ) -> None:
        """Has members leave a group, which then rebalances: those with these instance ids (static ones, KIP-345) and
        those with these member ids. Those that live join again.

        Raises:
            UnknownMemberId: one is not in the group; the others have left.
        """
        members = [MemberIdentity("", instance_id) for instance_id in instance_ids]
        members += [MemberIdentity(member_id) for member_id in member_ids]
        await self._call(
            group,
            LEAVE_GROUP,
            LeaveGroupRequest(group, members=members),
            lambda a: a.error_code or next((row.error_code for row in a.members if row.error_code), 0),
        )

    async def remove_all_members(self, group: str) -> None:
        """Has all members leave a group (KIP-571). Those that live join again."""
        found = (await self.describe(group)).members
        if found:
            await self.remove_members(
                group,
                instance_ids=[each.instance_id for each in found if each.instance_id is not None],
                member_ids=[each.member_id for each in found if each.instance_id is None],
            )

    async def _call(
        self,
        group: str,
        api: Api[Request, Response],
        message: Request,
        code: Callable[[Response], int],
        *,
        version: int | None = None,
    ) -> Response:
        """Asks the group's coordinator; `code` finds the error in its answer."""

        async def once() -> Response:
            address = self._coordinators.get(group)
            if address is None:
                address = self._coordinators[group] = (await find_coordinator(self.cluster, group)).address

            async def call() -> Response:
                connection = await self.cluster.connection(address)
                return await connection.call(api, message, version, timeout_ms=self.cluster.timeout_ms)

            try:
                answer = await while_coordinator(self.cluster, group, address, call)
                check(code(answer), f"group '{group}'")
            except (OSError, NotCoordinator):
                self._coordinators.pop(group, None)
                raise
            return answer

        return await self.cluster.retry(once, final=(UnstableOffsetCommit,))


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return list(topics.items())
