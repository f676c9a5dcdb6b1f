"""OffsetFetch (key 9): how far a group has read.

Version 0 reads the coordination tree, as groups did before Kafka 0.9. 2: all topics, and one error for all. 5: leader
epochs (KIP-320). 6: flexible. 7: on request, no offset that is about to change (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.answer_memory import FEW_ROWS
from ottla.broker.call import count_of
from ottla.broker.freeing import Freed
from ottla.coordination.tree import TreeError
from ottla.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from ottla.group import tree_offsets
from ottla.group.offsets import GroupOffsets
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.authorizer import Rights
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    OffsetFetch: TypeAlias = "Call[OffsetFetchRequest, OffsetFetchResponse]"

_NOTHING = GroupOffsets()
#: A partition in an answer, without its topic and its metadata.
ROW_BYTES = 32


def handle(call: OffsetFetch, rooms: GroupRooms) -> None:
    version = call.version
    asked = call.message
    if version == 0:
        return call.in_background(_fetch_from_tree, call, rooms, asked)
    hosted = rooms.groups.groups.get(asked.group_id)
    error = 0 if hosted is not None else rooms.groups.missing(asked.group_id, may_be_empty=True)
    if error:
        rows = 0 if version >= 2 else count_of(topic.partition_indexes for topic in asked.topics or ())
        return call.in_slices(rows, _fail(call, rooms, asked, error))
    offsets = hosted.group.offsets if hosted is not None else _NOTHING
    topics = asked.topics
    if topics is None and len(offsets.committed) > FEW_ROWS:
        return call.in_background(_answer_all, call, rooms, offsets, asked)
    rows = 0 if topics is None else count_of(topic.partition_indexes for topic in topics)
    return call.in_slices(rows, _answer(call, rooms, offsets, asked))


async def _answer_all(call: OffsetFetch, rooms: GroupRooms, offsets: GroupOffsets, asked: OffsetFetchRequest) -> None:
    """A few bytes ask for all offsets of a group."""
    slices = Slices()
    partitions = list(offsets.committed)
    size_bytes = 0
    for partition in partitions:
        await slices.row()
        committed = offsets.get(partition)
        size_bytes += ROW_BYTES + len(partition.topic) + (0 if committed is None else len(committed.metadata))
    async with call.large_answer(len(partitions), size_bytes):
        await call.reply_here(await _all(offsets, partitions, asked.require_stable, call.rights))


async def _all(
    offsets: GroupOffsets, partitions: list[TopicPartition], require_stable: bool, rights: Rights | None
) -> OffsetFetchResponse:
    slices = Slices()
    topics: dict[str, OffsetFetchResponseTopic] = {}
    for partition in partitions:
        await slices.row()
        if rights is not None and not rights.might(Operation.DESCRIBE, Resource.TOPIC, partition.topic):
            continue
        row = _row(offsets, partition, require_stable)
        topics.setdefault(partition.topic, OffsetFetchResponseTopic(partition.topic)).partitions.append(row)
    return OffsetFetchResponse(topics=list(topics.values()))


def _answer(call: OffsetFetch, rooms: GroupRooms, offsets: GroupOffsets, asked: OffsetFetchRequest) -> Iterator[None]:
    """Each row is of its own moment."""
    mine = Freed()
    topics: dict[str, OffsetFetchResponseTopic] = mine.add({})
    named: dict[TopicPartition, None] = mine.add(dict.fromkeys(offsets.committed) if asked.topics is None else {})
    for topic in asked.topics or ():
        yield
        for index in topic.partition_indexes:
            yield
            named[TopicPartition(topic.name, index)] = None
    rights = call.rights
    for partition in named:
        yield
        row = _row(offsets, partition, asked.require_stable)
        if rights is not None and not rights.may(Operation.DESCRIBE, Resource.TOPIC, partition.topic):
            if asked.topics is None:
                continue
            row = OffsetFetchResponsePartition(partition.partition, -1, error_code=TopicAuthorizationFailed.code)
        topics.setdefault(partition.topic, OffsetFetchResponseTopic(partition.topic)).partitions.append(row)
    answer = OffsetFetchResponse(topics=list(topics.values()))
    call.reply(answer)


def _row(offsets: GroupOffsets, partition: TopicPartition, require_stable: bool) -> OffsetFetchResponsePartition:
    index = partition.partition
    if require_stable and offsets.is_unstable(partition):
        return OffsetFetchResponsePartition(index, -1, error_code=UnstableOffsetCommit.code)
    committed = offsets.get(partition)
    if committed is None:
        return OffsetFetchResponsePartition(index, -1)
    return OffsetFetchResponsePartition(index, committed.offset, committed.leader_epoch, committed.metadata)


def _fail(call: OffsetFetch, rooms: GroupRooms, asked: OffsetFetchRequest, error: int) -> Iterator[None]:
    """Before version 2 an answer has no error of its own."""
    answer = OffsetFetchResponse()
    if call.version >= 2:
        answer.error_code = error
    else:
        for topic in asked.topics or ():
            yield
            rows: list[OffsetFetchResponsePartition] = []
            answer.topics.append(OffsetFetchResponseTopic(topic.name, rows))
            for index in topic.partition_indexes:
                yield
                rows.append(OffsetFetchResponsePartition(index, -1, error_code=error))
    call.reply(answer)


async def _fetch_from_tree(call: OffsetFetch, rooms: GroupRooms, asked: OffsetFetchRequest) -> None:
    topics = []
    slices = Slices()
    rights = call.rights
    for topic in asked.topics or ():
        await slices.row()
        rows = []
        is_hidden = rights is not None and not rights.may(Operation.DESCRIBE, Resource.TOPIC, topic.name)
        for index in topic.partition_indexes:
            await slices.row()
            row = OffsetFetchResponsePartition(index, -1)
            try:
                if is_hidden:
                    raise TopicAuthorizationFailed
                # A name that no topic has may be none that the tree takes.
                known = index in rooms.metadata.topics.get(topic.name, ())
                offset = await tree_offsets.get(rooms.tree, asked.group_id, topic.name, index) if known else None
                if offset is None:
                    row.error_code = UnknownTopicOrPartition.code
                else:
                    row.committed_offset = offset
            except KafkaError as error:
                row.error_code = error.code
            except TreeError:
                row.error_code = CoordinatorNotAvailable.code
            rows.append(row)
        topics.append(OffsetFetchResponseTopic(topic.name, rows))
    call.reply(OffsetFetchResponse(topics=topics))
