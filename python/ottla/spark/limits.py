"""Where a read starts and ends, before brokers or files are asked: the forms that Spark's Kafka source knows.

| option                                        | form                                                              |
|-----------------------------------------------|-------------------------------------------------------------------|
| startingTimestamp, endingTimestamp            | milliseconds, for all partitions                                  |
| startingOffsetsByTimestamp, endingOffsetsBy.. | JSON {"topic": {"0": milliseconds}}                               |
| startingOffsets, endingOffsets                | earliest, latest, or JSON {"topic": {"0": 23, "1": -2}}           |

An earlier line wins over a later one. In the JSON of offsets -2 means earliest and -1 latest. A batch cannot start at
latest nor end at earliest; it starts at earliest unless told otherwise. A stream has no end and starts at latest.
"""

import json
from collections.abc import Mapping
from enum import Enum

from ottla.client import TopicPartition
from ottla.kafka import EARLIEST, LATEST
from ottla.reading.limits import Everywhere, Limit, Offsets, Timestamp, Timestamps


class Use(Enum):
    """The kind of query that options are for; when a DataFrame is loaded Spark does not say yet."""

    BATCH = "batch"
    STREAM = "stream"
    EITHER = "either"


def parse_assignment(text: str) -> frozenset[TopicPartition]:
    """`{"topicA": [0, 1], "topicB": [2]}`.

    Raises:
        ValueError: it is something else.
    """
    expected = f"""Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}"""
    found = _json(text, expected)
    partitions: set[TopicPartition] = set()
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(expected)
        partitions.update(TopicPartition(topic, number) for number in numbers)
    if not partitions:
        raise ValueError(expected)
    return frozenset(partitions)


def parse_numbers(text: str, example: str) -> dict[TopicPartition, int]:
    """`{"topicA": {"0": 23, "1": -1}}`, the form of both offsets and timestamps.

    Raises:
        ValueError: it is something else; the message shows `example`.
    """
    expected = f"Expected e.g. {example}, got {text}"
    numbers = offsets_of(_json(text, expected))
    if numbers is None:
        raise ValueError(expected)
    return numbers


def offsets_of(found: object) -> dict[TopicPartition, int] | None:
    """A number for each partition, from JSON that has been read; None if it has another form."""
    if not isinstance(found, dict):
        return None
    numbers = {}
    for topic, of in found.items():
        if not isinstance(of, dict):
            return None
        for partition, number in of.items():
            if not partition.isdecimal() or type(number) is not int:
                return None
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def parse_limit(options: Mapping[str, str], side: str, use: Use) -> Limit:
    """The limit of `side`, "starting" or "ending", from options whose keys are lower case.

    Raises:
        ValueError: a form that is not one of the table's, or one that this use cannot have.
    """
    if use is Use.STREAM and side == "ending":
        _refuse_endings(options)
        return Everywhere(LATEST)
    if (text := options.get(f"{side}timestamp")) is not None:
        return Timestamp(_timestamp(text.strip(), f"{side}Timestamp"))
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        name = f"{side}OffsetsByTimestamp"
        times = parse_numbers(text, f"""{name} {{"topicA":{{"0":1700000000000}}}}""")
        for number in times.values():
            _timestamp(str(number), name)
        return Timestamps(times)
    name = f"{side}Offsets"
    forbidden = None if use is not Use.BATCH else LATEST if side == "starting" else EARLIEST
    word = "latest" if side == "starting" else "earliest"
    default = "latest" if side == "ending" or use is Use.STREAM else "earliest"
    text = options.get(name.lower(), default).strip()
    if forbidden is not None and text.lower() == word:
        raise ValueError(f"{name}: {side} offset can't be {word} for batch queries")
    if text.lower() in ("earliest", "latest"):
        return Everywhere(EARLIEST if text.lower() == "earliest" else LATEST)
    offsets = parse_numbers(text, f"""{name} earliest, latest or {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}""")
    for partition, offset in offsets.items():
        if offset == forbidden:
            raise ValueError(f"{name} for {partition} can't be {word} for batch queries")
        if offset < EARLIEST:
            raise ValueError(
                f"{name} of {partition} is {offset}; offsets are 0 or more, or -2 (earliest), or -1 (latest)"
            )
    return Offsets(offsets)


def _refuse_endings(options: Mapping[str, str]) -> None:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name.lower() in options:
            what = "offset" if name == "endingOffsets" else "timestamp"
            raise ValueError(f"{name}: ending {what} not valid in streaming queries")


def _timestamp(text: str, name: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name}: Expected a single long value, milliseconds since 1970, got {text}")
    return int(text)


def _json(text: str, expected: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError(expected) from None
    if not isinstance(found, dict):
        raise ValueError(expected)
    return found
