"""MirrorMaker 2 of Kafka 3.9.2 mirrors the other way, or reads what our mirror has noted."""

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.client import Producer
from ottla.client.groups import Committed
from ottla.kafka import TopicPartition
from tests.mirror.sides import Side, a_moment, mirror, reached, running, side
from tests.peers.apache import SCRIPT, Apache, environment, fetch, need_java
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.trio, pytest.mark.java, pytest.mark.judge]

VERSION = "3.9.2"
FILE = """
clusters = A, B
A.bootstrap.servers = {A}
B.bootstrap.servers = {B}
B->A.enabled = true
A->B.enabled = false
A->B.emit.heartbeats.enabled = false
topics = t.*
groups = g.*
replication.factor = 1
heartbeats.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
offset.flush.interval.ms = 1000
offset-syncs.topic.location = {location}
"""
SOON = {
    "groups": "g.*",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
}
#: How long MirrorMaker 2 may take to begin: it makes six topics, joins two groups and starts three connectors.
STARTS_S = 4 * PATIENCE_S


@asynccontextmanager
async def both_ways(
    kafka: Apache, path: Path, other: str, location: str = "source", **settings: str
) -> AsyncIterator[tuple[Side, Side]]:
    """A is ours, B is ours or Kafka's. Our mirror copies from A to B, MirrorMaker 2 from B to A."""
    theirs = kafka.broker(other).bootstrap if other != "ottla" else None
    async with side("A", path) as one, reached("B", theirs) if theirs else side("B", path) as two:
        for here in (one, two):
            await here.admin.create_topic("t", 2, 1)
            await write(here, "t", range(300))
        file = path / "mm2.properties"
        file.write_text(FILE.format(A=one.bootstrap, B=two.bootstrap, location=location))
        async with running(mirror(one, two, **SOON, **settings)):
            maker = kafka.mirror_maker(file)
            with trio.fail_after(STARTS_S):
                while not await one.has("B.t"):
                    assert maker.running, maker.output_tail()
                    await a_moment()
            yield one, two
            assert maker.running, maker.output_tail()
            # It may take a minute to end by itself.
            maker.kill()


async def write(here: Side, topic: str, numbers: range) -> None:
    async with Producer(here.cluster) as producer:
        for number in numbers:
            await producer.send(topic, b"%s.%d" % (here.alias.encode(), number), partition=number % 2)


async def came(here: Side, topic: str, alias: str, numbers: range) -> None:
    for partition in range(2):
        wanted = [b"%s.%d" % (alias.encode(), number) for number in numbers if number % 2 == partition]
        assert [each.value for each in await here.records(topic, len(wanted), partition)] == wanted


@pytest.mark.parametrize("other", ["ottla", VERSION])
async def test_nothing_goes_round_and_nothing_comes_twice(kafka: Apache, tmp_path: Path, other: str) -> None:
    async with both_ways(kafka, tmp_path, other) as (one, two):
        for here, there in ((one, two), (two, one)):
            await came(here, f"{there.alias}.t", there.alias, range(300))
        # Each mirror looks at all topics of its source again, among them those that the other has made, and at all
        # records.
        for turn in range(1, 4):
            for here in (one, two):
                await here.admin.create_topic(f"t-{turn}", 2, 1)
                await write(here, f"t-{turn}", range(10))
                await write(here, "t", range(300 * turn, 300 * (turn + 1)))
            for here, there in ((one, two), (two, one)):
                await came(here, f"{there.alias}.t-{turn}", there.alias, range(10))
                await came(here, f"{there.alias}.t", there.alias, range(300 * (turn + 1)))
        for here, there in ((one, two), (two, one)):
            await here.records(f"{there.alias}.heartbeats", 2)
            # What is a cluster's own stays as it was written.
            await came(here, "t", here.alias, range(1200))
            own = {"t", "t-1", "t-2", "t-3"}
            notes = {"heartbeats", f"{there.alias}.heartbeats", f"{there.alias}.checkpoints.internal"}
            found = {each for each in await here.admin.list_topics() if not each.startswith("__")}
            assert found - OF_CONNECT == {*own, *(f"{there.alias}.{each}" for each in own), *notes} | {
                f"mm2-offset-syncs.{there.alias}.internal"
            }


