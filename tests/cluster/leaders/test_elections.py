"""Leaders that change often, and one that was not in sync."""

import re
import time
import urllib.request

import pytest

from tests.cluster import asking
from tests.cluster.kinds import rounds
from tests.cluster.replicas import high_watermarks, logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.skips import module
from tests.support.client import batch, values
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
CLUSTER = {"settings": {"metrics.listener": "127.0.0.1:0"}}
ELECTIONS_S = 30.0


@pytest.mark.judge
def test_five_elections(cluster: Cluster) -> None:
    elected_again_and_again(cluster, 5)


@pytest.mark.soak
def test_twenty_elections(cluster: Cluster) -> None:
    assert elected_again_and_again(cluster, 20) <= ELECTIONS_S


def elected_again_and_again(cluster: Cluster, times: int) -> float:
    """Each time all partitions, under load: in the end all replicas hold the same batches (KIP-279). Returns the
    seconds that the elections took together.
    """
    with (
        Round(cluster, settings.seed(), led_by=1) as load,
        cluster.observer.follow(*load.topics) as chronicle,
    ):
        began = time.monotonic()
        for number in range(1, times + 1):
            first = number % 3
            asking.elect_first_of(cluster, load.topics, [(first + place) % 3 + 1 for place in range(3)])
            load.writes(20)
        took_s = time.monotonic() - began
        cluster.all_in_sync(*load.topics)
        load.flows()
        load.finish()
    print(f"figures: {times} elections of {2 * PARTITIONS} partitions in {took_s:.1f} s")
    assert chronicle.moved() >= times * 2 * PARTITIONS
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=times * 40)
    logs_equal(cluster.directories, *load.topics)
    return took_s


@rounds(3)
def test_an_unclean_election_on_purpose(cluster: Cluster, times: int) -> None:
    """A leader is alone with what it acknowledges, and dies. Who allows it gets a leader that does not have that: what
    is lost is exactly that, and a consumer that has read it is told.
    """
    for _ in range(times):
        is_elected_uncleanly(cluster)


def is_elected_uncleanly(cluster: Cluster) -> None:
    with Round(cluster, settings.seed(), copies=False) as load:
        topic = load.another_topic("asked", [1, 2, 3])
        with asking.client(cluster, cluster.broker(1)) as client:
            client.alter_topic(topic, {"min.insync.replicas": "1"})
        leader = cluster.leader(topic)
        others = [member for member in cluster.brokers if member is not leader]
        with asking.client(cluster, leader) as client:
            for number in range(10):
                assert asking.produced(client.produce(topic, batch(b"kept-%d" % number))) == ("NONE", number)
            for other in others:
                other.kill()
            eventually("the leader is alone", lambda: cluster.observer.state(topic).isr == {leader.id})
            for number in range(10, 20):
                eventually(
                    f"record {number} is acknowledged",
                    lambda number=number: (  # type: ignore[misc]
                        asking.produced(client.produce(topic, batch(b"lost-%d" % number))) == ("NONE", number)
                    ),
                )
        # So that it knows when it is back what it has told consumers.
        eventually("it wrote that down", lambda: high_watermarks(leader.data, topic).get(0) == 20)
        leader.kill()
        for other in others:
            other.start(wait=False)
        for other in others:
            other.ready()
        # Without permission nobody leads.
        eventually("there is no leader", lambda: cluster.observer.state(topic).leader == -1)
        before = cluster.observer.state(topic)
        assert before.isr == {leader.id}
        with asking.client(cluster, others[0]) as client:
            client.alter_topic(topic, {"unclean.leader.election.enable": "true"})
            after = cluster.led_by_another(topic, 0, than=leader.id)
            assert after.leader_epoch > before.leader_epoch
            assert after.isr <= {other.id for other in others}
            # This once: in the next round the partition waits for who is in sync.
            client.alter_topic(topic, {"unclean.leader.election.enable": "false"})
        with asking.client(cluster, cluster.broker(after.leader)) as client:

            def told() -> str:
                """The error that a consumer gets that had read to the end of what is lost."""
                ((row,),) = [one.partition_responses for one in client.fetch(topic, 20).responses]
                return asking.name_of(row.error_code)

            # A follower would answer the Fetch, too.
            eventually(
                "the new leader knows that it leads",
                lambda: asking.produced(client.produce(topic, batch(b"new"))) == ("NONE", 10),
            )
            assert told() == "OFFSET_OUT_OF_RANGE"
        if leader.kind == "ottla":
            controller, _ = cluster.observer.controller()
            assert unclean_elections(cluster.broker(controller)) == 1
        leader.start()
        cluster.all_in_sync(topic, *load.topics)
        with asking.client(cluster, cluster.leader(topic)) as client:
            stored = values(client.fetch(topic))
        print(f"figures: {20 - 10} records were lost on purpose, {len(stored)} are there")
        assert stored == [*(b"kept-%d" % number for number in range(10)), b"new"]
        load.writes()
        load.finish()
    load.judge(at_least=200)
    logs_equal(cluster.directories, *load.topics, topic)
    if leader.kind == "ottla":
        assert f"{topic}-0 is cut off at 10" in leader.server.output()


def unclean_elections(controller: Member) -> int:
    """As the controller counts them in its metrics."""
    found = re.findall(r"metrics, healthz and readyz are at (\S+)", controller.server.output())
    with controller.node.inside(), urllib.request.urlopen(f"{found[-1]}/metrics", timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
    (count,) = re.findall(r"^kafka_controller_controllerstats_uncleanleaderelections_total (\S+)$", text, re.MULTILINE)
    return int(float(count))
