"""Two brokers in one process: nothing that one does or is set to shows in the other."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from ottla._core import Counts
from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatRequest
from ottla.wire.k26_end_txn import END_TXN, EndTxnRequest
from tests.support.client import Client
from tests.support.leased import produce
from tests.support.waiting import PATIENCE_S

T = TypeVar("T")
BROKER_LOGGER = 8
#: Nobody serves the figures here; the setting makes a broker measure.
MEASURED = {"metrics.listener": "127.0.0.1:1"}


class One:
    """A broker, and clients of it that block a thread instead of its loop."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def talk(self, conversation: Callable[[Client], T]) -> T:
        port = self.broker.addresses.listening[0].port

        def run() -> T:
            with Client.connect("127.0.0.1", port, "test") as client:
                return conversation(client)

        with trio.fail_after(PATIENCE_S):
            return await trio.to_thread.run_sync(run)

    def errors(self) -> dict[int, dict[int, int]]:
        """How often each error code stood in answers, by API."""
        return {
            api.key: {code: count for code, count in api.errors if count} for api in self.broker.server.hub.measured()
        }

    def traffic(self, topic: str) -> Counts:
        return self.broker.logs.directories.traffic.counts().by_topic[topic]


def counted(counts: Counts) -> tuple[int, int, int]:
    return counts.records_in, counts.produce_requests, counts.fetch_requests


@asynccontextmanager
async def one(path: Path, **settings: str) -> AsyncIterator[One]:
    given = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "1"}
    async with Broker.start(BrokerConfig({**given, **settings})) as broker:
        yield One(broker)


def heartbeats(count: int) -> Callable[[Client], list[int]]:
    """Heartbeats of an unknown member."""
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")
    return lambda client: [client.call(HEARTBEAT, request, 2).error_code for _ in range(count)]


def end_without_transaction(client: Client) -> int:
    return client.call(END_TXN, EndTxnRequest("none", 1, 0, True), 1).error_code


@pytest.mark.trio
async def test_errors_are_counted_where_they_were_answered(tmp_path: Path) -> None:
    async with one(tmp_path / "first", **MEASURED) as first, one(tmp_path / "second", **MEASURED) as second:
        (code, again) = await first.talk(heartbeats(2))
        assert code == again != 0
        ended = await second.talk(end_without_transaction)
        assert ended != 0
        assert first.errors()[HEARTBEAT.key] == {code: 2}
        assert HEARTBEAT.key not in second.errors()
        assert second.errors()[END_TXN.key] == {ended: 1}
        assert END_TXN.key not in first.errors()


@pytest.mark.trio
async def test_a_broker_without_metrics_counts_nothing_for_the_other(tmp_path: Path) -> None:
    async with one(tmp_path / "first", **MEASURED) as first, one(tmp_path / "second") as second:
        assert await second.talk(end_without_transaction)
        assert END_TXN.key not in first.errors()
        assert second.errors() == {}
        assert await first.talk(end_without_transaction)
        assert sum(first.errors()[END_TXN.key].values()) == 1


@pytest.mark.trio
async def test_one_stops_and_the_other_goes_on(tmp_path: Path) -> None:
    async with one(tmp_path / "first", **MEASURED) as first:
        await first.talk(lambda client: client.create("t"))
        async with one(tmp_path / "second", **MEASURED) as second:
            await second.talk(lambda client: client.create("t"))
            assert first.broker.cluster_id != second.broker.cluster_id
            assert await second.talk(lambda client: produce(client, "t", b"a", b"b")) == (0, 0)
            assert await first.talk(lambda client: produce(client, "t", b"c", acks=-1)) == (0, 0)
            assert await second.talk(lambda client: produce(client, "t", b"d", acks=-1)) == (0, 2)
        await first.talk(heartbeats(1))
        assert sum(first.errors()[HEARTBEAT.key].values()) == 1
        assert await first.talk(lambda client: produce(client, "t", b"e", acks=-1)) == (0, 1)
        await first.talk(lambda client: client.create("u"))
        async with one(tmp_path / "second") as again:
            assert await again.talk(lambda client: produce(client, "t", b"f")) == (0, 3)


@pytest.mark.trio
async def test_a_log_level_holds_for_both(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Levels belong to the process, whichever broker was asked to change one."""
    requests = logging.getLogger("ottla.requests")
    before = requests.level
    try:
        async with one(tmp_path / "first") as first, one(tmp_path / "second") as second:
            await second.talk(end_without_transaction)
            assert "EndTxn 1 of client" not in caplog.text
            levels = {"ottla.requests": "DEBUG"}
            await first.talk(lambda client: client.alter(BROKER_LOGGER, str(first.broker.id), levels))
            await second.talk(end_without_transaction)
            assert "EndTxn 1 of client" in caplog.text
    finally:
        requests.setLevel(before)


@pytest.mark.trio
async def test_traffic_is_counted_by_the_broker_that_had_it(tmp_path: Path) -> None:
    """Of topics with the same name too, under a lease and without."""
    async with one(tmp_path / "first", **MEASURED) as first, one(tmp_path / "second", **MEASURED) as second:
        for broker in first, second:
            await broker.talk(lambda client: client.create("t"))
        await first.talk(lambda client: produce(client, "t", b"a", b"b"))
        await first.talk(lambda client: produce(client, "t", b"c", acks=-1))
        await first.talk(lambda client: client.fetch("t"))
        assert counted(first.traffic("t")) == (3, 2, 1)
        assert counted(second.traffic("t")) == (0, 0, 0)
        await second.talk(lambda client: produce(client, "t", b"d"))
        assert counted(second.traffic("t")) == (1, 1, 0)
        assert counted(first.traffic("t")) == (3, 2, 1)
