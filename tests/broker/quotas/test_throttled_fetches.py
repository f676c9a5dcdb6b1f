"""The answers of a leader to Fetches of throttled partitions (KIP-73), from a client that says it is a follower."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.errors import InvalidRequest, OffsetOutOfRange
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from tests.peers.processes import is_readable
from tests.support.client import Client, batch
from tests.support.control_requests import OTHER, ask, leading, started
from tests.support.settings import DELETE, SET, alter
from tests.support.waiting import comes_true, eventually

pytestmark = pytest.mark.trio

EPOCH = 5
#: Longer than a test takes.
FOR_EVER_MS = 300_000
RECORDS = batch(b"x" * 1000)


@dataclass
class Follower:
    """Fetches as another broker, in a session if it has begun one."""

    client: Client
    session_id: int = 0
    session_epoch: int = -1
    offsets: dict[str, int] = field(default_factory=dict)

    def begin(self, *topics: str) -> dict[str, int]:
        self.session_epoch = 0
        return self.fetch(*topics)

    def fetch(self, *topics: str, **options: int) -> dict[str, int]:
        """Topic to bytes of records, of the partitions that the answer names."""
        self.send(*topics, **options)
        return self.receive()

    def send(self, *topics: str, **options: int) -> None:
        self.client.send(FETCH, self.request(*topics, **options), 12)

    def receive(self) -> dict[str, int]:
        answer: FetchResponse = self.client.receive(timeout_ms=60_000)
        assert answer.error_code == 0
        self.session_id = answer.session_id
        if self.session_epoch >= 0:
            self.session_epoch += 1
        sizes: dict[str, int] = {}
        for topic in answer.responses:
            (row,) = topic.partition_responses
            assert row.error_code == 0
            sizes[topic.topic] = len(row.record_set or b"")
            self.offsets[topic.topic] = self.offsets.get(topic.topic, 0) + bool(sizes[topic.topic])
        return sizes

    def request(self, *topics: str, **options: int) -> FetchRequest:
        rows = [
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        fetch_offset=self.offsets.get(topic, 0), partition_max_bytes=1 << 20, current_leader_epoch=EPOCH
                    )
                ],
            )
            for topic in topics
        ]
        session = {"session_id": self.session_id, "session_epoch": self.session_epoch}
        return FetchRequest(replica_id=OTHER, topics=rows, **{"max_wait_ms": 0, "min_bytes": 1, **session, **options})

    @property
    def is_answered(self) -> bool:
        return is_readable(self.client._socket)


@dataclass
class Stand:
    broker: Broker

    async def follows(self, conversation: Callable[[Follower], None]) -> None:
        """A conversation with the broker, in a thread."""

        def run() -> None:
            with Client.connect("127.0.0.1", self.broker.addresses.listening[0].port, "follower") as client:
                conversation(Follower(client))

        await trio.to_thread.run_sync(run)

    async def leads(self, *topics: str, in_sync: bool = False) -> None:
        """The other broker has a replica of these topics' only partitions too. It is in sync, or never was."""
        for topic in topics:
            asked = leading(self.broker, 1, EPOCH, topic)
            (state,) = asked.topic_states[0].partition_states
            state.replicas = [self.broker.id, OTHER]
            state.isr = [self.broker.id, OTHER] if in_sync else [self.broker.id]
            await ask(self.broker, LEADER_AND_ISR, asked, 4)

    def produce(self, topic: str) -> None:
        """From a thread."""
        with Client.connect("127.0.0.1", self.broker.addresses.listening[0].port, "producer") as client:
            ((row,),) = [each.partitions for each in client.produce(topic, RECORDS, acks=1).responses]
            assert row.error_code == 0

    @property
    def waiting(self) -> int:
        """Fetches that wait."""
        return self.broker.deadlines.purgatories()["Fetch"]

    def exceed(self, *topics: str) -> None:
        """These topics are throttled, and nothing may be sent of them for the rest of the test, until `make_room`."""
        quota = self.broker.throttles.leader
        for topic in topics:
            quota.throttle(topic, None)
        quota.limit(1)
        quota.record(1_000_000)

    def make_room(self) -> None:
        self.broker.throttles.leader.limit(None)

    def counts(self) -> int:
        return self.broker.throttles.leader.bytes - 1_000_000


