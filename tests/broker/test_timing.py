"""A request under quotas is timed while it keeps the broker busy: in tasks, and when it goes on after waiting, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.broker.quotas import timing
from ottla.broker.quotas.timing import Timer, Timers, also_timed, resumed
from ottla.slices import ROWS
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k49_alter_client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.support.leased import started
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio

SECOND = 10**9
#: Of a request of many rows.
SLICES = 6
#: More time than there is, for the client "test".
PLENTY = EntryData(
    entity=[EntityData(entity_type="client-id", entity_name="test")], ops=[OpData(key="request_percentage", value=1e9)]
)


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def works(self, seconds: int) -> None:
        self.now_ns += seconds * SECOND


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter_ns", clock)
    return clock


class Place:
    """Starts tasks as the broker does."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.timers = Timers()
        self._nursery = nursery

    def in_background(self, handle: Callable[..., Awaitable[None]]) -> None:
        timer = self.timers.running
        self._nursery.start_soon(handle if timer is None else also_timed(timer, handle))


async def test_a_task_that_a_handler_starts_is_timed_while_it_runs(nursery: trio.Nursery, clock: Clock) -> None:
    place, goes_on, ended = Place(nursery), trio.Event(), trio.Event()
    timer = Timer(place.timers)

    async def inner(*_: Any) -> None:
        clock.works(100)
        ended.set()

    async def task(*_: Any) -> None:
        clock.works(10)
        await goes_on.wait()
        clock.works(20)
        place.in_background(inner)

    timer.begin()
    clock.works(1)
    place.in_background(task)
    timer.end()
    await trio.testing.wait_all_tasks_blocked()
    clock.works(1000)  # others are served
    goes_on.set()
    await ended.wait()
    await trio.testing.wait_all_tasks_blocked()
    assert timer.spent_s == 131
    assert place.timers.running is None


async def test_a_task_of_nobody_is_not_timed(nursery: trio.Nursery, clock: Clock) -> None:
    place = Place(nursery)
    timer = Timer(place.timers)

    async def task(*_: Any) -> None:
        clock.works(10)

    timer.begin()
    timer.end()
    place.in_background(task)
    await trio.testing.wait_all_tasks_blocked()
    assert timer.spent_s == 0


async def test_a_request_that_another_one_serves_has_its_own_timer(nursery: trio.Nursery, clock: Clock) -> None:
    """An append answers a Fetch that waits for it."""
    timers = Timers()
    produce, fetch = Timer(timers), Timer(timers)
    produce.begin()
    clock.works(1)
    with resumed(fetch):
        clock.works(2)
        assert timers.running is fetch
        with resumed(fetch):
            assert timers.running is fetch
        clock.works(4)
    assert timers.running is produce
    produce.end()
    assert fetch.spent_s == 6
    assert timers.running is None


async def test_all_of_a_request_of_many_rows_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plain handler has returned when most of the rows are looked at."""
    read = 0

    def clock() -> int:
        """It goes on by a second whenever a timer begins or ends."""
        nonlocal read
        read += 1
        return read * SECOND

    spent_s: list[float] = []
    asked = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0)] * SLICES * ROWS)],
    )
    async with started(tmp_path, monkeypatch) as one:
        await one.create("t")
        await one.talk(lambda client: client.call(ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(entries=[PLENTY])))
        await comes_true("quotas", lambda: one.broker.quotas is not None)

        def used_time(_client: object, seconds: float, _at_ms: int) -> int:
            spent_s.append(seconds)
            return 0

        monkeypatch.setattr(one.broker.quotas, "used_time", used_time)
        monkeypatch.setattr(timing, "perf_counter_ns", clock)
        await one.talk(lambda client: client.call(LIST_OFFSETS, asked, 2))
    assert max(spent_s) >= SLICES
