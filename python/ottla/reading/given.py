"""Sides of a scan as a caller writes them, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from ottla.kafka import EARLIEST, LATEST, TopicPartition
from ottla.reading.limits import Everywhere, Limit, Offsets, Timestamp
from ottla.reading.topics import Topics

Side: TypeAlias = str | int | Mapping[int, int] | datetime | timedelta | None
"""`earliest`, `latest`, an offset, an offset for each partition, a time, or how long before now."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WORDS = {"earliest": EARLIEST, "latest": LATEST}
FORMS = "'earliest', 'latest', an offset, a mapping of partitions to offsets, a datetime or a timedelta"


def sides(topic: str, start: Side, end: Side, now: datetime) -> tuple[Limit, Limit]:
    """Both sides as limits; by default everything.

    Raises:
        TypeError, ValueError: it says which side, and what it may be. Of two offsets or two times, `end` must not be
            before `start`.
    """
    starting = _limit(topic, "start", "earliest" if start is None else start, now)
    ending = _limit(topic, "end", "latest" if end is None else end, now)
    match starting, ending:
        case Everywhere(first), Everywhere(last) if first > last >= 0:
            raise ValueError(f"the scan ends at offset {last}, before it starts at {first}")
        case Timestamp(first), Timestamp(last) if first > last:
            raise ValueError(f"the scan ends at {_shown(last)}, before it starts at {_shown(first)}")
    return starting, ending


def topics(topic: str, partitions: Iterable[int] | int | None) -> Topics:
    """The partitions that are meant: all without `partitions`.

    Raises:
        TypeError, ValueError: a partition is no number from 0 up, or there is none.
    """
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"topic is the name of a topic, not {topic!r}")
    if partitions is None:
        return Topics(names=(topic,))
    numbers = [partitions] if isinstance(partitions, int) else list(partitions)
    if (wrong := next((each for each in numbers if not _is_number(each)), None)) is not None:
        raise ValueError(f"a partition is a number from 0 up, not {wrong!r}")
    if not numbers:
        raise ValueError("partitions names none; leave it out to read all")
    return Topics(partitions=frozenset(TopicPartition(topic, number) for number in numbers))


def _limit(topic: str, name: str, given: Side, now: datetime) -> Limit:
    if isinstance(given, str) and given in WORDS:
        return Everywhere(WORDS[given])
    if isinstance(given, timedelta):
        if given < timedelta(0):
            raise ValueError(f"{name} is {given}; it is how long before now, and the future has no records")
        return Timestamp(_milliseconds(now - given))
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError(
                f"{name} has no time zone: {given!r}; datetime.now(UTC) has one, and .astimezone() adds one"
            )
        return Timestamp(_milliseconds(given))
    if isinstance(given, Mapping):
        if (wrong := next((each for each in given.items() if not all(map(_is_number, each))), None)) is not None:
            raise ValueError(f"{name} has partitions and offsets, numbers from 0 up, not {wrong[0]!r}: {wrong[1]!r}")
        return Offsets({TopicPartition(topic, partition): offset for partition, offset in given.items()})
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise ValueError(f"{name} is {given}; offsets are numbers from 0 up")
        return Everywhere(given)
    raise TypeError(f"{name} is {FORMS}, not {given!r}")


def _is_number(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _milliseconds(when: datetime) -> int:
    """The first millisecond that is not before `when`."""
    return max(0, -((EPOCH - when) // timedelta(milliseconds=1)))


def _shown(timestamp_ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat(timespec="milliseconds")
