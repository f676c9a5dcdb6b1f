"""Fetches of followers that the hub serves, and what Python decides about followers all the same.

The followers are clients of the test, each in a fetch session, as those of brokers are.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from ottla.client import BlockingConnection
from ottla.replication import awaited, leading
from ottla.replication.in_sync import now_ms
from ottla.replication.partition import Partition
from ottla.wire.k00_produce import PRODUCE, PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.support.client import Client, batch
from tests.support.leased import One, produce, started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.usefixtures("leases_on")]

TWO, THREE = 102, 103
LAG_MS = 30_000


class Follower:
    """One that fetches a partition. Each Fetch of its session names what it has."""

    def __init__(self, one: One, broker: int) -> None:
        self.one = one
        self.broker = broker
        self.session_id = self.epoch = 0
        self.client: Client | None = None

    async def connect(self, connections: AsyncExitStack) -> None:
        port = self.one.broker.addresses.listening[0].port
        self.client = await trio.to_thread.run_sync(Client.connect, "127.0.0.1", port)
        connections.callback(self.client.close)

    def send(self, offset: int, wait_ms: int = 0, log_start: int = 0, topic: str = "t") -> None:
        """It has all before this offset."""
        assert self.client is not None
        row = FetchPartition(partition=0, fetch_offset=offset, log_start_offset=log_start, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_id=self.broker,
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic=topic, partitions=[row])],
        )
        self.client.send(FETCH, request, 12)

    async def hears(self) -> int:
        """The bytes of records that come."""
        assert self.client is not None
        answer: Any = await trio.to_thread.run_sync(self.client.receive)
        assert answer.error_code == 0
        self.session_id = answer.session_id
        self.epoch += 1
        rows = [row for topic in answer.responses for row in topic.partition_responses]
        assert all(row.error_code == 0 for row in rows)
        return sum(len(row.record_set or b"") for row in rows)

    async def fetch(self, offset: int, log_start: int = 0, topic: str = "t") -> int:
        self.send(offset, log_start=log_start, topic=topic)
        return await self.hears()


class Stand:
    """A leader with two followers in sync, in sessions that the hub serves."""

    def __init__(self, one: One, partition: Partition, connections: AsyncExitStack) -> None:
        self.one = one
        self.partition = partition
        self.two, self.three = Follower(one, TWO), Follower(one, THREE)
        self._connections = connections

    async def begin(self, topic: str = "t") -> None:
        for follower in (self.two, self.three):
            await follower.connect(self._connections)
            # The first one asks for a session.
            await follower.fetch(self.partition.log.end_offset, topic=topic)

    @asynccontextmanager
    async def both(self, acks: int) -> AsyncIterator[None]:
        """A Produce to two topics: it is appended in Python at the beginning, and answered in the end."""
        await self.one.create("u")
        end, port = self.partition.log.end_offset, self.one.broker.addresses.listening[0].port
        client = await trio.to_thread.run_sync(Client.connect, "127.0.0.1", port)
        rows = [TopicProduceData(name=name, partitions=[PartitionProduceData(records=batch(b"v"))]) for name in "tu"]
        client.send(PRODUCE, ProduceRequest(transactional_id=None, acks=acks, timeout_ms=300_000, topics=rows), 8)
        await comes_true("the append", lambda: self.partition.log.end_offset == end + 1)
        yield
        answer: Any = await trio.to_thread.run_sync(client.receive)
        client.close()
        assert [row.error_code for topic in answer.responses for row in topic.partitions] == [0, 0]

    async def apply(self, **changes: Any) -> None:
        """The controller says so, with a newer leader epoch."""
        state = self.partition.state
        assert state is not None
        changed = msgspec.structs.replace(state, leader_epoch=state.leader_epoch + 1, **changes)
        await self.one.broker.replicas.apply(self.partition.topic, {0: changed})

    @property
    def high_watermark(self) -> int:
        return self.partition.log.high_watermark

    def knows(self, broker: int) -> tuple[int, bool]:
        """Where a follower's log ended, and whether it counts."""
        assert self.partition.in_sync is not None
        one = self.partition.in_sync.followers[broker]
        return one.end_offset, one.is_member


@pytest.fixture(autouse=True)
def nobody_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right after a change of leaders Python serves all Fetches of followers."""
    monkeypatch.setattr(awaited, "AWAITED_S", 0.0)


@asynccontextmanager
async def stand(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> AsyncIterator[Stand]:
    async with started(path, monkeypatch, **settings) as one, AsyncExitStack() as connections:
        found = Stand(one, await one.create("t"), connections)
        me = one.broker.id
        await found.apply(replicas=(me, TWO, THREE), isr=(me, TWO, THREE))
        await one.talk(lambda client: produce(client, "t", b"old"))
        await found.begin()
        assert found.high_watermark == 1
        with trio.fail_after(2 * PATIENCE_S):
            yield found


async def test_their_fetches_move_the_high_watermark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        asked = found.one.asked
        await found.one.talk(lambda client: produce(client, "t", b"new"))
        assert await found.two.fetch(1) > 0
        assert await found.two.fetch(2) == 0
        assert (found.high_watermark, found.knows(TWO), found.knows(THREE)) == (1, (2, True), (1, True))
        assert await found.three.fetch(2) == 0
        assert found.high_watermark == 2
        assert found.one.asked == asked, "something came to Python"


async def test_a_produce_that_waits_in_python_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two batches is not plain."""
    async with stand(tmp_path, monkeypatch) as found, found.both(acks=-1):
        await comes_true("it waits", lambda: bool(found.partition.waiting_produces))
        asked = found.one.asked
        await found.two.fetch(2)
        await found.three.fetch(2)
        assert found.one.asked == asked, "the Fetches came to Python"


