"""Who this broker is: its id and its cluster, and what the coordination tree says of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ottla import __version__
from ottla.config import BrokerConfig, ConfigError, Endpoint
from ottla.controller.names import check_name
from ottla.controller.registration import get_or_create_cluster_id
from ottla.coordination import znodes
from ottla.coordination.tree import Tree, ensure_one
from ottla.coordination.znodes import BrokerRegistration, MalformedNode, TopicAssignment
from ottla.errors import InvalidTopic
from ottla.kafka import TopicPartition

__all__ = [
    "BrokerRegistration",
    "assigned",
    "broker_id",
    "cluster_id",
    "in_tree",
    "registration",
]


async def cluster_id(tree: Tree, known: str | None) -> str:
    """The cluster's id. An embedded tree that is made from a directory's logs takes the directory's. (One in ZooKeeper
    is refused that has none: `open_tree`.)
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
    """The registration of this broker, as `/brokers/ids/N` has it. `is_unclean`: replicas may have lost records with
    the power of the machine.
    """
    return BrokerRegistration(
        endpoints=in_tree(endpoints),
        rack=config.get_str("broker.rack"),
        timestamp_ms=znodes.now_ms(),
        ottla=__version__,
        is_unclean=is_unclean,
    )


def in_tree(endpoints: Iterable[Endpoint]) -> tuple[znodes.Endpoint, ...]:
    """Listeners as registrations have them."""
    return tuple(znodes.Endpoint(e.name, e.host, e.port, e.protocol) for e in endpoints)
