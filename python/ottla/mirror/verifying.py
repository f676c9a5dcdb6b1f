"""Whether partitions of the source are still those that were copied.

A topic that is deleted and made again has the same name, and nothing in Kafka's protocol of 2.7 tells it from what it
was. If it has fewer records than were copied, the position is out of range and everybody notices. If it has more, what
is there would be taken for what follows, and the records before it would never be copied.

So a record that was copied is looked at once more: an offset sync says where it is in the source and where in the
mirror. If both are there and differ, the source is another topic.

| the records of a pair                       | it means                                                          |
|---------------------------------------------|-------------------------------------------------------------------|
| one is gone (retention, compaction)         | nothing                                                           |
| key, value and timestamp are the same       | the same topic, or one with the same records                      |
| only the timestamps differ                  | another topic, unless the mirror's are those of appends           |
| key or value differ                         | another topic, or records that an unclean election replaced       |

Leader epochs do not help: those of a new topic begin at 0, where most old ones are still. Topic ids (KIP-516) would,
but a broker of 2.7 has none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from ottla import _core
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.errors import CorruptMessage, KafkaError, LeaderNotAvailable, RemoteProtocolError
from ottla.kafka import TopicPartition

#: How long clusters may take to give the records. What has not come then is not judged.
PATIENCE_S: Final = 5.0
#: How long a partition is waited for that has no leader: others are not copied meanwhile.
LEADER_S: Final = 1.0
#: How long a fetch waits where nothing is there.
WAIT_MS: Final = 100
#: Of one partition in an answer: most batches are smaller, and only their first record is wanted.
PARTITION_BYTES: Final = 64 << 10


class Place(NamedTuple):
    """A record in the source, and where it is in the mirror."""

    source: TopicPartition
    upstream: int
    mirror: TopicPartition
    downstream: int


class _Found(NamedTuple):
    #: Of key and value: those of thousands of partitions would be too much to keep.
    digest: bytes
    timestamp_ms: int
    is_of_append: bool


async def made_anew(source: Cluster, target: Cluster, places: Mapping[TopicPartition, Place]) -> set[TopicPartition]:
    """Those of the partitions whose record in the source is not the one in the mirror. Raises nothing: what cannot be
    read is not judged.
    """
    if not places:
        return set()
    here: dict[TopicPartition, _Found] = {}
    there: dict[TopicPartition, _Found] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_read, source, {each.source: each.upstream for each in places.values()}, here)
        nursery.start_soon(_read, target, {each.mirror: each.downstream for each in places.values()}, there)
    return {
        partition
        for partition, place in places.items()
        if place.source in here and place.mirror in there and _differ(here[place.source], there[place.mirror])
    }


def _differ(here: _Found, there: _Found) -> bool:
    if here.digest != there.digest:
        return True
    return here.timestamp_ms != there.timestamp_ms and not there.is_of_append


async def _read(cluster: Cluster, offsets: Mapping[TopicPartition, int], found: dict[TopicPartition, _Found]) -> None:
    """Adds the records at these offsets that are there."""
    reader = Consumer(cluster, start="earliest", read_committed=True, wait_ms=WAIT_MS, partition_bytes=PARTITION_BYTES)
    leader_at = trio.current_time() + LEADER_S
    with (
        trio.move_on_after(PATIENCE_S),
        suppress(KafkaError, OSError, RemoteProtocolError),
    ):
        await reader.assign(offsets)
        while reader.positions:
            for partition, answer in await reader.poll_encoded():
                if answer.records or answer.last_stable_offset <= offsets[partition]:
                    with suppress(CorruptMessage):  # such as the beginning of a batch, which is asked for alone next
                        if (record := _record(answer, offsets[partition])) is not None:
                            found[partition] = record
                        del reader.positions[partition]
            for partition, position in list(reader.positions.items()):
                is_leaderless = isinstance(reader.obstacles.get(partition), LeaderNotAvailable)
                # What was moved was out of range.
                if position != offsets[partition] or (is_leaderless and trio.current_time() >= leader_at):
                    del reader.positions[partition]


def _record(answer: _core.FetchedPartition, offset: int) -> _Found | None:
    """The record with exactly this offset, from the first batch. Raises CorruptMessage: it is not whole."""
    data = answer.records
    if not data:
        return None
    batches = _core.read_batches(data)
    if not batches:
        raise CorruptMessage("the batch is cut off")
    batch = batches[0]
    whole = data[batch.position : batch.position + batch.size_bytes]
    record = next(iter(_core.RecordReader(whole, start_offset=offset, check_crc=False)), None)
    if record is None or record.offset != offset:
        return None
    digest = hashlib.sha256()
    for part in (record.key, record.value):
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    # A mirror writes every time before 1970 as none.
    return _Found(digest.digest(), max(record.timestamp_ms, -1), batch.is_log_append_time)
