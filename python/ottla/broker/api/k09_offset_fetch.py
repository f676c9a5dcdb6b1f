"""OffsetFetch (key 9): how far a group has read.

Version 0 reads the coordination tree, as groups did before Kafka 0.9. 2: all topics, and one error for all. 5: leader
epochs (KIP-320). 6: flexible. 7: on request, no offset that is about to change (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.answer_memory import FEW_ROWS, large_answer
from ottla.broker.freeing import Freed
from ottla.broker.replies import count_of, reply, reply_here
from ottla.coordination.tree import TreeError
from ottla.errors import CoordinatorNotAvailable, KafkaError, UnknownTopicOrPartition, UnstableOffsetCommit
from ottla.group import tree_offsets
from ottla.group.offsets import GroupOffsets
from ottla.kafka import TopicPartition
from ottla.slices import Slices, serve
from ottla.wire.k09_offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import GroupContext

_NOTHING = GroupOffsets()
#: A partition in an answer, without its topic and its metadata.
ROW_BYTES = 32


def handle(broker: GroupContext, request: Request) -> None:
    version = request.api_version
    asked: OffsetFetchRequest = OFFSET_FETCH.decode_request(version, request)
    if version == 0:
        return broker.in_background(partial(_fetch_from_tree, asked=asked), request)
    hosted = broker.groups.groups.get(asked.group_id)
    error = 0 if hosted is not None else broker.groups.missing(asked.group_id, may_be_empty=True)
    if error:
        rows = 0 if version >= 2 else count_of(topic.partition_indexes for topic in asked.topics or ())
        return serve(broker, request, rows, _fail(broker, request, asked, error))
    offsets = hosted.group.offsets if hosted is not None else _NOTHING
    topics = asked.topics
    if topics is None and len(offsets.committed) > FEW_ROWS:
        return broker.in_background(partial(_answer_all, offsets=offsets, asked=asked), request)
    rows = 0 if topics is None else count_of(topic.partition_indexes for topic in topics)
    return serve(broker, request, rows, _answer(broker, request, offsets, asked))


async def _answer_all(broker: GroupContext, request: Request, offsets: GroupOffsets, asked: OffsetFetchRequest) -> None:
    """A few bytes ask for all offsets of a group."""
    slices = Slices()
    partitions = list(offsets.committed)
    size_bytes = 0
    for partition in partitions:
        await slices.row()
        committed = offsets.get(partition)
        size_bytes += ROW_BYTES + len(partition.topic) + (0 if committed is None else len(committed.metadata))
    async with large_answer(broker, request, len(partitions), size_bytes):
        await reply_here(broker, request, OFFSET_FETCH, await _all(offsets, partitions, asked.require_stable))


async def _all(offsets: GroupOffsets, partitions: list[TopicPartition], require_stable: bool) -> OffsetFetchResponse:
    slices = Slices()
    topics: dict[str, OffsetFetchResponseTopic] = {}
    for partition in partitions:
        await slices.row()
        row = _row(offsets, partition, require_stable)
        topics.setdefault(partition.topic, OffsetFetchResponseTopic(partition.topic)).partitions.append(row)
    return OffsetFetchResponse(topics=list(topics.values()))


def _answer(broker: GroupContext, request: Request, offsets: GroupOffsets, asked: OffsetFetchRequest) -> Iterator[None]:
    """Each row is of its own moment."""
    mine = Freed()
    topics: dict[str, OffsetFetchResponseTopic] = mine.add({})
    named: dict[TopicPartition, None] = mine.add(dict.fromkeys(offsets.committed) if asked.topics is None else {})
    for topic in asked.topics or ():
        yield
        for index in topic.partition_indexes:
            yield
            named[TopicPartition(topic.name, index)] = None
    for partition in named:
        yield
        row = _row(offsets, partition, asked.require_stable)
        topics.setdefault(partition.topic, OffsetFetchResponseTopic(partition.topic)).partitions.append(row)
    answer = OffsetFetchResponse(topics=list(topics.values()))
    reply(broker, request, OFFSET_FETCH, answer)


def _row(offsets: GroupOffsets, partition: TopicPartition, require_stable: bool) -> OffsetFetchResponsePartition:
    index = partition.partition
    if require_stable and offsets.is_unstable(partition):
        return OffsetFetchResponsePartition(index, -1, error_code=UnstableOffsetCommit.code)
    committed = offsets.get(partition)
    if committed is None:
        return OffsetFetchResponsePartition(index, -1)
    return OffsetFetchResponsePartition(index, committed.offset, committed.leader_epoch, committed.metadata)


def _fail(broker: GroupContext, request: Request, asked: OffsetFetchRequest, error: int) -> Iterator[None]:
    """Before version 2 an answer has no error of its own."""
    answer = OffsetFetchResponse()
    if request.api_version >= 2:
        answer.error_code = error
    else:
        for topic in asked.topics or ():
            yield
            rows: list[OffsetFetchResponsePartition] = []
            answer.topics.append(OffsetFetchResponseTopic(topic.name, rows))
            for index in topic.partition_indexes:
                yield
                rows.append(OffsetFetchResponsePartition(index, -1, error_code=error))
    reply(broker, request, OFFSET_FETCH, answer)


async def _fetch_from_tree(broker: GroupContext, request: Request, asked: OffsetFetchRequest) -> None:
    topics = []
    slices = Slices()
    for topic in asked.topics or ():
        await slices.row()
        rows = []
        for index in topic.partition_indexes:
            await slices.row()
            row = OffsetFetchResponsePartition(index, -1)
            try:
                # A name that no topic has may be none that the tree takes.
                known = index in broker.metadata.topics.get(topic.name, ())
                offset = await tree_offsets.get(broker.tree, asked.group_id, topic.name, index) if known else None
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
    reply(broker, request, OFFSET_FETCH, OffsetFetchResponse(topics=topics))
