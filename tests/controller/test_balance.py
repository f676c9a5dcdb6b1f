"""Leaders that were elsewhere while a broker was away come back to it."""

from __future__ import annotations

import pytest

from ottla.config import BrokerConfig
from ottla.controller import Controller, NewTopic, create_topic, delete_topics
from ottla.controller.balance import Balance, give_back
from ottla.controller.decisions import IsrChange
from ottla.controller.events import AutoBalance
from ottla.controller.isr import Altered
from ottla.controller.term import Term
from ottla.kafka import TopicPartition
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.support.trees import state_of
from tests.support.waiting import comes_true

#: Looks all the time.
OFTEN_S = 0.01
#: Broker 2 is to lead the first two, broker 1 the last.
ASSIGNMENT = {0: (2, 1), 1: (2, 1), 2: (1, 2)}


class Looks:
    """How often a controller has looked."""

    def __init__(self, controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
        self.controller = controller
        self.count = 0

        async def counted(term: Term, tolerated_percentage: int) -> None:
            await give_back(term, tolerated_percentage)
            self.count += 1

        monkeypatch.setattr("ottla.controller.handling.give_back", counted)

    async def two_more(self) -> None:
        """Returns when what the tree held at the call was looked at: one look may have begun before."""
        wanted = self.count + 2
        await comes_true("two looks", lambda: self.count >= wanted)


async def led_by_one_alone(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, tolerated_percentage: int
) -> tuple[FakeBroker, FakeBroker, Looks]:
    """Broker 2 was away for a moment; only broker 1 is in sync."""
    one, two = await cluster.broker(1), await cluster.broker(2)
    looks = Looks(cluster.controller(one, balance=Balance(tolerated_percentage, OFTEN_S, OFTEN_S)), monkeypatch)
    await create_topic(cluster.admin, NewTopic("t", assignment=ASSIGNMENT))
    await two.until(lambda: len(two.metadata("t")) == 3)
    await cluster.kill(two)
    await one.until(lambda: one.live_brokers() == [1])
    two.received.clear()
    await cluster.restart_dead(two)
    await two.until(lambda: len(two.roles("t")) == 3)
    return one, two, looks


async def leaders(cluster: TestCluster) -> list[int]:
    return [(await state_of(cluster.admin, "t", number)).leader for number in ASSIGNMENT]


async def in_sync(looks: Looks, *numbers: int) -> None:
    """Broker 2 catches up with these partitions."""
    cluster = looks.controller.cluster
    assert cluster is not None
    for number in numbers:
        partition = cluster.get(TopicPartition("t", number))
        assert partition is not None
        assert partition.state is not None
        change = IsrChange(partition.state.leader_epoch, (1, 2), partition.version)
        (result,) = (
            await looks.controller.alter_isr(1, cluster.brokers[1].epoch, {TopicPartition("t", number): change})
        ).values()
        assert isinstance(result, Altered)


@pytest.mark.trio
async def test_leaders_go_back_when_they_can(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, looks = await led_by_one_alone(cluster, monkeypatch, 10)
    await looks.two_more()
    assert await leaders(cluster) == [1, 1, 1], "broker 2 is not in sync"
    await in_sync(looks, 1)
    await one.until(lambda: one.metadata("t")[1].leader == 2)
    await looks.two_more()
    assert await leaders(cluster) == [1, 2, 1]
    await in_sync(looks, 0, 2)
    await two.until(lambda: two.roles("t")[0].leader == 2)
    await looks.two_more()
    assert await leaders(cluster) == [2, 2, 1]
    epochs = [(await state_of(cluster.admin, "t", number)).leader_epoch for number in ASSIGNMENT]
    await looks.two_more()
    assert epochs == [(await state_of(cluster.admin, "t", number)).leader_epoch for number in ASSIGNMENT]


@pytest.mark.trio
@pytest.mark.parametrize(("tolerated_percentage", "wanted"), [(49, [2, 2, 1]), (50, [1, 2, 1])])
async def test_some_may_be_led_by_others(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, tolerated_percentage: int, wanted: list[int]
) -> None:
    """Half of those that broker 2 is to lead are led by broker 1."""
    _, _, looks = await led_by_one_alone(cluster, monkeypatch, 100)
    await in_sync(looks, 0, 1, 2)
    await looks.controller.elect_leaders([TopicPartition("t", 1)], unclean=False)
    await looks.two_more()
    assert await leaders(cluster) == [1, 2, 1]
    looks.controller._events.put(AutoBalance(tolerated_percentage))
    await looks.two_more()
    assert await leaders(cluster) == wanted


@pytest.mark.trio
async def test_nothing_is_given_back_while_replicas_move(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _, looks = await led_by_one_alone(cluster, monkeypatch, 10)
    await create_topic(cluster.admin, NewTopic("moving", assignment={0: (1,)}))
    await one.until(lambda: len(one.metadata("moving")) == 1)
    await looks.controller.reassign({TopicPartition("moving", 0): (2,)})
    assert await looks.controller.reassignments()
    await in_sync(looks, 0, 1, 2)
    await looks.two_more()
    assert await leaders(cluster) == [1, 1, 1]
    await looks.controller.reassign({TopicPartition("moving", 0): None})
    await looks.two_more()
    assert await leaders(cluster) == [2, 2, 1]


@pytest.mark.trio
async def test_a_topic_that_is_being_deleted_does_not_count(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, looks = await led_by_one_alone(cluster, monkeypatch, 60)
    await create_topic(cluster.admin, NewTopic("gone", assignment=dict.fromkeys(range(9), (2, 1))))
    await two.until(lambda: len(two.roles("gone")) == 9)
    await in_sync(looks, 0)
    await looks.two_more()
    assert await leaders(cluster) == [1, 1, 1], "two of eleven are elsewhere"
    one.errors = {("gone", number): 56 for number in range(9)}
    await delete_topics(cluster.admin, ["gone"])
    await one.until(lambda: one.metadata("t")[0].leader == 2)
    assert await leaders(cluster) == [2, 1, 1]


def test_the_settings_are_kafkas() -> None:
    assert Balance.of(BrokerConfig({})) == Balance(10, 300, 5)
    assert Balance.of(BrokerConfig({"auto.leader.rebalance.enable": "false"})) is None
    changed = {"leader.imbalance.per.broker.percentage": "0", "leader.imbalance.check.interval.seconds": "7"}
    assert Balance.of(BrokerConfig(changed)) == Balance(0, 7, 5)
