"""What an administrator does: topics and their settings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import trio

from ottla.client.cluster import Cluster
from ottla.errors import LeaderNotAvailable, UnknownTopicOrPartition, error
from ottla.kafka import NO_LEADER, TopicPartition
from ottla.wire.k03_metadata import MetadataResponseTopic
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k37_create_partitions import CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
SET, DELETE = 0, 1
VISIBLE_RETRY_MS = 20


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the cluster sees it now. `leader` is -1 while there is none."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions in order."""

    name: str
    internal: bool
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a topic or broker. `source` is Kafka's: 1 topic, 2 to 4 broker (dynamic, dynamic default,
    static), 5 default.
    """

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None


class Admin:
    """Calls about topics over a `Cluster`. Errors are `KafkaError`, with what the broker says about the topic."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def list_topics(self) -> list[str]:
        """All topics that this client may see, in order, internal ones too."""
        answer = await self.cluster.retry(self.cluster.refresh)
        return sorted(topic.name for topic in answer.topics if topic.error_code == 0)

    async def describe_topics(self, names: Iterable[str] | None = None) -> list[Topic]:
        """The named topics in their order, or all.

        Raises:
            UnknownTopicOrPartition: one does not exist.
        """

        async def once() -> list[Topic]:
            answer = await self.cluster.refresh(None if names is None else list(names))
            for topic in answer.topics:
                if topic.error_code and names is not None:
                    raise error(topic.error_code, f"topic '{topic.name}'")
            return [_topic(topic) for topic in answer.topics if not topic.error_code]

        found = await self.cluster.retry(once, final=(UnknownTopicOrPartition,))
        if names is None:
            return sorted(found, key=lambda topic: topic.name)
        by_name = {topic.name: topic for topic in found}
        return [by_name[name] for name in dict.fromkeys(names)]

    async def create_topic(
        self, name: str, partitions: int = -1, replicas: int = -1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic and returns when each of its partitions has a leader. -1 is the cluster's default (KIP-464).

        Raises:
            TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidReplicationFactor, InvalidConfig,
            PolicyViolation
        """
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (settings or {}).items()],
        )
        answer = await self.cluster.call_controller(
            CREATE_TOPICS,
            CreateTopicsRequest(topics=[topic], timeout_ms=int(self.cluster.timeout_ms)),
            lambda answer: answer.topics[0].error_code,
        )
        _check(answer.topics[0].error_code, answer.topics[0].error_message, name)
        await self._until_led(name, partitions)

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic; brokers forget it soon after.

        Raises:
            UnknownTopicOrPartition: there is none. TopicDeletionDisabled: the cluster does not delete.
        """
        answer = await self.cluster.call_controller(
            DELETE_TOPICS,
            DeleteTopicsRequest(topic_names=[name], timeout_ms=int(self.cluster.timeout_ms)),
            lambda answer: answer.responses[0].error_code,
        )
        _check(answer.responses[0].error_code, answer.responses[0].error_message, name)
        self.cluster.forget([name])

    async def create_partitions(self, name: str, total: int, *, validate_only: bool = False) -> None:
        """Raises the number of a topic's partitions to `total` and returns when the new ones have leaders. With
        `validate_only` it only says whether that would be done.

        Raises:
            InvalidPartitions: there are as many or more already.
        """
        answer = await self.cluster.call_controller(
            CREATE_PARTITIONS,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=total, assignments=None)],
                timeout_ms=int(self.cluster.timeout_ms),
                validate_only=validate_only,
            ),
            lambda answer: answer.results[0].error_code,
        )
        _check(answer.results[0].error_code, answer.results[0].error_message, name)
        if not validate_only:
            await self._until_led(name, total)

    async def describe_settings(self, name: str, *, resource: int = TOPIC_RESOURCE) -> list[Setting]:
        """A topic's settings, set or not; with `resource=BROKER_RESOURCE` those of the broker whose id is `name`."""
        asked = DescribeConfigsResource(resource_type=resource, resource_name=name, configuration_keys=None)
        message = DescribeConfigsRequest(resources=[asked], include_documentation=True)
        if resource == BROKER_RESOURCE:
            await self.cluster.refresh([])
            connection = await self.cluster.connection(self.cluster.metadata.brokers[int(name)])
            answer = await connection.call(DESCRIBE_CONFIGS, message, timeout_ms=self.cluster.timeout_ms)
        else:
            answer = await self.cluster.call_any(DESCRIBE_CONFIGS, message)
        result = answer.results[0]
        _check(result.error_code, result.error_message, name)
        return [
            Setting(each.name, each.value, each.config_source, each.read_only, each.is_sensitive, each.documentation)
            for each in result.configs
        ]

    async def alter_settings(
        self, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Sets settings of a topic; None returns one to its default. Others keep their values (KIP-339). With
        `validate_only` it only says whether that would be done.

        Raises:
            InvalidConfig: a setting does not exist or a value is out of its range; then nothing is changed.
        """
        configs = [
            AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
            for key, value in changes.items()
        ]
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=configs)
        answer = await self.cluster.call_any(
            INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only),
        )
        _check(answer.responses[0].error_code, answer.responses[0].error_message, name)

    async def _until_led(self, name: str, partitions: int) -> None:
        """Creation is answered when the controller knows it; brokers may learn of it a moment later."""
        deadline = trio.current_time() + self.cluster.timeout_ms / 1000
        while True:
            answer = await self.cluster.refresh([name])
            found = answer.topics[0].partitions
            led = sum(each.leader_id != NO_LEADER for each in found)
            if found and led == len(found) and led >= partitions:
                return
            if trio.current_time() > deadline:
                without = (number for number, each in enumerate(found) if each.leader_id == NO_LEADER)
                missing = TopicPartition(name, next(without, 0))
                raise LeaderNotAvailable(f"{missing} has no leader yet")
            await trio.sleep(VISIBLE_RETRY_MS / 1000)


def _check(code: int, message: str | None, name: str) -> None:
    if code:
        raise error(code, f"topic '{name}': {message}" if message else f"topic '{name}'")


def _topic(found: MetadataResponseTopic) -> Topic:
    partitions = sorted(
        (
            Partition(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
            )
            for each in found.partitions
        ),
        key=lambda each: each.number,
    )
    return Topic(found.name, found.is_internal, tuple(partitions))
