"""Proof of a run: the records that were sent, compared with those that can be consumed. A run that does not compare has
no figure.
"""

from __future__ import annotations

from collections.abc import Iterable

from benches.suite.frames import Frame
from benches.suite.generators import Load
from benches.suite.servers import Running
from ottla._core import crc32c


class NotEqual(Exception):
    """The broker holds something else than what was sent."""


def check_frames(
    load: Load, server: Running, topic: str, sent: Iterable[tuple[Frame, int]], partitions: int = 1
) -> None:
    """After runs of `load drive` that sent each frame so many times, all of them answered, to an empty topic.

    Raises:
        NotEqual: count or checksum differ.
    """
    rows = list(sent)
    records = sum(frame.records * times for frame, times in rows)
    checksum = sum(frame.checksum * times for frame, times in rows) & (1 << 64) - 1
    found = load(run="check", address=server.bootstrap, topic=topic, partitions=partitions, records=records)
    _compare(topic, (records, checksum), (found["records"], found["checksum"]))


def check_values(
    load: Load,
    server: Running,
    topic: str,
    records: int,
    values: Iterable[bytes],
    *,
    partitions: int = 1,
    **options: object,
) -> int:
    """After other producers: the count, and that every value is one of those that were given to it. The checksum.

    Raises:
        NotEqual: the count differs, or there is a value that nobody sent.
    """
    found = load(
        run="check",
        address=server.bootstrap,
        topic=topic,
        partitions=partitions,
        values=sorted(set(map(crc32c, values))),
        **options,
    )
    _compare(topic, (records, 0), (found["records"], found["unknown"]))
    checksum: int = found["checksum"]
    return checksum


def _compare(topic: str, sent: tuple[int, int], found: tuple[int, int]) -> None:
    if sent != found:
        raise NotEqual(f"{topic}: records and checksum (or unknown values) are {found}, not {sent}")
