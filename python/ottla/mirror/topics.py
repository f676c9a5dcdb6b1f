"""Which topics of the source are mirrored, and their mirrors: made, grown, and given the source's settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.client.admin import Admin, Setting
from ottla.errors import InvalidReplicationFactor, KafkaError, TopicAlreadyExists, counted
from ottla.mirror.config import FlowConfig
from ottla.mirror.naming import is_internal

logger = logging.getLogger(__name__)

#: The source of a setting that the topic itself has, not its broker.
OWN = 1


async def create_topic(
    admin: Admin, cluster: str, name: str, partitions: int, factor: int, settings: Mapping[str, str], factor_of: str
) -> None:
    """Makes a topic in the cluster with this alias. `factor_of` is the setting that says how many replicas it has.

    Raises:
        InvalidReplicationFactor: there are not so many brokers; it says which setting to change. KafkaError: as
        `Admin.create_topic`.
    """
    try:
        await admin.create_topic(name, partitions, factor, settings)
    except InvalidReplicationFactor as error:
        brokers = len(admin.cluster.metadata.brokers)
        raise InvalidReplicationFactor(
            f"topic '{name}' is to have {counted(factor, 'replica')} in {cluster}, "
            f"which has {counted(brokers, 'broker')}: set {factor_of} to {brokers} or less ({error})"
        ) from None


class Topics:
    """The topics of one flow. `admins` are those of the source and of the target."""

    def __init__(self, flow: FlowConfig, source: Admin, target: Admin) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        #: Partitions of each topic that is mirrored, by its name in the source.
        self.mirrored: dict[str, int] = {}
        #: How often the source was looked at.
        self.looks = 0

    def is_wanted(self, topic: str) -> bool:
        """Whether a topic of the source is mirrored. Heartbeats are unless that is switched off: they show that the way
        is open.
        """
        names = self._flow.names
        if is_internal(topic) or names.was_in(topic, self._flow.target):
            return False
        return self._flow.topics.takes(topic) or (self._flow.takes_heartbeats and names.is_heartbeats(topic))

    async def refresh(self) -> None:
        """Looks at the source, and makes and grows what is missing in the target. A topic for which that fails is left
        out until the next time. Raises KafkaError, OSError: a cluster cannot be asked.
        """
        names = self._flow.names
        wanted = {
            topic.name: len(topic.partitions)
            for topic in await self._source.describe_topics()
            if self.is_wanted(topic.name)
        }
        there = {topic.name: len(topic.partitions) for topic in await self._target.describe_topics()}
        mirrored: dict[str, int] = {}
        for topic, partitions in sorted(wanted.items()):
            remote = names.remote(self._flow.source, topic)
            try:
                if remote not in there:
                    await self._create(topic, remote, partitions)
                elif there[remote] < partitions:
                    await self._target.create_partitions(remote, partitions)
                    logger.info("%s: %s has %s now", self._flow, remote, counted(partitions, "partition"))
            except KafkaError as error:
                logger.warning("%s: %s is not mirrored: %s", self._flow, topic, error)
                continue
            mirrored[topic] = partitions
        if mirrored.keys() != self.mirrored.keys():
            logger.info("%s: %s mirrored", self._flow, counted(len(mirrored), "topic is", "topics are"))
        self.mirrored = mirrored
        self.looks += 1

    async def sync_settings(self) -> None:
        """Gives the mirrors the settings of their topics. Errors as `refresh`."""
        for topic in list(self.mirrored):
            remote = self._flow.names.remote(self._flow.source, topic)
            try:
                wanted = self._settings(await self._source.describe_settings(topic))
                there = {each.name: each for each in await self._target.describe_settings(remote)}
                changes: dict[str, str | None] = {
                    name: value for name, value in wanted.items() if name in there and there[name].value != value
                }
                # What was set here once and is not set there any more.
                changes |= {
                    each.name: None
                    for each in there.values()
                    if each.source == OWN
                    and each.name not in wanted
                    and not self._flow.configs_excluded.takes(each.name)
                }
                if changes:
                    await self._target.alter_settings(remote, changes)
                    logger.info("%s: %s has new settings: %s", self._flow, remote, ", ".join(sorted(changes)))
            except KafkaError as error:
                logger.warning("%s: the settings of %s are not copied: %s", self._flow, topic, error)

    async def _create(self, topic: str, remote: str, partitions: int) -> None:
        settings = self._settings(await self._source.describe_settings(topic))
        try:
            await create_topic(
                self._target,
                self._flow.target,
                remote,
                partitions,
                self._flow.replication_factor,
                settings,
                "replication.factor",
            )
        except TopicAlreadyExists:  # another instance was quicker
            return
        logger.info("%s: %s is made, with %s", self._flow, remote, counted(partitions, "partition"))

    def _settings(self, settings: list[Setting]) -> dict[str, str]:
        return {
            each.name: each.value
            for each in settings
            if each.source == OWN and each.value is not None and not self._flow.configs_excluded.takes(each.name)
        }
