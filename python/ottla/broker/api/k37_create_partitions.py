"""CreatePartitions (key 37): adds partitions to topics, and answers when this broker's own metadata shows them. Only
the controller does it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from ottla.controller.admin import NEW_PARTITIONS_MAX, Grown, MorePartitions, NewPartitions
from ottla.controller.writes import pieces_of
from ottla.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    NotController,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.slices import Slices
from ottla.wire.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    CreatePartitions: TypeAlias = "Call[CreatePartitionsRequest, CreatePartitionsResponse]"

THROTTLING_ERRORS_SINCE = 3


async def handle(call: CreatePartitions, rooms: AdminRooms) -> None:
    asked = call.message
    results: dict[str, CreatePartitionsTopicResult] = {}
    grown: dict[str, int] = {}
    mutations = call.mutations(THROTTLING_ERRORS_SINCE)
    slices = Slices()
    counts: Counter[str] = Counter()
    new = NewPartitions()
    growth = rooms.admin.growth()
    for topic in asked.topics:
        await slices.row()
        counts[topic.name] += 1

    def wanted_of(topic: CreatePartitionsTopic) -> MorePartitions:
        if not rooms.controller.is_active:
            raise NotController
        if counts[topic.name] > 1:
            raise InvalidRequest("Duplicate topic in request.")
        if topic.name not in rooms.metadata.topics:
            raise UnknownTopicOrPartition(f"The topic '{topic.name}' does not exist.")
        if topic.assignments is not None and len(topic.assignments) > NEW_PARTITIONS_MAX:
            raise InvalidReplicaAssignment(
                f"{len(topic.assignments)} assignments are more than {NEW_PARTITIONS_MAX}, the most per request."
            )
        assignments = None if topic.assignments is None else [row.broker_ids for row in topic.assignments]
        return MorePartitions(topic.name, topic.count, assignments)

    def refuse(name: str, error: KafkaError) -> None:
        results[name].error_code, results[name].error_message = error.code, str(error)

    for some in pieces_of(asked.topics):
        wanted: list[MorePartitions] = []
        for topic in some:
            await slices.row()
            results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
            try:
                wanted.append(wanted_of(topic))
            except KafkaError as error:
                refuse(topic.name, error)
        checked: list[Grown] = []
        for each, plan in zip(wanted, await growth.check(wanted), strict=True):
            await slices.row()
            try:
                if isinstance(plan, KafkaError):
                    raise plan
                if not asked.validate_only:
                    new.check(len(plan.placed))
                    mutations.take(len(plan.placed))
                    new.made += len(plan.placed)
                checked.append(plan)
            except KafkaError as error:
                refuse(each.topic, error)
        if asked.validate_only:
            continue
        for plan, refused in zip(checked, await growth.write(checked), strict=True):
            await slices.row()
            if refused is None:
                grown[plan.wanted.topic] = plan.wanted.total
            else:
                refuse(plan.wanted.topic, refused)
    if grown:

        def has_leaders(name: str) -> bool:
            return rooms.metadata.has_leaders(name, range(grown[name]))

        with rooms.metadata.patience(max(asked.timeout_ms, 0) / 1000):
            await rooms.metadata.wait_for_each(has_leaders, grown)
        for name in grown:
            await slices.row()
            if not has_leaders(name):
                results[name].error_code = RequestTimedOut.code
                results[name].error_message = "The partitions are being created, but were not ready in time."
    mutations.settle()
    call.reply(CreatePartitionsResponse(results=list(results.values())))
