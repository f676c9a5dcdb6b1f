"""Rows of native fetchers become events of a class each."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.replication import fetcher_events
from ottla.replication.fetcher_events import (
    Delayed,
    Diverged,
    FetcherPanicked,
    NewerEpoch,
    NoConnection,
    event_of,
    is_connection_lost,
)
from ottla.replication.questions import EpochEnd

TABLE = Path(__file__).parents[2] / "rust/replication/table.rs"


def row(kind: str, topic: str = "t") -> Any:
    return SimpleNamespace(
        topic=topic, partition=3, leader_epoch=7, kind=kind, code=75, epoch=5, offset=42, message="why"
    )


def kinds() -> list[str]:
    """The kinds that Rust has names for."""
    return re.findall(r'Self::\w+ => "(\w+)",', TABLE.read_text())


def test_every_kind_is_known_where_rust_sends_it() -> None:
    assert len(kinds()) == len(set(kinds())) == 9
    of_partitions = {kind: event_of(row(kind)) for kind in kinds() if kind != "connection"}
    assert len({type(event) for event in of_partitions.values()}) == len(of_partitions), "a class for each"
    for event in of_partitions.values():
        assert isinstance(event, fetcher_events.OfPartition)
        assert (event.key, event.leader_epoch, event.code, event.message) == (("t", 3), 7, 75, "why")
    assert event_of(row("connection", topic="")) == NoConnection("why")
    assert event_of(row("panic", topic="")) == FetcherPanicked("why")
    assert [kind for kind in kinds() if is_connection_lost([row("delayed"), row(kind)])] == ["connection"]


def test_events_have_what_their_kinds_tell() -> None:
    diverged, newer = event_of(row("diverged")), event_of(row("newer_epoch"))
    assert isinstance(diverged, Diverged)
    assert diverged.end == EpochEnd(5, 42)
    assert isinstance(newer, NewerEpoch)
    assert newer.epoch == 5
    assert event_of(row("delayed")) == Delayed(("t", 3), 7, 75, "why")


def test_a_kind_that_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        event_of(row("new"))
