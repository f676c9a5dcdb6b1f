"""The waits of tests, under clocks of their own."""

import pytest
import trio
import trio.testing

from tests.support.waiting import comes_true


@pytest.mark.trio
async def test_a_clock_that_jumps_is_not_held_up(autojump_clock: trio.testing.MockClock) -> None:
    """Somebody sleeps when the wait begins: the clock has to reach his time, although somebody asks again and again."""
    awake = trio.Event()

    async def sleeper() -> None:
        await trio.sleep(3600)
        awake.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleeper)
        await trio.testing.wait_all_tasks_blocked()
        assert await comes_true("he is awake", awake.is_set)
    assert autojump_clock.current_time() >= 3600


@pytest.mark.trio
async def test_a_clock_that_stands_still_is_no_hindrance(mock_clock: trio.testing.MockClock) -> None:
    done = trio.Event()

    async def works() -> None:
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(works)
        assert await comes_true("it is done", done.is_set)
