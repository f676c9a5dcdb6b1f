"""Where the partitions of topics begin and end, as far as it can be known."""

from __future__ import annotations

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
    from ottla.client.offsets import FoundOffset, ask_offsets
    from ottla.errors import KafkaError, ProtocolError

    names = {
        name
        for topic in topics
        for each in topic.partitions
        if (name := TopicPartition(topic.name, each.number)) not in without and each.leader >= 0
    }
    firsts: dict[TopicPartition, FoundOffset] = {}
    ends: dict[TopicPartition, FoundOffset] = {}

    async def ask(time: int, found: dict[TopicPartition, FoundOffset]) -> None:
        with suppress(OSError, ProtocolError, KafkaError), trio.move_on_after(SILENT_S):
            await ask_offsets(cluster, dict.fromkeys(names, time), found.__setitem__)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, EARLIEST, firsts)
        nursery.start_soon(ask, LATEST, ends)
    return {name: Bounds(firsts[name].offset, ends[name].offset) for name in firsts.keys() & ends.keys()}
