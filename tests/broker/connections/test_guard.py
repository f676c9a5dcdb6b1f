"""A mistake of ours costs one connection, wherever it is made: each way from the hub into Python raises in turn."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.api import k03_metadata, k21_delete_records
from ottla.broker.broker import Broker
from ottla.client.errors import ConnectionLost
from ottla.config import BrokerConfig
from ottla.controller import NewTopic, create_topic
from ottla.errors import RequestTimedOut
from ottla.replication.delayed_produce import DelayedProduce
from ottla.replication.partition import Partition
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsRequest
from ottla.wire.k21_delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


class Panic(BaseException):
    """As pyo3's PanicException, it is no Exception."""


class Mistakes(logging.Handler):
    """Keeps the texts of errors, not their tracebacks: these hold the requests, which would never be dropped."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert record.exc_info
        self.texts.append(record.getMessage())


class Here:
    """A broker in this process, and the log lines that tell of mistakes."""

    def __init__(self, broker: Broker, handler: Mistakes) -> None:
        self.broker = broker
        self._handler = handler

    async def talk(self, conversation: Callable[[Client], Any]) -> Any:
        def run() -> Any:
            with Client.connect("127.0.0.1", self.broker.addresses.listening[0].port, "test") as client:
                return conversation(client)

        return await trio.to_thread.run_sync(run)

    async def costs_one_connection(self, conversation: Callable[[Client], Any]) -> None:
        """It fails, while another client on a connection of its own is served before and after."""
        with trio.fail_after(PATIENCE_S):
            await self.is_served()
            with pytest.raises((ConnectionLost, OSError)):
                await self.talk(conversation)
            await self.is_served()

    async def is_served(self) -> None:
        assert await self.talk(lambda client: client.call(API_VERSIONS, ApiVersionsRequest(), 0).error_code) == 0

    def mistakes(self) -> list[str]:
        return self._handler.texts


@asynccontextmanager
async def started(path: Path) -> AsyncIterator[Here]:
    handler = Mistakes()
    logger = logging.getLogger("ottla.guard")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        async with Broker.start(
            BrokerConfig({"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0"})
        ) as broker:
            await create_topic(broker.tree, NewTopic("t", 1, 1))
            await broker.metadata.wait_until(lambda: "t" in broker.metadata.topics)
            here = Here(broker, handler)
            yield here
            await here.is_served()
    finally:
        logger.propagate = True
        logger.removeHandler(handler)


def raises(error: type[BaseException]) -> Callable[..., Any]:
    def mistake(*_: Any, **__: Any) -> None:
        raise error("a mistake")

    return mistake


def raises_once(error: type[BaseException], then: Callable[..., Any]) -> Callable[..., Any]:
    """Others are served by `then`."""
    calls: list[None] = []

    def mistake(*arguments: Any, **options: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            raise error("a mistake")
        return then(*arguments, **options)

    return mistake


ERRORS = pytest.mark.parametrize("error", [ValueError, Panic])


def produce(acks: int) -> Callable[[Client], Any]:
    return lambda client: client.produce("t", batch(b"x"), acks=acks)


@ERRORS
async def test_a_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    monkeypatch.setattr(k03_metadata, "handle", raises(error))
    async with started(tmp_path) as here:
        await here.costs_one_connection(lambda client: client.call(METADATA, MetadataRequest(topics=[]), 8))
    assert [line.partition(" failed")[0] for line in here.mistakes()] == ["API key 3 version 8 of client 'test'"]


@ERRORS
async def test_a_handler_in_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    async def handle(call: object, rooms: object) -> None:
        await trio.lowlevel.checkpoint()
        raise error("a mistake")

    monkeypatch.setattr(k21_delete_records, "handle", handle)
    topics = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(offset=0)])]
    async with started(tmp_path) as here:
        await here.costs_one_connection(
            lambda client: client.call(DELETE_RECORDS, DeleteRecordsRequest(topics=topics, timeout_ms=1000), 1)
        )
    assert [line.partition(" failed")[0] for line in here.mistakes()] == ["API key 21 version 1 of client 'test'"]


@ERRORS
async def test_the_callback_of_a_completion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """A large Produce is appended by a thread; its answer is given in the callback."""
    async with started(tmp_path) as here:
        with monkeypatch.context() as patched:
            patched.setattr(DelayedProduce, "_reported", raises(error))
            # Its deadline answers it.
            large = batch(b"x" * 300_000)
            answer = await here.talk(lambda client: client.produce("t", large, acks=1, timeout_ms=1000))
            assert answer.responses[0].partitions[0].error_code == RequestTimedOut.code
        assert (await here.talk(produce(1))).responses[0].partitions[0].error_code == 0
    assert [line.partition(" failed")[0] for line in here.mistakes()] == ["the callback of a completion"]


@ERRORS
async def test_the_answer_at_the_end_of_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    async with started(tmp_path) as here:
        with monkeypatch.context() as patched:
            patched.setattr(DelayedProduce, "_turn_ended", raises(error))
            await here.costs_one_connection(produce(-1))
        assert (await here.talk(produce(-1))).responses[0].partitions[0].error_code == 0
    assert len(here.mistakes()) == 1
    assert "at the end of its turn" in here.mistakes()[0]


@ERRORS
async def test_the_end_of_a_turn_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    async with started(tmp_path) as here:
        here.broker.server._served = raises_once(error, here.broker.turn.end)
        await here.is_served()
        with trio.fail_after(PATIENCE_S):
            assert (await here.talk(produce(-1))).responses[0].partitions[0].error_code == 0
    assert [line.partition(" failed")[0] for line in here.mistakes()] == ["the end of a turn"]


@ERRORS
async def test_a_fetch_that_is_woken(tmp_path: Path, error: type[BaseException]) -> None:
    """The Produce that wakes it is answered, and so is a second Fetch that waits behind it."""

    class Waiter:
        def advanced(self, partition: Partition) -> None:
            raise error("a mistake")

        def expire(self) -> None:
            raise error("a mistake")

    async with started(tmp_path) as here:
        partition = here.broker.replicas.partitions["t", 0]
        partition.park(Waiter())
        answers: list[Any] = []

        async def fetch() -> None:
            options = {"max_wait_ms": 300_000, "min_bytes": 1, "session_epoch": 0}
            answers.append(await here.talk(lambda client: client.fetch("t", 0, **options)))

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetch)
                while len(partition.waiting_fetches.consumers) < 2:
                    await trio.lowlevel.checkpoint()
                assert (await here.talk(produce(-1))).responses[0].partitions[0].error_code == 0
        assert answers[0].responses[0].partition_responses[0].record_set
    # Once when it was woken, and once when the broker stopped.
    assert here.mistakes() == [
        "a Fetch that waited for t-0 failed; others are served on",
        "the release of a request that waited for t-0 failed; others are served on",
    ]


@ERRORS
async def test_an_acks_all_that_waits(tmp_path: Path, error: type[BaseException]) -> None:
    async with started(tmp_path) as here:
        partition = here.broker.replicas.partitions["t", 0]
        assert partition.wait_durable(0, raises(error))
        with trio.fail_after(PATIENCE_S):
            assert (await here.talk(produce(-1))).responses[0].partitions[0].error_code == 0
    assert here.mistakes() == ["an acks=all that waited for t-0 failed; others are served on"]


@ERRORS
async def test_a_deadline(tmp_path: Path, error: type[BaseException]) -> None:
    class Due:
        done = False

        def __init__(self, expire: Callable[[], None]) -> None:
            self.expire = expire

    async with started(tmp_path) as here:
        later = trio.Event()
        here.broker.deadlines.add(0, Due(raises(error)))
        here.broker.deadlines.add(1, Due(later.set))
        with trio.fail_after(PATIENCE_S):
            await later.wait()
    assert here.mistakes() == ["the deadline of Due failed; others are served on"]


@ERRORS
async def test_a_disconnection(tmp_path: Path, error: type[BaseException]) -> None:
    async with started(tmp_path) as here:
        here.broker.server._disconnected = raises_once(error, lambda _: None)
        await here.is_served()
        with trio.fail_after(PATIENCE_S):
            while not here.mistakes():
                await here.is_served()
    assert here.mistakes() == ["what follows the end of a connection failed; others are served on"]


@ERRORS
async def test_one_partition_at_the_end_of_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Another partition's Produces of the same turn are answered."""
    async with started(tmp_path) as here:
        await create_topic(here.broker.tree, NewTopic("other", 1, 1))
        await here.broker.metadata.wait_until(lambda: "other" in here.broker.metadata.topics)
        advance = Partition.advance_high_watermark

        def advanced(partition: Partition) -> None:
            if partition.topic == "t":
                raise error("a mistake")
            advance(partition)

        with monkeypatch.context() as patched:
            patched.setattr(Partition, "advance_high_watermark", advanced)
            with trio.fail_after(PATIENCE_S):
                answer = await here.talk(lambda client: client.produce("other", batch(b"x"), acks=1))
                await here.talk(produce(1))
        assert answer.responses[0].partitions[0].error_code == 0
    # While the disk is slow the append runs on a thread, and its turn's end is a completion.
    (mistake,) = here.mistakes()
    assert mistake in (
        "the end of a turn for t-0 failed; others are served on",
        "the callback of a completion failed; others are served on",
    )


async def test_interrupts_are_no_mistakes() -> None:
    from ottla.net.guard import failed

    for error in (KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)):
            failed("here", error)
