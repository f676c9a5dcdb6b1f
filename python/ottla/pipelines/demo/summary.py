"""The findings of the demonstration, however they were counted."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Self


class Hour(NamedTuple):
    """One hour of requests; errors are those answered with a status of 400 or more."""

    start: datetime
    requests: int
    errors: int

    @classmethod
    def parse(cls, text: str, requests: int, errors: int) -> Self:
        """From an access log's day and hour, such as 17/May/2015:10; the log's times are taken as UTC."""
        return cls(datetime.strptime(text, "%d/%b/%Y:%H").replace(tzinfo=UTC), requests, errors)


class Page(NamedTuple):
    """A path without its query, and how often it was asked for."""

    path: str
    requests: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Hours in order, pages from the most requested down (equal ones by name), and how many lines were no requests."""

    hours: tuple[Hour, ...]
    pages: tuple[Page, ...]
    malformed: int

    @property
    def requests(self) -> int:
        """All requests."""
        return sum(hour.requests for hour in self.hours)

    @property
    def errors(self) -> int:
        """All requests that were answered with an error."""
        return sum(hour.errors for hour in self.hours)
