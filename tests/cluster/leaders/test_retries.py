"""An idempotent producer whose answers are lost tries again on the next leader, which knows what it has: followers keep
what producers sent, and recognise the last five batches of each.
"""

from collections.abc import Iterable

import pytest

from tests.cluster import asking
from tests.cluster.network import need_namespaces
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.skips import module
from tests.support.client import Client
from tests.support.producers import retried
from tests.support.waiting import eventually, still

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
BATCHES = 8
#: Of the newest batches of a producer these many are recognised.
KNOWN = 5


def test_answers_are_lost_and_the_leader_dies(cluster: Cluster) -> None:
    """Records that it took without the producers hearing of it come a second time, and are there once."""
    answers_are_lost(cluster, cluster.brokers[:1])


@pytest.mark.soak
def test_answers_are_lost_and_each_leader_dies(cluster: Cluster) -> None:
    answers_are_lost(cluster, cluster.brokers)


def answers_are_lost(cluster: Cluster, leaders: Iterable[Member]) -> None:
    need_namespaces()
    for leader in leaders:
        with (
            Round(cluster, settings.seed(), copies=False, led_by=leader.id) as load,
            cluster.observer.follow(*load.topics) as chronicle,
        ):
            topic = load.another_topic("asked")
            with asking.client(cluster, leader) as client:
                producer = asking.producer_id(client)
                for sequence in range(BATCHES):
                    assert retried(client, topic, producer, sequence) == (0, sequence)

            def unanswered(load: Round = load) -> int:
                marks = [cluster.observer.high_watermark(load.plain, index) or 0 for index in range(PARTITIONS)]
                return sum(marks) - load.acknowledged

            with cluster.network.cut_one_way(leader.name, "clients"):
                still("what is taken and what is answered", lambda: (load.acknowledged, unanswered()))
                lost = unanswered()
                assert lost > 0
                leader.kill()
            for index in range(PARTITIONS):
                cluster.led_by_another(load.plain, index, than=leader.id)
            load.writes()
            state = cluster.led_by_another(topic, 0, than=leader.id)
            with asking.client(cluster, cluster.broker(state.leader)) as client:
                knows_the_last_batches(client, topic, producer)
            print(f"figures: {lost} records were stored by broker {leader.id} and their answers lost")
            leader.start()
            cluster.all_in_sync(*load.topics, topic)
            load.writes()
            load.finish()
        assert chronicle.moved() >= PARTITIONS
        assert chronicle.unclean() == []
        chronicle.check()
        load.judge(at_least=300)
        logs_equal(cluster.directories, *load.topics, topic)


def knows_the_last_batches(client: Client, topic: str, producer: int) -> None:
    """Five are answered with the offsets that they have, an older one as out of order, and the next is taken."""
    eventually(
        "the new leader knows its partition",
        lambda: retried(client, topic, producer, BATCHES - 1) == (0, BATCHES - 1),
    )
    for sequence in range(BATCHES - 1, BATCHES - 1 - KNOWN, -1):
        assert retried(client, topic, producer, sequence) == (0, sequence)
    error, _ = retried(client, topic, producer, BATCHES - 1 - KNOWN)
    assert asking.name_of(error) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert retried(client, topic, producer, BATCHES) == (0, BATCHES)
