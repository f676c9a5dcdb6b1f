"""Which event comes first."""

from __future__ import annotations

import inspect
import re

import pytest
import trio
import trio.testing

from ottla.controller import events as e
from ottla.controller import handling
from ottla.controller.events import Event, Events, Urgency
from ottla.controller.requests import ControlRequest
from ottla.controller.timings import KINDS
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR


async def all_of(events: Events) -> list[object]:
    taken: list[object] = []
    with trio.move_on_after(0):
        while True:
            taken.append(await events.take())
    return taken


async def work() -> None:
    """Nothing."""


def leaves(of: type[Event] = Event) -> list[type[Event]]:
    """The classes of which events are made."""
    below = of.__subclasses__()
    return [leaf for each in below for leaf in leaves(each)] if below else [of]


@pytest.mark.trio
async def test_the_urgent_come_first_and_equals_in_order() -> None:
    events = Events()
    first, second, order = e.AlterIsr(work), e.ControlledShutdown(work), e.Reassign(work)
    for event in [
        e.PartitionModifications("a"),
        order,
        second,
        e.PartitionModifications("a"),
        e.BrokerChange(),
        first,
        e.BrokerModifications(3),
        e.LookAtRest(),
        e.LookAgain(),
        e.SessionChange(),
        e.ControllerChange(),
        e.PartitionModifications("b"),
    ]:
        events.put(event)
    assert await all_of(events) == [
        e.LookAgain(),
        e.SessionChange(),
        e.ControllerChange(),
        e.BrokerChange(),
        e.BrokerModifications(3),
        second,
        first,
        e.PartitionModifications("a"),
        order,
        e.LookAtRest(),
        e.PartitionModifications("b"),
    ]


@pytest.mark.trio
async def test_what_a_look_at_everything_covers_is_dropped() -> None:
    events = Events()
    kept = [e.SessionChange(), e.AlterIsr(work), e.Reassign(work), e.UncleanLeaderElectionEnable()]
    looks = [e.BrokerModifications(1), e.PartitionModifications("a"), e.PartitionModifications("b")]
    looks += [of() for of in leaves() if of.is_look and of not in map(type, looks)]
    for event in [*kept, *looks]:
        events.put(event)
    events.drop_looks()
    assert e.LookAgain() not in events
    assert await all_of(events) == kept


def test_answers_and_orders_are_events_each() -> None:
    events = Events()
    request = ControlRequest(1, 1, LEADER_AND_ISR, 4, None)
    for _ in range(2):
        events.put(e.answered(request, None))
        events.put(e.ElectLeaders(work))
    assert len(events) == 4


def test_each_event_says_what_it_is() -> None:
    for of in leaves():
        assert isinstance(of.urgency, Urgency), of
        assert of.kind is None or of.kind in KINDS, of
    assert {of.kind for of in leaves()} - {None} == {*KINDS}


def test_each_event_is_handled() -> None:
    """But for one that is only for those who wait to be elected."""
    handled = set(re.findall(r"e\.(\w+)\(", inspect.getsource(handling.handle)))
    missing = {of.__name__ for of in leaves() if not handled & {each.__name__ for each in of.__mro__}}
    assert missing == {"ControllerGone"}


@pytest.mark.trio
async def test_whoever_waits_is_woken() -> None:
    events = Events()
    taken: list[object] = []

    async def wait() -> None:
        taken.append(await events.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        events.put(e.TopicChange())
    assert taken == [e.TopicChange()]
