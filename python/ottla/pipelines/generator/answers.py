"""What is true of generated events: counted from their columns with NumPy, and by nobody's pipeline.

`Answers(settings)` is given each chunk once (`add`); then its methods give the truths. Where a truth speaks of events,
duplicates count once; where it speaks of records, each counts.
"""

import json
from datetime import UTC, datetime

import numpy as np

from ottla.pipelines.generator.activity import TYPES, Chunk
from ottla.pipelines.generator.randomness import Ints
from ottla.pipelines.generator.settings import HOUR_MS, Settings


def hour(number: int) -> str:
    """Of the hour since 1970 with this number, such as 2026-01-05 13."""
    return datetime.fromtimestamp(number * 3600, UTC).strftime("%Y-%m-%d %H")


class Answers:
    """Keeps the columns of all events: 100 bytes each."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._chunks: list[Chunk] = []

    def add(self, chunk: Chunk) -> None:
        """Takes a chunk."""
        self._chunks.append(chunk)

    def column(self, name: str) -> Ints:
        """A column of all records, duplicates included, in the order of arrival."""
        return np.concatenate([getattr(chunk, name) for chunk in self._chunks] or [np.zeros(0, np.int64)])

    def first(self) -> Ints:
        """The rows that are left without duplicates."""
        return np.unique(self.column("id"), return_index=True)[1]

    def records(self) -> int:
        """How many records."""
        return sum(len(chunk) for chunk in self._chunks)

    def events(self) -> int:
        """How many events."""
        return len(self.first())

    def events_of_types(self) -> dict[str, int]:
        """Events by type."""
        return dict(
            zip(TYPES, np.bincount(self.column("kind")[self.first()], minlength=len(TYPES)).tolist(), strict=True)
        )

    def records_of_hours(self) -> dict[str, int]:
        """Records by the hour of their time, UTC."""
        hours, counts = np.unique(self.column("time_ms") // HOUR_MS, return_counts=True)
        return {hour(number): count for number, count in zip(hours.tolist(), counts.tolist(), strict=True)}

    def json(self) -> str:
        """The truths that are small, for people and other programs."""
        return json.dumps(
            {
                "records": self.records(),
                "events": self.events(),
                "events_of_types": self.events_of_types(),
                "records_of_hours": self.records_of_hours(),
            },
            indent=1,
        )
