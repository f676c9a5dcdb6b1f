"""Records go from one cluster to the other: all of them, in order, once where that is wanted, and never back."""

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from ottla import _core
from ottla.client import Consumer, Producer, TransactionalProducer
from ottla.client.groups import Committed
from ottla.errors import TopicAlreadyExists
from ottla.kafka import TopicPartition
from ottla.mirror.copying import HEADER, Figures
from ottla.mirror.daemon import Mirror
from ottla.mirror.formats import Checkpoint, OffsetSync
from tests.mirror.sides import Side, holds, mirror, running, side, sides
from tests.peers.processes import free_port
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
T = TopicPartition("t", 0)


ONCE = pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy"}


@ONCE
async def test_records_are_the_same_there(tmp_path: Path, exactly_once: str) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 3, 1, {"retention.ms": "12345678", "min.insync.replicas": "1"})
        await one.admin.create_topic("other", 1, 1)
        noise = random.Random(1)
        async with Producer(one.cluster, compression="zstd") as producer:
            for number in range(3000):
                await producer.send(
                    "t",
                    noise.randbytes(100),
                    key=b"%d" % number if number % 3 else None,
                    headers=[("number", b"%d" % number), ("empty", None)],
                    timestamp_ms=1_700_000_000_000 + number,
                    partition=number % 3,
                )
        copies = mirror(one, two, exactly_once_source_support=exactly_once)
        async with running(copies):
            for partition in range(3):
                sent = await one.records("t", 1000, partition)
                got = await two.records("A.t", 1000, partition)
                assert [each._replace(topic="t") for each in got] == sent
        figures = copies.figures["A->B"]
        assert figures.unopened > 0
        assert figures.lag == 0
        assert figures.errors == 0
        settings = {each.name: each for each in await two.admin.describe_settings("A.t")}
        assert settings["retention.ms"].value == "12345678"
        assert settings["min.insync.replicas"].source != 1
        assert not await two.has("A.other")


async def test_topics_and_partitions_that_come_are_followed(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two), running(mirror(one, two)), Producer(one.cluster) as producer:
        await one.admin.create_topic("t-late", 1, 1)
        await producer.send_and_wait("t-late", b"first", partition=0)
        assert [each.value for each in await two.records("A.t-late", 1)] == [b"first"]
        await one.admin.create_partitions("t-late", 2)
        await one.cluster.refresh(["t-late"])
        await producer.send_and_wait("t-late", b"second", partition=1)
        with trio.fail_after(PATIENCE_S):
            while len((await two.admin.describe_topics(["A.t-late"]))[0].partitions) < 2:
                await trio.lowlevel.checkpoint()
        assert [each.value for each in await two.records("A.t-late", 1, 1)] == [b"second"]


@ONCE
async def test_it_goes_on_where_it_was(tmp_path: Path, exactly_once: str) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        sent: list[bytes] = []
        for turn in range(3):
            async with Producer(one.cluster) as producer:
                for number in range(50):
                    sent.append(b"%d.%d" % (turn, number))
                    await producer.send("t", sent[-1])
            async with running(mirror(one, two, exactly_once_source_support=exactly_once)):
                got = [each.value for each in await two.records("A.t", len(sent))]
            assert got == sent


@ONCE
async def test_what_is_lost_with_an_instance_is_copied_by_the_next(tmp_path: Path, exactly_once: str) -> None:
    """Each is ended while it copies, without a chance to commit."""
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 2, 1)
        values = [b"%d" % number for number in range(3000)]
        for first in range(0, len(values), 500):
            copies = mirror(one, two, exactly_once_source_support=exactly_once)
            figures = copies.figures["A->B"]
            async with trio.open_nursery() as nursery:
                await nursery.start(copies.run)
                async with Producer(one.cluster, batch_bytes=500) as producer:
                    for number in range(first, first + 500):
                        await producer.send("t", values[number], partition=number % 2)
                    await holds(lambda figures=figures: figures.records)  # type: ignore[misc]
                nursery.cancel_scope.cancel()
        async with running(mirror(one, two, exactly_once_source_support=exactly_once)):
            for partition in range(2):
                wanted = values[partition::2]
                got = [each.value for each in await two.records("A.t", len(wanted), partition)]
                if exactly_once == "enabled":
                    assert got == wanted
                else:
                    # Some may have come twice.
                    assert list(dict.fromkeys(got)) == wanted


