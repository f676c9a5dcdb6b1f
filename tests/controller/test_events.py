"""Which event comes first."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from ottla.controller.events import LOOK_AGAIN, LOOK_AT_REST, LOOKS, Events

pytestmark = pytest.mark.trio


async def all_of(events: Events) -> list[object]:
    taken: list[object] = []
    with trio.move_on_after(0):
        while True:
            taken.append(await events.take())
    return taken


async def test_the_urgent_come_first_and_equals_in_order() -> None:
    events = Events()
    for event in [
        ("topic", "a"),
        ("response", 1),
        ("order", 1),
        ("urgent order", 2),
        ("topic", "a"),
        ("brokers",),
        ("urgent order", 1),
        ("broker", 3),
        LOOK_AT_REST,
        LOOK_AGAIN,
        ("session",),
        ("controller",),
    ]:
        events.put(event)
    assert await all_of(events) == [
        LOOK_AGAIN,
        ("session",),
        ("controller",),
        ("brokers",),
        ("broker", 3),
        ("urgent order", 2),
        ("urgent order", 1),
        ("topic", "a"),
        ("response", 1),
        ("order", 1),
        LOOK_AT_REST,
    ]


async def test_what_a_look_at_everything_covers_is_dropped() -> None:
    events = Events()
    kept = [("session",), ("urgent order", 1), ("response", 1), ("order", 1), ("unclean elections", None)]
    for event in [*kept, LOOK_AGAIN, ("topic", "a"), ("topic", "b"), ("broker", 1), *((kind,) for kind in LOOKS)]:
        events.put(event)
    events.drop_looks()
    assert LOOK_AGAIN not in events
    assert await all_of(events) == kept


async def test_whoever_waits_is_woken() -> None:
    events = Events()
    taken: list[object] = []

    async def wait() -> None:
        taken.append(await events.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        events.put(("topics",))
    assert taken == [("topics",)]