#: Where MirrorMaker 2 keeps its own settings, positions and states: in its target, and named after its source.
OF_CONNECT = {f"mm2-{what}.B.internal" for what in ("configs", "offsets", "status")}


def translated(bootstrap: str, alias: str, group: str) -> tuple[dict[TopicPartition, int], list[str]]:
    """The offsets that Kafka's own class gives, and what else it says."""
    need_java()
    fetch(f"{VERSION}-mirror")
    command = [str(SCRIPT), "java", f"{VERSION}-mirror", str(Path(__file__).with_name("Translate.java"))]
    done = subprocess.run(
        [*command, bootstrap, alias, group],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **environment(128)},
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    offsets = {TopicPartition(line[0], int(line[1])): int(line[2]) for line in lines if len(line) == 4}
    return offsets, ["\t".join(line) for line in lines if len(line) != 4]


async def test_kafkas_own_class_translates_the_offsets_of_our_checkpoints(kafka: Apache, tmp_path: Path) -> None:
    """They are those that our mirror commits in the target."""
    async with side("A", tmp_path) as one, side("B", tmp_path) as two:
        await one.admin.create_topic("t", 3, 1)
        async with Producer(one.cluster, batch_bytes=1000) as producer:
            for number in range(3000):
                await producer.send("t", b"%d" % number, partition=number % 3)
        await one.admin.delete_records({TopicPartition("t", 2): 100})
        at = {0: 1000, 1: 333, 2: 700}
        await one.admin.groups.commit("g", {TopicPartition("t", each): Committed(at[each]) for each in at})
        # Heartbeats that the way back writes into A come to B, by which Kafka's class knows its upstream clusters.
        async with running(mirror(one, two, flows="A->B, B->A", **SOON)):
            with trio.fail_after(PATIENCE_S):
                while len(ours := await two.admin.groups.committed("g")) < 3:
                    await a_moment()
            await two.records("A.checkpoints.internal", 3)
            await two.records("A.heartbeats", 1)
            theirs, facts = await trio.to_thread.run_sync(translated, two.bootstrap, "A", "g")
        assert theirs == {each: found.offset for each, found in ours.items()}
        for partition, offset in theirs.items():
            values = [each.value for each in await two.records("A.t", 900, partition.partition)]
            read = [each.value for each in await one.records("t", 900, partition.partition)]
            first = 100 if partition.partition == 2 else 0
            # What the group has not read is there from this offset on, and of what it has read not too much.
            assert values == read
            assert 0 <= at[partition.partition] - first - offset <= 200
        assert theirs[TopicPartition("A.t", 0)] == 1000
        assert facts == ["replication hops\t1", "upstream clusters\t[A]"]


@pytest.mark.parametrize("location", ["source", "target"])
async def test_a_group_moves_over_with_ours_and_back_with_mirror_maker(
    kafka: Apache, tmp_path: Path, location: str
) -> None:
    """Each mirror commits its groups' offsets in its target, and neither touches those of the other."""
    async with both_ways(kafka, tmp_path, "ottla", location) as (one, two):
        for here, there in ((one, two), (two, one)):
            own, mirrored = TopicPartition("t", 0), TopicPartition(f"{here.alias}.t", 0)
            group = f"g-{here.alias}"
            await came(there, f"{here.alias}.t", here.alias, range(300))
            await here.admin.groups.commit(group, {own: Committed(150)})
            with trio.fail_after(STARTS_S):
                while (await there.admin.groups.committed(group)).get(mirrored, Committed(-1)).offset != 150:
                    await a_moment()
            offsets, _ = await trio.to_thread.run_sync(translated, there.bootstrap, here.alias, group)
            assert offsets == {mirrored: 150}