async def test_groups_go_on_in_the_target(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        async with Producer(one.cluster) as producer:
            # The mirror begins where the source begins, which is not 0.
            for number in range(300):
                await producer.send("t", b"%d" % number)
        await one.admin.delete_records({T: 100})
        copies = mirror(
            one,
            two,
            emit_checkpoints_interval_seconds="1",
            sync_group_offsets_enabled="true",
            sync_group_offsets_interval_seconds="1",
            refresh_groups_interval_seconds="1",
            offset_lag_max="0",
        )
        there = TopicPartition("A.t", 0)
        await one.admin.groups.commit("g", {T: Committed(300)})
        async with running(copies):
            await two.records("A.t", 200)
            # All that group g has read in A it has read in B.
            with trio.fail_after(PATIENCE_S):
                while (await two.admin.groups.committed("g")).get(there) != Committed(200):
                    await trio.lowlevel.checkpoint()
            (checkpoint,) = [
                Checkpoint.decode(each.key, each.value) for each in await two.records("A.checkpoints.internal", 1)
            ]
            assert checkpoint == Checkpoint("g", there, 300, 200)
            syncs = await one.records("mm2-offset-syncs.B.internal", 1)
            sync = OffsetSync.decode(syncs[-1].key, syncs[-1].value)
            assert sync == OffsetSync(T, 299, 199)
        # A group that is used in B, or further there, is left alone.
        await two.admin.groups.commit("g", {there: Committed(200), TopicPartition("heartbeats", 0): Committed(1)})
        await one.admin.groups.commit("g", {T: Committed(150)})
        async with running(copies := mirror(one, two, sync_group_offsets_enabled="true")):
            await holds(lambda: done(copies.figures["A->B"], 300))
        assert (await two.admin.groups.committed("g"))[there] == Committed(200)


async def test_nothing_goes_back_by_its_name(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        await two.admin.create_topic("t", 1, 1)
        for here in (one, two):
            async with Producer(here.cluster) as producer:
                await producer.send_and_wait("t", here.alias.encode())
        async with running(mirror(one, two, flows="A->B, B->A", topics=".*")):
            assert [each.value for each in await two.records("A.t", 1)] == [b"A"]
            assert [each.value for each in await one.records("B.t", 1)] == [b"B"]
            for here, there in ((one, two), (two, one)):
                # The way is open: heartbeats that were written there came here.
                await here.records(f"{there.alias}.heartbeats", 2)
                topics = {each for each in await here.admin.list_topics() if not each.startswith("__")}
                assert topics == {
                    "t",
                    f"{there.alias}.t",
                    "heartbeats",
                    f"{there.alias}.heartbeats",
                    f"{there.alias}.checkpoints.internal",
                    f"mm2-offset-syncs.{there.alias}.internal",
                }


async def test_nothing_goes_back_by_its_header(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        for here in (one, two):
            await here.admin.create_topic("t", 1, 1)
            async with Producer(here.cluster) as producer:
                await producer.send_and_wait("t", here.alias.encode(), headers=[("own", b"1")])
        copies = mirror(one, two, flows="A->B, B->A", **IDENTITY)
        async with running(copies):
            for here, there in ((one, two), (two, one)):
                found = await here.records("t", 2)
                headers = {each.value: each.headers for each in found}
                source = (HEADER.decode(), there.alias.encode())
                assert headers == {
                    here.alias.encode(): [("own", b"1")],
                    there.alias.encode(): [("own", b"1"), source],
                }
            # Each has looked at everything that the other has now.
            await holds(lambda: all(done(figures, 2) for figures in copies.figures.values()))
        for here in (one, two):
            assert len(await here.records("t", 2)) == 2


def done(figures: Figures, offset: int) -> bool:
    return figures.positions.get(T, 0) >= offset


@ONCE
async def test_two_instances_share_the_partitions(tmp_path: Path, exactly_once: str) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 4, 1)
        values = {partition: [b"%d.%d" % (partition, number) for number in range(200)] for partition in range(4)}

        async def send(numbers: range) -> None:
            async with Producer(one.cluster) as producer:
                for number in numbers:
                    for partition in range(4):
                        await producer.send("t", values[partition][number], partition=partition)

        await send(range(100))
        both = [mirror(one, two, exactly_once_source_support=exactly_once) for _ in range(2)]
        shares = [each.figures["A->B"].positions for each in both]
        async with running(both[0]):
            await holds(lambda: len(shares[0]) == 4)
            async with running(both[1]):
                await holds(lambda: [len(share) for share in shares] == [2, 2])
                await send(range(100, 150))
                await two.records("A.t", 150, 3)
            # The other takes over what it leaves.
            await send(range(150, 200))
            for partition in range(4):
                got = [each.value for each in await two.records("A.t", 200, partition)]
                assert got == values[partition]


@asynccontextmanager
async def rebalancing(one: Side, two: Side, copies: Mirror) -> AsyncIterator[list[TopicPartition]]:
    """Inside of the block a mirror of `t` waits for another member of its group to join, and keeps these partitions."""
    positions = copies.figures["A->B"].positions
    other = Consumer(
        two.cluster,
        group="ottla-mirror-A-B",
        assignors=["cooperative-sticky"],
        auto_commit=False,
        heartbeat_interval_ms=100,
    )
    async with other:
        other.subscribe(["A.t"])
        with trio.fail_after(PATIENCE_S):
            while len(other.assignment()) < 2 or len(positions) > 2:
                await other.poll(0)
        other.pause(other.assignment())
        await one.admin.create_topic("t-new", 1, 1)
        with trio.fail_after(PATIENCE_S):
            while (await two.admin.groups.describe("ottla-mirror-A-B")).state != "PreparingRebalance":
                await trio.lowlevel.checkpoint()
        yield sorted(positions)


@ONCE
@pytest.mark.parametrize("end", ["goes on", "is stopped"])
async def test_nothing_comes_twice_around_a_rebalance(tmp_path: Path, exactly_once: str, end: str) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 4, 1)
        settings = {"exactly.once.source.support": exactly_once}
        copies = mirror(one, two, **settings)
        values = [b"%d" % number for number in range(100)]
        async with Producer(one.cluster) as producer, running(copies):
            await holds(lambda: len(copies.figures["A->B"].positions) == 4)
            async with rebalancing(one, two, copies) as kept:
                assert len(kept) == 2
                for first in range(0, 100, 25):
                    for value in values[first : first + 25]:
                        for partition in kept:
                            await producer.send("t", value, partition=partition.partition)
                    await producer.flush()
                    for partition in kept:
                        await two.records("A.t", first + 25, partition.partition, committed=False)
                if end == "is stopped":
                    await copies.stop()
        async with running(mirror(one, two, **settings)):
            async with Producer(one.cluster) as producer:
                for partition in kept:
                    await producer.send("t", b"last", partition=partition.partition)
            for partition in kept:
                got = [each.value for each in await two.records("A.t", 101, partition.partition)]
                assert got == [*values, b"last"]


async def test_what_was_copied_is_committed_before_it_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic that is deleted is no fault of what else was copied."""
    monkeypatch.setattr("ottla.mirror.copying.COMMIT_S", 1e6)
    async with sides(tmp_path) as (one, two):
        for topic in ("t-gone", "t"):
            await one.admin.create_topic(topic, 1, 1)
        async with running(mirror(one, two, refresh_topics_interval_seconds="600")), Producer(one.cluster) as producer:
            for topic in ("t-gone", "t"):
                await producer.send_and_wait(topic, b"1")
                await two.records(f"A.{topic}", 1)
            await one.admin.delete_topic("t-gone")
            await holds(lambda: "A->B: copying begins anew" in caplog.text)
            await producer.send_and_wait("t", b"2")
            assert [each.value for each in await two.records("A.t", 2)] == [b"1", b"2"]


async def test_what_must_be_written_anew_is(tmp_path: Path) -> None:
    """Aborted transactions, markers, the time of the append."""
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1, {"message.timestamp.type": "LogAppendTime"})
        async with TransactionalProducer(one.cluster, "x") as producer:
            for number in range(6):
                producer.begin()
                await producer.send("t", b"%d" % number, timestamp_ms=1)
                await producer.flush()
                await (producer.commit() if number % 2 else producer.abort())
        async with running(mirror(one, two)):
            sent = await one.records("t", 3)
            got = await two.records("A.t", 3, committed=False)
        assert [each.value for each in got] == [b"1", b"3", b"5"]
        assert [each.timestamp_ms for each in got] == [each.timestamp_ms for each in sent]
        assert sent[0].timestamp_ms > 1


async def test_what_cannot_be_mirrored_keeps_nothing_else_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that is too long in the target."""
    async with sides(tmp_path) as (one, two):
        long = "t" * 248
        for topic in (long, "t"):
            await one.admin.create_topic(topic, 1, 1)
            async with Producer(one.cluster) as producer:
                await producer.send_and_wait(topic, b"v")
        async with running(mirror(one, two)):
            assert [each.value for each in await two.records("A.t", 1)] == [b"v"]
        assert f"A->B: {long} is not mirrored: " in caplog.text


@ONCE
async def test_what_the_target_refuses_is_not_left_out(
    tmp_path: Path, exactly_once: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried until somebody sees to it, and what comes after it waits."""
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        await two.admin.create_topic("A.t", 1, 1)
        await two.admin.alter_settings("A.t", {"max.message.bytes": "500"})
        values = [*(b"%d" % number * 100 for number in range(8)), b"x" * 1000, b"last"]
        async with Producer(one.cluster) as producer:
            for value in values:
                await producer.send_and_wait("t", value)
        settings = {"exactly.once.source.support": exactly_once, "sync.topic.configs.enabled": "false"}
        async with running(mirror(one, two, **settings)):
            await holds(lambda: len(re.findall("copying begins anew in 1 s: .*A.t-0", caplog.text)) >= 3)
            await two.admin.alter_settings("A.t", {"max.message.bytes": None})
            got: list[bytes | None] = []
            with trio.fail_after(PATIENCE_S):
                # From the refused one on it is as in the source. Before that some came twice, unless each comes once.
                while got[-2:] != values[-2:]:
                    got = [each.value for each in await two.records("A.t", len(values))]
            assert list(dict.fromkeys(each for each in got if each != b"last")) == values[:-1]
            if exactly_once == "enabled":
                assert got == values


async def test_a_topic_that_is_deleted_keeps_nothing_else_back(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        for topic in ("t-gone", "t"):
            await one.admin.create_topic(topic, 1, 1)
        async with running(mirror(one, two, refresh_topics_interval_seconds="600")), Producer(one.cluster) as producer:
            for topic in ("t-gone", "t"):
                await producer.send_and_wait(topic, b"1")
                await two.records(f"A.{topic}", 1)
            await one.admin.delete_topic("t-gone")
            await producer.send_and_wait("t", b"2")
            assert [each.value for each in await two.records("A.t", 2)] == [b"1", b"2"]


async def test_what_is_gone_before_it_was_copied_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)

        async def send(numbers: range) -> None:
            async with Producer(one.cluster) as producer:
                for number in numbers:
                    await producer.send("t", b"%d" % number)

        await send(range(10))
        async with running(mirror(one, two)):
            await two.records("A.t", 10)
        await send(range(10, 20))
        await one.admin.delete_records({T: 15})
        copies = mirror(one, two)
        async with running(copies):
            got = [each.value for each in await two.records("A.t", 15)]
        assert got == [b"%d" % number for number in (*range(10), *range(15, 20))]
        assert "A->B: t-0 is copied from offset 15 on: the records from 10 on are no longer there" in caplog.text
        assert copies.figures["A->B"].errors == 1


async def make_anew(side: Side, topic: str, partitions: int = 1) -> None:
    await side.admin.delete_topic(topic)
    with trio.fail_after(PATIENCE_S):
        while True:
            with suppress(TopicAlreadyExists):
                await side.admin.create_topic(topic, partitions, 1)
                return


ANEW = (
    "A->B: t-0 has been made anew in A: the record at offset 9 is not the one that was copied. It is copied from offset"
)


@ONCE
@pytest.mark.parametrize("records", [10, 20])
async def test_a_topic_that_was_made_anew_is_copied_from_its_beginning(
    tmp_path: Path, exactly_once: str, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It has as many records as the one before, or more."""
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 2, 1)
        settings = {"exactly.once.source.support": exactly_once}
        old = [b"old %d" % number for number in range(10)]
        new = [b"new %d" % number for number in range(records)]
        async with Producer(one.cluster) as producer:
            for value in old:
                await producer.send("t", value, partition=0)
        async with running(mirror(one, two, **settings)):
            await two.records("A.t", 10)
        await make_anew(one, "t", 2)
        async with Producer(one.cluster) as producer:
            for value in new:
                await producer.send("t", value, partition=0)
        for _ in range(2):
            # The second time nothing is new.
            async with running(copies := mirror(one, two, **settings)):
                await holds(lambda copies=copies: done(copies.figures["A->B"], records))  # type: ignore[misc]
            assert [each.value for each in await two.records("A.t", 10 + records)] == [*old, *new]
        assert caplog.text.count(f"{ANEW} 0 on") == 1


async def test_a_topic_that_is_made_anew_meanwhile(tmp_path: Path) -> None:
    """However it is noticed, and whatever of it comes twice: all of it comes."""
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        new = [b"new %d" % number for number in range(50)]
        async with Producer(one.cluster) as producer:
            await producer.send_and_wait("t", b"old")
        async with running(mirror(one, two)):
            await two.records("A.t", 1)
            await make_anew(one, "t")
            await one.cluster.refresh(["t"])
            async with Producer(one.cluster) as producer:
                for value in new:
                    await producer.send("t", value)
            got: list[bytes | None] = []
            with trio.fail_after(PATIENCE_S):
                while got[-50:] != new:
                    got = [each.value for each in await two.records("A.t", 50)]


async def test_a_topic_that_was_made_anew_with_fewer_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        for values in ([b"1", b"2"], [b"3"]):
            async with Producer(one.cluster) as producer:
                for value in values:
                    await producer.send_and_wait("t", value)
            async with running(mirror(one, two)):
                got = [each.value for each in await two.records("A.t", int(values[-1]))]
            if len(values) == 2:
                await make_anew(one, "t")
        assert got == [b"1", b"2", b"3"]
        assert "A->B: t-0 ends before offset 2, up to which it was copied: it was made anew, or has lost" in caplog.text


async def test_flows_begin_and_wait_by_themselves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One of three has a cluster that is away, one a file that is."""
    port = free_port()
    async with sides(tmp_path) as (one, two), Producer(one.cluster) as producer:
        await one.admin.create_topic("t", 1, 1)
        await producer.send_and_wait("t", b"1")
        away = two._replace(alias="C", bootstrap=f"127.0.0.1:{port}")
        locked = two._replace(alias="D")
        flows = "A->C, A->B, A->D"
        lock = {"D.security.protocol": "SSL", "D.ssl.truststore.location": str(tmp_path / "no.pem")}
        copies = mirror(one, two, away, locked, flows=flows, **lock, **{"D.ssl.truststore.type": "PEM"})
        async with running(copies):
            assert list(copies.running) == ["A->B"]
            assert [each.value for each in await two.records("A.t", 1)] == [b"1"]
            assert f"A->C waits, and is tried again in 1 s: C: no broker answers at 127.0.0.1:{port}: " in caplog.text
            assert re.search(r"A->D waits, and is tried again in 1 s: D: .*no\.pem", caplog.text)
            assert "Traceback" not in caplog.text
            async with side("C", tmp_path, port) as three:
                assert [each.value for each in await three.records("A.t", 1)] == [b"1"]
                assert list(copies.running) == ["A->C", "A->B"]
                await producer.send_and_wait("t", b"2")
                assert [each.value for each in await three.records("A.t", 2)] == [b"1", b"2"]
                # What is on its way to it is committed while it is there.
                await copies.stop()
        assert not copies.running


async def test_a_flow_that_waits_is_stopped_at_once(tmp_path: Path) -> None:
    """Its cluster takes a connection and says nothing."""
    async with side("A", tmp_path) as one:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with listener:
            port = listener.socket.getsockname()[1]
            copies = mirror(one, one._replace(alias="B", bootstrap=f"127.0.0.1:{port}"))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(copies.run)
                async with await listener.accept():
                    await copies.stop()
                    await copies.ended()


async def test_too_few_brokers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with sides(tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        async with running(mirror(one, two, replication_factor="2")):
            assert "A->B waits" in caplog.text
            wanted = "topic 'heartbeats' is to have 2 replicas in B, which has 1 broker: set replication.factor or "
            assert f"{wanted}heartbeats.topic.replication.factor to 1 or less" in caplog.text
        async with running(mirror(one, two, replication_factor="2", internal_topic_replication_factor="1")):
            wanted = "A->B: t is not mirrored: topic 'A.t' is to have 2 replicas in B, which has 1 broker: set "
            assert f"{wanted}replication.factor to 1 or less" in caplog.text


async def test_a_header_is_not_added_where_names_say_it() -> None:
    copies = _core.Mirror()
    builder = _core.BatchBuilder()
    builder.append(1, None, b"v", ())
    ((data, records, first, last, is_unopened),), next_offset = copies.copy(builder.finish(), 0)
    assert (records, first, last, is_unopened, next_offset) == (1, 0, 0, True, 1)
    assert [record.headers for record in _core.RecordReader(data)] == [[]]


async def test_where_a_topic_is_begun_is_said_by_the_consumer_of_its_cluster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with sides(tmp_path) as (one, two), Producer(one.cluster) as producer:
        await one.admin.create_topic("t", 1, 1)
        await producer.send_and_wait("t", b"before")
        never = mirror(one, two, **{"A.consumer.auto.offset.reset": "none"})
        async with running(never):
            await holds(lambda: "t-0 is not copied yet, and A.consumer.auto.offset.reset is none" in caplog.text)
        late = mirror(one, two, **{"A->B.consumer.auto.offset.reset": "latest", "tasks.max": "4"})
        async with running(late):
            await holds(lambda: done(late.figures["A->B"], 1))
            await producer.send_and_wait("t", b"after")
            assert [each.value for each in await two.records("A.t", 1)] == [b"after"]
        assert "tasks.max in a test has no effect: an instance copies all of its share in one task" in caplog.text


async def test_what_is_never_looked_for_again_is_looked_for_once(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two), Producer(one.cluster) as producer:
        await one.admin.create_topic("t", 1, 1)
        await producer.send_and_wait("t", b"1")
        await one.admin.groups.commit("g", {T: Committed(1)})
        copies = mirror(
            one,
            two,
            refresh_topics_interval_seconds="-1",
            refresh_groups_interval_seconds="-1",
            emit_heartbeats_interval_seconds="-1",
            emit_checkpoints_interval_seconds="1",
            replication_factor="-1",
        )
        async with running(copies):
            (found,) = [
                Checkpoint.decode(each.key, each.value) for each in await two.records("A.checkpoints.internal", 1)
            ]
            assert found.group == "g"
            assert not await two.has("heartbeats")