@asynccontextmanager
async def stand(path: Path, *, in_sync: bool = False) -> AsyncIterator[Stand]:
    """A leader of "slow", whose throttle is exceeded, and of "fast", of which each has a batch."""
    async with started(path) as broker:
        one = Stand(broker)
        await one.leads("slow", "fast", in_sync=in_sync)
        for topic in ("slow", "fast"):
            await trio.to_thread.run_sync(one.produce, topic)
        one.exceed("slow")
        yield one


async def test_nothing_is_sent_of_a_throttled_partition_while_the_quota_is_exceeded(tmp_path: Path) -> None:
    def talk(follower: Follower) -> None:
        assert follower.fetch("slow", "fast") == {"slow": 0, "fast": len(RECORDS)}
        assert one.counts() == 0
        one.make_room()
        assert follower.fetch("slow", "fast") == {"slow": len(RECORDS), "fast": 0}
        assert one.counts() == len(RECORDS)

    async with stand(tmp_path) as one:
        await one.follows(talk)


async def test_a_replica_in_sync_is_not_throttled_and_counts(tmp_path: Path) -> None:
    def talk(follower: Follower) -> None:
        assert follower.fetch("slow") == {"slow": len(RECORDS)}
        assert one.counts() == len(RECORDS)

    async with stand(tmp_path, in_sync=True) as one:
        await one.follows(talk)


async def test_consumers_are_not_throttled_and_do_not_count(tmp_path: Path) -> None:
    def talk(follower: Follower) -> None:
        ((row,),) = [topic.partition_responses for topic in follower.client.fetch("slow").responses]
        assert len(row.record_set or b"") == len(RECORDS)
        assert one.counts() == 0

    async with stand(tmp_path) as one:
        await one.follows(talk)


async def test_what_is_wrong_is_told_of_a_throttled_partition_too(tmp_path: Path) -> None:
    def talk(follower: Follower) -> None:
        follower.offsets["slow"] = 7
        ((row,),) = [
            each.partition_responses for each in follower.client.call(FETCH, follower.request("slow"), 12).responses
        ]
        assert row.error_code == OffsetOutOfRange.code

    async with stand(tmp_path) as one:
        await one.follows(talk)


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("topics", [("slow",), ("slow", "fast")])
@pytest.mark.parametrize("bytes_min", [1, 1500])
async def test_a_fetch_waits_though_a_throttled_partition_moves_on(
    tmp_path: Path, in_session: bool, topics: tuple[str, ...], bytes_min: int
) -> None:
    """Each append would be answered with nothing, and be asked about again at once. When there is room it is one more
    that has it answered.
    """

    def talk(follower: Follower) -> None:
        follower.offsets["fast"] = 1
        if in_session:
            assert follower.begin(*topics) == dict.fromkeys(topics, 0)
        follower.send(*topics, max_wait_ms=FOR_EVER_MS, min_bytes=bytes_min)
        eventually("the Fetch waits", lambda: one.waiting == 1)
        for _ in range(3):
            one.produce("slow")
        assert one.waiting == 1
        assert not follower.is_answered
        one.make_room()
        one.produce("slow")
        assert follower.receive()["slow"] == 5 * len(RECORDS)

    async with stand(tmp_path) as one:
        await one.follows(talk)


@pytest.mark.parametrize("in_session", [False, True])
async def test_a_fetch_waits_until_there_is_room(tmp_path: Path, in_session: bool) -> None:
    """Not for as long as it may: what is not used in time is lost."""

    def talk(follower: Follower) -> None:
        if in_session:
            follower.begin("slow")
        quota = one.broker.throttles.leader
        quota.limit(1000)
        quota.record(300)
        assert follower.fetch("slow", max_wait_ms=FOR_EVER_MS) == {"slow": len(RECORDS)}

    async with stand(tmp_path) as one:
        await one.follows(talk)


