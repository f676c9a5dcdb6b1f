"""Apache Kafka's brokers lead and follow under our controller: they change ISRs through it, and stop with its help.

The controller is in a broker of ours that holds no partition.
"""

from __future__ import annotations

import logging
import re
import signal
from datetime import datetime
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.controller import NewTopic, create_topic
from ottla.coordination.znodes import PartitionState
from tests.peers.apache import Apache, Kafka
from tests.support.lanes import judged_by
from tests.support.trees import state_of
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = [pytest.mark.trio, pytest.mark.zookeeper, pytest.mark.java]

#: A follower that stands still leaves the in-sync replicas of broker 2 long before its session ends. Broker 3 takes
#: nobody out: where it is killed, the other one has to be in sync.
LAG_MS = {2: 3_000, 3: 600_000}


@pytest.mark.parametrize("version", judged_by(["2.7.2", "3.9.2"], ["2.7.2"]))
@pytest.mark.judge
async def test_kafka_leads_follows_and_stops(
    version: str, zookeeper: str, kafka: Apache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = {
        "broker.id": "1",
        "log.dirs": str(tmp_path / "ours"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": zookeeper,
    }
    async with Broker.start(BrokerConfig(settings)) as ours:
        two, three = await trio.to_thread.run_sync(lambda: [start(kafka, version, zookeeper, id) for id in (2, 3)])
        await ours.metadata.wait_until(lambda: ours.metadata.brokers.keys() == {1, 2, 3})
        assert ours.controller.is_active
        await create_topic(ours.tree, NewTopic("single", assignment={0: (2,)}))
        await create_topic(ours.tree, NewTopic("t", assignment={0: (2, 3), 1: (3, 2)}))
        await ours.metadata.wait_until(lambda: len(ours.metadata.topics.get("t", {})) == 2)
        await trio.to_thread.run_sync(produce, two.bootstrap)

        # A follower that is stopped leaves the ISR, and comes back when it goes on: in one leader epoch.
        three.process.send_signal(signal.SIGSTOP)
        await trio.to_thread.run_sync(produce, two.bootstrap, "1", (0,))  # who has everything is in sync for ever
        await isr_is(ours, {2})
        assert await state_of(ours.tree, "t", 0) == PartitionState(2, 0, (2,), 1)
        three.process.send_signal(signal.SIGCONT)
        await isr_is(ours, {2, 3})
        assert (await state_of(ours.tree, "t", 0)).leader_epoch == 0
        await trio.to_thread.run_sync(produce, two.bootstrap)

        # One that is refused is not waited for, and proposed again.
        three.process.send_signal(signal.SIGSTOP)
        await trio.to_thread.run_sync(produce, two.bootstrap, "1", (0,))
        await isr_is(ours, {2})
        leaving = ours.controller._term.cluster.leaving  # type: ignore[union-attr]
        leaving.add(3)
        three.process.send_signal(signal.SIGCONT)
        await comes_true("it is refused", lambda: "not taken into the ISR: [3]" in caplog.text)
        leaving.remove(3)
        await isr_is(ours, {2, 3})
        assert (await state_of(ours.tree, "t", 0)).leader_epoch == 0

        # One that is killed leaves it when its session ends, and comes back as another process.
        await trio.to_thread.run_sync(three.kill)
        await isr_is(ours, {2})
        three = await trio.to_thread.run_sync(lambda: start(kafka, version, zookeeper, 3, three.port))
        await isr_is(ours, {2, 3})
        await trio.to_thread.run_sync(produce, two.bootstrap)

        # One that stops hands over what it leads first. Nobody waits for it afterwards.
        await led_by(ours, 1, 2)
        assert await trio.to_thread.run_sync(stop, two) == []
        await led_by(ours, 0, 3)
        await led_by(ours, 1, 3)
        assert (await state_of(ours.tree, "t", 0)).isr == (3,)
        await trio.to_thread.run_sync(produce, three.bootstrap)


def start(kafka: Apache, version: str, zookeeper: str, id: int, port: int | None = None) -> Kafka:
    settings: dict[str, object] = {
        "replica.lag.time.max.ms": LAG_MS[id],
        "replica.fetch.wait.max.ms": 200,
        "zookeeper.session.timeout.ms": 18_000,
    }
    if not version.startswith("2.7"):
        settings["inter.broker.protocol.version"] = "2.7"
    return kafka.broker(version, zookeeper=zookeeper, broker_id=id, port=port, settings=settings)


def produce(bootstrap: str, acks: str = "all", partitions: tuple[int, ...] = (0, 1)) -> None:
    """One record to each of these partitions."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "message.timeout.ms": 60_000})
    for partition in partitions:
        producer.produce("t", b"x", partition=partition, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failures == [None] * len(partitions)


async def isr_is(ours: Broker, isr: set[int]) -> None:
    """Until the tree says so of partition 0, and our metadata follow."""
    with trio.fail_after(PATIENCE_S):
        await ours.metadata.wait_until(lambda: set(ours.metadata.topics["t"][0].isr) == isr)
    assert set((await state_of(ours.tree, "t", 0)).isr) == isr


async def led_by(ours: Broker, partition: int, leader: int) -> None:
    with trio.fail_after(PATIENCE_S):
        await ours.metadata.wait_until(lambda: ours.metadata.topics["t"][partition].leader == leader)


def stop(broker: Kafka) -> list[str]:
    """Stops a Kafka broker. Returns what it says of difficulties with its controlled shutdown."""
    broker.stop()
    lines = broker.output().splitlines()
    asked = _time(lines, "Starting controlled shutdown")
    done = _time(lines, "ontrolled shutdown (succeeded|request returned successfully)")
    print(f"controlled shutdown in {done - asked}")
    difficult = re.compile("Retrying controlled|Remaining partitions to move|unclean shutdown")
    return [line for line in lines if difficult.search(line)]


def _time(lines: list[str], text: str) -> datetime:
    (line,) = [line for line in lines if re.search(text, line)]
    return datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f")
