"""An instance copies its share of a flow: while others come and go, and while topics do."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from ottla.client import Consumer, Producer
from ottla.errors import TopicAlreadyExists
from ottla.kafka import TopicPartition
from ottla.mirror.daemon import Mirror
from tests.mirror.sides import ONCE, Side, T, done, holds, mirror, running, sides
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


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
    monkeypatch.setattr("ottla.mirror.share.COMMIT_S", 1e6)
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
