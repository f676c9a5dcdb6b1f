"""What a member makes of heartbeats that are not answered."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from ottla.client.cluster import Cluster
from ottla.client.group_connection import GroupConnection
from ottla.client.membership import GroupSettings, Membership
from ottla.errors import CoordinatorNotAvailable

pytestmark = pytest.mark.trio


def member_of(generation: int, becomes: int, monkeypatch: pytest.MonkeyPatch) -> Membership:
    """A member whose coordinator does not answer, and whose generation is another one by the time it knows."""
    connection = GroupConnection(Cluster("away:1"), "g")
    member = Membership(connection, GroupSettings())
    member.generation = generation

    async def call(*_: Any, **__: Any) -> Any:
        member.generation = becomes
        raise CoordinatorNotAvailable("away")

    monkeypatch.setattr(connection, "call", call)
    member._last_answer = trio.current_time() - 3_600
    return member


async def test_a_session_without_an_answer_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    member = member_of(7, 7, monkeypatch)
    assert not await member._beat_once()
    assert member.is_lost
    assert member.generation == -1


async def test_that_says_nothing_of_a_later_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    member = member_of(7, 8, monkeypatch)
    assert not await member._beat_once()
    assert not member.is_lost
    assert member.generation == 8
