"""Whether partitions are those that were copied."""

import math
from pathlib import Path

import pytest
import trio

from ottla.client import Cluster, Producer
from ottla.kafka import TopicPartition
from ottla.mirror.verifying import Place, made_anew
from tests.client.scripted_cluster import World
from tests.mirror.sides import Side, sides
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


async def filled(side: Side, topic: str, records: list[tuple[bytes | None, int]], **settings: str) -> None:
    await side.admin.create_topic(topic, 1, 1, {name.replace("_", "."): value for name, value in settings.items()})
    async with Producer(side.cluster) as producer:
        for value, time in records:
            await producer.send(topic, value, timestamp_ms=time)


async def test_what_differs_is_another_topic(tmp_path: Path) -> None:
    async with sides(tmp_path) as (one, two):
        there = [(b"0", 10), (b"1", 11), (b"2", 12), (None, 13)]
        here = {
            "same": there,
            "time": [(value, time + 1) for value, time in there],
            "value": [(b"x", time) for _, time in there],
            "none": [(b"", time) if value is None else (value, time) for value, time in there],
            "short": there[:2],
            "cut": there,
            "large": [(value, time) if time < 12 else (b"x" * 100_000, time) for value, time in there],
        }
        for name, records in here.items():
            await filled(one, name, records)
            await filled(two, f"A.{name}", there)
        await filled(one, "append", there)
        await filled(two, "A.append", there, message_timestamp_type="LogAppendTime")
        await one.admin.delete_records({TopicPartition("cut", 0): 4})
        places = {
            (source := TopicPartition(name, 0)): Place(source, 3, TopicPartition(f"A.{name}", 0), 3)
            for name in (*here, "append")
        }
        with trio.fail_after(PATIENCE_S):
            found = await made_anew(one.cluster, two.cluster, places)
        assert sorted(each.topic for each in found) == ["large", "none", "time", "value"]


async def test_a_mirror_without_leader_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not judged, and the others are."""
    monkeypatch.setattr("ottla.mirror.verifying.PATIENCE_S", math.inf)
    monkeypatch.setattr("ottla.mirror.verifying.LEADER_S", 0.05)
    source, target = World(1), World(1)
    source.topic("t", 1, 1)
    target.topic("A.t", None, 1)
    places = {}
    for number in (0, 1):
        here, there = TopicPartition("t", number), TopicPartition("A.t", number)
        source[here].add(b"new")
        target[there].add(b"old")
        places[here] = Place(here, 0, there, 0)
    async with source.serving(), target.serving(), Cluster(source.bootstrap) as one, Cluster(target.bootstrap) as two:
        with trio.fail_after(PATIENCE_S):
            assert await made_anew(one, two, places) == {TopicPartition("t", 1)}
