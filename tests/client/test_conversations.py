"""What our clients do while a cluster changes under them: one partition, broker or coordinator never stops the rest.

Each row of `ROWS` is something that befalls partition t-0, or its leader, broker 1, while t-1 is led by broker 2; what
Java's and librdkafka's consumers do then is what is asked for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from ottla.client import EARLIEST, LATEST, Cluster, Consumer, Producer, Record, TopicPartition
from ottla.client.consumer import RebalanceListener
from ottla.client.ongoing import Bell
from ottla.client.starts import Starts
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    IllegalGeneration,
    LogTruncated,
    NotCoordinator,
    OffsetOutOfRange,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from ottla.wire.k08_offset_commit import OFFSET_COMMIT
from ottla.wire.k09_offset_fetch import OFFSET_FETCH
from ottla.wire.k11_join_group import JOIN_GROUP
from ottla.wire.k12_heartbeat import HEARTBEAT
from ottla.wire.k14_sync_group import SYNC_GROUP
from ottla.wire.schema import Api
from tests.client.scripted_cluster import Part, World
from tests.support.conversations import (
    HERE,
    ROWS,
    THERE,
    Row,
)
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World(1, 2)
    made.topic("t", 1, 2)
    async with made.serving():
        yield made


async def given(consumer: Consumer, *expected: tuple[TopicPartition, bytes], wait_ms: int | None = None) -> None:
    """Polls until exactly these records came, in this order in each partition."""
    found: list[Record] = []
    with trio.fail_after(PATIENCE_S):
        while len(found) < len(expected):
            found += await consumer.poll(wait_ms)
    assert by_partition([(TopicPartition(each.topic, each.partition), each.value or b"") for each in found]) == (
        by_partition(list(expected))
    )


async def refused(consumer: Consumer, kind: type[Exception], match: str) -> list[Record]:
    """Polls until one raises this. Gives the records that came before."""
    found: list[Record] = []

    async def poll_for_ever() -> None:
        while True:
            found.extend(await consumer.poll(50))

    with trio.fail_after(PATIENCE_S), pytest.raises(kind, match=match):
        await poll_for_ever()
    return found


def by_partition(records: list[tuple[TopicPartition, bytes]]) -> dict[TopicPartition, list[bytes]]:
    found: dict[TopicPartition, list[bytes]] = {}
    for partition, value in records:
        found.setdefault(partition, []).append(value)
    return found


# --- what befalls a partition, and what ends it ---


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("kind", ["assigned", "member"])
async def test_others_are_read_on(world: World, row: Row, kind: str) -> None:
    world.coordinator = 2
    world[HERE].add(b"a")
    world[THERE].add(b"b")
    async with Cluster(world.bootstrap) as cluster:
        consumer = Consumer(cluster, group=None if kind == "assigned" else "g", start="earliest")
        async with consumer:
            if kind == "assigned":
                await consumer.assign({HERE: EARLIEST, THERE: EARLIEST})
            else:
                consumer.subscribe(["t"])
            await given(consumer, (HERE, b"a"), (THERE, b"b"))
            await row.befalls(world)
            for value in (b"c", b"d", b"e"):
                world[THERE].add(value)
                world.change()
                await given(consumer, (THERE, value))
            await row.ends(world)
            world[HERE].add(b"f")
            world.change()
            await given(consumer, (HERE, b"f"))
            with trio.fail_after(PATIENCE_S):
                while consumer.obstacle is not None:
                    assert await consumer.poll() == []
            assert consumer.positions == {HERE: 2, THERE: 4}


@pytest.mark.parametrize("name", ["no leader", "stands still", "dies"])
@pytest.mark.parametrize("kind", ["assigned", "committed", "sought"])
async def test_others_begin(world: World, name: str, kind: str) -> None:
    """A partition whose leader cannot be asked begins when it can be."""
    row = ROWS[name]
    world.coordinator = 2
    world[HERE].add(b"a")
    world[THERE].add(b"b")
    await row.befalls(world)
    bootstrap = f"127.0.0.1:{world.brokers[2].port}"
    async with Cluster(bootstrap) as cluster, Consumer(cluster, group="g", start="earliest", gone_ms=200) as consumer:
        if kind == "committed":
            await consumer.assign([HERE, THERE])
        else:
            await consumer.assign({HERE: 0, THERE: 0} if kind == "sought" else {HERE: EARLIEST, THERE: EARLIEST})
            if kind == "sought":
                await consumer.seek_to_beginning([HERE, THERE])
        await given(consumer, (THERE, b"b"))
        with trio.fail_after(PATIENCE_S):
            while consumer.obstacle is None:
                assert await consumer.poll() == []
        assert consumer.assignment() == {HERE, THERE}
        await row.ends(world)
        await given(consumer, (HERE, b"a"))


async def test_what_has_a_place_is_assigned_before_it_is_read(world: World) -> None:
    """A member that joins between the two keeps it."""
    async with Cluster(world.bootstrap) as cluster:
        bell = Bell()
        starts = Starts(cluster, EARLIEST, bell.ring)
        starts.add({HERE: None})
        starts.find()
        assert set(starts.partitions) == {HERE}
        with trio.fail_after(PATIENCE_S):
            while not starts.found:
                await bell.wait_until(math.inf)
        assert set(starts.partitions) == {HERE}
        starts.discard(HERE)
        assert set(starts.partitions) == set()


async def test_who_is_idle_holds_back_nobody(world: World) -> None:
    """One leader has nothing: its answer is waited for by nobody, and comes with a later poll."""
    world[THERE].add(*(b"%d" % number for number in range(50)))
    async with Cluster(world.bootstrap) as cluster:
        consumer = Consumer(cluster, wait_ms=60_000, partition_bytes=1)
        await consumer.assign({HERE: LATEST, THERE: EARLIEST})
        with trio.fail_after(PATIENCE_S):
            for _ in range(3):
                consumer.seek(THERE, 0)
                assert len(await consumer.poll()) == 50
        assert world.brokers[1].asked["Fetch"] == 1, "its answer is still to come"
        world[HERE].add(b"a")
        world.change()
        await given(consumer, (HERE, b"a"))


async def test_a_waiting_fetch_holds_up_no_other_request(world: World) -> None:
    world[HERE].add(b"a")
    async with Cluster(world.bootstrap) as cluster, trio.open_nursery() as nursery:
        consumer = Consumer(cluster)
        await consumer.assign({HERE: 1})

        async def poll() -> None:
            assert await consumer.poll(60_000) == []

        nursery.start_soon(poll)
        with trio.fail_after(PATIENCE_S):
            while not world.brokers[1].asked["Fetch"]:
                await trio.lowlevel.checkpoint()
            world.brokers[1].asked.clear()
            for _ in range(20):
                assert await consumer.beginning_offsets([HERE]) == {HERE: 0}
        assert world.brokers[1].asked["ListOffsets"] == 20
        assert world.brokers[1].asked["Fetch"] <= 20, "they did not wait for a fetch each"
        nursery.cancel_scope.cancel()


async def test_records_of_others_come_before_an_error(world: World) -> None:
    """An offset that is not there, and no start: the others are read, and polls say so each time they are tried."""
    world[THERE].add(b"b")
    async with Cluster(world.bootstrap) as cluster:
        consumer = Consumer(cluster)
        await consumer.assign({HERE: 7, THERE: 0})
        values: list[bytes | None] = []
        for value in (b"c", b"d", b"e"):
            values += [record.value for record in await refused(consumer, OffsetOutOfRange, "t-0 at offset 7")]
            world[THERE].add(value)
            world.change()
        consumer.pause([HERE])
        while len(values) < 4:
            values += [record.value for record in await consumer.poll()]
        assert values == [b"b", b"c", b"d", b"e"]
        consumer.resume([HERE])
        consumer.seek(HERE, 0)
        world[HERE].add(b"a")
        world.change()
        await given(consumer, (HERE, b"a"))


async def test_an_offset_that_is_gone_is_reset_alone(world: World) -> None:
    world[HERE].start = 5
    world[HERE].add(b"f")
    world[THERE].add(b"a", b"b")
    async with Cluster(world.bootstrap) as cluster:
        consumer = Consumer(cluster, start="earliest")
        await consumer.assign({HERE: 2, THERE: 1})
        await given(consumer, (HERE, b"f"), (THERE, b"b"))
        assert consumer.positions == {HERE: 6, THERE: 2}


@pytest.mark.parametrize("start", ["earliest", None])
async def test_a_log_that_was_cut(world: World, start: str | None) -> None:
    """The new leader has less than was read: the consumer goes on where the logs part, or says so (KIP-320)."""
    world[HERE].add(b"a", b"b", b"c")
    world[THERE].add(b"x")
    async with Cluster(world.bootstrap) as cluster:
        consumer = Consumer(cluster, start=start)
        await consumer.assign({HERE: EARLIEST, THERE: EARLIEST})
        await given(consumer, (HERE, b"a"), (HERE, b"b"), (HERE, b"c"), (THERE, b"x"))
        world[HERE].moves(2)
        world[HERE].loses(2)
        world[HERE].add(b"B", b"C", b"D")
        world.change()
        if start is None:
            assert await refused(consumer, LogTruncated, "t-0: its leader's log parts at offset 1 from") == []
            consumer.seek(HERE, 1)
        await given(consumer, (HERE, b"B"), (HERE, b"C"), (HERE, b"D"))


class Lost(RebalanceListener):
    """Notes what befell partitions."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[TopicPartition]]] = []

    def on_assigned(self, partitions: object) -> None:
        self.seen.append(("assigned", sorted(partitions)))  # type: ignore[call-overload]

    def on_revoked(self, partitions: object) -> None:
        self.seen.append(("revoked", sorted(partitions)))  # type: ignore[call-overload]

    def on_lost(self, partitions: object) -> None:
        self.seen.append(("lost", sorted(partitions)))  # type: ignore[call-overload]


