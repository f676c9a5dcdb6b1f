"""Machines lose their power, and come back with what their disks had. Who may have lost records does not lead while
another in sync could, and somebody leads in the end.
"""

import os
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.asking import make_controller
from tests.cluster.kinds import OTTLA
from tests.cluster.replicas import logs_equal
from tests.cluster.stand import VERSIONS, Cluster, Member
from tests.peers.skips import module
from tests.support.client import batch, values
from tests.support.waiting import PATIENCE_S, eventually, still

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
WAIT_MS = 4000
SETTINGS = {"unclean.start.wait.ms": WAIT_MS, "log.flush.interval.messages": 10**9}
RECORDS = 30
MIXED = [pytest.param(("ottla", "ottla", kind), id=kind, marks=pytest.mark.soak) for kind in VERSIONS]
UNCLEAN = 1


@pytest.fixture(params=[pytest.param(OTTLA, id="ottla")])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("power")
    # A JVM takes longer to start than the others are to wait.
    wait = {} if request.param == OTTLA else {"unclean.start.wait.ms": 60_000}
    with Cluster(folder, request.param, settings={**SETTINGS, **wait}, forgetful=True) as made:
        yield made


def topic_of(cluster: Cluster, name: str, replicas: Sequence[int], **config: str) -> str:
    """One partition on these brokers, of which the first leads."""
    with cluster.clients.inside():
        client = admin.AdminClient({"bootstrap.servers": cluster.bootstrap})
        row = admin.NewTopic(name, 1, replica_assignment=[list(replicas)], config=config)
        client.create_topics([row])[name].result(PATIENCE_S)
    led_by(cluster, name, cluster.broker(replicas[0]))
    return name


def write(cluster: Cluster, topic: str, first: int, count: int) -> list[bytes]:
    """Acknowledged by all that are in sync; no disk has them."""
    sent = [b"%d" % number for number in range(first, first + count)]
    with asking.client(cluster, cluster.leader(topic)) as client:
        for value in sent:
            eventually(f"{value!r} is taken", lambda: asking.produced(client.produce(topic, batch(value)))[0] == "NONE")  # noqa: B023
    return sent


def stored(cluster: Cluster, topic: str) -> list[bytes]:
    with asking.client(cluster, cluster.leader(topic)) as client:
        return values(client.fetch(topic))


def keep(member: Member, topic: str) -> None:
    """The disk of this broker gets all that it has of the topic by now."""
    for path in (*(member.data / f"{topic}-0").iterdir(), member.data / f"{topic}-0", member.data):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def led_by(cluster: Cluster, topic: str, *members: Member, timeout_s: float = PATIENCE_S) -> Member:
    """Waits until one of these leads and says so."""

    def leads() -> bool:
        leader = cluster.observer.state(topic).leader
        return leader in [member.id for member in members] and cluster.observer.high_watermark(topic) is not None

    eventually(f"one of {members} leads", leads, timeout_s, facts=lambda: cluster.observer.states(topic))
    return cluster.leader(topic)


def nobody_leads(cluster: Cluster, topic: str, for_s: float = 2.0) -> None:
    def state() -> tuple[int, set[int]]:
        found = cluster.observer.state(topic)
        return found.leader, set(found.isr)

    assert still("the state", state, for_s)[0] == -1


def refused(member: Member, topic: str) -> bool:
    return f"{topic}-0 is refused" in member.server.output()


def all_die(cluster: Cluster) -> None:
    """At once, so that no controller takes anybody out of an ISR."""
    for member in cluster.brokers:
        member.server.process.kill()
    for member in cluster.brokers:
        member.kill()
        cluster.leaves(member)


@pytest.mark.judge
def test_another_in_sync_leads(cluster: Cluster) -> None:
    """Both are in sync and die; one of them with its machine, and that one is back first."""
    one, two, third = cluster.brokers
    topic = topic_of(cluster, "better", [one.id, two.id])
    sent = write(cluster, topic, 0, RECORDS)
    all_die(cluster)
    assert one.lose_power().bytes > 0
    third.start()
    one.start()
    eventually("it is refused", lambda: refused(one, topic))
    assert cluster.observer.state(topic).leader == -1
    assert cluster.observer.state(topic).isr == {one.id, two.id}
    two.start()
    assert led_by(cluster, topic, two) is two
    cluster.all_in_sync(topic)
    assert stored(cluster, topic) == sent
    logs_equal(cluster.directories, topic, replicas=2)
    # It is suspected no longer: the next one to die is the other, and it leads without a question.
    write(cluster, topic, RECORDS, 1)
    two.kill()
    led_by(cluster, topic, one)


def test_who_has_most_leads_where_all_lost_something(cluster: Cluster) -> None:
    one, two, third = cluster.brokers
    topic = topic_of(cluster, "most", [one.id, two.id])
    sent = write(cluster, topic, 0, RECORDS)
    eventually("both have all", lambda: cluster.log_ends(topic)[0][:2] == [RECORDS] * 2)
    keep(two, topic)
    all_die(cluster)
    assert one.lose_power().bytes > 0
    two.lose_power()
    third.start()
    one.start()
    eventually("one is refused", lambda: refused(one, topic))
    two.start()
    assert led_by(cluster, topic, one, two) is two
    cluster.all_in_sync(topic)
    assert stored(cluster, topic) == sent
    logs_equal(cluster.directories, topic, replicas=2)


