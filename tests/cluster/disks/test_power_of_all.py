"""The power of all brokers goes at once. What was flushed is kept; what no disk had is lost, as with Kafka. No two
replicas hold different records at one offset afterwards.
"""

import pytest

from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.client import Client, batch, values
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
CLUSTER = {"forgetful": True}
RECORDS = 50


def test_the_power_of_all_goes_at_once(cluster: Cluster) -> None:
    loses_power(cluster, 1)


@pytest.mark.soak
def test_the_power_of_all_goes_at_once_ten_times(cluster: Cluster) -> None:
    loses_power(cluster, 10)


def loses_power(cluster: Cluster, times: int) -> None:
    """The load writes to topics that are flushed with each record, so it is judged as ever."""
    with Round(cluster, settings.seed(), copies=False, config={"flush.messages": "1"}) as load:
        lost_records = 0
        for number in range(times):
            topic = load.another_topic(f"unflushed-{number}")
            leader = cluster.leader(topic)
            with asking.client(cluster, leader) as client:
                client.alter_topic(topic, {"flush.messages": "1000000"})
                sent = [b"%d" % value for value in range(RECORDS)]
                for offset, value in enumerate(sent):
                    assert asking.produced(client.produce(topic, batch(value))) == ("NONE", offset)
            load.writes()
            for member in cluster.brokers:
                member.server.process.kill()
            forgotten = [member.lose_power() for member in cluster.brokers]
            assert all(lost.bytes > 0 for lost in forgotten), forgotten
            for member in cluster.brokers:
                member.start(wait=False)
            for member in cluster.brokers:
                member.ready()
            cluster.all_in_sync(*load.topics, topic)
            logs_equal(cluster.directories, topic)
            with asking.client(cluster, cluster.leader(topic)) as client:
                stored = values(client.fetch(topic))
                assert stored == sent[: len(stored)]

                def taken(client: Client = client, end: int = len(stored)) -> bool:
                    error, offset = asking.produced(client.produce(topic, batch(b"after")))  # noqa: B023
                    # The leader hears from the controller that the others are in sync, after the tree says so.
                    assert (error, offset) == ("NONE", end) or error == "NOT_ENOUGH_REPLICAS"
                    return error == "NONE"

                eventually("the leader has others in sync", taken)
            lost_records += RECORDS - len(stored)
            print(f"figures: the disks forgot {forgotten}; of {RECORDS} unflushed records {len(stored)} are there")
            load.writes()
            logs_equal(cluster.directories, topic)
        load.finish()
    assert lost_records > 0
    load.judge(at_least=200 * times)
    logs_equal(cluster.directories, *load.topics)
