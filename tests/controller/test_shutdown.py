"""Controlled shutdown at the controller, over a real tree with brokers that only listen."""

from __future__ import annotations

import pytest

from ottla.controller import NewTopic, create_topic
from ottla.controller.decisions import IsrChange
from ottla.controller.isr import Altered
from ottla.coordination import znodes
from ottla.coordination.znodes import PartitionState
from ottla.errors import BrokerNotAvailable, NotController, StaleBrokerEpoch
from ottla.kafka import TopicPartition
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k05_stop_replica import STOP_REPLICA
from tests.controller.conftest import TestCluster
from tests.controller.three import Three
from tests.support.trees import state_of

pytestmark = pytest.mark.trio


async def topic(three: Three, name: str, *assignment: tuple[int, ...]) -> None:
    await create_topic(three.cluster.admin, NewTopic(name, assignment=dict(enumerate(assignment))))
    for broker in three.brokers:
        await broker.until(lambda broker=broker: len(broker.metadata(name)) == len(assignment))


async def test_leaders_move_and_followers_leave_the_isr(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    await topic(three, "u", (2, 3), (3, 2), (1, 3))
    before = len(three.two.received)
    assert await three.controller.shut_down(2, three.epoch(2)) == []
    assert await state_of(cluster.admin, "t") == PartitionState(3, 1, (3, 1), 1)
    assert await state_of(cluster.admin, "u", 0) == PartitionState(3, 1, (3,), 1)
    assert await state_of(cluster.admin, "u", 1) == PartitionState(3, 1, (3,), 1)
    assert await state_of(cluster.admin, "u", 2) == PartitionState(1, 0, (1, 3), 1)

    await three.three.until(lambda: three.three.roles("u")[1].leader_epoch == 1)
    assert [three.three.roles("u")[number].isr for number in (0, 1, 2)] == [[3], [3], [1, 3]]
    assert three.three.roles("t")[0].leader == 3
    await three.one.until(lambda: three.one.roles("t")[0].leader == 3)
    assert three.one.metadata("u")[1].offline_replicas == [2]

    await three.two.until(lambda: {*three.two.stopped("t"), *three.two.stopped("u")} == {0, 1})
    told = [recorded for recorded in three.two.received[before:] if recorded.api in (LEADER_AND_ISR, STOP_REPLICA)]
    roles, stops = told
    assert (roles.api, stops.api) == (LEADER_AND_ISR, STOP_REPLICA), "first it follows, then it stops"
    # Where it led it must hear of the new leader; where it followed only that it stops.
    assert {
        (each.topic_name, state.partition_index, state.leader)
        for each in roles.message.topic_states
        for state in each.partition_states
    } == {("t", 0, 3), ("u", 0, 3)}
    assert {
        (each.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
        for each in stops.message.topic_states
        for state in each.partition_states
    } == {("t", 0, -1, False), ("u", 0, -1, False), ("u", 1, -1, False)}


async def test_what_nobody_else_can_lead_remains(cluster: TestCluster) -> None:
    """Partitions with one replica are not counted: there is nothing to wait for."""
    three = await Three.start(cluster)
    await topic(three, "u", (2, 3), (2, 3))
    await topic(three, "single", (2,))
    name = TopicPartition("u", 1)
    assert isinstance(await three.ask(2, name=name), Altered)
    assert await three.controller.shut_down(2, three.epoch(2)) == [name]
    assert await state_of(cluster.admin, "single") == PartitionState(2, 0, (2,), 1)
    assert await state_of(cluster.admin, "u", 1) == PartitionState(2, 0, (2,), 1)
    assert (await state_of(cluster.admin, "u", 0)).leader == 3
    await three.two.until(lambda: 0 in three.two.stopped("u"))
    assert 1 not in three.two.stopped("u")
    assert three.two.stopped("single") == {}
    # Asked again, with the follower in sync by then.
    assert isinstance(await three.ask(2, 3, name=name, version=1), Altered)
    assert await three.controller.shut_down(2, three.epoch(2)) == []
    assert (await state_of(cluster.admin, "u", 1)) == PartitionState(3, 1, (3,), 1)


async def test_a_broker_that_shuts_down_is_given_nothing(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    await three.controller.shut_down(2, three.epoch(2))
    # No leader, when another one dies,
    await topic(three, "u", (2, 3, 1))
    assert await state_of(cluster.admin, "u") == PartitionState(3, 0, (3, 1), 1)
    await cluster.kill(three.three)
    await three.one.until(lambda: three.one.metadata("u")[0].leader == 1)
    assert (await state_of(cluster.admin, "t")) == PartitionState(1, 2, (1,), 1)
    assert three.two.roles("u") == {}
    # nor by the wish of an administrator,
    name = TopicPartition("t", 0)
    (refused,) = (await three.controller.elect_leaders([name], unclean=False)).values()
    assert isinstance(refused, Exception)
    # and in no ISR.
    version = await three.version()
    change = IsrChange(2, (1, 2), version)
    (result,) = (await three.controller.alter_isr(1, three.epoch(1), {name: change})).values()
    assert result == Altered(PartitionState(1, 2, (1,), 1), version)
    assert (await state_of(cluster.admin, "t")) == PartitionState(1, 2, (1,), 1)


async def test_the_leader_that_remains_leads_on_whatever_happens(cluster: TestCluster) -> None:
    """Not even an unclean election replaces it while it lives: what only it has would be lost for nothing."""
    three = await Three.start(cluster)
    assert isinstance(await three.ask(2), Altered)
    assert await three.controller.shut_down(2, three.epoch(2)) == [TopicPartition("t", 0)]
    three.controller.allow_unclean_elections(True)
    await cluster.kill(three.three)
    await three.one.until(lambda: three.one.live_brokers() == [1, 2])
    assert await state_of(cluster.admin, "t") == PartitionState(2, 0, (2,), 1)
    await cluster.kill(three.two)
    await three.one.until(lambda: three.one.roles("t")[0].leader == 1)
    assert await state_of(cluster.admin, "t") == PartitionState(1, 1, (1,), 1)


async def test_a_broker_that_comes_back_is_one_as_any(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    await three.controller.shut_down(2, three.epoch(2))
    await three.two.until(lambda: 0 in three.two.stopped("t"))
    await cluster.restart(three.two)
    await three.two.until(lambda: three.two.roles("t")[0].leader == 3 and three.two.live_brokers() == [1, 2, 3])
    await three.one.until(lambda: three.one.metadata("t")[0].offline_replicas == [])
    name = TopicPartition("t", 0)
    change = IsrChange(1, (3, 1, 2), await three.version())
    (result,) = (await three.controller.alter_isr(3, three.epoch(3), {name: change})).values()
    assert isinstance(result, Altered)


async def test_who_may_shut_down(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    other = cluster.controller(three.three)
    with pytest.raises(NotController):
        await other.shut_down(2, three.epoch(2))
    with pytest.raises(StaleBrokerEpoch):
        await three.controller.shut_down(2, three.epoch(2) - 1)
    with pytest.raises(BrokerNotAvailable):
        await three.controller.shut_down(9, -1)
    assert await state_of(cluster.admin, "t") == PartitionState(2, 0, (2, 3, 1), 1)
    assert await three.controller.shut_down(2, -1) == [], "from versions that do not say their epoch"
    assert three.controller.is_active
    assert await cluster.admin.exists(znodes.CONTROLLER) is not None
