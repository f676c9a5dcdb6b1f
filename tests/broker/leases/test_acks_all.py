"""Produces with acks=all that wait in the hub for a follower, and what becomes of them when their lease ends.

The follower is a client of the test, which says with each Fetch how far it has come.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from ottla.errors import (
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    StorageError,
)
from ottla.replication.partition import Partition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.support.client import Client, batch
from tests.support.leased import One, produce, started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

FOLLOWER = 7
#: Longer than a client of these tests waits for its answer.
FOR_EVER_MS = 300_000


class Stand:
    """A leader with a follower in sync, and a connection for each of its producers."""

    def __init__(self, one: One, partition: Partition, connections: AsyncExitStack) -> None:
        self.one = one
        self.partition = partition
        self._connections = connections

    async def connect(self) -> Client:
        port = self.one.broker.addresses.listening[0].port
        client = await trio.to_thread.run_sync(Client.connect, "127.0.0.1", port)
        self._connections.callback(client.close)
        return client

    @property
    def waiting(self) -> int:
        return self.one.broker.server.hub.waiting_produces

    async def begin(self, timeout_ms: int = FOR_EVER_MS) -> Client:
        """A producer whose record with acks=all waits in the hub."""
        await self.one.writes_quickly()
        producer, end, waiting, asked = (
            await self.connect(),
            self.partition.log.end_offset,
            self.waiting,
            self.one.asked,
        )
        row = TopicProduceData(name="t", partitions=[PartitionProduceData(records=batch(b"new"))])
        producer.send(PRODUCE, ProduceRequest(transactional_id=None, acks=-1, timeout_ms=timeout_ms, topics=[row]), 8)
        await comes_true("the append", lambda: self.partition.log.end_offset == end + 1)
        if timeout_ms == FOR_EVER_MS:
            await comes_true("it waits", lambda: self.waiting == waiting + 1)
        assert self.one.asked == asked, "the Produce came to Python"
        return producer

    async def has_fetched(self, offset: int) -> None:
        """The follower has all before this offset."""
        row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[row])]
        request = FetchRequest(replica_id=FOLLOWER, max_wait_ms=0, session_epoch=-1, topics=topics)
        await self.one.talk(lambda client: client.call(FETCH, request, 12))

    async def apply(self, **changes: Any) -> None:
        """The controller says so, with a newer leader epoch."""
        state = self.partition.state
        assert state is not None
        changed = msgspec.structs.replace(state, leader_epoch=state.leader_epoch + 1, **changes)
        await self.one.broker.replicas.apply("t", {0: changed})


async def code(producer: Client) -> int:
    answer: Any = await trio.to_thread.run_sync(producer.receive)
    ((row,),) = [topic.partitions for topic in answer.responses]
    return int(row.error_code)


@asynccontextmanager
async def stand(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> AsyncIterator[Stand]:
    async with started(path, monkeypatch, **settings) as one, AsyncExitStack() as connections:
        found = Stand(one, await one.create("t"), connections)
        me = one.broker.id
        await found.apply(replicas=(me, FOLLOWER), isr=(me, FOLLOWER))
        await one.talk(lambda client: produce(client, "t", b"old"))
        await found.has_fetched(1)
        lease = found.partition.lease
        assert lease is not None
        assert lease.terms.accepts_all
        assert not lease.terms.is_alone
        with trio.fail_after(2 * PATIENCE_S):
            yield found


async def test_it_is_answered_when_the_follower_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        first, second = await found.begin(), await found.begin()
        await found.has_fetched(1)
        assert (found.waiting, found.partition.log.high_watermark) == (2, 1)
        await found.has_fetched(2)
        assert await code(first) == 0
        assert (found.waiting, found.partition.log.high_watermark) == (1, 2)
        await found.has_fetched(3)
        assert await code(second) == 0
        assert found.waiting == 0


async def test_the_first_one_grants_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        found.partition.end_lease()
        producer = await found.connect()
        row = TopicProduceData(name="t", partitions=[PartitionProduceData(records=batch(b"new"))])
        producer.send(PRODUCE, ProduceRequest(transactional_id=None, acks=-1, timeout_ms=60_000, topics=[row]), 8)
        await comes_true("a lease", lambda: found.partition.lease is not None)
        await found.has_fetched(2)
        assert await code(producer) == 0


async def test_its_time_may_be_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        patient = await found.begin()
        assert await code(await found.begin(20)) == RequestTimedOut.code
        assert found.waiting == 1
        await found.has_fetched(2)
        assert await code(patient) == 0


async def test_it_is_for_the_new_epoch_to_decide_where_this_broker_leads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        producer = await found.begin()
        await found.apply()
        assert found.waiting == 0
        await found.has_fetched(1)
        assert found.partition.log.high_watermark == 1
        await found.has_fetched(2)
        assert await code(producer) == 0


async def test_too_few_are_in_sync_when_it_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        await found.one.talk(lambda client: client.alter_topic("t", {"min.insync.replicas": "2"}))
        await comes_true("the setting", lambda: found.partition.min_insync_replicas == 2)
        await found.one.talk(lambda client: produce(client, "t", b"old"))
        await found.has_fetched(2)
        producer = await found.begin()
        await found.apply(isr=(found.one.broker.id,))
        assert await code(producer) == NotEnoughReplicasAfterAppend.code
        assert await found.one.talk(lambda client: produce(client, "t", b"more", acks=-1)[0]) == NotEnoughReplicas.code


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (lambda found: found.apply(leader=FOLLOWER), NotLeaderOrFollower.code),
        (lambda found: at_once(found.partition.resign), NotLeaderOrFollower.code),
        (lambda found: at_once(found.partition.go_offline), StorageError.code),
        (lambda found: at_once(found.partition.flush_failed), StorageError.code),
    ],
    ids=["another leads", "it is deleted", "its disk fails", "its flush fails"],
)
async def test_it_fails_as_the_partition_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[Stand], Any], error: int
) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        producer = await found.begin()
        await end(found)
        assert found.waiting == 0
        assert await code(producer) == error


async def at_once(act: Callable[[], object]) -> None:
    act()


async def test_its_time_goes_on_when_the_lease_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        await found.begin()
        found.partition.end_lease()
        assert found.waiting == 0
        ((_, _, operation),) = [
            entry for entry in found.one.broker.deadlines._heap if getattr(entry[2], "purgatory", "") == "Produce"
        ]
        assert 0 < operation._unacknowledged.timeout_ms < FOR_EVER_MS  # type: ignore[attr-defined]
        # Any other lease knows nothing of it.
        await found.has_fetched(2)
        assert operation.done
