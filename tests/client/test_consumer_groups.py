"""Members of groups: ours among themselves, on our broker and on Apache Kafka's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Literal

import pytest
import trio

from ottla.client import Admin, Cluster, Committed, Consumer, Producer, Record, TopicPartition, TransactionalProducer
from ottla.client.connection import Connection
from ottla.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidConfig,
    InvalidGroupId,
    InvalidSessionTimeout,
    InvalidTimestamp,
    KafkaError,
    NoOffsetForPartition,
    RebalanceInProgress,
    UnknownMemberId,
    UnsupportedVersion,
)
from ottla.wire.k01_fetch import FETCH
from ottla.wire.k03_metadata import METADATA
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR
from ottla.wire.k11_join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.k13_leave_group import LEAVE_GROUP, LeaveGroupRequest, MemberIdentity
from tests.client.group_servers import KINDS, QUICK, Noting, fill, is_shared, poll_until, raises_soon, run, started
from tests.peers.apache import Kafka
from tests.peers.ottla import Broker, Brokers
from tests.support.old_broker import OldBroker
from tests.support.waiting import PATIENCE_S

EACH = ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | Kafka]:
    with started(request.param, tmp_path_factory.mktemp("groups")) as broker:
        yield broker


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | Kafka]:
    """For what depends on this client alone."""
    with started("ottla", tmp_path_factory.mktemp("groups")) as broker:
        yield broker


def numbers(records: list[Record]) -> list[int]:
    return sorted(int(record.value or b"") for record in records)


@pytest.mark.parametrize("assignor", EACH)
def test_every_record_once_across_joins_and_leaves(server: Broker | Kafka, assignor: str) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        seen: list[Record] = []
        settings = {**QUICK, "group": topic, "assignors": [assignor], "start": "earliest"}
        await fill(cluster, topic, 60)
        async with Consumer(cluster, **settings) as one:
            one.subscribe([topic])
            await poll_until("the first 60", [one], lambda: len(seen) >= 60, seen)
            async with Consumer(cluster, **settings) as two:
                two.subscribe([topic])
                await poll_until("two members", [one, two], lambda: is_shared([one, two], 6), seen)
                await fill(cluster, topic, 60, first=60)
                async with Consumer(cluster, **settings) as three:
                    three.subscribe([topic])
                    members = [one, two, three]
                    await poll_until("three members", members, lambda: is_shared(members, 6), seen)
                    assert {len(each.assignment()) for each in members} == {2}
                    await poll_until("120 records", members, lambda: len(seen) >= 120, seen)
            await poll_until("one member", [one], lambda: is_shared([one], 6), seen)
            await fill(cluster, topic, 60, first=120)
            await poll_until("180 records", [one], lambda: len(seen) >= 180, seen)
        assert numbers(seen) == list(range(180))
        async with Consumer(cluster, **settings) as last:
            committed = await last.committed(TopicPartition(topic, number) for number in range(6))
        assert [committed[TopicPartition(topic, number)].offset for number in range(6)] == [30] * 6

    run(server, work)


def test_a_cooperative_member_keeps_what_it_does_not_give(server: Broker | Kafka) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        said = Noting()
        settings = {**QUICK, "group": topic, "assignors": ["cooperative-sticky"]}
        async with Consumer(cluster, **settings) as one:
            one.subscribe([topic], said)
            await poll_until("one member", [one], lambda: is_shared([one], 6))
            async with Consumer(cluster, **settings) as two:
                two.subscribe([topic])
                await poll_until("two members", [one, two], lambda: is_shared([one, two], 6))
                assert said.events[0] == ("assigned", [0, 1, 2, 3, 4, 5])
                (_, gone) = said.events[1]
                assert said.events[1] == ("revoked", gone)
                assert len(gone) == 3
                assert len(said.events) == 2
            await poll_until("one member", [one], lambda: is_shared([one], 6))
            assert said.events[2:] == [("assigned", gone)]

    run(server, work)


def test_who_leaves_while_it_joins_commits_what_it_read(ours: Broker) -> None:
    """A cooperative member reads on while it waits for the others."""

    async def work(cluster: Cluster, topic: str) -> None:
        settings = {**QUICK, "group": topic, "assignors": ["cooperative-sticky"], "start": "earliest"}
        async with Consumer(cluster, **settings) as slow, Consumer(cluster, **settings) as third:
            async with Consumer(cluster, **settings) as one:
                for member in (slow, one):
                    member.subscribe([topic])
                await poll_until("two members", [slow, one], lambda: is_shared([slow, one], 6))
                member_of_one = one._member
                assert member_of_one is not None
                await poll_until("no join", [slow, one], lambda: member_of_one.is_stable)
                mine = one.assignment()
                third.subscribe([topic])
                await poll_until("a join that waits for the slow one", [third, one], lambda: member_of_one.is_joining)
                await fill(cluster, topic, 60)
                seen: list[Record] = []
                await poll_until("30 records", [one], lambda: len(seen) == 30, seen)
                assert member_of_one.is_joining
                with pytest.raises(RebalanceInProgress):
                    await one.commit()
            committed = await slow.committed(mine)
            assert {each.offset for each in committed.values()} == {10}

    run(ours, work)


def test_an_eager_member_gives_all_back_and_commits(server: Broker | Kafka) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        said = Noting()
        await fill(cluster, topic, 60)
        seen: list[Record] = []
        settings = {**QUICK, "group": topic, "start": "earliest", "auto_commit_interval_ms": 3_600_000}
        async with Consumer(cluster, **settings) as one, Consumer(cluster, **settings) as two:
            one.subscribe([topic], said)
            await poll_until("60 records", [one], lambda: len(seen) >= 60, seen)
            assert await one.committed(one.assignment()) == {}
            two.subscribe([topic])
            await poll_until("two members", [one, two], lambda: is_shared([one, two], 6), seen)
            everything = [0, 1, 2, 3, 4, 5]
            assert said.events[:2] == [("assigned", everything), ("revoked", everything)]
            assert [(name, len(each)) for name, each in said.events[2:]] == [("assigned", 3)]
            assert {each.offset for each in (await two.committed(two.assignment())).values()} == {10}
            assert len(seen) == 60

    run(server, work)


def test_a_static_member_comes_back_unnoticed(server: Broker | Kafka) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        settings = {**QUICK, "group": topic}
        said = Noting()
        async with Consumer(cluster, instance_id="b", **settings) as other:
            other.subscribe([topic], said)
            async with Consumer(cluster, instance_id="a", **settings) as one:
                one.subscribe([topic])
                await poll_until("two members", [one, other], lambda: is_shared([one, other], 6))
                before, generation = one.assignment(), other.group_metadata().generation
            said.events.clear()
            async with Consumer(cluster, instance_id="a", **settings) as again:
                again.subscribe([topic])
                await poll_until("the same again", [again, other], lambda: again.assignment() == before)
                assert other.group_metadata().generation == generation
                assert said.events == []

    run(server, work)


def test_a_second_member_of_one_name_fences_the_first(server: Broker | Kafka) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        said = Noting()
        settings = {**QUICK, "group": topic, "instance_id": "a"}
        async with Consumer(cluster, **settings) as one, Consumer(cluster, **settings) as two:
            one.subscribe([topic], said)
            await poll_until("the first", [one], lambda: is_shared([one], 6))
            two.subscribe([topic])
            await poll_until("the second", [two], lambda: is_shared([two], 6))
            await raises_soon(one, FencedInstanceId)
            assert said.events[-1] == ("lost", [0, 1, 2, 3, 4, 5])
            assert not one.assignment()
            assert is_shared([two], 6)
            await two.poll()
            await two.commit()

    run(server, work)


def test_who_does_not_poll_leaves(server: Broker | Kafka) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        said = Noting()
        async with (
            Consumer(cluster, group=topic, max_poll_interval_ms=1_500, **QUICK) as one,
            Consumer(cluster, group=topic, **QUICK) as two,
        ):
            one.subscribe([topic], said)
            await poll_until("the first", [one], lambda: is_shared([one], 6))
            two.subscribe([topic])
            await poll_until("the second alone", [two], lambda: is_shared([two], 6))
            with pytest.raises(KafkaError):
                await one.commit({TopicPartition(topic, 0): 7})
            await one.poll(0)
            await poll_until("both", [one, two], lambda: is_shared([one, two], 6))
            assert said.events[1] == ("lost", [0, 1, 2, 3, 4, 5])

    run(server, work)


def test_a_member_that_was_removed_comes_back(server: Broker | Kafka) -> None:
    """As an administrator removes it, or its session ended: it has lost what it had, and its commits are refused."""

    async def work(cluster: Cluster, topic: str) -> None:
        said = Noting()
        await fill(cluster, topic, 6)
        async with Consumer(cluster, group=topic, start="earliest", auto_commit=False, **QUICK) as one:
            one.subscribe([topic], said)
            seen: list[Record] = []
            await poll_until("6 records", [one], lambda: len(seen) >= 6, seen)
            host, port = cluster.bootstrap[0]
            async with await Connection.connect(host, port) as connection:
                member = MemberIdentity(member_id=one.group_metadata().member_id)
                answer = await connection.call(LEAVE_GROUP, LeaveGroupRequest(topic, members=[member]))
                assert answer.error_code == 0
            with pytest.raises((UnknownMemberId, RebalanceInProgress)):
                await one.commit()
            await poll_until("6 records again", [one], lambda: len(seen) >= 12, seen)
            assert [name for name, _ in said.events] == ["assigned", "lost", "assigned"]

    run(server, work)


def test_topics_that_match_and_grow(server: Broker | Kafka) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        settings = {**QUICK, "group": topic, "metadata_max_age_ms": 300, "start": "earliest"}
        servers = [f"{host}:{port}" for host, port in cluster.bootstrap]
        async with Consumer(cluster, **settings) as one, Cluster(servers) as other:
            one.subscribe(re.compile(f"{topic}(-later)?"))
            await poll_until("what is there", [one], lambda: is_shared([one], 6))
            assert one.subscription() == (topic,)
            admin = Admin(other)
            await admin.create_topic(f"{topic}-later", 2)
            await admin.create_topic(f"not-{topic}", 2)
            await poll_until("a new topic", [one], lambda: is_shared([one], 8))
            await admin.create_partitions(topic, 9)
            await poll_until("more partitions", [one], lambda: is_shared([one], 11))
            assert one.subscription() == (topic, f"{topic}-later")

    run(server, work)


def test_a_topic_that_does_not_exist_yet(ours: Broker) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        async with Consumer(cluster, group=topic, **QUICK) as one:
            one.subscribe([topic, f"{topic}-missing"])
            await poll_until("what is there", [one], lambda: is_shared([one], 6))
            await Admin(cluster).create_topic(f"{topic}-missing", 1)
            await poll_until("what came", [one], lambda: is_shared([one], 7))

    run(ours, work)


def test_commits(server: Broker | Kafka) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        await fill(cluster, topic, 60)
        here = TopicPartition(topic, 0)
        order: list[object] = []
        async with Consumer(cluster, group=topic, auto_commit=False, start="earliest", **QUICK) as one:
            one.subscribe([topic])
            await poll_until("everything", [one], lambda: sum(one.positions.values()) == 60)
            for offset in range(1, 6):
                one.commit_soon({here: offset}, lambda offsets, problem: order.append((offsets[here].offset, problem)))
            await one.commit({here: Committed(6, metadata="by hand")})
            assert (await one.committed([here]))[here] == Committed(6, -1, "by hand")
            await one.poll(0)
            assert order == [(offset, None) for offset in range(1, 6)]
            await one.commit()
            assert {each.offset for each in (await one.committed(one.assignment())).values()} == {10}
        async with Consumer(cluster, group=topic, auto_commit=False, **QUICK) as alone:
            await alone.assign([here])
            assert await alone.position(here) == 10
            await alone.commit({here: 3})
            assert (await alone.committed([here]))[here].offset == 3

    run(server, work)


def test_auto_commits_after_a_while_and_at_the_end(ours: Broker) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        await fill(cluster, topic, 60)
        settings = {**QUICK, "group": topic, "start": "earliest"}

        async def committed() -> int:
            async with Consumer(cluster, group=topic) as other:
                found = await other.committed(TopicPartition(topic, number) for number in range(6))
                return sum(each.offset for each in found.values())

        async def stops() -> None:
            async with Consumer(cluster, **settings) as one:
                one.subscribe([topic])
                await poll_until("everything", [one], lambda: sum(one.positions.values()) == 60)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await stops()
        assert await committed() == 0, "an exception left the block: who knows what was done with the records"
        async with Consumer(cluster, **settings) as one:
            one.subscribe([topic])
            count = 0
            async for _ in one:
                count += 1
                if count == 25:
                    break
        assert await committed() == 25, "records that the loop did not take are for the next one"
        async with Consumer(cluster, auto_commit_interval_ms=1, **settings) as one:
            one.subscribe([topic])
            await poll_until("the rest", [one], lambda: sum(one.positions.values()) == 60)
            with trio.fail_after(PATIENCE_S):
                while await committed() < 60:
                    await one.poll(10)

    run(ours, work)


def test_a_listener_may_commit_and_seek(ours: Broker) -> None:
    class Storing(Noting):
        consumer: Consumer

        async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
            for partition in partitions:
                self.consumer.seek(partition, 4)

        async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:  # type: ignore[override]
            await self.consumer.commit(dict.fromkeys(partitions, 8))

    async def work(cluster: Cluster, topic: str) -> None:
        await fill(cluster, topic, 60)
        storing = Storing()
        async with Consumer(cluster, group=topic, auto_commit=False, **QUICK) as one:
            storing.consumer = one
            one.subscribe([topic], storing)
            seen: list[Record] = []
            await poll_until("what is behind the offset", [one], lambda: len(seen) >= 36, seen)
            assert {record.offset for record in seen} == set(range(4, 10))
            await one.unsubscribe()
            assert not one.assignment()
            places = [TopicPartition(topic, number) for number in range(6)]
            assert {each.offset for each in (await one.committed(places)).values()} == {8}

    run(ours, work)


def test_places(server: Broker | Kafka) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with Producer(cluster) as producer:
            for number in range(10):
                await producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_700_000_000_000 + number)
        async with Consumer(cluster, group=topic, start="earliest", **QUICK) as one:
            await one.assign([first, second])
            assert await one.position(first) == 0
            one.pause([first])
            assert await one.poll(50) == []
            assert one.paused() == {first}
            one.resume([first])
            assert len(await one.poll(5_000)) == 10
            one.seek(first, 7)
            assert [record.offset for record in await one.poll(5_000)] == [7, 8, 9]
            await one.seek_to_beginning([first])
            assert await one.position(first) == 0
            await one.seek_to_end([first, second])
            assert (one.positions[first], one.positions[second]) == (10, 0)
            assert await one.beginning_offsets([first]) == {first: 0}
            assert await one.end_offsets([first, second]) == {first: 10, second: 0}
            found = await one.offsets_for_times({first: 1_700_000_000_004, second: 5})
            assert found[first] == (4, 1_700_000_000_004)
            assert found[second] is None
            one.seek(first, 1_000)
            seen: list[Record] = []
            await poll_until("from the start again", [one], lambda: len(seen) == 10, seen)
            with pytest.raises(InvalidConfig, match="not assigned"):
                one.seek(TopicPartition(topic, 5), 0)

    run(server, work)


def test_without_a_start(ours: Broker) -> None:
    async def work(cluster: Cluster, topic: str) -> None:
        async with Consumer(cluster, group=topic, start=None, auto_commit=False, **QUICK) as one:
            one.subscribe([topic])
            await raises_soon(one, NoOffsetForPartition)
            await one.commit(dict.fromkeys(one.assignment(), 0))
            assert await one.poll() == []

    run(ours, work)


def test_offsets_in_transactions_of_a_member(server: Broker | Kafka) -> None:
    """Read, written and committed in one transaction; who was replaced meanwhile is refused (KIP-447)."""

    async def work(cluster: Cluster, topic: str) -> None:
        await fill(cluster, topic, 60)
        settings = {**QUICK, "group": topic, "start": "earliest", "auto_commit": False, "read_committed": True}
        async with Consumer(cluster, **settings) as one, TransactionalProducer(cluster, topic) as producer:
            one.subscribe([topic])
            await poll_until("everything", [one], lambda: sum(one.positions.values()) == 60)
            old = one.group_metadata()
            async with producer.transaction():
                await producer.send_offsets(
                    old.group, one.positions, member_id=old.member_id, generation=old.generation
                )
            assert {each.offset for each in (await one.committed(one.assignment())).values()} == {10}
            async with Consumer(cluster, **settings) as two:
                two.subscribe([topic])
                await poll_until("two members", [one, two], lambda: is_shared([one, two], 6))
            producer.begin()
            with pytest.raises((IllegalGeneration, UnknownMemberId)):
                await producer.send_offsets(
                    old.group, {TopicPartition(topic, 0): 1}, member_id=old.member_id, generation=old.generation
                )
            await producer.abort()

    run(server, work)


@pytest.mark.parametrize("read_committed", [False, True])
def test_arrow_batches_are_the_same_records(server: Broker | Kafka, read_committed: bool) -> None:
    pytest.importorskip("pyarrow")

    async def work(cluster: Cluster, topic: str) -> None:
        async with TransactionalProducer(cluster, topic, linger_ms=0) as producer:
            for turn in range(4):
                producer.begin()
                for number in range(300):
                    await producer.send(topic, f"{turn} {number}".encode(), key=b"k%d" % number, partition=number % 6)
                await producer.flush()
                await (producer.abort() if turn % 2 else producer.commit())
        settings = {**QUICK, "group": topic, "start": "earliest", "read_committed": read_committed}
        expected = 600 if read_committed else 1_200
        seen: list[Record] = []
        async with Consumer(cluster, **settings) as one:
            await one.assign([TopicPartition(topic, number) for number in range(6)])
            await poll_until("all records", [one], lambda: len(seen) >= expected, seen)
            ends = dict(one.positions)
            await one.seek_to_beginning(one.assignment())
            rows: list[tuple[int, int, bytes]] = []
            with trio.fail_after(PATIENCE_S):
                async for batch in one.batches(("offset", "value"), rows_max=64):
                    assert batch.records.num_rows <= 64
                    rows += [
                        (batch.partition.partition, row["offset"], row["value"]) for row in batch.records.to_pylist()
                    ]
                    if len(rows) == expected:
                        break
            assert sorted(rows) == sorted((each.partition, each.offset, each.value) for each in seen)
            await one.poll()
            assert one.positions == ends, "control batches were passed"

    run(server, work)


def test_batches_with_a_timestamp_of_nanoseconds(broker: Broker) -> None:
    pytest.importorskip("pyarrow")

    async def work(cluster: Cluster, topic: str) -> None:
        async with Producer(cluster) as producer:
            for time_ms in (1_700_000_000_123, 1_700_000_000_123_456_789):
                await producer.send(topic, b"x", partition=0, timestamp_ms=time_ms)
        async with Consumer(cluster) as one:
            place = TopicPartition(topic, 0)
            answers: tuple[Literal["error", "null"], ...] = ("error", "null")
            for timestamps in answers:
                await one.assign({place: 0})
                seen: list[bool] = []
                with trio.fail_after(PATIENCE_S), suppress(InvalidTimestamp):
                    async for batch in one.batches(("timestamp",), timestamps=timestamps):
                        seen += [row["timestamp"] is None for row in batch.records.to_pylist()]
                        if len(seen) == 2:
                            break
                assert seen == ([False] if timestamps == "error" else [False, True])

    run(broker, work)


@pytest.mark.trio
async def test_settings_that_make_no_sense() -> None:
    cluster = Cluster("127.0.0.1:1")
    for settings, text in (
        ({"start": "begin"}, "'earliest', 'latest' or None"),
        ({"assignors": ["rang"]}, "did you mean range"),
        ({"assignors": []}, "at least one"),
        ({"heartbeat_interval_ms": 50_000}, "less than session_timeout_ms"),
        ({"max_poll_interval_ms": 0}, "more than 0"),
    ):
        with pytest.raises(InvalidConfig, match=text):
            Consumer(cluster, group="g", **settings)
    with pytest.raises(InvalidConfig, match="needs a group"):
        Consumer(cluster, instance_id="a")
    with pytest.raises(InvalidGroupId, match="no group"):
        Consumer(cluster).subscribe(["t"])
    with pytest.raises(InvalidConfig, match="in a block"):
        Consumer(cluster, group="g").subscribe(["t"])
    async with Consumer(cluster, group="g") as one:
        with pytest.raises(InvalidConfig, match="a list of names or a pattern"):
            one.subscribe("t")
        one.subscribe(["t"])
        with pytest.raises(InvalidConfig, match="unsubscribe first"):
            await one.assign({TopicPartition("t", 0): 0})


def test_a_group_of_others(server: Broker | Kafka) -> None:
    """Of another kind, or with assignors of which this member has none; and a session that the broker does not take."""

    async def work(cluster: Cluster, topic: str) -> None:
        host, port = cluster.bootstrap[0]
        async with await Connection.connect(host, port) as connection:
            request = JoinGroupRequest(
                f"{topic}-connect", 10_000, 10_000, "", None, "connect", [JoinGroupRequestProtocol("default", b"")]
            )
            answer = await connection.call(JOIN_GROUP, request)
            answer = await connection.call(JOIN_GROUP, replace_member(request, answer.member_id))
            assert answer.error_code == 0
            async with Consumer(cluster, group=f"{topic}-connect", **QUICK) as one:
                one.subscribe([topic])
                problem = await raises_soon(one, InconsistentGroupProtocol)
                assert "no group of consumers" in str(problem)
        async with Consumer(cluster, group=topic, assignors=["range"], **QUICK) as one:
            one.subscribe([topic])
            await poll_until("one", [one], lambda: is_shared([one], 6))
            async with Consumer(cluster, group=topic, assignors=["sticky"], **QUICK) as two:
                two.subscribe([topic])
                problem = await raises_soon(two, InconsistentGroupProtocol)
                assert "share none of the assignors sticky" in str(problem)
        async with Consumer(cluster, group=f"{topic}-short", session_timeout_ms=200, **QUICK) as short:
            short.subscribe([topic])
            await raises_soon(short, InvalidSessionTimeout)

    run(server, work)


def replace_member(request: JoinGroupRequest, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        request.group_id,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        member_id,
        None,
        request.protocol_type,
        request.protocols,
    )


def test_a_coordinator_that_goes_and_comes(brokers: Brokers) -> None:
    """Silence is bounded: an error says that it is away. When it is back the member goes on."""
    quick = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1_000}
    broker = brokers(settings=quick)

    async def work() -> None:
        async with Cluster(broker.bootstrap, timeout_ms=1_000) as cluster:
            await Admin(cluster).create_topic("t", 2)
            said = Noting()
            settings = {**QUICK, "group": "g", "session_timeout_ms": 1_000}
            async with Consumer(cluster, **settings) as one:
                one.subscribe(["t"], said)
                await poll_until("a member", [one], lambda: is_shared([one], 2))
                await trio.to_thread.run_sync(broker.kill)
                with pytest.raises(CoordinatorNotAvailable):
                    await one.commit({TopicPartition("t", 0): 0})
                problem = await raises_soon(one, CoordinatorNotAvailable)
                assert "no broker answers" in str(problem)
                assert said.events[-1] == ("lost", [0, 1])
                await trio.to_thread.run_sync(lambda: brokers.restart(broker, settings=quick))

                def is_back() -> bool:
                    return len(one.assignment()) == 2

                with trio.fail_after(PATIENCE_S):
                    while not is_back():
                        try:
                            await one.poll()
                        except CoordinatorNotAvailable:
                            continue
                await one.commit({TopicPartition("t", 0): 0})

    trio.run(work)


@pytest.mark.trio
async def test_a_broker_before_kafka_0_11_is_refused() -> None:
    old = OldBroker({FETCH.key: (0, 3), METADATA.key: (0, 2), FIND_COORDINATOR.key: (0, 0), JOIN_GROUP.key: (0, 1)})
    async with trio.open_nursery() as servers:
        await servers.start(old.serve)
        async with (
            Cluster(f"127.0.0.1:{old.port}", timeout_ms=2_000) as cluster,
            Consumer(cluster, group="g", **QUICK) as one,
        ):
            one.subscribe(["t"])
            problem = await raises_soon(one, UnsupportedVersion)
            assert "older than Kafka 0.11" in str(problem)
        servers.cancel_scope.cancel()