async def test_a_topic_of_a_subscription_that_is_deleted_and_made_anew(world: World) -> None:
    """Its partitions are lost, the others are read on, and it is read again when it is there again."""
    world.topic("u", 1)
    gone = TopicPartition("u", 0)
    world[gone].add(b"old")
    world[THERE].add(b"a")
    listener = Lost()
    async with (
        Cluster(world.bootstrap) as cluster,
        Consumer(cluster, group="g", start="earliest", assignors=["cooperative-sticky"], gone_ms=200) as consumer,
    ):
        consumer.subscribe(["t", "u"], listener)
        await given(consumer, (gone, b"old"), (THERE, b"a"))
        del world.topics["u"]
        world.change()
        with trio.fail_after(PATIENCE_S):
            while consumer.assignment() != {HERE, THERE} or consumer.obstacle is not None:
                assert await consumer.poll() == []
        assert ("lost", [gone]) in listener.seen
        assert all(kind != "revoked" for kind, _ in listener.seen)
        world[THERE].add(b"b")
        world.change()
        await given(consumer, (THERE, b"b"))
        world.topic("u", 2)
        world[gone].add(b"new")
        world.committed.pop(gone, None)
        await given(consumer, (gone, b"new"))


async def test_a_topic_that_is_made_anew_with_fewer_partitions(world: World) -> None:
    """Assigned by hand: polls say which partition is gone, and read the others."""
    world[HERE].add(b"a")
    world[THERE].add(b"b")
    async with Cluster(world.bootstrap) as cluster:
        consumer = Consumer(cluster, start="earliest", gone_ms=200)
        await consumer.assign({HERE: EARLIEST, THERE: EARLIEST})
        await given(consumer, (HERE, b"a"), (THERE, b"b"))
        world.topics["t"] = {0: Part(1, 5)}
        world[HERE].add(b"new", b"newer")
        world.change()
        values: list[bytes | None] = []
        polls = 0
        # What was read of the old topic ends in an epoch that the new one does not know, so it is read from its start.
        with trio.fail_after(PATIENCE_S):
            while polls < 2 or values[-1:] != [b"newer"]:
                polls += 1
                told = "topic 't' has no partition 1: it has 1 partition"
                found = await refused(consumer, UnknownTopicOrPartition, told)
                values += [record.value for record in found]


