"""What consumers write into the metadata of the protocol type `consumer`: their subscriptions, and what a leader
assigns them (Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment, versions 0 and 1).

    Subscription: version i16 | topics [string] | user data bytes or null | owned [topic string, [i32]] (version 1)
    Assignment:   version i16 | partitions [topic string, [i32]] | user data bytes or null

Version 2 adds the generation, and version 3 a rack. Later versions only append, so that what is known is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, pack, unpack_from
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.errors import InconsistentGroupProtocol
from ottla.kafka import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
VERSION: Final = 1
NO_GENERATION: Final = -1
_OWNED_SINCE = 1
_GENERATION_SINCE = 2

_INT16 = Struct(">h")
_INT32 = Struct(">i")


class Subscription(NamedTuple):
    """What a member wants, and what it has. `instance_id` is told by JoinGroup, not by these bytes."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    instance_id: str | None = None
    generation: int = NO_GENERATION


class Assignment(NamedTuple):
    """What a member got."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = VERSION) -> bytes:
    """The bytes of a subscription in version 0 or 1."""
    parts = [_INT16.pack(version), _INT32.pack(len(subscription.topics))]
    parts += [_string(topic) for topic in subscription.topics]
    parts.append(_bytes(subscription.user_data))
    if version >= _OWNED_SINCE:
        parts.append(encode_partitions(subscription.owned))
    return b"".join(parts)


def decode_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    """Raises InconsistentGroupProtocol: the bytes are no subscription."""
    reader = Reader(data, "subscription")
    version = reader.int16()
    topics = tuple(reader.string() for _ in range(reader.count()))
    user_data = reader.blob()
    owned = reader.partitions() if version >= _OWNED_SINCE else ()
    generation = reader.int32() if version >= _GENERATION_SINCE else NO_GENERATION
    return Subscription(topics, user_data, owned, instance_id, generation)


def encode_assignment(assignment: Assignment, version: int = VERSION) -> bytes:
    """The bytes of an assignment; versions 0 and 1 differ in their number only."""
    return _INT16.pack(version) + encode_partitions(assignment.partitions) + _bytes(assignment.user_data)


def decode_assignment(data: bytes) -> Assignment:
    """Nothing is no partitions: leaders leave out who gets none.

    Raises:
        InconsistentGroupProtocol: the bytes are no assignment.
    """
    if not data:
        return Assignment(())
    reader = Reader(data, "assignment")
    reader.int16()
    partitions = reader.partitions()
    return Assignment(partitions, reader.blob())


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """An array of topics with their partitions; topics and partitions keep their order."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    parts = [_INT32.pack(len(topics))]
    for topic, numbers in topics.items():
        parts += [_string(topic), pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


class Reader:
    """Takes bytes of another member apart. Every method raises InconsistentGroupProtocol at what makes no sense."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self.position = 0

    @property
    def rest(self) -> int:
        return len(self.data) - self.position

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def count(self) -> int:
        count = self.int32()
        if not 0 <= count <= self.rest:
            raise self._wrong(f"{count} entries")
        return count

    def string(self) -> str:
        try:
            return self._piece(self.int16()).decode()
        except UnicodeDecodeError:
            raise self._wrong("text that is not UTF-8") from None

    def blob(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._piece(length)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.count()):
            topic = self.string()
            count = self.count()
            try:
                numbers = unpack_from(f">{count}i", self.data, self.position)
            except StructError:
                raise self._wrong(f"{count} partitions") from None
            self.position += _INT32.size * count
            found += [TopicPartition(topic, number) for number in numbers]
        return tuple(found)

    def _number(self, kind: Struct) -> int:
        try:
            (number,) = kind.unpack_from(self.data, self.position)
        except StructError:
            raise self._wrong("an end") from None
        self.position += kind.size
        return int(number)

    def _piece(self, length: int) -> bytes:
        if not 0 <= length <= self.rest:
            raise self._wrong(f"a piece of {length} bytes")
        self.position += length
        return bytes(self.data[self.position - length : self.position])

    def _wrong(self, what: str) -> InconsistentGroupProtocol:
        return InconsistentGroupProtocol(f"a member's {self.what} has {what} at byte {self.position}")


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data
