"""Brokers are killed under a transactional copy, and come back before their sessions would have ended. No call of
librdkafka's waits beyond its time limit: it does for a coordinator that metadata name no more (librdkafka 5456).
"""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster
from tests.faults.broker import settings
from tests.peers.skips import module

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]

#: Longer than any broker is away.
SESSION_MS = 10_000
REMOVED = {"zookeeper.session.timeout.ms": SESSION_MS}
WAITED_FOR = {**REMOVED, "broker.early.removal.enable": False}
both_ways = pytest.mark.parametrize(
    ("cluster", "goes_on"),
    [pytest.param(REMOVED, True, id="removed"), pytest.param(WAITED_FOR, False, id="waited for")],
    indirect=["cluster"],
)


@pytest.mark.judge
@both_ways
def test_a_copy_goes_on_through_kills(cluster: Cluster, goes_on: bool) -> None:
    killed(cluster, 3, goes_on)


@pytest.mark.soak
@both_ways
def test_a_copy_goes_on_through_many_kills(cluster: Cluster, goes_on: bool) -> None:
    killed(cluster, 20, goes_on)


def killed(cluster: Cluster, times: int, goes_on: bool) -> None:
    """One broker after the other: with each kill a third of all groups and transactions has another coordinator. If the
    copy `goes_on`, the broker is away until others coordinate. Else it is back before its session has ended: a broker
    whose session has ended is named no more, by Kafka neither.
    """
    with Round(cluster, settings.seed(), copies=True) as load:
        for _, victim in zip(range(times), cycle(cluster.brokers), strict=False):
            cluster.all_in_sync(*load.topics)
            load.flows()
            victim.kill()
            if goes_on:
                load.flows()
            victim.start()
            load.flows()
        load.finish()
    assert load.copier is not None
    assert load.copier.stuck == 0
    load.judge(at_least=1_000)