async def test_a_partition_that_a_topic_lacks_is_an_error_soon(world: World) -> None:
    async with Cluster(world.bootstrap) as cluster:
        consumer = Consumer(cluster, gone_ms=200)
        lacking = TopicPartition("t", 7)
        with trio.fail_after(PATIENCE_S):
            with pytest.raises(UnknownTopicOrPartition, match="topic 't' has no partition 7: it has 2 partitions"):
                await consumer.assign({lacking: EARLIEST, HERE: EARLIEST})
            assert consumer.assignment() == set()
            await consumer.assign({HERE: 0, lacking: 0})
            assert await refused(consumer, UnknownTopicOrPartition, "has no partition 7") == []


# --- the coordinator ---

CODES = {
    "loading": CoordinatorLoadInProgress,
    "not available": CoordinatorNotAvailable,
    "not coordinator": NotCoordinator,
}


@pytest.mark.parametrize("error", CODES.values(), ids=CODES)
@pytest.mark.parametrize("api", [JOIN_GROUP, OFFSET_FETCH], ids=lambda api: api.name)
async def test_a_coordinator_that_is_not_ready(world: World, error: type, api: object) -> None:
    world.errors[api.key] = deque([error.code] * 2)  # type: ignore[attr-defined]
    world[HERE].add(b"a")
    async with Cluster(world.bootstrap) as cluster, Consumer(cluster, group="g", start="earliest") as consumer:
        consumer.subscribe(["t"])
        await given(consumer, (HERE, b"a"))


