"""A partition that goes to another member: when its offset is written, and when its owner gives it up."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from ottla.classic import TopicPartition
from ottla.classic.registry import offset_path, owner_path
from ottla.coordination.tree import get_or_none
from tests.classic.conftest import Place, group
from tests.classic.filling import fill, offsets
from tests.classic.members import Member
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]

Gather = Callable[[], Awaitable[None]]


@contextmanager
def client(place: Place) -> Iterator[KazooClient]:
    found = KazooClient(place.zookeeper)
    found.start()
    try:
        yield found
    finally:
        found.stop()
        found.close()


def register(client: KazooClient, mine: str, topic: str) -> str:
    """Another member, whose name comes before all others, so that the first partitions are to be its own."""
    path = f"/consumers/{mine}/ids/!other"
    fields = {"version": 1, "subscription": {topic: 1}, "pattern": "static", "timestamp": "1"}
    client.create(path, json.dumps(fields).encode(), ephemeral=True)
    return path


def gathering(member: Member, found: Callable[[Any, Gather], Awaitable[None]]) -> None:
    """Calls this in place of each gathering of changes, with the inside of the member and what gathers."""
    inner: Any = member.connector._member
    gather = inner._gather

    async def instead() -> None:
        await found(inner, gather)

    inner._gather = instead


def test_an_offset_is_written_before_changes_are_gathered_and_the_owner_goes_after_that(ours: Place) -> None:
    """Java's consumer reads the offset of a partition before it claims it. One that is written in the moment before
    the owner's node goes is not seen by a Java that has asked just before, and all that was read since the commit
    before comes again.
    """
    topic, mine = ours.topic(2), group()
    place = TopicPartition(topic, 0)
    seen: list[tuple[bytes | None, bool]] = []

    async def look(inner: Any, gather: Gather) -> None:
        offset = await get_or_none(inner._tree, offset_path(mine, place))
        owner = await inner._tree.exists(owner_path(mine, place))
        seen.append((offset and offset.data, owner is not None))
        await gather()

    with client(ours) as other, Member(ours, mine, topic).join() as member:
        fill(ours, topic, 2, 10)
        eventually("all arrive", lambda: len(member.consumed) == 20)
        gathering(member, look)
        register(other, mine, topic)
        eventually("the first is given up", lambda: not other.exists(owner_path(mine, place)))
    assert (b"10", True) in seen
    assert (None, True) not in seen


def test_what_is_not_lost_after_all_is_read_on(ours: Place) -> None:
    """A member that came is gone again before its partition was given to it."""
    topic, mine = ours.topic(2), group()
    place = TopicPartition(topic, 0)

    async def gone(inner: Any, gather: Gather) -> None:
        assert place in inner._halted
        await inner._tree.delete(path)
        await gather()
        inner._gather = gather
        is_over.append(True)

    is_over: list[bool] = []
    with client(ours) as other, Member(ours, mine, topic).join() as member:
        fill(ours, topic, 2, 10)
        eventually("all arrive", lambda: len(member.consumed) == 20)
        owner = other.exists(owner_path(mine, place))
        gathering(member, gone)
        path = register(other, mine, topic)
        eventually("it is gone", lambda: is_over)
        fill(ours, topic, 2, 10, start=10)
        eventually("the rest arrives", lambda: len(member.consumed) == 40)
        assert other.exists(owner_path(mine, place)).czxid == owner.czxid
    assert [each.offset for each in member.consumed if each.partition == 0] == list(range(20))
    assert offsets(ours, mine, topic, 2) == [20, 20]
