"""MirrorMaker 2's MirrorCheckpointTask: checkpoints say where the groups of the source go on in the target. Offsets of
groups that nobody uses there are committed for them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from ottla.client.admin import Admin
from ottla.client.groups import Committed
from ottla.errors import KafkaError
from ottla.kafka import TopicPartition
from ottla.mirror.config import FlowConfig
from ottla.mirror.formats import Checkpoint
from ottla.mirror.syncs import Syncs

logger = logging.getLogger(__name__)

#: The states of a group without members.
UNUSED = ("Dead", "Empty")


class Checkpoints:
    """The checkpoints of one flow, for the partitions that this instance copies."""

    def __init__(self, flow: FlowConfig, source: Admin, target: Admin, syncs: Syncs) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._syncs = syncs
        self._told: dict[tuple[str, TopicPartition], Checkpoint] = {}
        self._groups: list[str] = []

    async def refresh_groups(self) -> None:
        """Looks which groups the source has. Raises KafkaError, OSError."""
        listed = await self._source.groups.listed()
        self._groups = sorted(
            each.group
            for each in listed
            if each.protocol_type in ("", "consumer") and self._flow.groups.takes(each.group)
        )

    async def news(self, partitions: Collection[TopicPartition]) -> list[Checkpoint]:
        """The checkpoints that changed, of these partitions of the source. Raises KafkaError, OSError."""
        found = [checkpoint for group in self._groups for checkpoint in await self._of(group, partitions)]
        news = [each for each in found if self._told.get((each.group, each.partition)) != each]
        self._told |= {(each.group, each.partition): each for each in news}
        return news

    async def commit(self, partitions: Collection[TopicPartition]) -> None:
        """Commits for each group that nobody uses in the target where it would go on there; never back. Errors as
        `news`.
        """
        for group in self._groups:
            try:
                offsets = {each.partition: each.downstream for each in await self._of(group, partitions)}
                await self._commit(group, offsets)
            except KafkaError as error:
                logger.warning("%s: the offsets of group '%s' are not copied: %s", self._flow, group, error)

    async def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if not offsets or (await self._target.groups.describe(group)).state not in UNUSED:
            return
        known = await self._target.groups.committed(group, list(offsets))
        ahead = {
            partition: Committed(offset)
            for partition, offset in offsets.items()
            if partition not in known or known[partition].offset < offset
        }
        if ahead:
            await self._target.groups.commit(group, ahead)

    async def _of(self, group: str, partitions: Collection[TopicPartition]) -> list[Checkpoint]:
        found = []
        for partition, committed in (await self._source.groups.committed(group)).items():
            if partition not in partitions:
                continue
            offset = self._syncs.translated(partition, committed.offset)
            if offset is not None:
                mirror = TopicPartition(
                    self._flow.names.remote(self._flow.source, partition.topic), partition.partition
                )
                found.append(Checkpoint(group, mirror, committed.offset, offset, committed.metadata))
        return found