@pytest.mark.judge
def test_somebody_leads_where_the_other_does_not_return(cluster: Cluster) -> None:
    """Records that are lost then are lost for both; they do not hold different ones."""
    one, two, third = cluster.brokers
    topic = topic_of(cluster, "alone", [one.id, two.id], **{"min.insync.replicas": "1"})
    sent = write(cluster, topic, 0, RECORDS)
    eventually("both have all", lambda: cluster.log_ends(topic)[0][:2] == [RECORDS] * 2)
    keep(two, topic)
    all_die(cluster)
    assert one.lose_power().bytes > 0
    two.lose_power()
    third.start()
    one.start()
    assert led_by(cluster, topic, one) is one
    assert f"{topic}-0: this broker leads after its machine lost its power" in one.server.output()
    left = stored(cluster, topic)
    assert left == sent[: len(left)]
    assert len(left) < len(sent)
    left += write(cluster, topic, RECORDS, 1)
    two.start()
    cluster.all_in_sync(topic)
    assert stored(cluster, topic) == left
    logs_equal(cluster.directories, topic, replicas=2)


def the_last_in_sync_loses_power(cluster: Cluster, topic: str) -> tuple[Member, Member, list[bytes], list[bytes]]:
    """Its follower dies before, and both are back afterwards. The two, what both had and what the last one has."""
    one, two, _ = cluster.brokers
    topic_of(cluster, topic, [one.id, two.id], **{"min.insync.replicas": "1"})
    both = write(cluster, topic, 0, RECORDS)
    two.kill()
    eventually("it is alone", lambda: cluster.observer.state(topic).isr == {one.id}, 60)
    sent = both + write(cluster, topic, RECORDS, RECORDS)
    one.lose_power()
    cluster.leaves(one)
    two.start()
    one.start()
    eventually("it is refused", lambda: refused(one, topic))
    assert "serving without" not in one.server.output()
    nobody_leads(cluster, topic, 1.5 * WAIT_MS / 1000)
    assert cluster.observer.state(topic).isr == {one.id}
    return one, two, both, sent


@pytest.mark.judge
def test_the_last_in_sync_waits_for_an_operator(cluster: Cluster) -> None:
    """Who elects the one that has the most: it synced before it acknowledged, since it was alone."""
    topic = "operated"
    one, _, _, sent = the_last_in_sync_loses_power(cluster, topic)
    assert f"{topic}-0 has no leader: this broker was the last in sync" in one.server.output()
    controller, _ = cluster.observer.controller()
    with asking.client(cluster, cluster.broker(controller)) as client:
        answer = client.call(
            asking.ELECT_LEADERS,
            asking.ElectLeadersRequest(
                election_type=UNCLEAN, topic_partitions=[asking.TopicPartitions(topic, [0])], timeout_ms=60_000
            ),
            2,
        )
    ((row,),) = [one_topic.partition_result for one_topic in answer.replica_election_results]
    assert asking.name_of(row.error_code) == "NONE", row.error_message
    assert led_by(cluster, topic, one) is one
    assert f"{topic}-0: an operator has it led by broker {one.id}" in cluster.broker(controller).server.output()
    cluster.all_in_sync(topic)
    assert stored(cluster, topic) == sent
    logs_equal(cluster.directories, topic, replicas=2)


@pytest.mark.judge
def test_the_last_in_sync_leads_where_unclean_elections_are_allowed(cluster: Cluster) -> None:
    topic = "allowed"
    one, two, _, sent = the_last_in_sync_loses_power(cluster, topic)
    with asking.client(cluster, two) as client:
        client.alter_topic(topic, {"unclean.leader.election.enable": "true"})
    assert led_by(cluster, topic, one, two) is one
    cluster.all_in_sync(topic)
    assert stored(cluster, topic) == sent
    logs_equal(cluster.directories, topic, replicas=2)


@pytest.mark.parametrize("cluster", MIXED, indirect=True)
def test_kafka_controls_and_the_last_in_sync_waits(cluster: Cluster) -> None:
    """Kafka's unclean election chooses among those that did not refuse."""
    one, two, third = cluster.brokers
    make_controller(cluster, third)
    topic = "refused"
    _, _, both, _ = the_last_in_sync_loses_power(cluster, topic)
    with asking.client(cluster, two) as client:
        client.alter_topic(topic, {"unclean.leader.election.enable": "true"})
    led_by(cluster, topic, one, two)
    cluster.all_in_sync(topic)
    assert stored(cluster, topic)[: len(both)] == both
    assert cluster.observer.controller()[0] == third.id
    logs_equal(cluster.directories, topic, replicas=2)


@pytest.mark.parametrize("cluster", MIXED, indirect=True)
def test_kafka_controls_and_who_has_most_leads(cluster: Cluster) -> None:
    """Kafka has elected the one that was back first before it was asked; that one knows who was in sync with it."""
    one, two, third = cluster.brokers
    topic = topic_of(cluster, "offered", [one.id, two.id], **{"min.insync.replicas": "1"})
    sent = write(cluster, topic, 0, RECORDS)
    eventually("both have all", lambda: cluster.log_ends(topic)[0][:2] == [RECORDS] * 2)
    keep(one, topic)
    all_die(cluster)
    one.lose_power()
    assert two.lose_power().bytes > 0
    # Both lost something, and one does not lead before it knows what two has.
    one.start()
    third.start()
    make_controller(cluster, third)

    def was_elected() -> bool:
        state = cluster.observer.state(topic)
        return (state.leader, state.isr) == (-1, {one.id})

    eventually("one was elected and has refused", was_elected, facts=lambda: cluster.observer.states(topic))
    two.start()
    assert led_by(cluster, topic, one) is one
    cluster.all_in_sync(topic)
    assert stored(cluster, topic) == sent
    assert cluster.observer.controller()[0] == third.id
    logs_equal(cluster.directories, topic, replicas=2)
