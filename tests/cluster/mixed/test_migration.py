"""Three brokers of Apache Kafka become Ottla's one by one, and Kafka's again, on the same directories and tree, while
an idempotent producer writes, a copier copies in transactions and a group of static members reads.
"""

import time
from collections.abc import Iterator, Sequence

import pytest

from tests.cluster import asking
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import OTTLA, Cluster
from tests.cluster.static_member import StaticMember, read_twice
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
INTERNAL = ("__consumer_offsets", "__transaction_state")
#: On a machine with nothing beside the test. One that is busy has three times as much.
GAP_S = 1.0
#: `replica.fetch.backoff.ms`. A follower of Kafka's that asks a new leader before that has heard of its role is told
#: UNKNOWN_LEADER_EPOCH, and asks again after so long. The leader waits for it, since it is in sync.
FOLLOWER_S = 1.0
#: librdkafka's `reconnect.backoff.max.ms`. A client may not try a broker that was away before that, so the next one is
#: stopped later, as an operator's how-to says.
RECONNECT_S = 10.0


@pytest.fixture(scope="module", params=["kafka", pytest.param("kafka-3.9.2", marks=pytest.mark.soak)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("migration"), (request.param,) * 3) as made:
        yield made


@pytest.mark.judge
def test_one_broker_is_replaced_and_comes_back(cluster: Cluster) -> None:
    """How long clients wait is for the long form to say: it has the machine for itself."""
    migrated(cluster, [(1, OTTLA), (1, cluster.broker(1).kind)])


@pytest.mark.soak
def test_all_brokers_are_replaced_and_come_back(cluster: Cluster) -> None:
    kafka = cluster.broker(1).kind
    for followers, gap in migrated(cluster, [(number, kind) for kind in (OTTLA, kafka) for number in (1, 2, 3)]):
        assert gap <= GAP_S + (FOLLOWER_S if kafka in followers else 0.0)


def migrated(cluster: Cluster, steps: Sequence[tuple[int, str]]) -> list[tuple[set[str], float]]:
    """Each step is a broker and what it becomes. Returns the kinds of the others, and the longest time without an
    acknowledgement, of each step in which one of ours stopped. (Kafka 2.7 may take a broker of Kafka's that stops into
    the ISR again, and waits for it then.)
    """
    gaps: list[tuple[set[str], float]] = []
    # Whatever else moves: the first one that is stopped leads something.
    with Round(cluster, settings.seed(), copies=True, led_by=steps[0][0]) as load:
        group = load.prefix + "static"
        pulsed = load.another_topic("pulsed")
        with cluster.clients.inside():
            members = [StaticMember(f"static-{number}", load, group) for number in range(PARTITIONS)]
            for member in members:
                member.start()
        with (
            asking.Pulse(cluster, pulsed, PARTITIONS) as pulse,
            cluster.observer.follow(*load.topics, pulsed, *INTERNAL) as chronicle,
        ):
            eventually("the pulse beats", lambda: all(len(beats) > 50 for beats in pulse.acknowledged))
            for number, kind in steps:
                began = time.monotonic()
                old = cluster.broker(number)
                old.stop()
                load.writes()
                cluster.replace(old, kind).start()
                cluster.all_in_sync(*load.topics, pulsed, *INTERNAL)
                load.flows()
                back = time.monotonic()
                beats = [len(acknowledged) for acknowledged in pulse.acknowledged]
                eventually(
                    "the pulse beats, and clients may try the broker again",
                    lambda: (
                        time.monotonic() > back + RECONNECT_S  # noqa: B023
                        and all(len(now) > before for now, before in zip(pulse.acknowledged, beats, strict=True))  # noqa: B023
                    ),
                )
                gap, since = pulse.longest_gap(began, time.monotonic())
                if old.kind == OTTLA:
                    gaps.append(({member.kind for member in cluster.brokers if member.id != number}, gap))
                print(f"broker {number}: {old.kind} to {kind}, longest gap {gap:.2f} s from {since - began:.2f} s on")
        load.finish()
        written = {index: end for index, end in load.ends(load.plain).items() if end}
        eventually(
            "the static members have read everything",
            lambda: sum(len(member.places) for member in members) >= sum(written.values()),
            facts=lambda: (written, [len(member.places) for member in members]),
        )
        for member in members:
            member.end()
    assert read_twice(members) == []
    assert pulse.refused == []
    assert chronicle.moved() >= len(steps)
    assert chronicle.unclean() == []
    chronicle.check()
    load.judge(at_least=100 * len(steps))
    logs_equal(cluster.directories, *load.topics, pulsed)
    assert load.misplaced() == []
    return gaps
