"""OffsetDelete (key 47): forgets committed offsets of topics that no member of the group reads (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.freeing import Freed
from ottla.errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import GroupRooms

    OffsetDelete: TypeAlias = "Call[OffsetDeleteRequest, OffsetDeleteResponse]"


async def handle(call: OffsetDelete, rooms: GroupRooms) -> None:
    """A partition that is named twice is answered once."""
    asked = call.message
    topics = rooms.metadata.topics
    mine = Freed()
    rows: dict[TopicPartition, OffsetDeleteResponsePartition] = mine.add({})
    rights, slices = call.rights, Slices()
    for topic in asked.topics:
        await slices.row()
        there = topics.get(topic.name, ())
        is_forbidden = rights is not None and not rights.may(Operation.READ, Resource.TOPIC, topic.name)
        for partition in topic.partitions:
            await slices.row()
            index = partition.partition_index
            code = 0 if index in there else UnknownTopicOrPartition.code
            if is_forbidden:
                code = TopicAuthorizationFailed.code
            rows[TopicPartition(topic.name, index)] = OffsetDeleteResponsePartition(index, code)
    known: list[TopicPartition] = mine.add([])
    for name, row in rows.items():
        await slices.row()
        if not row.error_code:
            known.append(name)

    def done(error: int, errors: list[int]) -> None:
        call.in_slices(len(rows), answer(error, errors))

    def answer(error: int, errors: list[int]) -> Iterator[None]:
        response = OffsetDeleteResponse(error_code=error)
        if not error:
            for partition, code in zip(known, errors, strict=True):
                rows[partition].error_code = code
            topics: dict[str, OffsetDeleteResponseTopic] = mine.add({})
            for (name, _), row in rows.items():
                yield
                topics.setdefault(name, OffsetDeleteResponseTopic(name)).partitions.append(row)
            response.topics = list(topics.values())
        call.reply(response)

    rooms.groups.removal.delete_offsets(asked.group_id, known, done)
