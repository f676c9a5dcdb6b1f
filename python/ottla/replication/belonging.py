"""Which of this broker's logs are of the topics that the coordination tree has, and what becomes of the others.

A broker that was away has old folders. `ottla.replication.log_notes` tells whose they are. They are looked at when the
broker starts, and again before it takes a role for which it has a folder, since a topic may have been made anew
meanwhile:

| the folder's log | at the start | before a role is taken |
|---|---|---|
| is the topic's, which the broker is to hold | stays | is used |
| is the topic's, which the broker is not to hold | is deleted: a move ended without this broker | is used |
| nobody knows whose | gets a note of the topic | gets a note of the topic |
| is another topic's of that name | is put aside | is put aside |
| is of a topic that the tree does not have | stays, and serves nobody | - |

A controller's word that a replica is new decides nothing. It is said again when an answer was lost, and by the next
controller.

The tree is asked after a `sync`: a server that is behind could name the topic that was there before. Without an answer
no role is taken for which there is a folder.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from ottla.coordination import znodes
from ottla.coordination.tree import Tree, TreeError, is_path
from ottla.coordination.znodes import MalformedNode, PartitionState, TopicAssignment
from ottla.errors import KafkaError, StorageError, counted
from ottla.logging_setup import of_partition
from ottla.replication.log_notes import Note, Verdict, verdict
from ottla.slices import Slices

if TYPE_CHECKING:
    from ottla.coordination.tree import Node
    from ottla.kafka import PartitionKey
    from ottla.replication.log_manager import LogManager

logger = logging.getLogger(__name__)

#: How long a look into the tree may hold up a request of the controller, who waits for 30 s.
TREE_S: Final = 10.0
#: Partitions that one line names.
NAMED_MAX: Final = 3


class Taken(NamedTuple):
    """Findings about logs before roles are taken."""

    #: By topic, for the logs that are made.
    notes: dict[str, Note]
    #: Those for which another topic's log was put aside: they have none now.
    put_aside: set[PartitionKey]
    #: Those whose logs cannot be used.
    errors: dict[PartitionKey, StorageError]


class Belonging:
    """The logs of one broker, held against the tree."""

    def __init__(self, broker_id: int, tree: Tree, logs: LogManager) -> None:
        self._broker_id = broker_id
        self._tree = tree
        self._logs = logs
        #: What the notes say that were looked at, of logs without a role.
        self._notes: dict[PartitionKey, Note] = {}

    async def look(self) -> None:
        """At the start, before any role: the table above. Raises TreeError."""
        by_topic = _by_topic(self._logs.logs)
        found, nodes = await self._topics(by_topic)
        kept, put_aside = await self._sort([key for key in self._logs.logs if key[0] in found], found)
        self._logs.without_log.update(key for key, error in put_aside.items() if error is None)
        leaving = set(await self._tree.children(znodes.DELETE_TOPICS))
        assigned: dict[str, Mapping[int, Collection[int]]] = {}
        for topic, node in nodes.items():
            if topic in leaving:
                # The controller says when.
                continue
            with contextlib.suppress(MalformedNode):
                assigned[topic] = TopicAssignment.decode(znodes.topic_path(topic), node.data).partitions
        self._notes.update((key, found[key[0]]) for key in kept)
        held = (self._broker_id,)
        moved = [key for key in kept if self._broker_id not in assigned.get(key[0], {}).get(key[1], held)]
        await self._delete(await self._not_needed(moved))

    async def _not_needed(self, keys: list[PartitionKey]) -> list[PartitionKey]:
        """Those that somebody else has led without this broker: what it has is no part of them any more."""
        paths = [znodes.state_path(*key) for key in keys]
        found: list[PartitionKey] = []
        for key, path, node in zip(keys, paths, await self._tree.get_many(paths), strict=True):
            with contextlib.suppress(MalformedNode):
                if node is not None and self._broker_id not in PartitionState.decode(path, node.data).isr:
                    found.append(key)
        return found

    async def before_roles(self, keys: Collection[PartitionKey]) -> Taken:
        """For partitions for which this process has had no role."""
        taken = Taken({}, set(), {})
        if not keys:
            return taken
        found: dict[str, Note] | None = None
        with trio.move_on_after(TREE_S):
            try:
                found, _ = await self._topics(_by_topic(keys))
            except (TreeError, MalformedNode) as error:
                logger.warning("which topics the logs belong to cannot be read: %s", error)
        # Those that are as they were when the broker started need not be read again.
        known = {key: note for key in keys if (note := self._notes.pop(key, None)) is not None}
        here = [key for key in keys if key in self._logs.logs]
        if found is None:
            # Those that are made get their notes at the next start.
            for topic, index in here:
                taken.errors[topic, index] = StorageError(
                    f"{topic}-{index} may be of another topic of this name: the coordination tree does not answer"
                )
            return taken
        taken.notes.update(found)
        read = [key for key in here if key[0] in found and known.get(key) != found[key[0]]]
        _, put_aside = await self._sort(read, found)
        for key, refused in put_aside.items():
            if refused is None:
                taken.put_aside.add(key)
            else:
                taken.errors[key] = refused
        return taken

    async def _topics(self, topics: Iterable[str]) -> tuple[dict[str, Note], dict[str, Node]]:
        """The topics that are in the tree, and their nodes. None where the tree has no cluster."""
        # A folder may have a name that no topic can have.
        names = [topic for topic in topics if is_path(znodes.topic_path(topic))]
        await self._tree.sync()
        paths = [znodes.CLUSTER_ID, *map(znodes.topic_path, names)]
        cluster, *nodes = await self._tree.get_many(paths)
        if cluster is None:
            return {}, {}
        cluster_id = znodes.decode_cluster_id(cluster.data)
        found = {topic: node for topic, node in zip(names, nodes, strict=True) if node is not None}
        origin = (cluster_id, cluster.stat.czxid, cluster.stat.ctime_ms)
        return {topic: Note(*origin, node.stat.czxid) for topic, node in found.items()}, found

    async def _sort(
        self, keys: Collection[PartitionKey], topics: Mapping[str, Note]
    ) -> tuple[list[PartitionKey], dict[PartitionKey, StorageError | None]]:
        """Those of the logs that say that they are their topic's, and those that were put aside, or could not be.
        The others get notes.
        """
        own: list[PartitionKey] = []
        unknown: dict[PartitionKey, Note] = {}
        put_aside: dict[PartitionKey, StorageError | None] = {}
        slices = Slices(own=True)
        for key, note in (await self._logs.notes(keys)).items():
            await slices.row()
            topic = topics[key[0]]
            match verdict(note, topic):
                case Verdict.ITS_OWN:
                    own.append(key)
                case Verdict.UNKNOWN:
                    unknown[key] = topic
                case Verdict.ANOTHERS:
                    assert note is not None
                    put_aside[key] = await self._put_aside(key, note, topic)
        if unknown:
            await self._logs.note(unknown)
            logger.info(
                "%s had no note of this coordination tree, and %s taken for what the folders are called: %s",
                counted(len(unknown), "log"),
                "is" if len(unknown) == 1 else "are",
                _some(unknown),
            )
        return own, put_aside

    async def _put_aside(self, key: PartitionKey, note: Note, topic: Note) -> StorageError | None:
        records = self._logs.logs[key]
        start, end = records.start_offset, records.end_offset
        try:
            directory, identity = await self._logs.put_aside(*key, note)
        except StorageError as error:
            logger.error("%s", error, extra=of_partition(*key))
            return error
        logger.warning(
            "%s-%d: the log that was here (offsets %d to %d) is of another topic of this name, which was made in "
            "transaction %d of the coordination tree; the one of today was made in %d. It is put aside, and nobody "
            "reads it: `ottla log take-back %s %s` would make it this topic's, while this broker is stopped",
            *key,
            start,
            end,
            note.topic_czxid,
            topic.topic_czxid,
            directory,
            identity,
            extra=of_partition(*key),
        )
        return None

    async def _delete(self, moved: Collection[PartitionKey]) -> None:
        """Replicas that a move has left behind."""
        deleted: list[PartitionKey] = []
        for key in moved:
            try:
                await self._logs.delete(*key)
                deleted.append(key)
            except KafkaError as error:
                logger.warning("%s-%d moved to other brokers, and cannot be deleted: %s", *key, error)
        if deleted:
            await self._logs.sync_deletions()
            logger.warning(
                "%s moved to other brokers while this one was away, and %s deleted here: %s",
                counted(len(deleted), "replica"),
                "is" if len(deleted) == 1 else "are",
                _some(deleted),
            )


def _by_topic(keys: Iterable[PartitionKey]) -> dict[str, None]:
    return dict.fromkeys(topic for topic, _ in keys)


def _some(keys: Collection[PartitionKey]) -> str:
    names = [f"{topic}-{index}" for topic, index in sorted(keys)[:NAMED_MAX]]
    more = len(keys) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
