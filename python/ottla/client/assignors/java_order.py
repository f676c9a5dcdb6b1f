"""The order in which Java's hash tables are walked. The sticky assignors of Kafka depend on it where members are equal,
and who is to give the same result walks the same way.

A `HashMap` begins with 16 buckets and doubles them when it is more than three quarters full; within a bucket the order
is that of insertion. Its trees for crowded buckets do not matter for so few keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.kafka import TopicPartition

BUCKETS_MIN = 16
T = TypeVar("T")


def hash_of_text(text: str) -> int:
    """`String.hashCode`, without a sign."""
    result = 0
    data = text.encode("utf-16-be")
    for high, low in zip(data[::2], data[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


def hash_of_partition(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`, without a sign."""
    return (31 * (31 + partition.partition) + hash_of_text(partition.topic)) & 0xFFFFFFFF


def buckets_for(count: int) -> int:
    """How many buckets a table has that grew to so many keys."""
    buckets = BUCKETS_MIN
    while count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def hash_order(keys: Iterable[T], hash_of: Callable[[T], int], buckets: int = 0) -> list[T]:
    """The keys, given in the order of their insertion, as a table has them. `buckets` is for one that was larger."""
    inserted = list(keys)
    mask = max(buckets, buckets_for(len(inserted))) - 1

    def bucket(key: T) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & mask

    return sorted(inserted, key=bucket)
