"""A data directory whose coordination tree is gone, or is another one's, or that comes from Kafka without one.

A tree that is made anew would know no topic: the broker would be an empty cluster beside records that nobody can read,
until a new topic of the same name takes them for its own. So such a start is refused (`refuse`), and so is one with a
tree that does not know partitions that are there: it is older than they are (`refuse_unknown`). ZooKeeper's tree is
not this broker's alone, and the rest of it is to be served: there such partitions are only named (`tell_unknown`).
Where there is no tree to be had any more, `adopt` makes one from the folders: topics with a partition for each folder,
and settings that delete nothing. What else the old tree said cannot be known, and is told to the operator.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from ottla import kafka
from ottla.broker import identity, moved
from ottla.broker.internal_topics import offsets_settings, transaction_state_settings
from ottla.config import BrokerConfig, ConfigError
from ottla.controller.names import check_name
from ottla.controller.producer_ids import BLOCK_SIZE
from ottla.controller.registration import prepare
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedTree
from ottla.coordination.tree import Create, Operation, Set, Tree, in_batches
from ottla.coordination.znodes import MalformedNode, PartitionState, ProducerIdBlock, TopicAssignment
from ottla.errors import InvalidTopic, KafkaError, counted
from ottla.log import Log
from ottla.log.verify import partitions
from ottla.replication.data_directories import DataDirectories
from ottla.replication.data_directory import sync_folder

logger = logging.getLogger("ottla")

#: Where a tree is made. It takes its name when it is whole.
UNFINISHED = ".adopting"
#: Partitions without a folder that a topic may get, for each that has one: the others may be on other brokers. More of
#: them come from a folder that is called like a partition without being one (`orders-20240101`).
MISSING_MAX = 100
#: Folders that one line names.
NAMED_MAX = 3
#: Nothing is deleted from an adopted topic.
KEEP = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}


def refuse(tree: Path, directories: DataDirectories) -> None:
    """Raises ConfigError if there are logs, and the tree's file, which would be made now, is not there; or if it is
    there, and its topics moved elsewhere.
    """
    folders = _folders(directories)
    if tree.exists():
        moved.refuse(tree, _some(folders))
        return
    if folders:
        raise ConfigError(
            "log.dirs",
            f"{tree.parent} has the logs of {len(folders)} partitions, {folders[0].name} among them, but not the "
            f"coordination tree that knows their topics: there is no {tree.name}. Restore that file from a backup; or "
            "name the ZooKeeper that has the tree (--zookeeper), or copy the tree from there (ottla tree import); or, "
            "if it is lost, start once with --adopt, which makes topics from the folders. Nothing was changed",
        )


async def refuse_unknown(tree: Tree, file: Path, directories: DataDirectories) -> None:
    """Raises ConfigError if there are logs of partitions that the tree does not know. Changes no node.

    A broker that dies leaves none of them: topics and partitions are written into the tree before a controller tells
    anybody of them, who then makes the folder; and they leave the tree when all have answered StopReplica, for which
    folders take their names for what is deleted (`x-0.<unique>-delete`) in a way that survives a power cut. A topic
    that is being deleted is in the tree until then. Folders with names that no topic can have hurt nobody.
    """
    unknown = await _unknown(tree, directories)
    if unknown:
        raise ConfigError(
            "log.dirs",
            f"the coordination tree {file} does not know {counted(len(unknown), 'partition')} whose folders are here: "
            f"{_some(unknown)}. It is older than they are, or another one's. Put the right file in its place; or name "
            "the ZooKeeper that has their topics (--zookeeper, zookeeper.connect), or copy the tree from there (ottla "
            "tree import --replace); or move the folders away. If the right tree is lost, move this one away and start "
            "once with --adopt, which makes topics from all folders. Nothing was changed",
        )


async def tell_unknown(tree: Tree, directories: DataDirectories) -> None:
    """One line, if there are logs of partitions that the tree does not know: they stay, and are served to nobody."""
    unknown = await _unknown(tree, directories)
    if unknown:
        logger.warning(
            "the coordination tree does not know %s whose folders are here: %s. They stay, and nobody is served from "
            "them. The tree is older than they are (restored from a backup, or made anew), or the folders are another "
            "cluster's. Move them away before topics of these names are made: those may take them for their own",
            counted(len(unknown), "partition"),
            _some(unknown),
        )


async def _unknown(tree: Tree, directories: DataDirectories) -> list[Path]:
    """The folders of partitions that the tree does not know."""
    found: dict[str, dict[int, Path]] = defaultdict(dict)
    for folder in _folders(directories):
        topic, _, number = folder.name.rpartition("-")
        with contextlib.suppress(InvalidTopic):
            check_name(topic)
            found[topic][int(number)] = folder
    paths = [znodes.topic_path(topic) for topic in found]
    unknown: list[Path] = []
    for path, folders, node in zip(paths, found.values(), await tree.get_many(paths), strict=True):
        known: Collection[int] = ()
        if node is not None:
            try:
                known = TopicAssignment.decode(path, node.data).partitions
            except MalformedNode:
                # Its name is taken, so that no other topic gets these records.
                known = folders
        unknown += [folder for number, folder in folders.items() if number not in known]
    return unknown


async def adopt(tree: Path, directories: DataDirectories, config: BrokerConfig) -> None:
    """Makes the tree's file from the folders of partitions.

    Raises ConfigError if there is a tree, or no partition, or a folder that is no partition's in all likelihood, or if
    the directories belong to another broker. A try that fails or is interrupted leaves no tree.
    """
    if tree.exists():
        raise ConfigError("log.dirs", f"--adopt: {tree} is there already; start without --adopt")
    topics = _topics(_folders(directories))
    if not topics:
        raise ConfigError("log.dirs", f"--adopt: no partition is in {', '.join(map(str, directories))}")
    known = directories.identity()
    epoch = await trio.to_thread.run_sync(_newest_epoch, [path for held in topics.values() for path in held.values()])
    unfinished = tree.with_name(tree.name + UNFINISHED)
    for name in (unfinished.name, f"{unfinished.name}-wal", f"{unfinished.name}-shm"):
        unfinished.with_name(name).unlink(missing_ok=True)
    async with await EmbeddedTree.open(str(unfinished)) as made:
        await prepare(made)
        cluster_id = await identity.cluster_id(made, known.get("cluster.id"))
        broker_id = await identity.broker_id(made, config, known.get("broker.id"))
        directories.check(broker_id, cluster_id)
        operations: list[Operation] = []
        for topic, folders in topics.items():
            count = _count(topic, folders, config)
            replicas: dict[int, tuple[int, ...]] = dict.fromkeys(range(count), (broker_id,))
            assignment = TopicAssignment(replicas, **_topic_id(folders.values()))
            operations += _nodes(topic, assignment, _settings(topic, config), epoch + 1)
        # Ids of producers are given one after the other: no cluster has given as many as there are milliseconds since
        # 1970, and an id that is in the logs must not be given again.
        first = znodes.now_ms() // BLOCK_SIZE * BLOCK_SIZE
        block = ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
        await made.ensure(znodes.PRODUCER_ID_BLOCK)
        operations.append(Set(znodes.PRODUCER_ID_BLOCK, block.encode()))
        for batch in in_batches(operations):
            await made.multi(batch)
    # Of a tree that is gone; where the next line is not reached, there is none, which is refused as well.
    moved.unmark(tree)
    unfinished.rename(tree)
    sync_folder(tree.parent)
    _tell(topics, config)


def _folders(directories: DataDirectories) -> list[Path]:
    return [Path(folder) for directory in directories.online for folder in partitions(directory.path)]


def _some(folders: Sequence[Path]) -> str:
    """Folders for a line that may be of thousands."""
    shown = ", ".join(str(folder) for folder in folders[:NAMED_MAX])
    more = f" and {len(folders) - NAMED_MAX} more" if len(folders) > NAMED_MAX else ""
    return f"{shown}{more}" if folders else "no folders of partitions"


def _topics(folders: Iterable[Path]) -> dict[str, dict[int, Path]]:
    """The folder of each partition, by topic. Raises ConfigError."""
    found: dict[str, dict[int, Path]] = defaultdict(dict)
    for folder in folders:
        topic, _, number = folder.name.rpartition("-")
        try:
            check_name(topic)
        except InvalidTopic as error:
            logger.warning("%s is not adopted: %s", folder, error)
            continue
        found[topic][int(number)] = folder
    for topic, held in found.items():
        highest = max(held)
        if highest >= (MISSING_MAX + 1) * len(held):
            raise ConfigError(
                "log.dirs",
                f"--adopt: {held[highest]} would make a topic {topic} of {highest + 1} partitions, of which "
                f"{len(held)} are here. If it is no partition, move it out of the directory",
            )
    return dict(sorted(found.items()))


def _newest_epoch(folders: Iterable[Path]) -> int:
    """The newest leader epoch of all logs, -1 without any. Where one cannot be read, those of the others do."""
    newest = -1
    for folder in folders:
        try:
            with Log.open(folder) as log:
                newest = max([newest, *(epoch for epoch, _ in log.leader_epochs)])
        except (KafkaError, OSError) as error:
            logger.warning("the leader epochs of %s are not known: %s", folder, error)
    return newest


def _count(topic: str, folders: Collection[int], config: BrokerConfig) -> int:
    """How many partitions a topic gets. Groups and transactions are found by a number that depends on it, so internal
    topics have at least those that they are made with.
    """
    settings = {
        kafka.OFFSETS_TOPIC: "offsets.topic.num.partitions",
        kafka.TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
    }
    least = config.get_int(settings[topic]) if topic in settings else 1
    return max(least, 1 + max(folders))


def _settings(topic: str, config: BrokerConfig) -> dict[str, str]:
    match topic:
        case kafka.OFFSETS_TOPIC:
            return offsets_settings(config)
        case kafka.TRANSACTIONS_TOPIC:
            return transaction_state_settings(config)
        case _:
            return KEEP


def _topic_id(folders: Iterable[Path]) -> dict[str, Any]:
    """The fields of an assignment besides its replicas, if Kafka 2.8 or later has given the topic an id: Kafka takes
    only folders with the id of the tree. Empty without an id.
    """
    ids = set()
    for folder in folders:
        file = folder / "partition.metadata"
        if file.exists():
            lines = dict(line.partition(": ")[::2] for line in file.read_text(errors="replace").splitlines())
            ids.add(lines.get("topic_id", ""))
    if len(ids) > 1:
        raise ConfigError("log.dirs", f"--adopt: {folder.name} and others have different topic ids: {sorted(ids)}")
    return {"version": 3, "extra": {"topic_id": ids.pop()}} if ids else {}


def _nodes(topic: str, assignment: TopicAssignment, settings: Mapping[str, str], epoch: int) -> list[Operation]:
    """The nodes of a topic, each of whose partitions is led by its one replica."""
    nodes: list[Operation] = [
        Create(znodes.config_path("topics", topic), znodes.encode_config(settings)),
        Create(znodes.topic_path(topic), assignment.encode()),
        Create(znodes.partitions_path(topic)),
    ]
    for number, (leader,) in assignment.partitions.items():
        state = PartitionState(leader=leader, leader_epoch=epoch, isr=(leader,), controller_epoch=0).encode()
        nodes += [Create(znodes.partition_path(topic, number)), Create(znodes.state_path(topic, number), state)]
    return nodes


def _tell(topics: Mapping[str, Collection[int]], config: BrokerConfig) -> None:
    for topic, held in topics.items():
        count = _count(topic, held, config)
        if missing := [number for number in range(count) if number not in held]:
            logger.warning(
                "topic %s: %d of %s have no folder here, among them %d; they are made empty",
                topic,
                len(missing),
                counted(count, "partition"),
                missing[0],
            )
    logger.warning(
        "adopted %s with %s from their folders. Not known, and to be set again: the settings of "
        "topics (nothing is deleted or compacted, but in internal topics: ottla topic alter), partitions after the "
        "last one here, users, quotas, and settings that were changed while brokers ran",
        counted(len(topics), "topic"),
        counted(sum(map(len, topics.values())), "partition"),
    )
