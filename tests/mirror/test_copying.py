"""Records go from one cluster to the other: all of them, in order, once where that is wanted, and never back."""

import random
from pathlib import Path

import pytest
import trio

from ottla import _core
from ottla.client import Producer, TransactionalProducer
from ottla.client.groups import Committed
from ottla.kafka import TopicPartition
from ottla.mirror.copying import HEADER
from ottla.mirror.formats import Checkpoint, OffsetSync
from tests.mirror.sides import ONCE, T, done, holds, mirror, running, sides
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
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


async def test_a_header_is_not_added_where_names_say_it() -> None:
    copies = _core.Mirror()
    builder = _core.BatchBuilder()
    builder.append(1, None, b"v", ())
    copied = copies.copy(builder.finish(), 0)
    (batch,) = copied.batches
    assert (batch.records, batch.first_offset, batch.last_offset, copied.next_offset) == (1, 0, 0, 1)
    assert batch.is_unopened
    assert [record.headers for record in _core.RecordReader(batch.data)] == [[]]
