"""What clients may do to topics and settings, with this broker's defaults filled in: the checks are here, the writing
is the controller room's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING

import trio

from ottla.broker import loggers
from ottla.broker.resources import own_broker
from ottla.broker.settings import DEFAULT, decoded
from ottla.config import ConfigError, TopicConfig, UnknownSetting, check_topic
from ottla.config.alter import Alteration, altered
from ottla.config.dynamic import check_reconfiguration, stored
from ottla.controller import admin
from ottla.coordination import znodes
from ottla.coordination.znodes import MalformedNode
from ottla.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from ottla.kafka import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE

if TYPE_CHECKING:
    from ottla.broker.metadata_cache import MetadataCache
    from ottla.broker.settings import Settings
    from ottla.coordination.tree import Tree

Assignment = dict[int, tuple[int, ...]]

#: In place of a number: the broker's default (KIP-464).
NOT_GIVEN = -1
#: More settings than anything has: each takes the loop for 2 us.
SETTINGS_MAX = 2_000


def check_number_of_settings(settings: Sized) -> None:
    """Raises InvalidRequest if there are more than anything has."""
    if len(settings) > SETTINGS_MAX:
        raise InvalidRequest(f"{len(settings)} settings of one resource are more than {SETTINGS_MAX}.")


class Admin:
    """`settings` are the broker's; `metadata` is what it knows of the cluster."""

    def __init__(self, tree: Tree, broker_id: int, settings: Settings, metadata: MetadataCache) -> None:
        self._tree = tree
        self._broker_id = broker_id
        self._settings = settings
        self._metadata = metadata

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

    def creation(self) -> admin.Creation:
        """For several topics."""
        return admin.Creation(self._tree)

    def new_topic(
        self,
        name: str,
        *,
        partitions: int = NOT_GIVEN,
        replication_factor: int = NOT_GIVEN,
        assignment: Assignment | None = None,
        overrides: Mapping[str, str | None] | None = None,
    ) -> tuple[admin.NewTopic, TopicConfig]:
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
        return admin.NewTopic(name, partitions, replication_factor, assignment or None, own), config

    def _topic_config(self, own: dict[str, str]) -> TopicConfig:
        try:
            return TopicConfig.from_broker(self._settings.config, own)
        except ConfigError as error:
            raise InvalidConfig(str(error)) from error

    async def delete_topic(self, name: str) -> None:
        """Marks a topic for deletion; the controller carries it out."""
        error = (await admin.delete_topics(self._tree, [name]))[name]
        if error is not None:
            raise error

    async def until_name_is_free(self, topic: str) -> None:
        """Returns when nothing of a deleted topic is left in the tree."""
        while True:
            gone = trio.Event()
            if await self._tree.exists(znodes.topic_path(topic), lambda _, gone=gone: gone.set()) is None:  # type: ignore[misc]
                return
            await gone.wait()

    async def create_partitions(
        self, name: str, total: int, assignments: list[list[int]] | None, validate_only: bool
    ) -> None:
        await admin.create_partitions(self._tree, name, total, assignments=assignments, validate_only=validate_only)

    async def topic_overrides(self, name: str) -> dict[str, str]:
        """A topic's own settings, as the tree has them now. Raises InvalidConfig if nobody understands them."""
        return await self._settings_in_tree("topics", name)

    async def _settings_in_tree(self, kind: str, name: str) -> dict[str, str]:
        try:
            return await admin.get_config(self._tree, kind, name)
        except MalformedNode as error:
            raise InvalidConfig(f"{error}; AlterConfigs with all settings that are to hold puts it right") from error

    async def alter_configs(
        self,
        kind: int,
        name: str,
        alterations: Sequence[Alteration],
        validate_only: bool,
        *,
        replace: bool,
        asked_by: str = "somebody",
    ) -> None:
        """Changes a topic's or broker's own settings, or its log levels: `replace` drops those that are not named.

        `asked_by` is for the line about changed log levels. Raises KafkaError.
        """
        try:
            if kind == TOPIC_RESOURCE:
                await self._alter_topic(name, alterations, validate_only, replace)
            elif kind == BROKER_RESOURCE:
                await self._alter_broker(name, alterations, validate_only, replace)
            elif kind == BROKER_LOGGER_RESOURCE and not replace:
                if name:
                    own_broker(self._broker_id, name)
                loggers.alter(alterations, asked_by=asked_by, validate_only=validate_only)
            else:
                raise InvalidRequest(
                    f"Resource type {kind} cannot be altered: topics are {TOPIC_RESOURCE}, brokers {BROKER_RESOURCE}."
                )
        except UnknownSetting as error:
            raise InvalidConfig(str(error)) from error
        except ConfigError as error:
            raise InvalidRequest(str(error)) from error

    async def _alter_topic(
        self, name: str, alterations: Sequence[Alteration], validate_only: bool, replace: bool
    ) -> None:
        if not name and not replace:
            raise InvalidRequest("Default topic resources are not allowed.")
        if name not in self._metadata.topics:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        current = {} if replace else await self.topic_overrides(name)
        wanted = altered(current, alterations, of_topic=True)
        untouched = set(current)
        if current:
            untouched.difference_update(alteration.name for alteration in alterations)
        check_topic(wanted, untouched)
        if not validate_only:
            await admin.set_topic_config(self._tree, name, wanted, untouched)

    async def _alter_broker(
        self, name: str, alterations: Sequence[Alteration], validate_only: bool, replace: bool
    ) -> None:
        is_own = own_broker(self._broker_id, name)
        entity = name if is_own else DEFAULT
        before = {} if replace else await self._settings_in_tree("brokers", entity)
        config = self._settings.config
        current, _ = await decoded(config, before, for_one_broker=is_own)
        wanted = altered(current, alterations, of_topic=False)
        check_reconfiguration(config, config.require_dynamic(wanted, for_one_broker=is_own))
        names = {alteration.name for alteration in alterations}
        text = stored(
            wanted, before, decoded=current, altered=names, for_one_broker=is_own, passwords=config.password_encoder
        )
        if not validate_only:
            await admin.set_config(self._tree, "brokers", entity, text)
