"""What an administrator does: topics, records, settings, quotas and features; and from here on to brokers, groups,
transactions, users and access rules, which have files of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import trio

from ottla.client.answers import row_about
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.offsets import FoundOffset, list_offsets
from ottla.client.topics import Partition, Topic, as_topic
from ottla.errors import BrokerNotAvailable, LeaderNotAvailable, UnknownTopicOrPartition, check, error
from ottla.kafka import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    NO_LEADER,
    TOPIC_RESOURCE,
    ConfigOperation,
    TopicPartition,
)
from ottla.wire.k18_api_versions import API_VERSIONS
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.k20_delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from ottla.wire.k21_delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k33_alter_configs import ALTER_CONFIGS, AlterConfigsRequest
from ottla.wire.k33_alter_configs import AlterableConfig as ReplacedConfig
from ottla.wire.k33_alter_configs import AlterConfigsResource as ReplacedResource
from ottla.wire.k37_create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.k48_describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS,
    ComponentData,
    DescribeClientQuotasRequest,
)
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.k57_update_features import UPDATE_FEATURES, FeatureUpdateKey, UpdateFeaturesRequest
from ottla.wire.schema import Api, Request, Response

if TYPE_CHECKING:
    from ottla.client.acl_admin import AclAdmin
    from ottla.client.cluster_admin import ClusterAdmin
    from ottla.client.groups import Groups
    from ottla.client.transaction_admin import TransactionAdmin
    from ottla.client.user_admin import UserAdmin

#: For `describe_quotas`: whatever name.
ANY_NAME = "*"
_THIS_NAME, _DEFAULT_NAME, _ANY_NAME = 0, 1, 2
VISIBLE_RETRY_MS = 20


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


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of an entity: `{"user": "anna", "client-id": None}` is user anna with any client id that has no limits of
    its own. The limits' names and units are Kafka's, such as `producer_byte_rate` in bytes a second.
    """

    entity: Mapping[str, str | None]
    limits: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a cluster (KIP-584), each with its lowest and highest level: those that the broker supports, and
    those that the cluster has finalized, as of `epoch`, which is -1 where there is none. Brokers from 4.0 on leave out
    of the first those that may be absent (level 0).
    """

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, tuple[int, int]]
    epoch: int


class Admin:
    """Calls about topics, records, settings, quotas and features over a `Cluster`. `brokers`, `groups`,
    `transactions`, `users` and `acls` have the others. Errors are `KafkaError`, with what the broker says about the
    topic.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @cached_property
    def brokers(self) -> ClusterAdmin:
        """Calls about brokers and replicas."""
        from ottla.client.cluster_admin import ClusterAdmin

        return ClusterAdmin(self.cluster)

    @cached_property
    def groups(self) -> Groups:
        """Calls about groups and their offsets."""
        from ottla.client.groups import Groups

        return Groups(self.cluster)

    @cached_property
    def transactions(self) -> TransactionAdmin:
        """Calls about transactions."""
        from ottla.client.transaction_admin import TransactionAdmin

        return TransactionAdmin(self.cluster)

    @cached_property
    def users(self) -> UserAdmin:
        """Calls about users with SCRAM credentials."""
        from ottla.client.user_admin import UserAdmin

        return UserAdmin(self.cluster)

    @cached_property
    def acls(self) -> AclAdmin:
        """Calls about access rules."""
        from ottla.client.acl_admin import AclAdmin

        return AclAdmin(self.cluster)

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
            return [as_topic(topic) for topic in answer.topics if not topic.error_code]

        found = await self.cluster.retry(once, final=(UnknownTopicOrPartition,))
        if names is None:
            return sorted(found, key=lambda topic: topic.name)
        by_name = {topic.name: topic for topic in found}
        return [by_name[name] for name in dict.fromkeys(names)]

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replicas: int = -1,
        settings: Mapping[str, str] | None = None,
        *,
        assignment: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> None:
        """Creates a topic and returns when each of its partitions has a leader. -1 is the cluster's default (KIP-464).
        `assignment` gives the brokers of each partition in place of both numbers, the preferred leader first. With
        `validate_only` it only says whether that would be done.

        Raises:
            TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidReplicationFactor, InvalidConfig,
            PolicyViolation
        """
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[CreatableReplicaAssignment(number, list(ids)) for number, ids in enumerate(assignment)],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (settings or {}).items()],
        )
        answer = await self.cluster.call_controller(
            CREATE_TOPICS,
            CreateTopicsRequest(topics=[topic], timeout_ms=int(self.cluster.timeout_ms), validate_only=validate_only),
            lambda answer: row_about(f"'{name}'", answer.topics).error_code,
        )
        row = row_about(f"'{name}'", answer.topics)
        _check(row.error_code, row.error_message, name)
        if not validate_only:
            await self._until_led(name, len(assignment) or partitions)

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic; brokers forget it soon after.

        Raises:
            UnknownTopicOrPartition: there is none. TopicDeletionDisabled: the cluster does not delete.
        """
        answer = await self.cluster.call_controller(
            DELETE_TOPICS,
            DeleteTopicsRequest(topic_names=[name], timeout_ms=int(self.cluster.timeout_ms)),
            lambda answer: row_about(f"'{name}'", answer.responses).error_code,
        )
        row = row_about(f"'{name}'", answer.responses)
        _check(row.error_code, row.error_message, name)
        self.cluster.forget([name])

    async def create_partitions(
        self, name: str, total: int, *, assignment: Sequence[Sequence[int]] = (), validate_only: bool = False
    ) -> None:
        """Raises the number of a topic's partitions to `total` and returns when the new ones have leaders. `assignment`
        gives the brokers of each new one, else the cluster chooses. With `validate_only` it only says whether that
        would be done.

        Raises:
            InvalidPartitions: there are as many or more already.
        """
        rows = [CreatePartitionsAssignment(list(ids)) for ids in assignment]
        answer = await self.cluster.call_controller(
            CREATE_PARTITIONS,
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=total, assignments=rows or None)],
                timeout_ms=int(self.cluster.timeout_ms),
                validate_only=validate_only,
            ),
            lambda answer: row_about(f"'{name}'", answer.results).error_code,
        )
        row = row_about(f"'{name}'", answer.results)
        _check(row.error_code, row.error_message, name)
        if not validate_only:
            await self._until_led(name, total)

    async def delete_records(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before these offsets; -1 is the high watermark. Gives where each partition begins now:
        as far as all of its replicas have done it (KIP-107).

        Raises:
            OffsetOutOfRange: an offset is after the high watermark. PolicyViolation: the topic is only compacted.
        """
        begins: dict[TopicPartition, int] = {}

        async def once() -> None:
            left = [partition for partition in ends if partition not in begins]
            for leader, partitions in (await self.cluster.by_leader(left)).items():
                topics: dict[str, list[DeleteRecordsPartition]] = {}
                for partition in partitions:
                    row = DeleteRecordsPartition(partition.partition, ends[partition])
                    topics.setdefault(partition.topic, []).append(row)
                request = DeleteRecordsRequest(
                    [DeleteRecordsTopic(name, rows) for name, rows in topics.items()], int(self.cluster.timeout_ms)
                )
                connection = await self.cluster.connection(leader)
                answer = await connection.call(DELETE_RECORDS, request, timeout_ms=self.cluster.timeout_ms)
                refused = None
                for topic in answer.topics:
                    for each in topic.partitions:
                        partition = TopicPartition(topic.name, each.partition_index)
                        if each.error_code:
                            self.cluster.forget([topic.name])
                            refused = refused or error(each.error_code, str(partition))
                        else:
                            begins[partition] = each.low_watermark
                if refused is not None:
                    raise refused

        await self.cluster.retry(once, final=(UnknownTopicOrPartition,))
        return begins

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, FoundOffset]:
        """The offset of the first record at or after each time in milliseconds, or of `EARLIEST` or `LATEST`; see
        `ottla.client.offsets.list_offsets`.
        """
        return await list_offsets(self.cluster, times, read_committed=read_committed)

    async def describe_settings(self, name: str, *, resource: int = TOPIC_RESOURCE) -> list[Setting]:
        """A topic's settings, set or not. With `resource=BROKER_RESOURCE` those of the broker whose id is `name`, or
        with the name "" the default of all brokers; with `BROKER_LOGGER_RESOURCE` a broker's loggers and their levels.
        """
        asked = DescribeConfigsResource(resource_type=resource, resource_name=name, configuration_keys=None)
        message = DescribeConfigsRequest(resources=[asked], include_documentation=True)
        answer = await self._ask(name, resource, DESCRIBE_CONFIGS, message)
        result = row_about(f"'{name}'", answer.results)
        _check(result.error_code, result.error_message, name, resource)
        return [
            Setting(each.name, each.value, each.config_source, each.read_only, each.is_sensitive, each.documentation)
            for each in result.configs
        ]

    async def alter_settings(
        self,
        name: str,
        changes: Mapping[str, str | None],
        *,
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
        resource: int = TOPIC_RESOURCE,
    ) -> None:
        """Sets settings of a topic; None returns one to its default. Others keep their values (KIP-339). `append` adds
        to settings that are lists, `subtract` takes away. With `validate_only` it only says whether that would be done.
        `resource` as in `describe_settings` (KIP-226).

        Raises:
            InvalidConfig: a setting does not exist or a value is out of its range; then nothing is changed.
        """
        operations: list[tuple[int, str, str | None]] = [
            (ConfigOperation.DELETE if value is None else ConfigOperation.SET, key, value)
            for key, value in changes.items()
        ]
        operations += [(ConfigOperation.APPEND, key, value) for key, value in (append or {}).items()]
        operations += [(ConfigOperation.SUBTRACT, key, value) for key, value in (subtract or {}).items()]
        configs = [
            AlterableConfig(name=key, config_operation=operation, value=value) for operation, key, value in operations
        ]
        row = AlterConfigsResource(resource_type=resource, resource_name=name, configs=configs)
        message = IncrementalAlterConfigsRequest(resources=[row], validate_only=validate_only)
        answer = await self._ask(name, resource, INCREMENTAL_ALTER_CONFIGS, message)
        answered = row_about(f"'{name}'", answer.responses)
        _check(answered.error_code, answered.error_message, name, resource)

    async def replace_settings(
        self,
        name: str,
        settings: Mapping[str, str],
        *,
        validate_only: bool = False,
        resource: int = TOPIC_RESOURCE,
    ) -> None:
        """Sets these settings of a topic, or of what `resource` says, and returns all others to their defaults. What
        two administrators change at once is lost: `alter_settings` is better, where brokers are 2.3 or later.

        Raises:
            InvalidConfig: as `alter_settings`.
        """
        configs = [ReplacedConfig(key, value) for key, value in settings.items()]
        message = AlterConfigsRequest([ReplacedResource(resource, name, configs)], validate_only)
        answer = await self._ask(name, resource, ALTER_CONFIGS, message)
        answered = row_about(f"'{name}'", answer.responses)
        _check(answered.error_code, answered.error_message, name, resource)

    async def describe_quotas(
        self, entity: Mapping[str, str | None] | None = None, *, exactly: bool = False
    ) -> list[Quota]:
        """The limits of the entities that match (KIP-546): `{"user": "anna"}` those of anna, `{"user": None}` those of
        users without limits of their own, `{"user": ANY_NAME}` those of any user; without one, all. With `exactly`
        entities that have more parts, such as a client id too, do not match.
        """
        components = [
            ComponentData(
                kind,
                _DEFAULT_NAME if name is None else _ANY_NAME if name == ANY_NAME else _THIS_NAME,
                None if name == ANY_NAME else name,
            )
            for kind, name in (entity or {}).items()
        ]
        answer = await self.cluster.call_any(DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components, exactly))
        check(answer.error_code, answer.error_message)
        return [
            Quota(
                {part.entity_type: part.entity_name for part in row.entity},
                {value.key: value.value for value in row.values},
            )
            for row in answer.entries or []
        ]

    async def alter_quotas(
        self, entity: Mapping[str, str | None], limits: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Sets limits of an entity, as `Quota` has them; None takes one away. With `validate_only` it only says whether
        that would be done.

        Raises:
            InvalidRequest: there is no such limit or kind of entity, or a limit is not positive.
        """
        entry = EntryData(
            [EntityData(kind, name) for kind, name in entity.items()],
            [OpData(key, 0.0 if value is None else value, value is None) for key, value in limits.items()],
        )
        answer = await self.cluster.call_controller(
            ALTER_CLIENT_QUOTAS,
            AlterClientQuotasRequest([entry], validate_only),
            lambda answer: row_about("the quotas", answer.entries).error_code,
        )
        row = row_about("the quotas", answer.entries)
        check(row.error_code, row.error_message)

    async def describe_features(self) -> Features:
        """The features of the cluster, as one broker knows them. Brokers before 2.7 have none."""

        async def once() -> Features:
            connection = await self.cluster.any_connection()
            answer = await connection.call(
                API_VERSIONS, connection.protocol.negotiation_request(), timeout_ms=self.cluster.timeout_ms
            )
            check(answer.error_code)
            return Features(
                {row.name: (row.min_version, row.max_version) for row in answer.supported_features},
                {row.name: (row.min_version_level, row.max_version_level) for row in answer.finalized_features},
                answer.finalized_features_epoch,
            )

        return await self.cluster.retry(once)

    async def update_features(self, levels: Mapping[str, int], *, may_downgrade: bool = False) -> None:
        """Finalizes features at these levels (KIP-584); 0 takes one away. Lower levels than now need `may_downgrade`.

        Raises:
            InvalidRequest, FeatureUpdateFailed: a feature or level is not supported by all brokers, or is lower.
        """
        rows = [FeatureUpdateKey(name, level, may_downgrade) for name, level in levels.items()]
        answer = await self.cluster.call_controller(
            UPDATE_FEATURES,
            UpdateFeaturesRequest(int(self.cluster.timeout_ms), rows),
            lambda answer: answer.error_code,
        )
        check(answer.error_code, answer.error_message)
        for row in answer.results:
            check(row.error_code, f"feature '{row.feature}': {row.error_message}")

    async def _ask(self, name: str, resource: int, api: Api[Request, Response], message: Request) -> Response:
        """Asks about a resource's settings: a broker about its own, which alone answers for them, else any."""

        async def once() -> Response:
            is_own = resource in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE) and name
            if not is_own:
                return await self.cluster.ask(api, message)
            connection = await self._connection(name)
            return await connection.call(api, message, timeout_ms=self.cluster.timeout_ms)

        return await self.cluster.retry(once, final=(BrokerNotAvailable,))

    async def _connection(self, broker_id: str) -> Connection:
        """To a broker, which alone answers for its settings. Raises BrokerNotAvailable."""
        await self.cluster.refresh([])
        address = self.cluster.metadata.brokers.get(int(broker_id))
        if address is None:
            raise BrokerNotAvailable(f"broker {broker_id} is not there")
        return await self.cluster.connection(address)

    async def _until_led(self, name: str, partitions: int) -> None:
        """Creation is answered when the controller knows it; brokers may learn of it a moment later."""
        deadline = trio.current_time() + self.cluster.timeout_ms / 1000
        while True:
            answer = await self.cluster.refresh([name])
            found = row_about(f"'{name}'", answer.topics).partitions
            led = sum(each.leader_id != NO_LEADER for each in found)
            if found and led == len(found) and led >= partitions:
                return
            if trio.current_time() > deadline:
                without = (number for number, each in enumerate(found) if each.leader_id == NO_LEADER)
                missing = TopicPartition(name, next(without, 0))
                raise LeaderNotAvailable(f"{missing} has no leader yet")
            await trio.sleep(VISIBLE_RETRY_MS / 1000)


def _check(code: int, message: str | None, name: str, resource: int = TOPIC_RESOURCE) -> None:
    if code:
        what = f"topic '{name}'" if resource == TOPIC_RESOURCE else f"broker {name}" if name else "all brokers"
        raise error(code, f"{what}: {message}" if message else what)


__all__ = ["ANY_NAME", "Admin", "Features", "Partition", "Quota", "Setting", "Topic"]
