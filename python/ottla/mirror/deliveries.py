"""What is on its way to the target, partition by partition: one whose mirror takes nothing now holds up no other.

A partition may be committed up to where all that was read of it is acknowledged. One that waits for longer than
`SLOW_S` is slow: nothing more is read of it meanwhile, and what it waits with does not count against the memory that
the others share.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import trio

from ottla.client.batches import Receipt
from ottla.kafka import TopicPartition

SLOW_S: Final = 1.0


@dataclass(slots=True)
class _Sent:
    """A batch; when it is delivered, the source is read up to `position`."""

    position: int
    size_bytes: int
    newest_ms: int
    receipt: Receipt
    at: float


@dataclass(slots=True)
class _Way:
    """Of one partition."""

    sent: deque[_Sent] = field(default_factory=deque)
    #: Up to where it is read, and where nothing more has to be delivered.
    end: int = 0
    size_bytes: int = 0


class Deliveries:
    """`positions` are where partitions of the source may be committed."""

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        #: The time of the newest record that was delivered since somebody set this to -1.
        self.newest_ms = -1
        self._ways: dict[TopicPartition, _Way] = {}

    def begin(self, partition: TopicPartition, position: int) -> None:
        """It is read from here on. What is on its way of it counts no more."""
        self._ways[partition] = _Way(end=position)
        self.positions[partition] = position

    def forget(self, partition: TopicPartition) -> None:
        """Another instance copies it."""
        self._ways.pop(partition, None)
        self.positions.pop(partition, None)

    def sent(self, partition: TopicPartition, position: int, size_bytes: int, newest_ms: int, receipt: Receipt) -> None:
        """A batch is on its way; `position` is behind it."""
        way = self._ways[partition]
        way.sent.append(_Sent(position, size_bytes, newest_ms, receipt, trio.current_time()))
        way.size_bytes += size_bytes

    def read(self, partition: TopicPartition, position: int) -> None:
        """It is read up to here: what lies behind the batches that are on their way, such as markers, is not copied."""
        way = self._ways[partition]
        way.end = position
        if not way.sent:
            self.positions[partition] = position

    async def settle(self) -> None:
        """Takes note of what was acknowledged. Raises KafkaError: a batch cannot be delivered."""
        for partition, way in self._ways.items():
            while way.sent and way.sent[0].receipt.is_over:
                await way.sent[0].receipt.wait()
                done = way.sent.popleft()
                way.size_bytes -= done.size_bytes
                self.newest_ms = max(self.newest_ms, done.newest_ms)
                self.positions[partition] = done.position if way.sent else way.end

    @property
    def are_over(self) -> bool:
        """Whether nothing is on its way."""
        return not any(way.sent for way in self._ways.values())

    def slow(self) -> set[TopicPartition]:
        """The partitions that wait for their mirrors."""
        before = trio.current_time() - SLOW_S
        return {partition for partition, way in self._ways.items() if way.sent and way.sent[0].at <= before}

    def size_bytes(self) -> int:
        """Of all that is on its way, but of slow partitions."""
        before = trio.current_time() - SLOW_S
        return sum(way.size_bytes for way in self._ways.values() if way.sent and way.sent[0].at > before)
