"""Metadata waits for a moment when a broker may be gone: until it is known who leads instead, or that it lives."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from ottla.broker.broker import Broker
from ottla.broker.metadata_cache import DOUBT_S, BrokerMetadata, MetadataCache, PartitionMetadata, Update
from ottla.config import BrokerConfig
from ottla.slices import Slices
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.support.client import Client
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio


@pytest.fixture
def cache() -> MetadataCache:
    cache = MetadataCache(controller_id=1)
    cache.brokers = {number: BrokerMetadata(number, None, {}) for number in (1, 2)}
    cache.topics = {"t": {0: PartitionMetadata(2, 0, (1, 2), (1, 2), ())}}
    return cache


async def waited_s(cache: MetadataCache) -> float:
    began = trio.current_time()
    await cache.certain()
    return trio.current_time() - began


async def test_nobody_waits_where_all_live(cache: MetadataCache, autojump_clock: MockClock) -> None:
    cache.doubt(3, True)
    assert await waited_s(cache) == 0
    cache.doubt(2, True)
    cache.doubt(2, False)
    assert await waited_s(cache) == 0


async def test_answers_wait_until_others_lead(cache: MetadataCache, autojump_clock: MockClock) -> None:
    cache.doubt(2, True)
    waited: list[float] = []

    async def ask() -> None:
        waited.append(await waited_s(cache))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(0.25)
        update = Update(cache)
        update.add_broker(cache.brokers[1])
        await update.apply(1, Slices())
    assert waited == [0.25]
    assert await waited_s(cache) == 0


async def test_answers_wait_until_it_is_known_to_live(cache: MetadataCache, autojump_clock: MockClock) -> None:
    cache.doubt(2, True)
    waited: list[float] = []

    async def ask() -> None:
        waited.append(await waited_s(cache))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(0.1)
        cache.doubt(2, False)
    assert waited == [0.1]


async def test_answers_do_not_wait_for_long(cache: MetadataCache, autojump_clock: MockClock) -> None:
    """Its session may have to end first, since the controller is Kafka's."""
    cache.doubt(2, True)
    await trio.sleep(0.1)
    assert await waited_s(cache) == pytest.approx(DOUBT_S - 0.1)
    assert await waited_s(cache) == 0


async def test_a_clients_question_waits(tmp_path: Path) -> None:
    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
    answered: list[int] = []
    async with Broker.start(config) as broker:

        def ask() -> None:
            with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "client") as client:
                answered.append(len(client.call(METADATA, MetadataRequest(topics=None), 9).brokers))

        # It goes on to be doubted until the test says otherwise.
        broker.metadata._doubted[broker.id] = trio.current_time() + 60
        others = len(broker.metadata._waiting)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, ask)
            await comes_true("it waits", lambda: len(broker.metadata._waiting) > others)
            assert answered == []
            broker.metadata.doubt(broker.id, False)
        assert answered == [1]
