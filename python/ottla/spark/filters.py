"""Filters that Spark hands to the source (`pushdown=true`), and what they leave to be read. No I/O.

Spark gives Python sources the conditions of a WHERE that are joined by AND; batches only, never streams. Those on
topic, partition and offset narrow the ranges exactly and are done with. Of those on the timestamp only the lower
bounds help: brokers and indexes know the first record at or after a time, but behind the first record that is late
enough older ones may follow, where producers set the times. Spark filters by the timestamp again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ottla.reading import wanted
from ottla.reading.wanted import NUMBERS

NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


@dataclass(slots=True)
class Wanted(wanted.Wanted):
    """The part of a read that filters leave. Without filters: everything."""

    def push(self, filters: Iterable[Any]) -> list[Any]:
        """Takes what it can of `pyspark.sql.datasource.Filter`s; gives those that Spark must apply itself."""
        return [each for each in filters if not self._take(each)]

    def _take(self, found: Any) -> bool:
        """True if Spark need not apply the filter again."""
        kind, path = type(found).__name__, getattr(found, "attribute", None)
        column = path[0] if path is not None and len(path) == 1 else ""
        if kind == "IsNotNull":
            return column in NEVER_NULL
        value = getattr(found, "value", None)
        if column == "timestamp" and isinstance(value, datetime):
            if kind in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
                since_ms = int(value.timestamp() * 1000)
                self.since_ms = max(since_ms, self.since_ms or 0)
            return False
        values: tuple[Any, ...] | None = (value,) if kind == "EqualTo" else value if kind == "In" else None
        if column == "topic" and values is not None and all(isinstance(each, str) for each in values):
            self.topics = frozenset(values) if self.topics is None else self.topics & frozenset(values)
            return True
        if column not in NUMBERS:
            return False
        if values is not None and all(isinstance(each, int) for each in values):
            chosen = frozenset(values)
            self.among[column] = self.among.get(column, chosen) & chosen
            # Of offsets that are named one by one the range from the first to the last is read.
            return column == "partition" or len(chosen) == 1
        low, high = self.bounds[column]
        if not isinstance(value, int):
            return False
        match kind:
            case "GreaterThan":
                low = max(low, value + 1)
            case "GreaterThanOrEqual":
                low = max(low, value)
            case "LessThan":
                high = min(high, value - 1)
            case "LessThanOrEqual":
                high = min(high, value)
            case _:
                return False
        self.bounds[column] = low, high
        return True
