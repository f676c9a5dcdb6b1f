"""A controller that is killed at a move's last write: the brokers that live keep nothing of what moved away."""

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.wire.k45_alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.zookeeper

PARTITIONS = 20


def assignment(zookeeper: KazooClient) -> dict[str, object]:
    found: dict[str, object] = json.loads(zookeeper.get("/brokers/topics/t")[0])
    return found


def folders(broker: Broker) -> list[Path]:
    return sorted(path for path in broker.data.glob("t-*") if not path.name.endswith("-delete"))


def move(client: Client, to: int) -> None:
    rows = [ReassignablePartition(partition_index=number, replicas=[to]) for number in range(PARTITIONS)]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(PATIENCE_S * 1000), topics=[ReassignableTopic(name="t", partitions=rows)]
    )
    answer = client.call(ALTER_PARTITION_REASSIGNMENTS, request)
    assert answer.error_code == 0
    assert {row.error_code for topic in answer.responses for row in topic.partitions} == {0}


@pytest.mark.parametrize("when", ["before", "after"])
def test_old_folders_are_gone(brokers: Brokers, zookeeper: str, when: str) -> None:
    controller = brokers(broker_id=3, zookeeper=zookeeper, program=("tests.support.dying_controller", when, "t"))
    one, two = (brokers(broker_id=broker_id, zookeeper=zookeeper) for broker_id in (1, 2))
    tree = KazooClient(zookeeper)
    tree.start()
    try:
        with connect(controller) as client:
            eventually("brokers", lambda: len(tree.get_children("/brokers/ids")) == 3)
            client.create_on("t", {number: [1] for number in range(PARTITIONS)})
            with connect(one) as leader:
                eventually(
                    "the leader",
                    lambda: leader.produce("t", batch(b"a")).responses[0].partitions[0].error_code == 0,
                )
            eventually("the folders", lambda: len(folders(one)) == PARTITIONS)
            move(client, 2)
        controller.process.wait(PATIENCE_S)
        eventually(
            "the assignment",
            lambda: assignment(tree)["partitions"] == {str(number): [2] for number in range(PARTITIONS)},
        )
        eventually("no old folders", lambda: not folders(one), facts=lambda: folders(one))
        assert len(folders(two)) == PARTITIONS
        with connect(two) as leader:
            assert values(leader.fetch("t")) == [b"a"]
    finally:
        tree.stop()
        tree.close()
