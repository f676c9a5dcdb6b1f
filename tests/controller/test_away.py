"""Brokers that are gone before their sessions would have ended: clients are told of them for as long as a session
lasts. Librdkafka takes down what is named no more, and may wait for it for ever.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio

from ottla.controller import NewTopic, create_topic
from ottla.controller.model import Broker
from ottla.coordination import znodes
from ottla.coordination.znodes import Endpoint
from ottla.kafka import NO_EPOCH, TopicPartition
from ottla.wire.k06_update_metadata import UPDATE_METADATA
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.controller.sessions import SESSION_S, started, watched
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio
#: Longer than a test waits, and what a request can say.
SESSION_MS = int(SESSION_S * 1000)


def away(broker: FakeBroker) -> set[int]:
    """The brokers that are named to `broker` and do not live."""
    return {other for other, away_ms in broker.named_brokers().items() if away_ms}


async def removed(cluster: TestCluster, victim: FakeBroker, witness: FakeBroker) -> None:
    await watched(cluster, by=1)
    victim.die()
    await witness.until(lambda: victim.id not in witness.live_brokers())


async def test_one_that_was_removed_early_is_named_until_it_returns(cluster: TestCluster) -> None:
    one, two, three = await started(cluster, 3)
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (3, 2)}))
    await two.until(lambda: len(two.metadata("t")) == 1)
    await removed(cluster, three, two)
    await two.until(lambda: two.metadata("t")[0].leader == 2)
    assert two.live_brokers() == one.live_brokers() == [1, 2]
    assert away(two) == away(one) == {3}
    assert SESSION_MS - 120_000 < two.named_brokers()[3] <= SESSION_MS
    (row,) = [row for row in two.of(UPDATE_METADATA)[-1].live_brokers if row.id == 3]
    assert [(end.host, end.port, end.listener) for end in row.endpoints] == [("127.0.0.1", three.port, "PLAINTEXT")]
    assert two.metadata("t")[0].offline_replicas == [3]
    # Nothing new is placed there.
    await create_topic(cluster.admin, NewTopic("u", partitions=8, replication_factor=2))
    await two.until(lambda: len(two.metadata("u")) == 8)
    assert {replica for state in two.metadata("u").values() for replica in state.replicas} == {1, 2}
    await cluster.kill(three)
    await cluster.nursery.start(three.serve)
    await cluster.restart_dead(three)
    await two.until(lambda: two.live_brokers() == [1, 2, 3])
    assert away(two) == set()


async def test_it_is_named_no_more_when_its_session_would_have_ended(cluster: TestCluster) -> None:
    _, two, three = await started(cluster, 3, session_s=1.0)
    await removed(cluster, three, two)
    named = [{row.id: row.away_ms for row in message.live_brokers} for message in two.of(UPDATE_METADATA)]
    assert any(row.get(3) for row in named)
    await two.until(lambda: two.named_brokers().keys() == {1, 2})


async def test_one_whose_session_has_ended_is_not_named(cluster: TestCluster) -> None:
    _, two, three = await started(cluster, 3)
    await cluster.kill(three)
    await two.until(lambda: 3 not in two.live_brokers())
    assert two.named_brokers().keys() == {1, 2}


async def test_one_that_has_stopped_in_order_is_named(cluster: TestCluster) -> None:
    _, two, three = await started(cluster, 3)
    assert three.registration is not None
    assert await cluster.controllers[1].shut_down(3, three.registration.epoch) == []
    assert 3 in two.live_brokers()
    await cluster.kill(three)
    await two.until(lambda: 3 not in two.live_brokers())
    assert away(two) == {3}


async def test_without_early_removal_all_is_as_with_kafka(cluster: TestCluster) -> None:
    _, two, three = await started(cluster, 3, session_s=None)
    assert three.registration is not None
    await cluster.controllers[1].shut_down(3, three.registration.epoch)
    await cluster.kill(three)
    await two.until(lambda: two.named_brokers().keys() == {1, 2})


async def test_another_life_is_no_broker_that_is_away(cluster: TestCluster) -> None:
    """A firewall has lied: it registers before the controller has looked who is left."""
    _, two = await started(cluster, 2)
    registration = two.registration
    assert registration is not None

    async def resign() -> None: ...

    cluster.nursery.start_soon(registration.watch, resign)
    before = registration.epoch
    await cluster.admin.delete(znodes.broker_path(2))
    await comes_true("another registration", lambda: registration.epoch > before)
    await two.until(lambda: two.of(UPDATE_METADATA)[-1].broker_epoch == registration.epoch)
    assert two.live_brokers() == [1, 2]
    assert away(two) == set()


def registered(number: int) -> Broker:
    return Broker(number, NO_EPOCH, (Endpoint("PLAINTEXT", "h", number),))


@pytest.mark.parametrize("left_s", [-1.0, 5.0, 10 * SESSION_S, None])
async def test_the_next_controller_takes_over_whom_its_own_metadata_name(
    cluster: TestCluster, left_s: float | None
) -> None:
    """With the time that is left, and a whole session for those that its metadata take for alive."""
    one = await cluster.broker(1, ottla="1")
    until_s = None if left_s is None else trio.current_time() + left_s
    named: list[tuple[Broker, Any]] = [(registered(1), None), (registered(3), until_s)]
    cluster.controller(one, session_s=SESSION_S, named=lambda: named)
    await one.until(lambda: one.live_brokers() == [1])
    if left_s == -1.0:
        assert away(one) == set()
    else:
        assert away(one) == {3}
        most_ms = 5_000 if left_s == 5.0 else SESSION_MS
        assert most_ms - 120_000 < one.named_brokers()[3] <= most_ms


async def test_what_the_first_controller_removed_the_second_names(cluster: TestCluster) -> None:
    """The controller dies with a broker: the next one removes both registrations, and names both."""
    one, two = await started(cluster, 2)
    three = await cluster.broker(3, ottla="1")
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1, 2, 3)}))
    await two.until(lambda: len(two.metadata("t")) == 1)
    known = [registered(number) for number in (1, 2, 3)]
    second = cluster.controller(two, session_s=SESSION_S, named=lambda: [(broker, None) for broker in known])
    await comes_true("the controller is known", lambda: second.active_id == 1)
    await watched(cluster, by=2)
    one.die()
    three.die()
    await two.until(lambda: two.live_brokers() == [2])
    await comes_true("both are named", lambda: away(two) == {1, 3})
    cluster_of = second.cluster
    assert cluster_of is not None
    assert cluster_of.online(TopicPartition("t", 0), (1, 2, 3)) == [2]
