"""CreateTopics (key 19): creates topics, and answers when this broker's own metadata shows them.

Only the controller creates; others answer NOT_CONTROLLER. Version 1: validate only, error messages. 4: -1 for the
broker's defaults. 5: what was created, with its configuration (KIP-525); flexible. 6: throttling errors (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.admin import Assignment
from ottla.broker.pace import Pace
from ottla.broker.quotas.mutations import Mutations
from ottla.broker.replies import reply
from ottla.config import TopicConfig
from ottla.config.describe import describe_topic
from ottla.errors import InvalidRequest, KafkaError, NotController, RequestTimedOut
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(7)
THROTTLING_ERRORS_SINCE = 6


async def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: CreateTopicsRequest = CREATE_TOPICS.decode_request(version, request)
    counts = Counter(topic.name for topic in asked.topics)
    results: dict[str, CreatableTopicResult] = {}
    created: dict[str, int] = {}
    mutations = Mutations(broker, request, THROTTLING_ERRORS_SINCE)
    pace = Pace()
    for topic in asked.topics:
        await pace.turn()
        result = results[topic.name] = CreatableTopicResult(name=topic.name, error_message=None)
        try:
            if not broker.controller.is_active:
                raise NotController
            if counts[topic.name] > 1:
                raise InvalidRequest("Found multiple entries for this topic.")
            if mutations and not asked.validate_only:
                # What is refused for another reason costs nothing.
                assignment, _ = await _create(broker, topic, validate_only=True)
                mutations.take(len(assignment))
            assignment, config = await _create(broker, topic, asked.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
            continue
        result.num_partitions = len(assignment)
        result.replication_factor = len(assignment[0])
        result.configs = _describe(broker, config)
        created[topic.name] = len(assignment)
    if created and not asked.validate_only:
        with broker.metadata.patience(max(asked.timeout_ms, 0) / 1000):
            await broker.metadata.wait_until(
                lambda: all(broker.metadata.has_leaders(name, range(count)) for name, count in created.items())
            )
        for name, count in created.items():
            if not broker.metadata.has_leaders(name, range(count)):
                results[name] = CreatableTopicResult(
                    name=name,
                    error_code=RequestTimedOut.code,
                    error_message="The topic is being created, but was not ready in time.",
                )
    mutations.settle()
    reply(broker, request, CREATE_TOPICS, CreateTopicsResponse(topics=[results[topic.name] for topic in asked.topics]))


async def _create(broker: Broker, topic: CreatableTopic, validate_only: bool) -> tuple[Assignment, TopicConfig]:
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        raise InvalidRequest(
            "Both partitions or replication factor and replica assignments were given: give one of them."
        )
    overrides = {config.name: config.value for config in topic.configs}
    return await broker.admin.create_topic(
        topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment={row.partition_index: tuple(row.broker_ids) for row in topic.assignments},
        overrides=overrides,
        validate_only=validate_only,
    )


def _describe(broker: Broker, config: TopicConfig) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source.value,
            is_sensitive=entry.is_sensitive,
        )
        for entry in describe_topic(broker.config, config)
    ]
