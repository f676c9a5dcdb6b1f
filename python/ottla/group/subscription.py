"""What consumers write into a group's metadata, as far as coordinators and tools look at it: the topics that a member
wants to read, and the partitions that it got.

All versions begin like version 0 (ConsumerProtocol in Kafka's clients): version int16, then an array, of topics
(strings), or of topics with arrays of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct, error, unpack_from
from typing import TYPE_CHECKING

from ottla.kafka import TopicPartition

if TYPE_CHECKING:
    from ottla.group.state import Group

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")
_COUNT = Struct(">i")


def subscribed(metadata: bytes) -> list[str] | None:
    """The topics; None for bytes that are no subscription."""
    try:
        count = _count(metadata)
        topics, position = [], _HEAD.size
        for _ in range(count):
            name, position = _string(metadata, position)
            topics.append(name)
    except (error, ValueError):
        return None
    return topics


def assigned(assignment: bytes) -> list[TopicPartition] | None:
    """The partitions; None for bytes that are no assignment. A member that got nothing may have no bytes at all."""
    if not assignment:
        return []
    try:
        count = _count(assignment)
        partitions, position = [], _HEAD.size
        for _ in range(count):
            topic, position = _string(assignment, position)
            (numbers,) = _COUNT.unpack_from(assignment, position)
            position += _COUNT.size
            found = unpack_from(f">{numbers}i", assignment, position) if numbers >= 0 else ()
            partitions += [TopicPartition(topic, number) for number in found]
            position += _COUNT.size * len(found)
    except (error, ValueError):
        return None
    return partitions


def subscribed_topics(group: Group, read: Callable[[bytes], Sequence[str] | None]) -> frozenset[str] | None:
    """The topics that members of a group of consumers read; None if that cannot be told.

    `read` takes a member's metadata apart; it returns None for what it does not understand.
    """
    if group.protocol_type != "consumer":
        return None
    if not group.members:
        return frozenset()
    if group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        metadata = next((metadata for name, metadata in member.protocols if name == group.protocol), None)
        named = read(metadata) if metadata is not None else None
        if named is None:
            return None
        topics.update(named)
    return frozenset(topics)


def _count(data: bytes) -> int:
    version, count = _HEAD.unpack_from(data)
    if version < 0 or not 0 <= count <= len(data):
        raise ValueError(f"version {version} with {count} entries")
    return int(count)


def _string(data: bytes, position: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(data, position)
    start = position + _LENGTH.size
    text = data[start : start + length] if length >= 0 else b""
    if len(text) != length:
        raise ValueError(f"a string of {length} bytes at {position}")
    return text.decode(), start + length