async def test_one_that_waits_hears_of_what_python_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        await found.two.fetch(1)
        waiting = found.one.broker.server.hub.waiting_fetches
        found.two.send(1, wait_ms=300_000)
        await comes_true("it waits", lambda: found.one.broker.server.hub.waiting_fetches == waiting + 1)
        async with found.both(acks=1):
            pass
        assert await found.two.hears() > 0


async def test_who_leaves_the_isr_is_seen_in_python_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        partition = found.partition
        await found.one.talk(lambda client: produce(client, "t", b"new"))
        await found.two.fetch(2)
        assert found.high_watermark == 1
        assert partition.state is not None
        me, version = found.one.broker.id, partition.state.zk_version
        assert leading.isr_changed(partition, partition.leader_epoch, (me, TWO), version + 1)
        assert (found.high_watermark, found.knows(THREE)) == (2, (1, False))
        proposed: list[tuple[int, ...]] = []
        monkeypatch.setattr(
            found.one.broker.replicas, "propose", lambda partition, proposal: proposed.append(proposal.isr)
        )
        asked = found.one.asked
        await found.three.fetch(1)
        assert (found.one.asked, proposed) == (asked + 1, [])
        await found.three.fetch(2)
        assert (found.one.asked, proposed) == (asked + 2, [(me, TWO, THREE)])


async def test_nothing_of_an_older_epoch_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        await found.one.talk(lambda client: produce(client, "t", b"new"))
        await found.two.fetch(2)
        await found.apply()
        assert found.knows(TWO) == (-1, True)
        await found.three.fetch(2)
        assert found.high_watermark == 1
        await found.two.fetch(2)
        assert found.high_watermark == 2


async def test_one_that_is_served_in_the_hub_does_not_lag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        in_sync = found.partition.in_sync
        assert in_sync is not None
        before = now_ms()
        await found.two.fetch(1)
        caught_up_ms = in_sync.followers[TWO].caught_up_ms
        assert caught_up_ms is not None
        assert before <= caught_up_ms <= now_ms()
        in_sync.followers[THREE].went_away()
        proposal = in_sync.shrinking(found.partition.log.end_offset + 1, caught_up_ms + LAG_MS, LAG_MS)
        assert proposal is not None
        assert TWO in proposal.isr


async def test_where_a_followers_log_starts_is_told_to_deletions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        asked = found.one.asked
        await found.two.fetch(1, log_start=1)
        assert found.one.asked == asked + 1
        assert found.partition.in_sync is not None
        assert found.partition.in_sync.followers[TWO].start_offset == 1
        await found.two.fetch(1, log_start=1)
        assert found.one.asked == asked + 1


async def test_a_new_connection_is_seen_in_python_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand(tmp_path, monkeypatch) as found, AsyncExitStack() as connections:
        await found.two.connect(connections)
        asked = found.one.asked
        await found.two.fetch(1)
        assert found.one.asked == asked + 1
        await found.two.fetch(1)
        assert found.one.asked == asked + 1


async def test_who_is_awaited_after_a_change_of_leaders_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        waiting = found.one.broker.server.hub.waiting_fetches
        found.two.send(1, wait_ms=300_000)
        await comes_true("it waits", lambda: found.one.broker.server.hub.waiting_fetches == waiting + 1)
        monkeypatch.setattr(awaited, "AWAITED_S", PATIENCE_S)
        found.one.broker.replicas.awaited.expect([TWO])
        assert await found.two.hears() == 0
        asked = found.one.asked
        for _ in range(2):
            await found.two.fetch(1)
        assert found.one.asked == asked + 2


async def test_while_a_replica_is_added_all_is_counted_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand(tmp_path, monkeypatch) as found:
        me = found.one.broker.id
        await found.apply(replicas=(me, TWO, THREE), adding=(THREE,))
        asked = found.one.asked
        for offset in (1, 1, 1):
            await found.two.fetch(offset)
        assert found.one.asked == asked + 3


async def test_with_access_rules_it_has_to_be_a_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
    async with stand(tmp_path, monkeypatch, **settings) as found:
        asked = found.one.asked
        assert await found.two.fetch(1) == 0
        assert found.one.asked == asked
        assert found.partition.lease is not None
        # As if it were known by its reads alone.
        found.partition.end_lease()
        found.one.broker.leases.grant(found.partition)
        await found.two.fetch(1)
        assert found.one.asked == asked + 1


async def test_a_topic_of_coordinators_is_followed_in_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    async with started(tmp_path, monkeypatch, **settings) as one, AsyncExitStack() as connections:
        topic, me = "__consumer_offsets", one.broker.id
        found = Stand(one, await one.create(topic), connections)
        await found.apply(replicas=(me, TWO, THREE), isr=(me, TWO, THREE))
        await found.begin(topic)
        asked = one.asked
        await found.two.fetch(0, topic=topic)
        assert one.asked == asked
        assert found.partition.lease is not None
        port = one.broker.addresses.listening[0].port

        def read() -> int:
            with BlockingConnection.connect("127.0.0.1", port) as client:
                row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
                topics = [FetchTopic(topic=topic, partitions=[row])]
                answer = client.call(FETCH, FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics), version=12)
                return int(answer.responses[0].partition_responses[0].error_code)

        assert await trio.to_thread.run_sync(read) == 0
        assert one.asked > asked, "a consumer is served in Python"
