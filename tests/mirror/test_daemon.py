"""The flows of a process begin, wait and end by themselves, and say why they wait."""

import re
from pathlib import Path

import pytest
import trio

from ottla.client import Producer
from ottla.client.groups import Committed
from ottla.mirror.formats import Checkpoint
from tests.mirror.sides import T, done, holds, mirror, running, side, sides
from tests.peers.ports import free_port

pytestmark = pytest.mark.trio


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
