"""When services raise alerts: rows in, alerts out, the same whatever is in which batch."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ottla.pipelines.ops_monitoring import Limits, alerts

START = datetime(2026, 1, 5, tzinfo=UTC)
LIMITS = Limits(error_share=0.1, p99_ms=100, requests_min=10, no_data_s=180)


def row(service: str, minute: int, requests: int = 10, errors: int = 0, p99_ms: float | None = 5) -> dict[str, Any]:
    start = START + timedelta(minutes=minute)
    return {"service": service, "start": start, "requests": requests, "errors": errors, "p99_ms": p99_ms}


def told(rows: list[dict[str, Any]], before: list[dict[str, Any]] | None = None) -> list[tuple[str, int, str, float]]:
    found = alerts(rows, before or [], LIMITS, 60)
    return [(each.service, (each.start - START).seconds // 60, each.kind, each.value) for each in found]


def test_errors_and_slowness() -> None:
    assert told([row("a", 0, 10, 1), row("a", 1, 10, 2), row("a", 2, 9, 9), row("a", 3, p99_ms=101)]) == [
        ("a", 1, "errors", 0.2),
        ("a", 3, "slow", 101),
    ]


ROWS = [row("a", minute) for minute in range(12)] + [row("b", minute) for minute in (0, 1, 2, 9, 10, 11)]


def test_silence_is_told_once_and_so_is_its_end() -> None:
    assert told(ROWS) == [("b", 6, "no_data", 180), ("b", 9, "data_again", 360)]


def test_windows_without_requests_are_silence() -> None:
    """A server zone whose counters stand still has windows all the same."""
    still = [row("b", minute, 0, 0, None) for minute in range(3, 9)]
    assert told([*ROWS, *still]) == told(ROWS)


def test_windows_longer_than_the_patience() -> None:
    """One window follows the other: nobody was silent."""
    rows = [row(service, minute) for minute in range(0, 50, 10) for service in "ab"]
    assert alerts(rows, [], LIMITS, 600) == []


@pytest.mark.parametrize("first", range(1, 12))
def test_the_same_in_two_batches(first: int) -> None:
    limit = START + timedelta(minutes=first)
    early = [row for row in ROWS if row["start"] < limit]
    late = [row for row in ROWS if row["start"] >= limit]
    assert told(early) + told(late, early) == told(ROWS)
