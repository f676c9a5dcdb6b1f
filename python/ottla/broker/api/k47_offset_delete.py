"""OffsetDelete (key 47): forgets committed offsets of topics that no member of the group reads (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.pace import reply
from ottla.errors import UnknownTopicOrPartition
from ottla.wire.k47_offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(1)


def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: OffsetDeleteRequest = OFFSET_DELETE.decode_request(version, request)
    topics = broker.metadata.topics
    rows = {
        (topic.name, partition.partition_index): OffsetDeleteResponsePartition(
            partition.partition_index,
            0 if partition.partition_index in topics.get(topic.name, ()) else UnknownTopicOrPartition.code,
        )
        for topic in asked.topics
        for partition in topic.partitions
    }
    known = [partition for partition, row in rows.items() if not row.error_code]

    def done(error: int, errors: list[int]) -> None:
        answer = OffsetDeleteResponse(error_code=error)
        if not error:
            for partition, code in zip(known, errors, strict=True):
                rows[partition].error_code = code
            topics: dict[str, OffsetDeleteResponseTopic] = {}
            for (name, _), row in rows.items():
                topics.setdefault(name, OffsetDeleteResponseTopic(name)).partitions.append(row)
            answer.topics = list(topics.values())
        reply(broker, request, OFFSET_DELETE, answer)

    broker.groups.removal.delete_offsets(asked.group_id, known, done)
