"""A third replica is copied under a throttle, at the rate that was set."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.kafka import TopicPartition
from tests.cluster import asking
from tests.cluster.orders import order
from tests.cluster.replicas import logs_equal
from tests.cluster.stand import Cluster
from tests.peers.apache import tool
from tests.peers.skips import module
from tests.support.client import batch
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]

LEADER, FOLLOWER, NEW = 1, 2, 3
#: How far the byte rate may be from what is set; and how far below in seven seconds, of which other work may take some.
TOLERANCE, BUSY_TOLERANCE = 0.1, 0.4
#: Ten of them are what a follower asks of a partition (`replica.fetch.max.bytes`): of an eleventh it would get a piece,
#: which counts and comes again.
BATCH = batch(b"x" * ((1 << 20) // 10 - 100))
SIDES = {"leader": LEADER, "follower": NEW}


class Size(NamedTuple):
    partitions: int
    bytes: int
    rate: int


SHORT = Size(1, 28_000_000, 4_000_000)
LONG = Size(3, 600_000_000, 10_000_000)
#: The size for a throttle of Kafka's tool, which holds on both sides at once.
TOOL = Size(2, 60_000_000, 4_000_000)


def fill(cluster: Cluster, topic: str, size: Size) -> list[TopicPartition]:
    """A topic on two brokers, the first of which leads; the third is to get a replica."""
    controller, _ = cluster.observer.controller()
    with asking.client(cluster, cluster.broker(controller)) as client:
        client.create_on(topic, {index: [LEADER, FOLLOWER] for index in range(size.partitions)})
    cluster.all_in_sync(topic)
    with asking.client(cluster, cluster.broker(LEADER)) as client:
        for number in range(size.bytes // len(BATCH)):
            assert asking.produced(client.produce(topic, BATCH, partition=number % size.partitions))[0] == "NONE"
    return [TopicPartition(topic, index) for index in range(size.partitions)]


def stored(directory: Path, topic: str) -> int:
    """Bytes of the topic's segments in a log directory."""
    return sum(file.stat().st_size for file in directory.glob(f"{topic}-*/*.log"))


def add_replica(cluster: Cluster, names: list[TopicPartition]) -> None:
    assert set(order(cluster, {name: [LEADER, FOLLOWER, NEW] for name in names}).values()) == {"NONE"}


def measured(cluster: Cluster, topic: str, start: Callable[[], object]) -> float:
    """Bytes a second that reach the new replica, from its first byte to its last."""
    new, whole = cluster.broker(NEW).data, stored(cluster.broker(LEADER).data, topic)
    start()
    eventually("the copy begins", lambda: stored(new, topic) > 0)
    begun = time.monotonic()
    eventually("the copy is whole", lambda: stored(new, topic) == whole, 180, facts=lambda: (stored(new, topic), whole))
    rate = whole / (time.monotonic() - begun)
    cluster.all_in_sync(topic)
    logs_equal(cluster.directories, topic)
    return rate


def keeps_to(rate: float, size: Size) -> None:
    print(f"{size.bytes / 1e6:.0f} MB at {size.rate / 1e6:.0f} MB/s: {rate / 1e6:.2f} MB/s came")
    least = 1 - (BUSY_TOLERANCE if size is SHORT else TOLERANCE)
    assert least <= rate / size.rate <= 1 + TOLERANCE, f"{rate:.0f} instead of {size.rate} bytes/s"


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    "size", [pytest.param(SHORT, id="short"), pytest.param(LONG, id="long", marks=pytest.mark.soak)]
)
def test_one_side_alone_keeps_the_rate(cluster: Cluster, side: str, size: Size) -> None:
    topic = f"{side}-{size.bytes}"
    names = fill(cluster, topic, size)
    broker = SIDES[side]
    replicas = ",".join(f"{name.partition}:{broker}" for name in names)
    with asking.client(cluster, cluster.broker(LEADER)) as client:
        client.alter_topic(topic, {f"{side}.replication.throttled.replicas": replicas})
    with asking.client(cluster, cluster.broker(broker)) as client:
        client.alter_broker(str(broker), {f"{side}.replication.throttled.rate": str(size.rate)})
    keeps_to(measured(cluster, topic, lambda: add_replica(cluster, names)), size)


@pytest.mark.soak
@pytest.mark.parametrize("version", ["2.7.2", "3.9.2"])
def test_kafkas_tool_throttles_a_move_and_takes_the_throttle_back(
    cluster: Cluster, tmp_path: Path, version: str
) -> None:
    topic = f"tool-{version}"
    names = fill(cluster, topic, TOOL)
    plan = tmp_path / "plan.json"
    rows = [{"topic": topic, "partition": name.partition, "replicas": [LEADER, FOLLOWER, NEW]} for name in names]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    moving = ("reassign-partitions", "--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan))

    def reassign(*arguments: str) -> str:
        with cluster.clients.inside():
            return tool(version, *moving, *arguments)

    def throttles() -> dict[str, str]:
        """The settings of throttles that the topic and the brokers have."""
        nodes = [f"/config/topics/{topic}", *(f"/config/brokers/{member.id}" for member in cluster.brokers)]
        found: dict[str, str] = {}
        for node in nodes:
            if cluster.observer.tree.exists(node):
                config = cluster.observer._get(node)[0]["config"]
                found |= {f"{node} {name}": value for name, value in config.items() if "throttled" in name}
        return found

    keeps_to(measured(cluster, topic, lambda: reassign("--execute", "--throttle", str(TOOL.rate))), TOOL)
    assert len(throttles()) == 2 + 2 * len(cluster.brokers)
    eventually("the move is over", lambda: "is complete" in reassign("--verify"))
    assert throttles() == {}