async def test_a_fetch_that_waited_gets_what_there_is_room_for_by_then(tmp_path: Path) -> None:
    def talk(follower: Follower) -> None:
        follower.send("slow", max_wait_ms=FOR_EVER_MS)
        eventually("the Fetch waits", lambda: one.waiting == 1)
        one.make_room()
        trio.from_thread.run_sync(one.broker.replicas.partitions["slow", 0].release_fetches)
        assert follower.receive() == {"slow": len(RECORDS)}
        assert one.counts() == len(RECORDS)

    async with stand(tmp_path) as one:
        await one.follows(talk)


@pytest.mark.parametrize("topics", [("slow",), ("slow", "fast")])
async def test_a_session_does_not_forget_what_had_to_wait(tmp_path: Path, topics: tuple[str, ...]) -> None:
    """The follower has nothing new to say of the partition, and nothing comes to it."""

    def talk(follower: Follower) -> None:
        follower.offsets["fast"] = 1
        assert follower.begin(*topics)["slow"] == 0
        for _ in range(2):
            assert follower.fetch() == {}
        one.make_room()
        assert follower.fetch() == {"slow": len(RECORDS)}

    async with stand(tmp_path) as one:
        await one.follows(talk)


async def test_a_session_of_one_counts_what_it_gets(tmp_path: Path) -> None:
    def talk(follower: Follower) -> None:
        follower.begin("slow")
        assert follower.fetch("slow", max_wait_ms=1) == {}
        one.make_room()
        assert follower.fetch("slow") == {"slow": len(RECORDS)}
        assert one.counts() == len(RECORDS)

    async with stand(tmp_path) as one:
        await one.follows(talk)


async def test_settings_reach_both_quotas_and_leave_them(tmp_path: Path) -> None:
    """As `kafka-reassign-partitions.sh --throttle` sets and deletes them."""
    topic_kind = 2

    def change(value: str | None) -> Callable[[], None]:
        def run() -> None:
            with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "test") as client:
                operation = DELETE if value is None else SET
                for side in ("leader", "follower"):
                    rate, replicas = f"{side}.replication.throttled.rate", f"{side}.replication.throttled.replicas"
                    assert alter(client, rate, value, broker=str(broker.id), operation=operation) == (0, None)
                    pairs = None if value is None else f"0:{broker.id},1:{broker.id + 1}"
                    changed = alter(client, replicas, pairs, broker="t", kind=topic_kind, operation=operation)
                    assert changed == (0, None)

        return run

    def create() -> None:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "test") as client:
            client.create("t", partitions=2)
            client.create("all", leader_replication_throttled_replicas="*")
            refused = alter(client, "leader.replication.throttled.replicas", "0", broker="t", kind=topic_kind)
            assert refused[0] == InvalidRequest.code
            assert "PARTITION:BROKER" in str(refused[1])

    async with started(tmp_path) as broker:
        await trio.to_thread.run_sync(create)
        leader, follower = quotas = broker.throttles.leader, broker.throttles.follower
        # A new topic's settings are taken before anyone could change them.
        assert [quota.is_throttled("all", 0) for quota in quotas] == [True, False]
        await trio.to_thread.run_sync(change("1000"))
        for quota in quotas:
            await comes_true("the list is taken", lambda quota=quota: quota.is_throttled("t", 0))
            assert not quota.is_throttled("t", 1)
            quota.record(1_000_000)
            await comes_true("the rate is taken", lambda quota=quota: quota.is_exceeded)
        await trio.to_thread.run_sync(change(None))
        for quota in quotas:
            await comes_true("the rate is gone", lambda quota=quota: not quota.is_exceeded)
            await comes_true("the list is gone", lambda quota=quota: not quota.is_throttled("t", 0))
        assert (leader.is_used, follower.is_used) == (True, False)
