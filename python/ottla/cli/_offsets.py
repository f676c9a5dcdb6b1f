"""Where the partitions of topics begin and end, as far as it can be known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla.kafka import EARLIEST, LATEST, TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.topics import Topic


class Bounds(NamedTuple):
    """The first offset that is there, and the one after the last that can be read."""

    start: int
    end: int


async def bounds_of(
    cluster: Cluster, topics: Iterable[Topic], without: Collection[TopicPartition] = ()
) -> dict[TopicPartition, Bounds]:
    """All leaders are asked at once. Partitions without a leader are left out, those of a leader that is gone, refuses
    or stands still, and those in `without`.
    """
    import trio

    from ottla.client.cluster_admin import SILENT_S
    from ottla.client.offsets import list_offsets
    from ottla.errors import KafkaError, ProtocolError

    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic in topics:
        for each in topic.partitions:
            name = TopicPartition(topic.name, each.number)
            if each.leader >= 0 and name not in without:
                led[each.leader].append(name)
    found: dict[TopicPartition, Bounds] = {}

    async def ask(names: list[TopicPartition]) -> None:
        with suppress(OSError, ProtocolError, KafkaError), trio.move_on_after(SILENT_S):
            first = await list_offsets(cluster, dict.fromkeys(names, EARLIEST))
            last = await list_offsets(cluster, dict.fromkeys(names, LATEST))
            found.update({name: Bounds(first[name].offset, last[name].offset) for name in names})

    async with trio.open_nursery() as nursery:
        for names in led.values():
            nursery.start_soon(ask, names)
    return found
