"""Names that users write: whether there is such a topic or group, and if not, which they may have meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.config.nearest import nearest
from ottla.kafka import INTERNAL_TOPICS, OFFSETS_TOPIC

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.groups import Groups
    from ottla.errors import KafkaError


def missing(kind: str, name: str, existing: Sequence[str]) -> str:
    """`there is no topic 'ordes'; the nearest is 'orders'`."""
    near = nearest(name, existing)
    if near is not None:
        return f"there is no {kind} '{name}'; the nearest is '{near}'"
    return f"there is no {kind} '{name}'" + ("" if existing else f", nor any other {kind}")


def check_names(kind: str, names: Sequence[str], existing: Sequence[str], error: type[KafkaError]) -> None:
    """Raises `error` for the first of `names` that does not exist."""
    for name in names:
        if name not in existing:
            raise error(missing(kind, name, existing))


async def check_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Raises UnknownTopicOrPartition for the first of `names` that does not exist, InvalidTopic for one that
    no topic can have.
    """
    from ottla.client.admin import Admin
    from ottla.errors import InvalidTopic, UnknownTopicOrPartition

    for name in names:
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name):
            raise InvalidTopic(f"topic '{name}'")
    if not INTERNAL_TOPICS.isdisjoint(names):
        # Brokers of Kafka and ours make these where somebody asks for them by name.
        check_names("topic", names, await Admin(cluster).list_topics(), UnknownTopicOrPartition)
    answer = await cluster.retry(lambda: cluster.refresh(names))
    if any(topic.error_code == UnknownTopicOrPartition.code for topic in answer.topics):
        check_names("topic", names, await Admin(cluster).list_topics(), UnknownTopicOrPartition)


async def is_there(cluster: Cluster, topic: str) -> bool:
    """Whether there is a topic, without asking for it by its name. Who asks for one of the internal topics, or which
    broker has a group or a transactional id, has brokers make it.
    """
    from ottla.client.admin import Admin

    return topic in cluster.metadata.topics or topic in await Admin(cluster).list_topics()


async def check_group(groups: Groups, name: str, otherwise: str = "") -> None:
    """Raises GroupIdNotFound if there is no such group; `otherwise` is the end of what it says."""
    from ottla.client.groups import DEAD
    from ottla.errors import GroupIdNotFound

    if not await is_there(groups.cluster, OFFSETS_TOPIC) or (await groups.describe(name)).state == DEAD:
        existing = [row.group for row in await groups.listed()]
        raise GroupIdNotFound(missing("group", name, existing) + otherwise)
