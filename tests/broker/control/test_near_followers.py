"""Whom a leader waits for though it is not in sync: a follower that is about to be, until it is known to be away."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from ottla.broker.metadata_cache import BrokerMetadata
from ottla.replication.partition import Partition
from ottla.replication.roles import PartitionState
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.support.client import Client
from tests.support.leased import One, produce, started
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio

#: Longer than any test: who waits for a follower to lag waits in vain.
LONG = {"replica.lag.time.max.ms": "600000"}


def fetch(client: Client, follower: int, offset: int) -> None:
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(replica_id=follower, max_wait_ms=0, topics=[FetchTopic(topic="t", partitions=[row])])
    answer = client.call(FETCH, request, 11)
    assert answer.responses[0].partition_responses[0].error_code == 0


async def left_alone(one: One) -> tuple[Partition, int]:
    """A partition that is led here, whose other replica is not in sync; and that one."""
    partition = await one.create("t")
    other = one.broker.id + 1
    led = PartitionState(1, one.broker.id, 1, (one.broker.id,), (one.broker.id, other), 1)
    await one.broker.replicas.apply("t", {0: led})
    return partition, other


@contextmanager
def named(one: One, broker: int) -> Iterator[None]:
    """As if the controller named the broker."""
    known = one.broker.metadata.brokers
    known[broker] = BrokerMetadata(broker, None, {"PLAINTEXT": ("127.0.0.1", 1)})
    try:
        yield
    finally:
        del known[broker]


async def connected(one: One) -> Client:
    return await trio.to_thread.run_sync(
        Client.connect, "127.0.0.1", one.broker.addresses.listening[0].port, "follower"
    )


async def comes_near(one: One, partition: Partition, client: Client, follower: int) -> None:
    """The follower had all that there was when it fetched before; the leader shows more than that since."""

    async def acknowledged() -> None:
        assert (await one.talk(lambda producer: produce(producer, "t", b"x", acks=-1)))[0] == 0

    await acknowledged()
    await trio.to_thread.run_sync(fetch, client, follower, 0)
    await acknowledged()
    await trio.to_thread.run_sync(fetch, client, follower, 1)
    # What comes now waits for it.
    assert (await one.talk(lambda producer: produce(producer, "t", b"x", acks=1)))[0] == 0
    assert (partition.log.end_offset, partition.log.high_watermark) == (3, 2)


async def test_a_follower_that_hangs_up_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, monkeypatch, **LONG) as one:
        partition, other = await left_alone(one)
        with named(one, other):
            with await connected(one) as follower:
                await comes_near(one, partition, follower, other)
                with await connected(one) as another:
                    await trio.to_thread.run_sync(fetch, another, other + 1, 0)
            await comes_true("a high watermark that waits for nobody", lambda: partition.log.high_watermark == 3)


async def test_a_follower_whose_broker_is_not_named_any_more_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine says nothing more: no connection ends."""
    async with started(tmp_path, monkeypatch, **LONG) as one:
        partition, other = await left_alone(one)
        with await connected(one) as follower:
            with named(one, other):
                await comes_near(one, partition, follower, other)
            await comes_true("a high watermark that waits for nobody", lambda: partition.log.high_watermark == 3)
