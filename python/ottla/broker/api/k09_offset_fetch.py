"""OffsetFetch (key 9): how far a group has read.

Version 0 reads the coordination tree, as groups did before Kafka 0.9. 2: all topics, and one error for all. 5: leader
epochs (KIP-320). 6: flexible. 7: on request, no offset that is about to change (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.pace import Pace
from ottla.broker.replies import in_pieces, reply
from ottla.coordination.tree import TreeError
from ottla.errors import CoordinatorNotAvailable, KafkaError, UnknownTopicOrPartition, UnstableOffsetCommit
from ottla.group import tree_offsets
from ottla.group.offsets import GroupOffsets, TopicPartition
from ottla.wire.k09_offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(8)

_NOTHING = GroupOffsets()


def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: OffsetFetchRequest = OFFSET_FETCH.decode_request(version, request)
    if version == 0:
        return broker.in_background(partial(_fetch_from_tree, asked=asked), request)
    hosted = broker.groups.groups.get(asked.group_id)
    error = 0 if hosted is not None else broker.groups.missing(asked.group_id, may_be_empty=True)
    if error:
        return reply(broker, request, OFFSET_FETCH, _failed(asked, version, error))
    offsets = hosted.group.offsets if hosted is not None else _NOTHING
    topics = asked.topics
    rows = len(offsets.committed) if topics is None else sum(len(topic.partition_indexes) for topic in topics)
    return in_pieces(broker, request, rows, _answer(broker, request, offsets, asked))


def _answer(broker: Broker, request: Request, offsets: GroupOffsets, asked: OffsetFetchRequest) -> Iterator[None]:
    """Each row is of its own moment."""
    topics: dict[str, OffsetFetchResponseTopic] = {}
    named: dict[TopicPartition, None] = dict.fromkeys(offsets.committed) if asked.topics is None else {}
    for topic, index in _named(asked.topics or ()):
        yield
        named[topic, index] = None
    for topic, index in named:
        yield
        row = _row(offsets, topic, index, asked.require_stable)
        topics.setdefault(topic, OffsetFetchResponseTopic(topic)).partitions.append(row)
    answer = OffsetFetchResponse(topics=list(topics.values()))
    reply(broker, request, OFFSET_FETCH, answer)


def _row(offsets: GroupOffsets, topic: str, index: int, require_stable: bool) -> OffsetFetchResponsePartition:
    if require_stable and offsets.is_unstable((topic, index)):
        return OffsetFetchResponsePartition(index, -1, error_code=UnstableOffsetCommit.code)
    committed = offsets.get((topic, index))
    if committed is None:
        return OffsetFetchResponsePartition(index, -1)
    return OffsetFetchResponsePartition(index, committed.offset, committed.leader_epoch, committed.metadata)


def _named(topics: Iterable[OffsetFetchRequestTopic]) -> Iterator[tuple[str, int]]:
    return ((topic.name, index) for topic in topics for index in topic.partition_indexes)


def _failed(asked: OffsetFetchRequest, version: int, error: int) -> OffsetFetchResponse:
    """Before version 2 an answer has no error of its own."""
    if version >= 2:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [OffsetFetchResponsePartition(index, -1, error_code=error) for index in topic.partition_indexes],
            )
            for topic in asked.topics or ()
        ]
    )


async def _fetch_from_tree(broker: Broker, request: Request, asked: OffsetFetchRequest) -> None:
    topics = []
    pace = Pace()
    for topic in asked.topics or ():
        rows = []
        for index in topic.partition_indexes:
            await pace.turn()
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
