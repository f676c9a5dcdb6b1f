"""The message by which a producer tells how much it produced.

    {"producer": "web-1", "instance": "9f3c...", "number": 7, "topic": "activity", "start": 1767571200000,
     "end": 1767571800000, "count": 4093, "checksum": 8791204412344}

`start` and `end` are milliseconds since 1970, `checksum` is the sum of the CRC-32 (zlib's, unsigned) of the ids' UTF-8.
Messages about the same window add up; `instance` and `number` name a message, so that one that is sent twice counts
once. Anything that can count can be audited: the form is all that the audit asks for.
"""

import uuid
import zlib
from collections.abc import Iterator

import msgspec


class Message(msgspec.Struct, frozen=True):
    """See the module."""

    producer: str
    instance: str
    number: int
    topic: str
    start: int
    end: int
    count: int
    checksum: int


class Tally:
    """Counts the records of one producer. `window_s` divides the audit's windows; an hour is a multiple of it."""

    def __init__(self, producer: str, window_s: int = 60) -> None:
        self._producer = producer
        self._window_ms = window_s * 1000
        self._instance = uuid.uuid4().hex
        self._number = 0
        self._counts: dict[tuple[str, int], tuple[int, int]] = {}

    def add(self, topic: str, record_id: bytes, time_ms: int) -> None:
        """A record was handed to the producer. Its retries are not counted, whether they succeed or not."""
        key = (topic, time_ms // self._window_ms)
        count, checksum = self._counts.get(key, (0, 0))
        self._counts[key] = (count + 1, checksum + zlib.crc32(record_id))

    def take(self) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of the messages about all that was added since the last time: to be produced, with retries."""
        counts, self._counts = self._counts, {}
        for (topic, window), (count, checksum) in sorted(counts.items()):
            self._number += 1
            start = window * self._window_ms
            message = Message(
                producer=self._producer,
                instance=self._instance,
                number=self._number,
                topic=topic,
                start=start,
                end=start + self._window_ms,
                count=count,
                checksum=checksum,
            )
            yield self._producer.encode(), msgspec.json.encode(message)
