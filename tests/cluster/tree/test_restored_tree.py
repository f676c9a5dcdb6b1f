"""ZooKeeper's data are put back from a backup: its leader epochs begin below those that the logs have.

All brokers are stopped meanwhile. Then followers come in sync, `acks=all` is taken again, no record is lost, and the
logs are equal. Logs of a topic that is younger than the backup stay where they are, and are named.
"""

import json
import shutil
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.cluster import asking
from tests.cluster.kinds import PROTOCOLS
from tests.cluster.replicas import logs_equal, rows
from tests.cluster.stand import Cluster
from tests.peers.skips import module
from tests.support.client import batch

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]

#: In one topic the tree forgets all epochs that wrote records, in the other only epochs in which nothing was written.
RECORDS, EMPTY, YOUNGER = "records-forgotten", "empty-forgotten", "younger"
HIGH = 20
COUNT = 5


@pytest.mark.parametrize(
    "cluster",
    [PROTOCOLS[0], pytest.param(*PROTOCOLS[1].values, id=PROTOCOLS[1].id, marks=pytest.mark.judge)],
    indirect=True,
)
def test_leader_epochs_that_went_back(cluster: Cluster) -> None:
    topics = [RECORDS, EMPTY, YOUNGER]
    for topic in topics:
        create(cluster, topic)
    halt(cluster)
    for topic in topics:
        set_epoch(cluster.observer.tree, topic, HIGH)
    resume(cluster)
    cluster.all_in_sync(*topics)
    for topic in topics:
        write(cluster, topic)
    written_in = {topic: cluster.observer.state(topic).leader_epoch for topic in topics}
    halt(cluster)
    # Each stop has made another broker lead, which wrote nothing.
    assert max(last_epoch(member.data, EMPTY) for member in cluster.brokers) > written_in[EMPTY]
    assert {row.leader_epoch for row in rows(cluster.broker(2).data / f"{RECORDS}-0")} == {written_in[RECORDS]}
    set_epoch(cluster.observer.tree, RECORDS, 0)
    set_epoch(cluster.observer.tree, EMPTY, written_in[EMPTY])
    cluster.observer.tree.delete(f"/brokers/topics/{YOUNGER}", recursive=True)
    # A machine with a new disk: its copy is of records with epochs that its leader does not know.
    shutil.rmtree(cluster.broker(3).data / f"{RECORDS}-0")
    resume(cluster)
    cluster.all_in_sync(RECORDS, EMPTY)
    assert cluster.observer.state(RECORDS).leader_epoch < HIGH
    for topic in (RECORDS, EMPTY):
        write(cluster, topic)
    # As at Kafka's leader, whose table of epochs forgets what contradicts the new one.
    assert epoch_end(cluster, RECORDS, written_in[RECORDS]) == -1
    assert epoch_end(cluster, EMPTY, written_in[EMPTY]) == COUNT
    cluster.all_in_sync(RECORDS, EMPTY)
    # Another one leads, and its followers go on.
    for topic in (RECORDS, EMPTY):
        asking.elect_first_of(cluster, [topic], [2, 1, 3])
        write(cluster, topic)
        assert asking.log_range(cluster, cluster.leader(topic), topic) == (0, 3 * COUNT)
    logs_equal(cluster.directories, RECORDS, EMPTY)
    for member in cluster.brokers:
        assert "does not know 1 partition whose folders are here: " in member.server.output()
        assert len(rows(member.data / f"{YOUNGER}-0")) == COUNT


def create(cluster: Cluster, topic: str) -> None:
    controller, _ = cluster.observer.controller()
    with asking.client(cluster, cluster.broker(controller)) as connection:
        connection.create_on(topic, {0: [1, 2, 3]})


def write(cluster: Cluster, topic: str) -> None:
    """Writes batches that all in sync have when this returns."""
    with asking.client(cluster, cluster.leader(topic)) as connection:
        for number in range(COUNT):
            assert asking.produced(connection.produce(topic, batch(b"%d" % number), acks=-1))[0] == "NONE"


def halt(cluster: Cluster) -> None:
    """Stops the brokers one after the other, so that the last one leads in the end."""
    for member in cluster.brokers:
        member.stop()


def resume(cluster: Cluster) -> None:
    """Starts them one after the other, so that the first one leads."""
    for member in cluster.brokers:
        member.start()
    for member in cluster.brokers:
        cluster.knows_all(member)


def set_epoch(tree: KazooClient, topic: str, epoch: int) -> None:
    """Writes the state of a topic's only partition, under broker 1, that a tree of another time has."""
    path = f"/brokers/topics/{topic}/partitions/0/state"
    state = json.loads(tree.get(path)[0])
    tree.set(path, json.dumps({**state, "leader": 1, "leader_epoch": epoch, "isr": [1, 2, 3]}).encode())


def last_epoch(data: Path, topic: str) -> int:
    """The newest leader epoch that a log knows."""
    return int((data / f"{topic}-0" / "leader-epoch-checkpoint").read_text().splitlines()[-1].split()[0])


def epoch_end(cluster: Cluster, topic: str, epoch: int) -> int:
    """Where the leader's log ends this epoch; -1 if it does not know."""
    row = OffsetForLeaderPartition(partition_index=0, current_leader_epoch=-1, leader_epoch=epoch)
    with asking.client(cluster, cluster.leader(topic)) as connection:
        topics = [OffsetForLeaderTopic(name=topic, partitions=[row])]
        answer = connection.call(OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(topics=topics), 3)
    ((told,),) = [topic.partitions for topic in answer.topics]
    assert told.error_code == 0
    return int(told.end_offset)
