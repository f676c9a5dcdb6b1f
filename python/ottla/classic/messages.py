"""What the classic clients take and give: messages, sets of them, and what is sent.

A message of Kafka before 0.11 has a key, a value and since 0.10 a time; it has no headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla import _core
from ottla.classic.errors import InvalidMessage, MessageSizeTooLarge
from ottla.errors import CorruptMessage, KafkaError

Buffer = bytes | bytearray | memoryview


class Message(NamedTuple):
    """What is stored. `timestamp_ms` is -1 where a message has no time; a producer puts the present one there."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = -1


class MessageAndOffset(NamedTuple):
    """A message and where it lies; `next_offset` is where to read on."""

    message: Message
    offset: int

    @property
    def next_offset(self) -> int:
        return self.offset + 1


class KeyedMessage(NamedTuple):
    """What a producer sends (0.8). `part_key`, where there is one, chooses the partition in place of `key` and is not
    stored.
    """

    topic: str
    value: Any
    key: Any = None
    part_key: Any = None

    @property
    def partition_key(self) -> Any:
        return self.key if self.part_key is None else self.part_key


class ProducerData(NamedTuple):
    """What a producer sends (0.7): many values for one topic; the key chooses their partition and is not stored."""

    topic: str
    key: Any
    data: Any

    def messages(self) -> list[KeyedMessage]:
        values = self.data if isinstance(self.data, list | tuple) else [self.data]
        return [KeyedMessage(self.topic, value, None, self.key) for value in values]


class MessageSet:
    """The messages of one partition in an answer, from the asked offset on. The broker cuts an answer at a size, also
    inside a message: iterating stops there, and `valid_bytes` is where.

    May be iterated more than once. Iterating raises the partition's error if it had one, MessageSizeTooLarge if not
    even the first message was whole, InvalidMessage for one whose CRC is wrong.
    """

    def __init__(
        self,
        data: Buffer | None,
        *,
        start_offset: int = 0,
        high_watermark: int = -1,
        error: KafkaError | None = None,
        asked_bytes: int = 0,
    ) -> None:
        self.data = memoryview(data or b"")
        self.start_offset = start_offset
        self.high_watermark = high_watermark
        self.error = error
        self.asked_bytes = asked_bytes

    @property
    def size_bytes(self) -> int:
        """The bytes that came, with a message that was cut off."""
        return len(self.data)

    @property
    def valid_bytes(self) -> int:
        """The bytes of whole messages."""
        reader = _core.RecordReader(self.data, start_offset=self.start_offset)
        try:
            for _ in reader:
                pass
        except CorruptMessage:
            pass
        return reader.position

    def __iter__(self) -> Iterator[MessageAndOffset]:
        if self.error is not None:
            raise self.error
        if not self.data:
            return
        reader = _core.RecordReader(self.data, start_offset=self.start_offset)
        try:
            for each in reader:
                yield MessageAndOffset(Message(each.value, each.key, each.timestamp_ms), each.offset)
        except CorruptMessage as problem:
            raise InvalidMessage(f"from offset {self.start_offset} on: {problem}") from problem
        if not reader.position:
            raise MessageSizeTooLarge(
                f"the message at offset {self.start_offset} is larger than the {self.asked_bytes} bytes that were asked"
            )
