"""Apache Kafka's brokers under our controller: they take their roles from it, serve clients, and delete what it says.

Inter-broker requests are those of protocol 2.7, also to 3.9. A fake broker of ours is a member of the same cluster; its
recorded requests are checked against Kafka's own message definitions, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.controller import Controller, NewTopic, create_partitions, create_topic, delete_topics, prepare
from ottla.coordination import znodes
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.controller.fakes import FakeBroker
from tests.peers.apache import Apache, Kafka
from tests.support.waiting import PATIENCE_S, eventually
from tests.wire import definitions

pytestmark = [pytest.mark.trio, pytest.mark.zookeeper, pytest.mark.java]


@pytest.mark.parametrize("version", ["2.7.2", "3.9.2"])
async def test_kafka_serves_what_our_controller_gives_it(
    version: str, zookeeper: str, kafka: Apache, tmp_path: Path
) -> None:
    async with await ZooKeeperTree.connect(zookeeper) as tree, trio.open_nursery() as nursery:
        await prepare(tree)
        ours = FakeBroker(1)
        await nursery.start(ours.serve)
        await ours.register(tree)
        controller = Controller(tree, 1)
        nursery.start_soon(controller.run)
        await ours.until(lambda: ours.live_brokers() == [1])

        theirs = await trio.to_thread.run_sync(lambda: start(kafka, version, zookeeper))
        await ours.until(lambda: ours.live_brokers() == [1, 2])
        assert controller.is_active
        await create_topic(tree, NewTopic("t", assignment={0: (2,), 1: (2,), 2: (1,)}))
        await ours.until(lambda: len(ours.metadata("t")) == 3)
        assert [ours.metadata("t")[number].leader for number in range(3)] == [2, 2, 1]
        rng = random.Random(1)
        sent = {number: [rng.randbytes(100) for _ in range(200)] for number in range(2)}
        assert await trio.to_thread.run_sync(produce_and_consume, theirs.bootstrap, sent) == sent

        await create_partitions(tree, "t", 4, assignments=[(2,)])
        await ours.until(lambda: len(ours.metadata("t")) == 4)
        more = {3: [b"more"]}
        assert await trio.to_thread.run_sync(produce_and_consume, theirs.bootstrap, more) == more

        gone = trio.Event()
        await tree.exists(znodes.topic_path("t"), lambda _: gone.set())
        assert await delete_topics(tree, ["t"]) == {"t": None}
        with trio.fail_after(PATIENCE_S):
            await gone.wait()
        folders = {folder.name for folder in theirs.data.iterdir() if folder.is_dir()}
        # Renamed at once, deleted a minute later.
        assert {folder for folder in folders if folder.startswith("t-") and not folder.endswith("-delete")} == set()

        await create_topic(tree, NewTopic("t", assignment={0: (2,)}))
        await ours.until(lambda: len(ours.metadata("t")) == 1)
        again = {0: [b"a new life"]}
        assert await trio.to_thread.run_sync(produce_and_consume, theirs.bootstrap, again) == again
        await trio.to_thread.run_sync(theirs.kill)
        check_frames(ours)
        nursery.cancel_scope.cancel()


def start(kafka: Apache, version: str, zookeeper: str) -> Kafka:
    settings = {} if version.startswith("2.7") else {"inter.broker.protocol.version": "2.7"}
    return kafka.broker(version, zookeeper=zookeeper, broker_id=2, settings=settings)


def until_known(bootstrap: str, partitions: Iterable[int]) -> None:
    """Ask the broker until its own metadata has a leader for each of the partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def is_known() -> bool:
        known = admin.list_topics("t", timeout=PATIENCE_S).topics["t"].partitions
        return all(number in known and known[number].leader == 2 for number in partitions)

    eventually(f"{bootstrap} is told of partitions {list(partitions)}", is_known)


def produce_and_consume(bootstrap: str, sent: dict[int, list[bytes]]) -> dict[int, list[bytes]]:
    until_known(bootstrap, sent)
    failures: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000})
    for number, values in sent.items():
        for value in values:
            producer.produce("t", value, partition=number, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", number, OFFSET_BEGINNING) for number in sent])
    received: dict[int, list[bytes]] = {number: [] for number in sent}
    for record in consumer.consume(sum(map(len, sent.values())), timeout=PATIENCE_S):
        assert record.error() is None
        received[record.partition()].append(record.value())
    consumer.close()
    return received


def check_frames(broker: FakeBroker) -> None:
    """Every request that was recorded is, byte by byte, what Kafka 2.7.2's definition makes of its content."""
    theirs = definitions.definitions("2.7.2")
    seen: dict[int, Any] = {}
    for recorded in broker.received:
        encoded = definitions.encode(theirs[recorded.api.key, "request"], recorded.version, recorded.message)
        assert recorded.frame.endswith(encoded)
        # Key, version, correlation id, client id with its length, no tagged fields.
        assert len(recorded.frame) - len(encoded) == 2 + 2 + 4 + 2 + len("1") + 1
        seen[recorded.api.key] = recorded.version
    assert seen == {4: 4, 5: 3, 6: 6}
