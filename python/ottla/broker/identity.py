"""Who this broker is: its id, its cluster, and the coordination tree that knows both."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ottla.config import BrokerConfig, ConfigError, Endpoint
from ottla.controller.registration import get_or_create_cluster_id, prepare
from ottla.coordination import znodes
from ottla.coordination.tree import Tree, Unavailable, ensure_one
from ottla.coordination.znodes import BrokerRegistration

if TYPE_CHECKING:
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
        return await ZooKeeperTree.connect(
            servers,
            session_timeout_ms=config.get_int("zookeeper.session.timeout.ms"),
            connect_timeout_ms=timeout_ms,
        )
    except Unavailable:
        raise Unavailable(
            f"no ZooKeeper server at {servers} answered within {timeout_ms} ms; start it, or leave zookeeper.connect "
            "out for a broker that is a cluster of its own"
        ) from None


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


async def assigned(tree: Tree, broker: int) -> set[tuple[str, int]]:
    """The partitions that the tree assigns to a broker, those of topics being deleted left out."""
    deleted = set(await tree.children(znodes.DELETE_TOPICS))
    topics = [topic for topic in await tree.children(znodes.TOPICS) if topic not in deleted]
    paths = [znodes.topic_path(topic) for topic in topics]
    return {
        (topic, number)
        for topic, path, node in zip(topics, paths, await tree.get_many(paths), strict=True)
        if node is not None
        for number, replicas in znodes.TopicAssignment.decode(path, node.data).partitions.items()
        if broker in replicas
    }


def registration(config: BrokerConfig, endpoints: list[Endpoint]) -> BrokerRegistration:
    """What `/brokers/ids/N` says."""
    return BrokerRegistration(
        endpoints=tuple(znodes.Endpoint(e.name, e.host, e.port, e.protocol) for e in endpoints),
        rack=config.get_str("broker.rack"),
        timestamp_ms=znodes.now_ms(),
    )
