"""The loop's thread outlives what its tasks do."""

import logging

import pytest
import trio

from ottla.classic.loop import Loop
from tests.support.waiting import eventually


async def fails_first(*, task_status: trio.TaskStatus[None]) -> None:
    raise RuntimeError("first")


async def fails_later(go: trio.Event, *, task_status: trio.TaskStatus[str]) -> None:
    task_status.started("started")
    await go.wait()
    raise RuntimeError("later")


async def answer(number: int) -> int:
    await trio.lowlevel.checkpoint()
    return number


def test_a_task_that_fails_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    with pytest.raises(RuntimeError, match="first"):
        loop.start(fails_first)
    go = trio.Event()
    with caplog.at_level(logging.ERROR):
        assert loop.start(fails_later, go) == "started"
        loop.soon(go.set)
        eventually("it is logged", lambda: "a task of the classic clients ended" in caplog.text)
    assert loop.run(answer, 6) == 6
