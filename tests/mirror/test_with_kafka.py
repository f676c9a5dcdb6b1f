"""Apache Kafka as the source and as the target of a mirror: what was written arrives, and groups go on there."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla import _core
from ottla.client import EARLIEST, Consumer, Producer, TransactionalProducer
from ottla.client.groups import Committed
from ottla.kafka import TopicPartition
from ottla.mirror.formats import Checkpoint
from tests.mirror.sides import Side, a_moment, mirror, reached, running, side
from tests.peers.apache import Apache
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.trio, pytest.mark.java, pytest.mark.judge]

VERSIONS = ["2.7.2", "3.9.2", "4.3.1"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COUNT = 400
ONCE = pytest.mark.parametrize("exactly_once", ["disabled", "enabled"])
ROLES = pytest.mark.parametrize("role", ["source", "target"])
SOON = {
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "offset.lag.max": "10",
}


@asynccontextmanager
async def beside(kafka: Apache, version: str, role: str, path: Path) -> AsyncIterator[tuple[Side, Side]]:
    """The clusters A and B, one of which is Kafka's."""
    zookeeper = kafka.zookeeper() if version == "2.7.2" else None
    theirs = kafka.broker(version, zookeeper=zookeeper).bootstrap
    ours, other = ("B", "A") if role == "source" else ("A", "B")
    async with reached(other, theirs) as far, side(ours, path) as near:
        yield (far, near) if role == "source" else (near, far)


async def write_everything(one: Side) -> None:
    """A partition for each codec, with keys, headers and times, some of which are not there."""
    noise = random.Random(1)
    await one.admin.create_topic("t", len(CODECS), 1, {"retention.ms": "-1", "min.insync.replicas": "1"})
    for partition, codec in enumerate(CODECS):
        async with Producer(one.cluster, compression=codec) as producer:
            for number in range(COUNT):
                await producer.send(
                    "t",
                    None if number % 50 == 0 else noise.randbytes(60) * 2,
                    key=b"%d" % number if number % 3 else None,
                    headers=[("number", b"%d" % number), ("empty", None)] if number % 2 else [],
                    timestamp_ms=1_700_000_000_000 + number,
                    partition=partition,
                )


async def codecs(there: Side, topic: str, partition: int) -> set[str]:
    """How the batches of a partition are compressed."""
    consumer = Consumer(there.cluster, wait_ms=100)
    await consumer.assign({TopicPartition(topic, partition): EARLIEST})
    answers = await consumer.poll_encoded()
    return {
        batch.compression for _, answer in answers if answer.records for batch in _core.read_batches(answer.records)
    }


@ONCE
@ROLES
@pytest.mark.parametrize("version", VERSIONS)
async def test_records_arrive_and_groups_go_on(
    kafka: Apache, tmp_path: Path, version: str, role: str, exactly_once: str
) -> None:
    async with beside(kafka, version, role, tmp_path) as (one, two):
        await write_everything(one)
        middle, end = TopicPartition("t", 1), TopicPartition("t", 2)
        await one.admin.groups.commit("g", {middle: Committed(100, metadata="here"), end: Committed(COUNT)})
        copies = mirror(one, two, exactly_once_source_support=exactly_once, **SOON)
        async with running(copies):
            for partition, codec in enumerate(CODECS):
                sent = await one.records("t", COUNT, partition)
                got = await two.records("A.t", COUNT, partition)
                assert len(sent) == COUNT
                if exactly_once == "enabled":  # a marker stands behind each transaction
                    assert [each._replace(topic="t", offset=0) for each in got] == [
                        each._replace(offset=0) for each in sent
                    ]
                else:
                    assert [each._replace(topic="t") for each in got] == sent
                assert await codecs(two, "A.t", partition) == {codec}
            await groups_go_on(two, middle, end)
            await settings_follow(one, two)
        assert copies.figures["A->B"].errors == 0


