"""CreateTopics (key 19): creates topics, and answers when this broker's own metadata shows them.

Only the controller creates; others answer NOT_CONTROLLER. Version 1: validate only, error messages. 4: -1 for the
broker's defaults. 5: what was created, with its configuration (KIP-525); flexible. 6: throttling errors (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.admin import Assignment, check_number_of_settings
from ottla.broker.freeing import Freed
from ottla.config import TopicConfig
from ottla.config.describe import describe_topic
from ottla.controller.admin import NEW_PARTITIONS_MAX, NewTopic
from ottla.controller.orders import REPLICAS_MAX
from ottla.controller.writes import pieces_of
from ottla.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    NotController,
    PolicyViolation,
    RequestTimedOut,
)
from ottla.slices import Slices
from ottla.wire.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    CreateTopics: TypeAlias = "Call[CreateTopicsRequest, CreateTopicsResponse]"

CONFIGS_SINCE = 5
THROTTLING_ERRORS_SINCE = 6
#: The settings of a topic in an answer, and in memory before.
CONFIGS_BYTES, CONFIGS_OBJECTS_BYTES = 1_500, 6_000


async def handle(call: CreateTopics, rooms: AdminRooms) -> None:
    version = call.version
    asked = call.message
    if not call.is_large:
        # Those of larger ones are counted already.
        await call.weigh(len(asked.topics))
    mine = Freed()
    results: dict[str, CreatableTopicResult] = mine.add({})
    created: dict[str, int] = mine.add({})
    configs: dict[str, TopicConfig] = mine.add({})
    mutations = call.mutations(THROTTLING_ERRORS_SINCE)
    slices = Slices()
    counts: Counter[str] = mine.add(Counter())
    creation = rooms.admin.creation()
    for topic in asked.topics:
        await slices.row()
        counts[topic.name] += 1

    async def check(topic: CreatableTopic) -> list[tuple[NewTopic, Assignment]]:
        """Returns the topic to write and its assignment; an empty list if the topic is refused."""
        result = results[topic.name] = CreatableTopicResult(name=topic.name, error_message=None)
        try:
            if not rooms.controller.is_active:
                raise NotController
            if counts[topic.name] > 1:
                raise InvalidRequest("Found multiple entries for this topic.")
            new, config = _new_topic(rooms, topic)
            assignment = await creation.check(new)
            if not asked.validate_only:
                creation.take(new, assignment)
                # What is refused for another reason costs nothing.
                mutations.take(len(assignment))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
            return []
        result.num_partitions = len(assignment)
        result.replication_factor = len(assignment[0])
        configs[topic.name] = config
        return [(new, assignment)]

    for some in pieces_of(asked.topics):
        checked: list[tuple[NewTopic, Assignment]] = []
        if rooms.controller.is_active:
            await creation.look(topic.name for topic in some)
        for topic in some:
            await slices.row()
            checked += await check(topic)
        if asked.validate_only:
            continue
        for (new, assignment), error in zip(checked, await creation.write(checked), strict=True):
            await slices.row()
            if error is None:
                created[new.name] = len(assignment)
            else:
                results[new.name] = CreatableTopicResult(name=new.name, error_code=error.code, error_message=str(error))
    if created:

        def has_leaders(name: str) -> bool:
            return rooms.metadata.has_leaders(name, range(created[name]))

        with rooms.metadata.patience(max(asked.timeout_ms, 0) / 1000):
            await rooms.metadata.wait_for_each(has_leaders, created)
        for name in created:
            await slices.row()
            if not has_leaders(name):
                results[name] = CreatableTopicResult(
                    name=name,
                    error_code=RequestTimedOut.code,
                    error_message="The topic is being created, but was not ready in time.",
                )
    mutations.settle()
    answer = CreateTopicsResponse()
    memory = call.memory
    described, described_max = 0, rooms.config.get_int("socket.request.max.bytes") // 2 // CONFIGS_BYTES
    for topic in asked.topics:
        await slices.row()
        result = results[topic.name]
        if version >= CONFIGS_SINCE and not result.error_code:
            # Each topic is answered with all of its settings, thirty times what it was asked with.
            described += 1
            if described <= described_max:
                await memory.add(CONFIGS_BYTES, CONFIGS_OBJECTS_BYTES)
                result.configs = _describe(rooms, configs[topic.name])
            else:
                # It is made; an answer that is too large would say nothing of any topic.
                result.configs, result.topic_config_error_code = None, PolicyViolation.code
        answer.topics.append(result)
    call.reply(answer)


def _new_topic(rooms: AdminRooms, topic: CreatableTopic) -> tuple[NewTopic, TopicConfig]:
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        raise InvalidRequest(
            "Both partitions or replication factor and replica assignments were given: give one of them."
        )
    check_number_of_settings(topic.configs)
    if len(topic.assignments) > NEW_PARTITIONS_MAX:
        raise InvalidReplicaAssignment(
            f"{len(topic.assignments)} assignments are more than {NEW_PARTITIONS_MAX}, the most per request."
        )
    if any(len(row.broker_ids) > REPLICAS_MAX for row in topic.assignments):
        raise InvalidReplicaAssignment(f"No partition has more than {REPLICAS_MAX} replicas.")
    overrides = {config.name: config.value for config in topic.configs}
    return rooms.admin.new_topic(
        topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment={row.partition_index: tuple(row.broker_ids) for row in topic.assignments},
        overrides=overrides,
    )


def _describe(rooms: AdminRooms, config: TopicConfig) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source.value,
            is_sensitive=entry.is_sensitive,
        )
        for entry in describe_topic(rooms.config, config)
    ]
