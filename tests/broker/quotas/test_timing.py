"""A request under quotas is timed while it keeps the broker busy: in tasks, and when it goes on after waiting, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from ottla.broker.call import AnyCall, Call
from ottla.broker.quotas import timing
from ottla.broker.quotas.timing import Timer, resumed
from ottla.slices import ROWS
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k03_metadata import METADATA
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


class Serving:
    """Times calls, and starts their tasks."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.config = None
        self.users: dict[int, str] = {}
        self.spent_s: list[float] = []

    def used_time(self, _client: object, seconds: float, _at_ms: int) -> int:
        self.spent_s.append(seconds)
        return 0

    def call(self) -> AnyCall:
        request = SimpleNamespace(
            api_version=8,
            client_id="test",
            connection_id=1,
            peer_subject=None,
            limit=lambda throttle_ms, _: self.asks(throttle_ms),
        )
        return Call(cast("Any", self), METADATA, cast("Any", request))

    def asks(self, throttle_ms: Callable[[], int]) -> None:
        """As the hub does when the call is answered."""
        self.throttle_ms = throttle_ms


@pytest.fixture
def serving(nursery: trio.Nursery) -> Serving:
    return Serving(nursery)


async def test_a_task_that_a_handler_starts_is_timed_while_it_runs(serving: Serving, clock: Clock) -> None:
    goes_on, ended = trio.Event(), trio.Event()
    call = serving.call()
    call.measure(cast("Any", serving))

    async def inner() -> None:
        clock.works(100)
        ended.set()

    async def task() -> None:
        clock.works(10)
        await goes_on.wait()
        clock.works(20)
        call.in_background(inner)

    with call.resumed():
        clock.works(1)
        call.in_background(task)
    await trio.testing.wait_all_tasks_blocked()
    clock.works(1000)  # others are served
    goes_on.set()
    await ended.wait()
    await trio.testing.wait_all_tasks_blocked()
    serving.throttle_ms()
    assert serving.spent_s == [131]


async def test_a_call_without_quotas_is_not_timed(
    serving: Serving, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, ended = serving.call(), trio.Event()
    monkeypatch.setattr(timing, "perf_counter_ns", None)

    async def task() -> None:
        ended.set()

    with call.resumed():
        call.in_background(task)
    await ended.wait()


async def test_a_request_that_another_one_serves_has_its_own_timer(clock: Clock) -> None:
    """An append answers a Fetch that waits for it."""
    produce, fetch = Timer(), Timer()
    produce.begin()
    clock.works(1)
    with resumed(fetch):
        clock.works(2)
        with resumed(fetch):
            clock.works(4)
        assert fetch.is_running
    assert not fetch.is_running
    produce.end()
    assert fetch.spent_s == 6
    assert produce.spent_s == 7


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
        await comes_true("quotas", lambda: one.broker.serving.quotas is not None)

        def used_time(_client: object, seconds: float, _at_ms: int) -> int:
            spent_s.append(seconds)
            return 0

        monkeypatch.setattr(one.broker.serving.quotas, "used_time", used_time)
        monkeypatch.setattr(timing, "perf_counter_ns", clock)
        await one.talk(lambda client: client.call(LIST_OFFSETS, asked, 2))
    assert max(spent_s) >= SLICES
