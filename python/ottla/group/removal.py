"""How groups and offsets go: deleted by somebody, with their topic, or because their time is over.

What goes from memory gets a tombstone in the log, or it would be back after the next loading.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.errors import GroupIdNotFound, GroupSubscribedToTopic, NonEmptyGroup
from ottla.group import records
from ottla.group.append_errors import as_commit_error
from ottla.group.hosted import Done, GroupSettings, Hosted
from ottla.group.records import NO_TIMESTAMP
from ottla.group.state import EMPTY
from ottla.group.subscription import subscribed, subscribed_topics
from ottla.kafka import TopicPartition
from ottla.net.guard import failed
from ottla.slices import Slices, in_slices

if TYPE_CHECKING:
    from ottla.replication.internal_topic import InternalTopic, NewRecords

logger = logging.getLogger("ottla.group")

#: Tombstones per batch.
TOMBSTONES_MAX = 1_000


class Groups(Protocol):
    """The part of a coordinator that removals need."""

    @property
    def topic(self) -> InternalTopic: ...
    @property
    def groups(self) -> dict[str, Hosted]: ...
    @property
    def settings(self) -> GroupSettings: ...
    @property
    def wall_ms(self) -> Callable[[], int]: ...
    def missing(self, group_id: str, *, may_be_empty: bool = False) -> int: ...
    def drop(self, group_id: str, hosted: Hosted) -> None: ...


class Removal:
    """The removals of one coordinator."""

    def __init__(self, coordinator: Groups) -> None:
        self._coordinator = coordinator

    def delete(self, group_id: str, done: Done) -> None:
        """Deletes an empty group and its offsets."""
        hosted = self._coordinator.groups.get(group_id)
        if hosted is None:
            return done(self._coordinator.missing(group_id, may_be_empty=True) or GroupIdNotFound.code)
        if hosted.group.state is not EMPTY:
            return done(NonEmptyGroup.code)
        logger.info("group %s is deleted", group_id)
        hosted.group.pending_members.clear()
        return self._remove_offsets(group_id, hosted, hosted.group.offsets.partitions, done)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition], done: Callable[[int, list[int]], None]
    ) -> None:
        """Deletes offsets of topics that no member reads. The error for all, and one for each."""
        hosted = self._coordinator.groups.get(group_id) if group_id else None
        if hosted is None:
            return done(self._coordinator.missing(group_id) or GroupIdNotFound.code, [])
        group = hosted.group
        errors = [0] * len(partitions)
        if group.state is not EMPTY:
            if group.protocol_type != "consumer":
                return done(NonEmptyGroup.code, [])
            topics = subscribed_topics(group, subscribed)
            errors = [
                GroupSubscribedToTopic.code if topics is None or topic in topics else 0 for topic, _ in partitions
            ]
        removed = [partition for partition, error in zip(partitions, errors, strict=True) if not error]

        def deleted(error: int) -> None:
            done(error, errors)

        return self._remove_offsets(group_id, hosted, removed, deleted)

    async def partitions_deleted(self, partitions: Iterable[TopicPartition], slices: Slices) -> None:
        """Topics are gone: so are the offsets in them when this returns, before topics of the same names come."""
        gone: set[TopicPartition] = set()
        for partition in partitions:
            await slices.row()
            gone.add(partition)
        for group_id, hosted in list(self._coordinator.groups.items()):
            await slices.row()
            if self._coordinator.groups.get(group_id) is not hosted:
                continue
            known = gone & hosted.group.offsets.partitions
            if known:
                self._remove_offsets(group_id, hosted, known, lambda _: None)
        while gone:
            # One after the other: all at once would take the loop for long.
            await slices.row()
            gone.pop()

    async def expire_offsets(self) -> None:
        """Removes offsets whose time is over, and groups of which nothing is left."""
        now_ms, removed = self._coordinator.wall_ms(), 0
        async for group_id, hosted in in_slices(list(self._coordinator.groups.items())):
            if self._coordinator.groups.get(group_id) is not hosted:
                continue
            try:
                removed += self._expire(group_id, hosted, now_ms)
            except BaseException as error:
                failed(f"the expiry of offsets of group {group_id}", error, {"group": group_id})
        if removed:
            logger.info("%d offsets have expired", removed)

    def _expire(self, group_id: str, hosted: Hosted, now_ms: int) -> int:
        """Returns how many offsets of one group go."""
        due = self._expired(hosted, now_ms)
        if due or hosted.group.state is EMPTY:
            self._remove_offsets(group_id, hosted, due, lambda _: None)
        return len(due)

    def _expired(self, hosted: Hosted, now_ms: int) -> list[TopicPartition]:
        group, retention_ms = hosted.group, self._coordinator.settings.retention_ms
        if group.protocol_type is None:
            # Nobody joins it: it is only used to keep offsets.
            return group.offsets.expired(now_ms, retention_ms)
        if group.state is EMPTY:
            since_ms = hosted.state_timestamp_ms
            return group.offsets.expired(now_ms, retention_ms, since_ms=None if since_ms == NO_TIMESTAMP else since_ms)
        topics = subscribed_topics(group, subscribed)
        if topics is None:
            return []
        return group.offsets.expired(now_ms, retention_ms, in_use=topics)

    def _remove_offsets(self, group_id: str, hosted: Hosted, partitions: Iterable[TopicPartition], done: Done) -> None:
        """Removes offsets, and the group too if it is empty and has none left."""
        group = hosted.group
        tombstones: NewRecords = [
            (records.offset_key(group_id, topic, partition), None)
            for topic, partition in group.offsets.remove(partitions)
        ]
        if group.state is EMPTY and group.offsets.is_empty and not group.pending_members:
            self._coordinator.drop(group_id, hosted)
            if group.generation > 0:  # otherwise the log has never heard of it
                tombstones.append((records.group_key(group_id), None))
        self._append_tombstones(hosted, tombstones, done)

    def _append_tombstones(self, hosted: Hosted, tombstones: NewRecords, done: Done) -> None:
        waiting = max(1, -(-len(tombstones) // TOMBSTONES_MAX))
        first_error = 0

        def appended(error: int, _: int = -1) -> None:
            nonlocal waiting, first_error
            first_error = first_error or error
            waiting -= 1
            if waiting == 0:
                if first_error:
                    # They come back with the next loading, and then expire again.
                    logger.warning("group %s: tombstones were not written: error %d", hosted.group, first_error)
                done(as_commit_error(first_error))

        if not tombstones:
            return appended(0)
        for start in range(0, len(tombstones), TOMBSTONES_MAX):
            part = tombstones[start : start + TOMBSTONES_MAX]
            self._coordinator.topic.append_then(hosted.index, hosted.leader_epoch, part, appended)
        return None
