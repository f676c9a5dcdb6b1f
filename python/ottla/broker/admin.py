"""Clients' changes to topics and settings, with this broker's defaults filled in: the checks are here, the writing is
the controller room's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from ottla.broker import identity, loggers
from ottla.broker.resources import own_broker
from ottla.broker.settings import DEFAULT, decoded
from ottla.config import ConfigError, TopicConfig, UnknownSetting, check_topic
from ottla.config.alter import Alteration, altered
from ottla.config.dynamic import check_reconfiguration, stored
from ottla.controller import topic_changes
from ottla.controller.configs import Entity, Wanted, get_configs, set_config, set_configs
from ottla.controller.same_address import holder
from ottla.coordination import znodes
from ottla.coordination.znodes import MalformedNode
from ottla.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)
from ottla.kafka import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla.broker.addresses import Addresses
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.settings import Settings
    from ottla.config import BrokerConfig
    from ottla.coordination.tree import Tree

Assignment = dict[int, tuple[int, ...]]

#: In place of a number: the broker's default (KIP-464).
NOT_GIVEN = -1
#: More settings than anything has: each takes the loop for 2 us.
SETTINGS_MAX = 2_000


class Resource(NamedTuple):
    """A topic or a broker that has settings, and how they are to change."""

    kind: int
    name: str
    alterations: Sequence[Alteration]


def check_number_of_settings(settings: Sized) -> None:
    """Raises InvalidRequest if there are more than anything has."""
    if len(settings) > SETTINGS_MAX:
        raise InvalidRequest(f"{len(settings)} settings of one resource are more than {SETTINGS_MAX}.")


class Admin:
    """`settings` are the broker's; `metadata` is what it knows of the cluster."""

    def __init__(
        self, tree: Tree, broker_id: int, settings: Settings, metadata: MetadataCache, addresses: Addresses
    ) -> None:
        self._tree = tree
        self._broker_id = broker_id
        self._settings = settings
        self._metadata = metadata
        self._addresses = addresses

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = NOT_GIVEN,
        replication_factor: int = NOT_GIVEN,
        assignment: Assignment | None = None,
        overrides: Mapping[str, str | None] | None = None,
    ) -> None:
        """Creates a topic. Raises KafkaError."""
        topic, _ = self.new_topic(
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            assignment=assignment,
            overrides=overrides,
        )
        await self.creation().create(topic)

    def creation(self) -> topic_changes.Creation:
        """For several topics."""
        return topic_changes.Creation(self._tree)

    def new_topic(
        self,
        name: str,
        *,
        partitions: int = NOT_GIVEN,
        replication_factor: int = NOT_GIVEN,
        assignment: Assignment | None = None,
        overrides: Mapping[str, str | None] | None = None,
    ) -> tuple[topic_changes.NewTopic, TopicConfig]:
        """Returns a topic to create, and its effective settings. The broker's defaults stand for arguments that are not
        given. Raises KafkaError.
        """
        own = {}
        for setting, value in (overrides or {}).items():
            if value is None:
                raise InvalidRequest(f"{setting} of topic {name} has no value: leave it out, or give it one.")
            own[setting] = value
        config = self._topic_config(own)
        if partitions == NOT_GIVEN:
            partitions = self._settings.config.get_int("num.partitions")
        if replication_factor == NOT_GIVEN:
            replication_factor = self._settings.config.get_int("default.replication.factor")
        if not assignment and partitions < 1:
            raise InvalidPartitions("Number of partitions must be larger than 0.")
        if not assignment and replication_factor < 1:
            raise InvalidReplicationFactor("Replication factor must be larger than 0.")
        return topic_changes.NewTopic(name, partitions, replication_factor, assignment or None, own), config

    def _topic_config(self, own: dict[str, str]) -> TopicConfig:
        try:
            return TopicConfig.from_broker(self._settings.config, own)
        except ConfigError as error:
            raise InvalidConfig(str(error)) from error

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Marks topics for deletion; the controller carries it out. By name None, or why not."""
        return await topic_changes.delete_topics(self._tree, names)

    async def until_name_is_free(self, topic: str) -> None:
        """Returns when nothing of a deleted topic is left in the tree."""
        while True:
            gone = trio.Event()
            if await self._tree.exists(znodes.topic_path(topic), lambda _, gone=gone: gone.set()) is None:  # type: ignore[misc]
                return
            await gone.wait()

    def growth(self) -> topic_changes.Growth:
        """For topics that get more partitions."""
        return topic_changes.Growth(self._tree)

    async def topic_overrides(self, name: str) -> dict[str, str]:
        """A topic's own settings, as the tree has them now. Raises InvalidConfig if nobody understands them."""
        return await self._settings_in_tree(Entity("topics", name))

    async def _settings_in_tree(self, entity: Entity) -> dict[str, str]:
        (config,) = await get_configs(self._tree, [entity])
        return _understood(config)

    async def alter_configs(
        self,
        resources: Sequence[Resource],
        *,
        validate_only: bool = False,
        replace: bool,
        asked_by: str = "somebody",
    ) -> list[KafkaError | None]:
        """Changes the own settings of topics and brokers, or log levels: `replace` drops those that are not named. By
        resource None, or why it was not changed. No resource may be named twice.

        `asked_by` is for the line about changed log levels.
        """
        errors: list[KafkaError | None] = [None] * len(resources)
        topics: dict[int, Resource] = {}
        slices = Slices()
        for at, resource in enumerate(resources):
            await slices.row()
            if resource.kind == TOPIC_RESOURCE:
                topics[at] = resource
                continue
            try:
                with _told_as_kafka_does():
                    await self._alter_other(resource, validate_only, replace, asked_by)
            except KafkaError as error:
                errors[at] = error
        altered = await self._alter_topics(list(topics.values()), validate_only, replace)
        for at, refused in zip(topics, altered, strict=True):
            errors[at] = refused
        return errors

    async def _alter_other(self, resource: Resource, validate_only: bool, replace: bool, asked_by: str) -> None:
        kind, name, alterations = resource
        if kind == BROKER_RESOURCE:
            await self._alter_broker(name, alterations, validate_only, replace)
        elif kind == BROKER_LOGGER_RESOURCE and not replace:
            if name:
                own_broker(self._broker_id, name)
            loggers.alter(alterations, asked_by=asked_by, validate_only=validate_only)
        else:
            raise InvalidRequest(
                f"Resource type {kind} cannot be altered: topics are {TOPIC_RESOURCE}, brokers {BROKER_RESOURCE}."
            )

    async def _alter_topics(
        self, resources: Sequence[Resource], validate_only: bool, replace: bool
    ) -> list[KafkaError | None]:
        errors: list[KafkaError | None] = [None] * len(resources)
        there: dict[int, Entity] = {}
        slices = Slices()
        for at, (_, name, _) in enumerate(resources):
            await slices.row()
            if not name and not replace:
                errors[at] = InvalidRequest("Default topic resources are not allowed.")
            elif name not in self._metadata.topics:
                errors[at] = UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
            else:
                there[at] = Entity("topics", name)
        stored: Sequence[dict[str, str] | MalformedNode] = [{} for _ in there]
        if not replace:
            stored = await get_configs(self._tree, list(there.values()))
        wanted: dict[int, Wanted] = {}
        for (at, entity), current in zip(there.items(), stored, strict=True):
            await slices.row()
            try:
                with _told_as_kafka_does():
                    wanted[at] = Wanted(entity, _altered_topic(_understood(current), resources[at].alterations))
            except KafkaError as error:
                errors[at] = error
        if not validate_only:
            for at, refused in zip(wanted, await set_configs(self._tree, list(wanted.values())), strict=True):
                errors[at] = refused
        return errors

    async def _alter_broker(
        self, name: str, alterations: Sequence[Alteration], validate_only: bool, replace: bool
    ) -> None:
        is_own = own_broker(self._broker_id, name)
        entity = Entity("brokers", name if is_own else DEFAULT)
        before = {} if replace else await self._settings_in_tree(entity)
        config = self._settings.config
        current, _ = await decoded(config, before, for_one_broker=is_own)
        wanted = altered(current, alterations, of_topic=False)
        then = config.require_dynamic(wanted, for_one_broker=is_own)
        check_reconfiguration(config, then)
        if is_own:
            await self._check_addresses(then)
            self._addresses.check_authentication(then)
        names = {alteration.name for alteration in alterations}
        secured = self._addresses.secured
        has_files = is_own and await secured.check(config, then, names)
        text = stored(
            wanted, before, decoded=current, altered=names, for_one_broker=is_own, passwords=config.password_encoder
        )
        if not validate_only:
            await set_config(self._tree, *entity, text)
            if has_files:
                await secured.load(lambda: self._settings.config)

    async def _check_addresses(self, config: BrokerConfig) -> None:
        other = await holder(self._tree, self._broker_id, identity.in_tree(self._addresses.newly(config)))
        if other is not None:
            raise InvalidRequest(f"advertised.listeners: {other}; two brokers cannot have one address.")


def _altered_topic(current: dict[str, str], alterations: Sequence[Alteration]) -> dict[str, str]:
    """All settings that a topic has then of its own. Raises ConfigError."""
    wanted = altered(current, alterations, of_topic=True)
    # What is stored already is not checked.
    untouched = set(current)
    if current:
        untouched.difference_update(alteration.name for alteration in alterations)
    check_topic(wanted, untouched)
    return wanted


def _understood(config: dict[str, str] | MalformedNode) -> dict[str, str]:
    if isinstance(config, MalformedNode):
        raise InvalidConfig(f"{config}; AlterConfigs with all settings that are to hold puts it right") from config
    return config


@contextmanager
def _told_as_kafka_does() -> Iterator[None]:
    """Raises a problem of settings as the KafkaError that Kafka tells it by."""
    try:
        yield
    except UnknownSetting as error:
        raise InvalidConfig(str(error)) from error
    except ConfigError as error:
        raise InvalidRequest(str(error)) from error
