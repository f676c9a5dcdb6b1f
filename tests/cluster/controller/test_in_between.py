"""Something between the controller's broker and the others refuses connections for a while, or its advertised address
changes and the old one goes away: the broker lives, and no partition is without a leader afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import admin

from tests.cluster import asking
from tests.cluster.gate import Gate
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support.settings import alter
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
#: No session ends while a test runs: a broker leaves because others say that it is gone.
CLUSTER = {"settings": {"zookeeper.session.timeout.ms": int(2 * PATIENCE_S * 1000)}}
FIRST_PORT, SECOND_PORT = 9192, 9292
PARTITIONS = 30


def others(cluster: Cluster, than: Member) -> list[Member]:
    return [member for member in cluster.brokers if member is not than]


def advertise(cluster: Cluster, member: Member, gate: Gate | None) -> None:
    """Has the broker tell the gate's address while it runs, or again the one that it began with."""
    with asking.client(cluster, member) as connection:
        value = None if gate is None else f"PLAINTEXT://{gate.address}"
        assert alter(connection, "advertised.listeners", value, broker=str(member.id)) == (0, None)


@contextmanager
def behind_a_gate(cluster: Cluster, member: Member) -> Iterator[Gate]:
    """Starts the broker anew with the gate's address as the one that it tells others, and makes it the controller."""
    with Gate(member, FIRST_PORT) as gate:
        member.stop()
        member.settings["advertised.listeners"] = f"PLAINTEXT://{gate.address}"
        member.start()
        try:
            asking.make_controller(cluster, member)
            gate.is_watched_by(*others(cluster, member))
            yield gate
        finally:
            # A gate that is open is no proof of its death: in order, it takes its registration with it.
            member.stop()
            del member.settings["advertised.listeners"]
            member.start()


@pytest.mark.judge
def test_a_gate_before_the_controllers_broker_is_shut_for_a_while(cluster: Cluster) -> None:
    member = cluster.broker(1)
    with behind_a_gate(cluster, member) as gate, Round(cluster, settings.seed(), copies=False) as load:
        topic = f"{load.prefix}many"
        load.admin.create_topics([admin.NewTopic(topic, PARTITIONS, 3)])[topic].result(PATIENCE_S)
        for _ in range(3):
            asking.make_controller(cluster, member)
            cluster.all_led(topic, *load.topics)
            before = cluster.observer.registration(member.id)
            gate.shut()
            cluster.another_controls(member.id)
            gate.open()
            eventually(
                "the broker has registered anew",
                lambda before=before: cluster.observer.registration(member.id)[1] > before[1],  # type: ignore[misc]
                facts=cluster.observer.registered,
            )
            # The same session: its broker had never gone.
            assert cluster.observer.registration(member.id)[0] == before[0]
            gate.is_watched_by(*others(cluster, member))
            cluster.all_led(topic, *load.topics)
            load.writes()
        load.finish()
    load.judge(at_least=300)


@pytest.mark.judge
def test_an_advertised_address_that_changes_is_watched_anew(cluster: Cluster) -> None:
    member = cluster.broker(1)
    with (
        behind_a_gate(cluster, member) as gate,
        ExitStack() as stack,
        Round(cluster, settings.seed(), copies=False) as load,
    ):
        second = stack.enter_context(Gate(member, SECOND_PORT))
        before, controller = cluster.observer.registration(member.id), cluster.observer.controller()
        advertise(cluster, member, second)
        second.is_watched_by(*others(cluster, member))
        # Its clients are told of the new one; what is left at the old one is closed and refused.
        gate.shut()
        load.writes()
        assert cluster.observer.registration(member.id) == before
        assert cluster.observer.controller() == controller
        cluster.all_led(*load.topics)
        # What is told of the new address is believed.
        second.shut()
        cluster.another_controls(member.id)
        second.open()
        cluster.all_led(*load.topics)
        load.writes()
        gate.open()
        advertise(cluster, member, None)
        gate.is_watched_by(*others(cluster, member))
        load.finish()
    load.judge(at_least=300)
