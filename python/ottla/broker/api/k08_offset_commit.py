"""OffsetCommit (key 8): how far a group has read; answered when that is safe.

Version 0 keeps offsets in the coordination tree, as groups did before Kafka 0.9. 1: members, generations, and commit
times. 2-4: a retention of their own. 6: leader epochs (KIP-320). 7: static members (KIP-345). 8: flexible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.call import count_of
from ottla.coordination.tree import TreeError
from ottla.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    OffsetMetadataTooLarge,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.group import tree_offsets
from ottla.group.records import NO_TIMESTAMP, CommittedOffset
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    OffsetCommit: TypeAlias = "Call[OffsetCommitRequest, OffsetCommitResponse]"

#: The last millisecond that a record can name.
TIME_MAX = 2**63 - 1


def handle(call: OffsetCommit, rooms: GroupRooms) -> None:
    asked = call.message
    rows = count_of(topic.partitions for topic in asked.topics)
    call.in_slices(rows, _commit(call, rooms, asked, rows))


def _commit(call: OffsetCommit, rooms: GroupRooms, asked: OffsetCommitRequest, rows: int) -> Iterator[None]:
    """The rows that are taken are committed together. The answer goes through all `rows` again, however few partitions
    they name.
    """
    version = call.version
    now_ms = rooms.groups.wall_ms()
    # Any retention is taken; a record has 64 bits for the time at which it ends.
    retention_ms = max(0, asked.retention_time_ms)
    expire_ms = NO_TIMESTAMP if asked.retention_time_ms == -1 else min(now_ms + retention_ms, TIME_MAX)
    known, metadata_max = rooms.metadata.topics, rooms.groups.settings.offset_metadata_max
    commits: dict[TopicPartition, CommittedOffset] = {}
    refused: dict[TopicPartition, int] = {}
    rights = call.rights
    for topic in asked.topics:
        yield
        name, partitions = topic.name, known.get(topic.name, ())
        is_forbidden = rights is not None and not rights.may(Operation.READ, Resource.TOPIC, name)
        for row in topic.partitions:
            yield
            partition = TopicPartition(name, row.partition_index)
            metadata = row.committed_metadata or ""
            if is_forbidden:
                refused[partition] = TopicAuthorizationFailed.code
            elif row.partition_index not in partitions:
                refused[partition] = UnknownTopicOrPartition.code
            elif len(metadata) > metadata_max:
                refused[partition] = OffsetMetadataTooLarge.code
            else:
                commits[partition] = CommittedOffset(
                    row.committed_offset,
                    row.committed_leader_epoch,
                    metadata,
                    now_ms if row.commit_timestamp == NO_TIMESTAMP else row.commit_timestamp,
                    expire_ms,
                )
    if not commits:
        yield from _answer(call, rooms, asked, refused, 0)
    elif version == 0:
        call.in_background(_commit_to_tree, call, rooms, asked, commits, refused)
    else:
        rooms.groups.commit(
            asked.group_id,
            asked.member_id,
            asked.group_instance_id,
            asked.generation_id,
            commits,
            lambda error: call.in_slices(rows, _answer(call, rooms, asked, refused, error)),
        )


def _answer(
    call: OffsetCommit, rooms: GroupRooms, asked: OffsetCommitRequest, refused: dict[TopicPartition, int], error: int
) -> Iterator[None]:
    topics: dict[str, dict[int, int]] = {}
    for topic in asked.topics:
        yield
        for row in topic.partitions:
            yield
            code = error
            if refused:
                code = refused.get(TopicPartition(topic.name, row.partition_index), error)
            topics.setdefault(topic.name, {})[row.partition_index] = code
    answer = OffsetCommitResponse()
    for name, rows in topics.items():
        answered = []
        for index, code in rows.items():
            yield
            answered.append(OffsetCommitResponsePartition(index, code))
        answer.topics.append(OffsetCommitResponseTopic(name, answered))
    call.leave([topics, refused])
    call.reply(answer)


async def _commit_to_tree(
    call: OffsetCommit,
    rooms: GroupRooms,
    asked: OffsetCommitRequest,
    commits: dict[TopicPartition, CommittedOffset],
    refused: dict[TopicPartition, int],
) -> None:
    for partition, commit in commits.items():
        try:
            await tree_offsets.put(rooms.tree, asked.group_id, partition.topic, partition.partition, commit.offset)
        except KafkaError as error:
            refused[partition] = error.code
        except TreeError:
            refused[partition] = CoordinatorNotAvailable.code
    slices = Slices()
    for _ in _answer(call, rooms, asked, refused, 0):
        await slices.row()
