"""Money goes from account to account in transactions, while brokers come and go: no reader of what is committed sees
some of it vanish, or more than there was.
"""

from collections.abc import Sequence

import pytest

from tests.cluster import asking
from tests.cluster.bank import TELLERS, Teller, transfers
from tests.cluster.stand import Cluster, Member
from tests.peers.skips import module

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]


def test_money_while_a_broker_is_killed(cluster: Cluster) -> None:
    transferred(cluster, 1)


@pytest.mark.soak
def test_money_while_all_brokers_go_and_come(cluster: Cluster) -> None:
    transferred(cluster, 9, stops=True)


def transferred(cluster: Cluster, times: int, *, stops: bool = False) -> None:
    """Each time the coordinator of another teller goes."""
    numbers = iter(range(times))

    def coordinator(tellers: Sequence[Teller]) -> Member:
        return asking.coordinator(cluster, tellers[next(numbers) % TELLERS].name, asking.TRANSACTIONAL_ID)

    transfers(cluster, [coordinator] * times, stops=stops)
