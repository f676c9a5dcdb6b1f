"""The old clients run on today's Java and reach servers of today."""

import pytest

from tests.peers.old_clients import VERSIONS, OldConsumer, run
from tests.peers.ottla import Brokers
from tests.support.waiting import eventually


@pytest.mark.java
@pytest.mark.zookeeper
def test_old_clients_produce_and_consume(brokers: Brokers, zookeeper: str) -> None:
    broker = brokers(broker_id=1, zookeeper=zookeeper, settings={"num.partitions": 2})
    new, old = reversed(VERSIONS)
    lines = "".join(f"k{number} v{number}\n" for number in range(10))
    assert run(new, "produce", broker.bootstrap, "t", stdin=lines) == ["sent 10"]
    with OldConsumer(old, zookeeper, "g", "t", 2, auto_offset_reset="smallest") as consumer:
        eventually("all arrive", lambda: len(consumer.consumed) == 10)
    assert sorted(each.value for each in consumer.consumed) == [f"v{number}" for number in range(10)]
