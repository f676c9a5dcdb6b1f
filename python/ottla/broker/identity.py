"""Who this broker is: its id, its cluster, and the coordination tree that knows both."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ottla import __version__
from ottla.config import BrokerConfig, ConfigError, Endpoint
from ottla.controller.names import check_name
from ottla.controller.registration import get_or_create_cluster_id, prepare
from ottla.coordination import znodes
from ottla.coordination.tree import NotAllowed, Tree, Unavailable, ensure_one
from ottla.coordination.znodes import BrokerRegistration, MalformedNode, TopicAssignment
from ottla.errors import InvalidTopic
from ottla.kafka import TopicPartition

if TYPE_CHECKING:
    from ottla.coordination.zookeeper import ZooKeeperTree
    from ottla.replication.log_manager import LogManager

__all__ = [
    "BrokerRegistration",
    "StoppedBeforeStart",
    "assigned",
    "broker_id",
    "cluster_id",
    "open_tree",
    "registration",
]

logger = logging.getLogger("ottla")


class StoppedBeforeStart(Exception):
    """The process was told to stop while it waited for others; nothing was opened yet but the directories."""


@asynccontextmanager
async def open_tree(config: BrokerConfig, logs: LogManager, waits: trio.CancelScope) -> AsyncIterator[Tree]:
    """The ZooKeeper that the settings name, or the tree embedded in the (first) data directory. Its session ends with
    the block. `waits`, if it is cancelled, ends the wait for ZooKeeper with StoppedBeforeStart.
    """
    tree: Tree | None = None
    if config.zookeeper:
        with waits:
            tree = await _zookeeper(config, config.zookeeper)
        if tree is None:
            raise StoppedBeforeStart
    else:
        from ottla.coordination.embedded import TREE_FILE, EmbeddedTree

        directory = logs.directories.directory_with(TREE_FILE)
        logs.directories.keeps_tree(directory)
        tree = await EmbeddedTree.open(str(directory / TREE_FILE))
    async with tree:
        await prepare(tree)
        yield tree


async def _zookeeper(config: BrokerConfig, servers: str) -> Tree:
    """A session with ZooKeeper. Raises Unavailable."""
    from ottla.coordination.zookeeper import ZooKeeperTree  # kazoo is imported only where it is used

    timeout_ms = config.zookeeper_connection_timeout_ms
    logger.info(
        "connecting to ZooKeeper at %s, for %d ms at most (zookeeper.connect; without it this broker is a cluster of "
        "its own)",
        servers,
        timeout_ms,
    )
    try:
        tree = await ZooKeeperTree.connect(
            servers,
            session_timeout_ms=config.get_int("zookeeper.session.timeout.ms"),
            connect_timeout_ms=timeout_ms,
        )
        try:
            await _refuse_rules(tree)
        except BaseException:
            await tree.aclose()
            raise
    except NotAllowed as error:
        raise NotAllowed(
            f"the tree in ZooKeeper at {servers} has access rules ({error}), and Ottla does not log in to ZooKeeper "
            "yet; take the rules away (Kafka's zookeeper-security-migration.sh --zookeeper.acl unsecure, and "
            "zookeeper.set.acl=false for its brokers), or use another chroot"
        ) from None
    except Unavailable:
        raise Unavailable(
            f"no ZooKeeper server at {servers} answered within {timeout_ms} ms; start it, or leave zookeeper.connect "
            "out for a broker that is a cluster of its own"
        ) from None
    return tree


async def _refuse_rules(tree: ZooKeeperTree) -> None:
    """Raises NotAllowed if only some may change what brokers change: as members of such a cluster we would find out
    one node at a time.
    """
    guarded = await tree.guarded([znodes.CONTROLLER_EPOCH, znodes.CLUSTER_ID, *znodes.PERSISTENT_PATHS])
    for path, owners in guarded.items():
        raise NotAllowed(path, f"only {owners} may change it")


async def cluster_id(tree: Tree, known: str | None) -> str:
    """The cluster's id. A tree without one takes the data directory's, so that a directory can be moved to another
    tree.
    """
    if known is not None:
        await tree.ensure(znodes.CLUSTER)
        await ensure_one(tree, znodes.CLUSTER_ID, znodes.encode_cluster_id(known))
    return await get_or_create_cluster_id(tree)


async def broker_id(tree: Tree, config: BrokerConfig, known: str | None) -> int:
    """The configured id, or the data directory's, or a new one above `reserved.broker.max.id`, as Kafka makes them."""
    if config.broker_id >= 0:
        return config.broker_id
    if known is not None:
        if not (known.isascii() and known.isdigit()):
            raise ConfigError(
                "broker.id", f"meta.properties has broker.id={known!r}, which is no number: set broker.id"
            )
        return int(known)
    if not config.get_bool("broker.id.generation.enable"):
        raise ConfigError("broker.id", "broker.id is not set and broker.id.generation.enable is false: set broker.id")
    stat = await tree.set(znodes.BROKER_SEQUENCE, b"")
    return config.get_int("reserved.broker.max.id") + stat.version


async def assigned(tree: Tree, broker: int) -> set[TopicPartition]:
    """The partitions that the tree assigns to a broker, without those of topics that are being deleted, or that the
    controller leaves out because nobody understands their node.
    """
    deleted = set(await tree.children(znodes.DELETE_TOPICS))
    topics = [topic for topic in await tree.children(znodes.TOPICS) if topic not in deleted]
    paths = [znodes.topic_path(topic) for topic in topics]
    found = set()
    for topic, path, node in zip(topics, paths, await tree.get_many(paths), strict=True):
        if node is not None:
            with contextlib.suppress(MalformedNode, InvalidTopic):
                check_name(topic)
                partitions = TopicAssignment.decode(path, node.data).partitions
                found |= {TopicPartition(topic, number) for number, held in partitions.items() if broker in held}
    return found


def registration(config: BrokerConfig, endpoints: list[Endpoint], *, is_unclean: bool = False) -> BrokerRegistration:
    """What `/brokers/ids/N` says. `is_unclean`: replicas may have lost records with the power of the machine."""
    return BrokerRegistration(
        endpoints=tuple(znodes.Endpoint(e.name, e.host, e.port, e.protocol) for e in endpoints),
        rack=config.get_str("broker.rack"),
        timestamp_ms=znodes.now_ms(),
        ottla=__version__,
        is_unclean=is_unclean,
    )
