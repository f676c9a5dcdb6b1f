"""A block that fails, with a broker that has failed: both errors are told, and that of the block is raised."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable

import pytest
import trio

import ottla
from ottla.embedded import BrokerFailed
from tests.support.waiting import eventually

Made = ottla.Broker | ottla.Cluster
KINDS: dict[str, Callable[[], Made]] = {"broker": ottla.Broker, "cluster": lambda: ottla.Cluster(2)}


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest) -> Made:
    return KINDS[request.param]()


def fail(made: Made) -> None:
    """Ends a broker by a mistake of its own."""

    def fails() -> None:
        raise LookupError("a fault in the broker")

    broker = made if isinstance(made, ottla.Broker) else made[1]
    assert broker._thread is not None
    broker._thread._token.run_sync_soon(fails)
    eventually("it has ended", lambda: not broker.is_running)


def assert_both_are_told(error: BaseException, log: pytest.LogCaptureFixture) -> None:
    (note,) = error.__notes__
    assert note.startswith("At the end of the block there was another error: BrokerFailed: ")
    assert "a fault in the broker" in note
    assert isinstance(error.__context__, BrokerFailed)
    assert isinstance(error.__context__.__cause__, LookupError)
    shown = "".join(traceback.format_exception(error))
    assert shown.index("a fault in the broker") < shown.index("the test's own")
    (line,) = [record for record in log.records if record.name == "ottla.embedded"]
    assert line.levelno == logging.ERROR
    assert "a fault in the broker" in line.getMessage()


def test_the_error_of_the_block_goes_on(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    def run() -> None:
        with made:
            fail(made)
            raise AssertionError("the test's own")

    with pytest.raises(AssertionError, match="the test's own") as caught:
        run()
    assert_both_are_told(caught.value, caplog)


@pytest.mark.parametrize("run", [asyncio.run, lambda main: trio.run(lambda: main)], ids=["asyncio", "trio"])
def test_it_does_in_a_loop(made: Made, caplog: pytest.LogCaptureFixture, run: Callable[..., object]) -> None:
    async def main() -> None:
        async with made:
            fail(made)
            raise AssertionError("the test's own")

    with pytest.raises(AssertionError, match="the test's own") as caught:
        run(main())
    assert_both_are_told(caught.value, caplog)


def test_the_row_of_errors_before_it_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    def run() -> None:
        with ottla.Broker() as broker:
            fail(broker)
            try:
                raise KeyError("first")
            except KeyError:
                raise ValueError("second")  # noqa: B904  # its context is the subject

    with pytest.raises(ValueError, match="second") as caught:
        run()
    first = caught.value.__context__
    assert isinstance(first, KeyError)
    assert isinstance(first.__context__, BrokerFailed)
    assert first.__context__.__context__ is None


def test_a_block_that_is_all_right_ends_with_the_brokers_error(made: Made) -> None:
    with pytest.raises(BrokerFailed, match="a fault in the broker"), made:
        fail(made)


def test_an_interrupt_goes_on() -> None:
    def run() -> None:
        with ottla.Broker() as broker:
            fail(broker)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        run()
    assert "a fault in the broker" in caught.value.__notes__[0]


def test_a_cancelled_block_does_not_lose_it() -> None:
    """The scope that asked for the end drops the cancellation; it must not drop the error with it."""

    async def of_trio() -> None:
        with trio.CancelScope() as scope:
            async with ottla.Broker() as broker:
                fail(broker)
                scope.cancel()
                await trio.lowlevel.checkpoint()

    with pytest.raises(BrokerFailed, match="a fault in the broker"):
        trio.run(of_trio)

    async def of_asyncio() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with ottla.Broker() as broker:
            fail(broker)
            task.cancel()
            await asyncio.sleep(0)

    with pytest.raises(BrokerFailed, match="a fault in the broker"):
        asyncio.run(of_asyncio())


def test_a_group_of_cancellations_is_one() -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery, ottla.Broker() as broker:
            fail(broker)
            async with trio.open_nursery() as inner:
                inner.start_soon(trio.sleep_forever)
                nursery.cancel_scope.cancel()
                await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(main)
    assert caught.group_contains(BrokerFailed, match="a fault in the broker")
