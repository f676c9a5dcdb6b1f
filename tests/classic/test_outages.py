"""Consumers while brokers or ZooKeeper are away."""

import time

import pytest

from tests.classic.conftest import SMALL, Place, group
from tests.classic.filling import fill
from tests.classic.members import Member
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


def test_a_broker_that_starts_anew(brokers: Brokers, zookeeper: str) -> None:
    place = Place(brokers(broker_id=1, zookeeper=zookeeper, settings=SMALL), zookeeper, "ottla")
    topic = place.topic(2)
    fill(place, topic, 2, 5)
    with Member(place, group(), topic, 2).join() as member:
        eventually("all arrive", lambda: len(member.consumed) == 10)
        place.broker.stop()
        place = Place(brokers.restart(place.broker, broker_id=1, zookeeper=zookeeper), zookeeper, "ottla")  # type: ignore[arg-type]
        fill(place, topic, 2, 5, start=5)
        eventually("the rest arrives", lambda: len(member.consumed) == 20)
    assert len({each.value for each in member.consumed}) == 20


@pytest.mark.soak
@pytest.mark.parametrize("away_s", [1, 20])
def test_zookeeper_is_away(kafka: Apache, brokers: Brokers, away_s: int) -> None:
    """What is owned is read on. When it is back, sessions go on or are begun anew, and members come and go again."""
    server, port = kafka.zookeeper_server()
    zookeeper = f"127.0.0.1:{port}"
    place = Place(brokers(broker_id=1, zookeeper=zookeeper, settings=SMALL), zookeeper, "ottla")
    topic, mine = place.topic(4), group()
    sent = fill(place, topic, 4, 5)
    with Member(place, mine, topic, auto_commit_interval_ms=50).join() as member:
        eventually("all arrive", lambda: len(member.consumed) == 20)
        server.kill()
        sent |= fill(place, topic, 4, 5, start=5)
        eventually("it reads on", lambda: len(member.consumed) == 40)
        started = time.monotonic()
        eventually("it is away for long", lambda: time.monotonic() - started > away_s, away_s + 30)
        kafka.zookeeper_server(port=port)
        with Member(place, mine, topic).join() as second:
            eventually("they share", lambda: len(member.partitions) == len(second.partitions) == 2)
            sent |= fill(place, topic, 4, 5, start=10)

            def seen() -> set[str]:
                return {each.value for each in (*member.consumed, *second.consumed)}

            eventually("the rest arrives", lambda: seen() == sent)
