"""A follower comes in the very turn in which the hub appended with acks=all, because no other replica was in sync.

Both requests are there when the broker looks, so that one turn of its loop brings them, in the order in which they
came. Threads beside the loop do not let that be arranged from outside: `rust/direct/tests/beside.rs` has the same of
their turns.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from ottla.broker.network_threads import VARIABLE as THREADS
from ottla.errors import RequestTimedOut
from ottla.replication.partition import Partition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.support.client import Client, batch
from tests.support.leased import One, produce, started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio

FOLLOWER = 7
#: Longer than a client of these tests waits for its answer.
FOR_EVER_MS = 300_000


class Stand:
    """A leader that is alone in sync, its partition, and connections of a producer and of the other replica."""

    def __init__(self, one: One, partition: Partition, producer: Client, follower: Client) -> None:
        self.one = one
        self.partition = partition
        self.producer = producer
        self.follower = follower

    async def appended_as_a_follower_comes(self, timeout_ms: int) -> None:
        """Sends both requests at once. The follower has all but the record of the first."""
        await self.one.writes_quickly()
        before, asked = self.partition.log.end_offset, self.one.asked
        row = TopicProduceData(name="t", partitions=[PartitionProduceData(records=batch(b"new"))])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=timeout_ms, topics=[row])
        self.producer.send(PRODUCE, request, 8)
        self.fetches_from(before)
        await comes_true("the Fetch", lambda: self.one.asked > asked)
        assert self.partition.log.end_offset == before + 1
        # The Fetch may have brought another lease.
        terms = self.partition.terms()
        assert terms is not None
        assert not terms.is_alone
        # The Produce did not come to Python.
        assert self.one.asked == asked + 1

    def fetches_from(self, offset: int) -> None:
        row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_id=FOLLOWER, max_wait_ms=0, session_epoch=-1, topics=[FetchTopic(topic="t", partitions=[row])]
        )
        self.follower.send(FETCH, request, 12)

    async def produced(self) -> int:
        """The error code that the producer gets."""
        answer: Any = await trio.to_thread.run_sync(self.producer.receive)
        ((row,),) = [topic.partitions for topic in answer.responses]
        return int(row.error_code)


@asynccontextmanager
async def stand(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    monkeypatch.setenv(THREADS, "0")
    settings = {"log.flush.on.acks.all": "false"}
    async with started(path, monkeypatch, **settings) as one, AsyncExitStack() as connections:
        partition = await one.create("t")
        state = partition.state
        assert state is not None
        me = one.broker.id
        led = msgspec.structs.replace(state, replicas=(me, FOLLOWER), isr=(me,), leader_epoch=1)
        await one.broker.replicas.apply("t", {0: led})
        await one.talk(lambda client: [produce(client, "t", b"old") for _ in range(3)])
        assert partition.lease is not None
        assert partition.lease.terms.accepts_all
        port = one.broker.addresses.listening[0].port
        clients = [await trio.to_thread.run_sync(Client.connect, "127.0.0.1", port) for _ in range(2)]
        for client in clients:
            connections.callback(client.close)
        with trio.fail_after(2 * PATIENCE_S):
            yield Stand(one, partition, *clients)


async def test_its_record_is_acknowledged_when_the_follower_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found, trio.open_nursery() as nursery:
        await found.appended_as_a_follower_comes(FOR_EVER_MS)
        partition, answers = found.partition, []

        async def take() -> None:
            answers.append(await found.produced())

        nursery.start_soon(take)
        await comes_true("an answer that waits", lambda: len(found.one.broker.deadlines) > 0)
        assert partition.in_sync is not None
        assert FOLLOWER in partition.in_sync.maximal_isr
        # The answers to later requests would be behind it on its connection only: another one's is not.
        assert await found.one.talk(lambda client: produce(client, "t", b"later")) == (0, 4)
        assert (answers, partition.log.high_watermark) == ([], 3)
        await trio.to_thread.run_sync(found.follower.receive)
        found.fetches_from(5)
        await comes_true("the answer", lambda: answers == [0])


async def test_a_follower_that_does_not_fetch_it_is_not_waited_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        await found.appended_as_a_follower_comes(50)
        assert await found.produced() == RequestTimedOut.code