@pytest.mark.parametrize("error", [*CODES.values(), UnknownMemberId, IllegalGeneration, RebalanceInProgress])
async def test_heartbeats_that_are_refused_stop_no_reading(world: World, error: type) -> None:
    """The member looks for the coordinator, or joins again; nothing is lost or read twice that was committed."""
    world[HERE].add(b"a")
    async with (
        Cluster(world.bootstrap) as cluster,
        Consumer(
            cluster,
            group="g",
            start="earliest",
            heartbeat_interval_ms=20,
            session_timeout_ms=60_000,
            assignors=["cooperative-sticky"],
        ) as consumer,
    ):
        consumer.subscribe(["t"])
        await given(consumer, (HERE, b"a"))
        await consumer.commit()
        world.errors[HEARTBEAT.key] = deque([error.code])
        with trio.fail_after(PATIENCE_S):
            while world.errors[HEARTBEAT.key]:
                assert await consumer.poll() == []
        world[HERE].add(b"b")
        world[THERE].add(b"c")
        world.change()
        await given(consumer, (HERE, b"b"), (THERE, b"c"))
    assert world.committed == {HERE: 2, THERE: 1}


@pytest.mark.parametrize(
    "api", [JOIN_GROUP, SYNC_GROUP, OFFSET_FETCH, HEARTBEAT, OFFSET_COMMIT], ids=lambda api: api.name
)
async def test_a_coordinator_that_stands_still_is_left_for_another(world: World, api: Api) -> None:
    """Not when the call has waited for as long as it may: a join may for minutes. Nor is one asked for ever where the
    coordinator is that stands still itself.
    """

    def stop() -> None:
        world.brokers[1].stands_still()
        world[HERE].moves(2)
        world.coordinator = 2

    world.befalls[api.key] = stop
    world[HERE].add(b"a")
    async with (
        Cluster(world.bootstrap, timeout_ms=math.inf) as cluster,
        Consumer(
            cluster, group="g", start="earliest", heartbeat_interval_ms=20, session_timeout_ms=600_000
        ) as consumer,
    ):
        consumer.subscribe(["t"])
        await given(consumer, (HERE, b"a"))
        with trio.fail_after(PATIENCE_S):
            await consumer.commit()
            while world.befalls or not world.brokers[2].asked[api.name]:
                assert await consumer.poll() == []
    assert world.committed == {HERE: 1, THERE: 0}