async def groups_go_on(two: Side, middle: TopicPartition, end: TopicPartition) -> None:
    """Nothing is skipped, and what was read to its end is not read again."""
    there = [TopicPartition("A.t", each.partition) for each in (middle, end)]
    with trio.fail_after(PATIENCE_S):
        while len(known := await two.admin.groups.committed("g")) < 2:
            await a_moment()
    assert known.keys() == set(there)
    at = {each: await two.records("A.t", COUNT, each.partition) for each in there}
    # So many records of it are behind the group there.
    assert 0 < sum(each.offset < known[there[0]].offset for each in at[there[0]]) <= 100
    assert known[there[1]].offset == at[there[1]][-1].offset + 1
    told = {
        each.partition: each
        for each in (
            Checkpoint.decode(record.key, record.value) for record in await two.records("A.checkpoints.internal", 2)
        )
    }
    assert {each: (told[each].upstream, told[each].downstream) for each in there} == {
        there[0]: (100, known[there[0]].offset),
        there[1]: (COUNT, known[there[1]].offset),
    }


async def settings_follow(one: Side, two: Side) -> None:
    """At first, and those that change."""

    async def has(name: str) -> tuple[str | None, bool]:
        (found,) = [each for each in await two.admin.describe_settings("A.t") if each.name == name]
        return found.value, found.source == 1

    assert await has("retention.ms") == ("-1", True)
    assert not (await has("min.insync.replicas"))[1]
    await one.admin.alter_settings("t", {"retention.ms": None, "segment.bytes": "12345678"})
    with trio.fail_after(PATIENCE_S):
        while (await has("retention.ms"))[1] or await has("segment.bytes") != ("12345678", True):
            await a_moment()


@ONCE
@ROLES
@pytest.mark.parametrize("version", VERSIONS)
async def test_transactions_topics_that_come_and_a_second_instance(
    kafka: Apache, tmp_path: Path, version: str, role: str, exactly_once: str
) -> None:
    """What was aborted stays behind. A topic and a partition come later, and two instances share all of it."""
    async with beside(kafka, version, role, tmp_path) as (one, two):
        await one.admin.create_topic("t", 2, 1)
        both = [mirror(one, two, exactly_once_source_support=exactly_once) for _ in "12"]
        shares = [each.figures["A->B"].positions for each in both]
        async with running(*both), TransactionalProducer(one.cluster, "x") as producer:
            for number in range(10):
                producer.begin()
                for partition in range(2):
                    await producer.send("t", b"%d" % number, partition=partition)
                await producer.flush()
                await (producer.commit() if number % 2 else producer.abort())
            for partition in range(2):
                got = [each.value for each in await two.records("A.t", 5, partition)]
                assert got == [b"1", b"3", b"5", b"7", b"9"]
            await one.admin.create_topic("t-late", 1, 1)
            await one.admin.create_partitions("t", 4)
            with trio.fail_after(PATIENCE_S):
                while sum(map(len, shares)) < 5 or not all(shares):
                    await a_moment()
            async with Producer(one.cluster) as late:
                await late.send_and_wait("t-late", b"late", partition=0)
                await late.send_and_wait("t", b"late", partition=3)
            assert [each.value for each in await two.records("A.t-late", 1)] == [b"late"]
            assert [each.value for each in await two.records("A.t", 1, 3)] == [b"late"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_javas_producer_wrote_is_what_javas_consumer_reads(
    kafka: Apache, tmp_path: Path, version: str
) -> None:
    """From Kafka to Ottla, with Kafka's own tools at both ends."""
    async with beside(kafka, version, "source", tmp_path) as (one, two):
        await one.admin.create_topic("t", 1, 1)
        lines = [f"key-{number}:value-{number}" for number in range(2000)]
        keyed = ("--property", "key.separator=:", "--property")
        async with running(mirror(one, two)):
            await trio.to_thread.run_sync(
                lambda: kafka.tool(
                    version,
                    "console-producer",
                    *("--bootstrap-server", one.bootstrap, "--topic", "t", "--compression-codec", "lz4"),
                    *(*keyed, "parse.key=true"),
                    stdin="\n".join(lines) + "\n",
                )
            )
            await two.records("A.t", len(lines))
            assert await codecs(two, "A.t", 0) == {"lz4"}
            read = await trio.to_thread.run_sync(
                lambda: kafka.tool(
                    version,
                    "console-consumer",
                    *("--bootstrap-server", two.bootstrap, "--topic", "A.t", "--from-beginning"),
                    *("--max-messages", str(len(lines))),
                    *(*keyed, "print.key=true"),
                )
            )
        # Before them 4.3 may say that an option has a new name.
        assert read.splitlines()[-len(lines) :] == lines
