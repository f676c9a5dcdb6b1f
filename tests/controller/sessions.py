"""Sessions of brokers, and a controller that watches them."""

from __future__ import annotations

from typing import Any

from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.support.waiting import comes_true

#: Longer than any test: who waits for a session waits in vain.
SESSION_S = 600.0


async def started(cluster: TestCluster, count: int, kafkas: int = 0, **options: Any) -> list[FakeBroker]:
    """Brokers of Ottla's, of which the first is the controller, and after them Kafka's."""
    options = {"session_s": SESSION_S, **options}
    brokers = [await cluster.broker(number + 1, ottla="1") for number in range(count)]
    brokers += [await cluster.broker(count + number + 1) for number in range(kafkas)]
    cluster.controller(brokers[0], **options)
    for broker in brokers:
        await broker.until(lambda broker=broker: len(broker.live_brokers()) == len(brokers))
    return brokers


async def watched(cluster: TestCluster, by: int) -> None:
    """Returns when a broker has a connection to each other one of Ottla's, on which nothing is said."""
    others = [broker for broker in cluster.brokers.values() if broker.id != by and broker.ottla]
    await comes_true("all are watched", lambda: all(broker.quiet for broker in others))
