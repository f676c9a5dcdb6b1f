"""The arithmetic of a stream's micro-batches: offsets in, offsets out. No I/O, no clock.

An offset of a stream says for each partition which record is the next one. Its JSON form, `{"topic":{"0":123}}`, is
that of Spark's own Kafka source, so that a checkpoint may be carried on from the one to the other.

The rules are those of Spark's KafkaMicroBatchStream and KafkaOffsetReaderAdmin.
"""

import math
from collections.abc import Mapping

from ottla.client import TopicPartition
from ottla.spark.limits import offsets_of

Positions = Mapping[TopicPartition, int]


def to_json(positions: Positions) -> dict[str, dict[str, int]]:
    """The form that Spark writes into the checkpoint and shows in its progress, always in the same order."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(positions.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def from_json(found: object) -> dict[TopicPartition, int]:
    """The opposite of `to_json`.

    Raises:
        ValueError: it is something else: the checkpoint belongs to another kind of source.
    """
    positions = offsets_of(found)
    if positions is None or any(offset < 0 for offset in positions.values()):
        raise ValueError(f'the checkpoint has no offsets of topics, such as {{"topic":{{"0":23}}}}, but {found}')
    return positions


def waiting(start: Positions, latest: Positions) -> int:
    """How many offsets there are between; a new partition counts from 0, as in Spark."""
    return sum(offset - start.get(partition, 0) for partition, offset in latest.items())


def limited(most: int, start: Positions, latest: Positions, first_of_new: Positions) -> dict[TopicPartition, int]:
    """Where a micro-batch of about `most` offsets ends: each partition gets its share of what is waiting.

    `first_of_new` says where the partitions begin that `start` does not have. A partition with little gets at least one
    offset, so that the sum may be more than `most` by as many as there are partitions.
    """
    begin = {**first_of_new, **start}
    sizes = {
        partition: end - begin[partition]
        for partition, end in latest.items()
        if partition in begin and end > begin[partition]
    }
    total = sum(sizes.values())
    found = dict(latest)
    for partition, size in sizes.items():
        share = most * (size / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        found[partition] = min(latest[partition], begin[partition] + step)
    return found


def spans(
    start: Positions, end: Positions, first_of_new: Positions
) -> tuple[dict[TopicPartition, tuple[int, int]], list[str]]:
    """The first and end offset that a micro-batch reads of each partition, and the losses, in words: records
    between the two ends that cannot be read any more.

    `first_of_new` says where the partitions begin that only `end` has; those that are gone again are not in it.
    """
    new = {partition for partition in end if partition not in start}
    lost = []
    if gone := new - set(first_of_new):
        lost.append(f"cannot find the earliest offsets of {_names(gone)}; they may have been deleted")
    for partition in sorted(new & set(first_of_new)):
        if first_of_new[partition] != 0:
            lost.append(f"added partition {partition} starts from {first_of_new[partition]} instead of 0")
    if deleted := set(start) - set(end):
        lost.append(f"{_names(deleted)} are gone")
    found: dict[TopicPartition, tuple[int, int]] = {}
    for partition in sorted(set(end) - gone):
        first = start[partition] if partition in start else first_of_new[partition]
        if end[partition] < first:
            lost.append(f"the offset of {partition} was changed from {first} to {end[partition]}")
        elif end[partition] > first:
            found[partition] = first, end[partition]
    return found, lost


def _names(partitions: set[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