async def test_a_commit_under_way_holds_up_no_cancelled_member(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is carried out, and the member leaves; it does not wait for as long as closing may take."""
    monkeypatch.setattr("ottla.client.consumer.CLOSE_MS", math.inf)
    world[HERE].add(b"a")
    scope = trio.CancelScope()
    world.befalls[OFFSET_COMMIT.key] = scope.cancel
    with trio.fail_after(PATIENCE_S):
        async with Cluster(world.bootstrap, timeout_ms=math.inf) as cluster:
            with scope:
                async with Consumer(cluster, group="g", start="earliest") as consumer:
                    consumer.subscribe(["t"])
                    await given(consumer, (HERE, b"a"))
                    await consumer.commit()
    assert scope.cancelled_caught
    assert world.committed == {HERE: 1, THERE: 0}
    assert world.brokers[1].asked["LeaveGroup"] == 1


async def test_a_coordinator_that_is_gone_stops_no_reading(world: World) -> None:
    """What is assigned is read on, by hand as in a group; a commit waits for the next coordinator."""
    world.coordinator = 2
    async with Cluster(world.bootstrap) as cluster, Consumer(cluster, group="g", start="earliest") as consumer:
        consumer.subscribe(["t"])
        world[HERE].add(b"a")
        await given(consumer, (HERE, b"a"))
        world.coordinator = None
        world.errors[OFFSET_COMMIT.key] = deque([NotCoordinator.code])
        for value in (b"b", b"c"):
            world[HERE].add(value)
            world.change()
            await given(consumer, (HERE, value))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.commit)
            with trio.fail_after(PATIENCE_S):
                while world.brokers[1].asked["FindCoordinator"] + world.brokers[2].asked["FindCoordinator"] < 3:
                    await trio.lowlevel.checkpoint()
            world.coordinator = 1
        assert world.committed[HERE] == 3


# --- producers ---


@pytest.mark.parametrize("name", ["no leader", "stands still", "dies", "moves", "not leader", "many errors"])
async def test_producers_deliver_to_others(world: World, name: str) -> None:
    row = ROWS[name]
    async with Cluster(world.bootstrap) as cluster, Producer(cluster, idempotent=False) as producer:
        with trio.fail_after(PATIENCE_S):
            await producer.send_and_wait("t", b"a", partition=0)
            await producer.send_and_wait("t", b"b", partition=1)
            await row.befalls(world)
            late = await producer.send_with_receipt("t", b"late", partition=0)
            for value in (b"c", b"d"):
                assert (await producer.send_and_wait("t", value, partition=1)).partition == THERE
            await row.ends(world)
            await late.wait()
    assert [value for _, value in world[THERE].records] == [b"b", b"c", b"d"]
    assert [value for _, value in world[HERE].records] == [b"a", b"late"]


@pytest.mark.parametrize("is_known", [True, False], ids=["connected", "not connected"])
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
async def test_a_producer_leaves_a_leader_that_stands_still(world: World, idempotent: bool, is_known: bool) -> None:
    """Not when the request has waited for as long as it may: the next leader takes the batch."""
    bootstrap = f"127.0.0.1:{world.brokers[2].port}"
    settings: dict[str, Any] = {"idempotent": idempotent, "linger_ms": 0, "delivery_timeout_ms": math.inf}
    async with Cluster(bootstrap, timeout_ms=math.inf) as cluster, Producer(cluster, **settings) as producer:
        with trio.fail_after(PATIENCE_S):
            await producer.send_and_wait("t", b"a", partition=0 if is_known else 1)
            asked = world.brokers[1].asked.total()
            world.brokers[1].stands_still()
            late = [await producer.send_with_receipt("t", value, partition=0) for value in (b"b", b"c")]
            while world.brokers[1].asked.total() == asked:
                await trio.lowlevel.checkpoint()
            world[HERE].moves(2)
            for each in late:
                await each.wait()
    assert [value for _, value in world[HERE].records] == [b"a", b"b", b"c"][not is_known :]
