"""Deadlines of requests that wait."""

import pytest
import trio
import trio.testing

from ottla.replication.delayed import Deadlines


class Recorded:
    def __init__(self, name: str, fired: list[tuple[str, float]]) -> None:
        self.name = name
        self.fired = fired
        self.done = False

    def expire(self) -> None:
        self.done = True
        self.fired.append((self.name, trio.current_time()))


@pytest.mark.trio
async def test_deadlines_fire_in_order_also_when_an_earlier_one_comes_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    fired: list[tuple[str, float]] = []
    start = trio.current_time()
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        deadlines.add(5000, Recorded("late", fired))
        await trio.testing.wait_all_tasks_blocked()
        deadlines.add(1000, Recorded("early", fired))
        done = Recorded("done", fired)
        deadlines.add(2000, done)
        done.done = True
        assert len(deadlines) == 2
        await trio.sleep(6)
        nursery.cancel_scope.cancel()
    assert [(name, round(at - start, 3)) for name, at in fired] == [("early", 1.0), ("late", 5.0)]


class Broken(Recorded):
    def expire(self) -> None:
        super().expire()
        raise KeyError("a mistake of ours")


@pytest.mark.trio
async def test_a_mistake_at_one_deadline_stops_no_other(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    fired: list[tuple[str, float]] = []
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        deadlines.add(1000, Broken("broken", fired))
        deadlines.add(1000, Recorded("same time", fired))
        deadlines.add(2000, Recorded("later", fired))
        await trio.sleep(3)
        nursery.cancel_scope.cancel()
    assert [name for name, _ in fired] == ["broken", "same time", "later"]
    assert "a mistake of ours" in caplog.text


@pytest.mark.trio
async def test_completed_operations_do_not_pile_up(autojump_clock: trio.testing.MockClock) -> None:
    deadlines = Deadlines()
    fired: list[tuple[str, float]] = []
    for _ in range(20_000):
        operation = Recorded("", fired)
        deadlines.add(3_600_000, operation)
        operation.done = True
    assert len(deadlines._heap) <= 4096


def test_what_completes_soon_leaves_soon() -> None:
    """A consumer at the log's end waits a thousand times a second: its last half second must not leave all at once."""
    deadlines = Deadlines(clock=lambda: 0.0)
    fired: list[tuple[str, float]] = []
    deadlines.add(100, Recorded("waits", fired))
    for _ in range(500):
        operation = Recorded("", fired)
        deadlines.add(50, operation)
        assert len(deadlines._heap) <= 3
        operation.done = True
    assert len(deadlines) == 1
