"""CreateTopics (key 19): creates topics, and answers when this broker's own metadata shows them.

Only the controller creates; others answer NOT_CONTROLLER. Version 1: validate only, error messages. 4: -1 for the
broker's defaults. 5: what was created, with its configuration (KIP-525); flexible. 6: throttling errors (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.admin import Assignment, check_number_of_settings
from ottla.broker.freeing import Freed
from ottla.broker.new_leaders import without_leaders
from ottla.config import TopicConfig
from ottla.config.describe import describe_topic
from ottla.controller.asked import REPLICAS_MAX
from ottla.controller.topic_changes import NEW_PARTITIONS_MAX, NewTopic
from ottla.controller.writes import pieces_of
from ottla.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    NotController,
    PolicyViolation,
    RequestTimedOut,
    TopicAuthorizationFailed,
)
from ottla.slices import Slices
from ottla.wire.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    CreateTopics: TypeAlias = "Call[CreateTopicsRequest, CreateTopicsResponse]"

CONFIGS_SINCE = 5
THROTTLING_ERRORS_SINCE = 6
#: The settings of a topic in an answer, and in memory before.
CONFIGS_BYTES, CONFIGS_OBJECTS_BYTES = 1_500, 6_000


async def handle(call: CreateTopics, rooms: AdminRooms) -> None:
    if not call.is_large:
        # Those of larger ones are counted already.
        await call.weigh(len(call.message.topics))
    creating = _Creating(call, rooms)
    await creating.count_names()
    for some in pieces_of(call.message.topics):
        await creating.create(some)
    await creating.wait_for_leaders()
    creating.mutations.settle()
    call.reply(await creating.answer())


class _Creating:
    """The topics of one request, until they are answered."""

    def __init__(self, call: CreateTopics, rooms: AdminRooms) -> None:
        self._call = call
        self._rooms = rooms
        self._asked = call.message
        self._slices = Slices()
        self._creation = rooms.admin.creation()
        self._rights = call.rights
        self._may_create_any = self._rights is None or self._rights.might(Operation.CREATE, Resource.CLUSTER)
        self.mutations = call.mutations(THROTTLING_ERRORS_SINCE)
        self._mine = Freed()
        self._counts: Counter[str] = self._mine.add(Counter())
        self._results: dict[str, CreatableTopicResult] = self._mine.add({})
        #: How many partitions each has.
        self._created: dict[str, int] = self._mine.add({})
        self._configs: dict[str, TopicConfig] = self._mine.add({})

    async def count_names(self) -> None:
        """A name that comes twice is refused each time."""
        for topic in self._asked.topics:
            await self._slices.row()
            self._counts[topic.name] += 1

    async def create(self, some: Sequence[CreatableTopic]) -> None:
        """Writes those that can be to the tree, unless all are only to be looked at."""
        checked: list[tuple[NewTopic, Assignment]] = []
        if self._rooms.controller.is_active:
            await self._creation.look(topic.name for topic in some)
        for topic in some:
            await self._slices.row()
            checked += await self._check(topic)
        if self._asked.validate_only:
            return
        for (new, assignment), error in zip(checked, await self._creation.write(checked), strict=True):
            await self._slices.row()
            if error is None:
                self._created[new.name] = len(assignment)
            else:
                self._refuse(new.name, error)

    async def _check(self, topic: CreatableTopic) -> list[tuple[NewTopic, Assignment]]:
        """Returns the topic to write and its assignment; an empty list if the topic is refused."""
        result = self._results[topic.name] = CreatableTopicResult(name=topic.name, error_message=None)
        try:
            if not self._rooms.controller.is_active:
                raise NotController
            self._check_name(topic.name, result)
            new, config = _new_topic(self._rooms, topic)
            assignment = await self._creation.check(new)
            if not self._asked.validate_only:
                self._creation.take(new, assignment)
                # What is refused for another reason costs nothing.
                self.mutations.take(len(assignment))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
            return []
        result.num_partitions = len(assignment)
        result.replication_factor = len(assignment[0])
        self._configs[topic.name] = config
        return [(new, assignment)]

    def _check_name(self, name: str, result: CreatableTopicResult) -> None:
        """Raises InvalidRequest, TopicAuthorizationFailed. As in Kafka, these come with a word about the settings."""
        try:
            if self._counts[name] > 1:
                raise InvalidRequest("Found multiple entries for this topic.")
            if self._rights is not None and not self._may_create_any:
                self._rights.check(Operation.CREATE, Resource.TOPIC, name)
        except KafkaError:
            if not self._may_describe(name):
                result.topic_config_error_code = TopicAuthorizationFailed.code
            raise

    def _may_describe(self, name: str) -> bool:
        """True if the client may know the settings of a topic."""
        return self._rights is None or self._rights.might(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, name)

    def _refuse(self, name: str, error: KafkaError) -> None:
        self._results[name] = CreatableTopicResult(name=name, error_code=error.code, error_message=str(error))

    async def wait_for_leaders(self) -> None:
        """Clients that are answered find their topics led."""
        late = RequestTimedOut("The topic is being created, but was not ready in time.")
        for name in await without_leaders(self._rooms.metadata, self._created, self._asked.timeout_ms):
            await self._slices.row()
            self._refuse(name, late)

    async def answer(self) -> CreateTopicsResponse:
        answer = CreateTopicsResponse()
        described = 0
        described_max = self._rooms.config.get_int("socket.request.max.bytes") // 2 // CONFIGS_BYTES
        for topic in self._asked.topics:
            await self._slices.row()
            result = self._results[topic.name]
            if not result.error_code and not self._may_describe(topic.name):
                result.num_partitions = result.replication_factor = -1
                result.topic_config_error_code = TopicAuthorizationFailed.code
            elif self._call.version >= CONFIGS_SINCE and not result.error_code:
                # Each topic is answered with all of its settings, thirty times what it was asked with.
                described += 1
                if described <= described_max:
                    await self._call.memory.add(CONFIGS_BYTES, CONFIGS_OBJECTS_BYTES)
                    result.configs = _describe(self._rooms, self._configs[topic.name])
                else:
                    # It is made; an answer that is too large would say nothing of any topic.
                    result.configs, result.topic_config_error_code = None, PolicyViolation.code
            answer.topics.append(result)
        return answer


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
