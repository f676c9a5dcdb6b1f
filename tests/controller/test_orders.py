"""Elections and moves that administrators order, over a real tree with brokers that only listen."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from ottla.controller import Controller, NewTopic, create_topic
from ottla.coordination import znodes
from ottla.coordination.tree import Create
from ottla.coordination.znodes import TopicAssignment
from ottla.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidReplicaAssignment,
    KafkaError,
    NoReassignmentInProgress,
    NotController,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from ottla.kafka import TopicPartition
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.support.trees import state_of
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio

T = TopicPartition("t", 0)


async def two(cluster: TestCluster) -> tuple[FakeBroker, FakeBroker, Controller]:
    """Brokers 0 and 1, and a topic whose leader is 1 and was 0."""
    one, other = await cluster.broker(0), await cluster.broker(1)
    controller = cluster.controller(one)
    await one.until(lambda: one.live_brokers() == [0, 1])
    await create_topic(cluster.admin, NewTopic("t", 1, 2, {0: (1, 0)}))
    await one.until(lambda: 0 in one.roles("t"))
    return one, other, controller


async def is_led_by(cluster: TestCluster, broker: FakeBroker, leader: int) -> None:
    await broker.until(lambda: broker.metadata("t")[0].leader == leader)
    assert (await state_of(cluster.admin, "t")).leader == leader


def kinds(results: dict[TopicPartition, Any]) -> dict[TopicPartition, Any]:
    return {name: type(one) if isinstance(one, KafkaError) else one for name, one in results.items()}


async def test_partitions_that_are_refused_for_the_same_reason_share_it(cluster: TestCluster) -> None:
    _, _, controller = await two(cluster)
    names = [TopicPartition("nothing", index) for index in range(100)]
    for refused in (
        await controller.elect_leaders(names, unclean=False),
        await controller.reassign(dict.fromkeys(names, (1,))),
        await controller.reassign(dict.fromkeys(names)),
    ):
        assert len(refused) == len(names)
        assert len({id(error) for error in refused.values()}) == 1


async def test_the_preferred_replica_is_elected_when_it_can_lead(cluster: TestCluster) -> None:
    one, other, controller = await two(cluster)
    nothing = TopicPartition("nothing", 0)
    assert kinds(await controller.elect_leaders([T, nothing], unclean=False)) == {
        T: ElectionNotNeeded,
        nothing: UnknownTopicOrPartition,
    }
    await cluster.kill(other)
    await is_led_by(cluster, one, 0)
    assert kinds(await controller.elect_leaders([T], unclean=False)) == {T: PreferredLeaderNotAvailable}
    await cluster.restart_dead(other)
    # It is back, and not in sync.
    await one.until(lambda: one.live_brokers() == [0, 1])
    assert kinds(await controller.elect_leaders([T], unclean=False)) == {T: PreferredLeaderNotAvailable}


async def assignment(cluster: TestCluster) -> TopicAssignment:
    path = znodes.topic_path("t")
    return TopicAssignment.decode(path, (await cluster.admin.get(path)).data)


async def test_another_order_of_replicas_and_then_an_election(cluster: TestCluster) -> None:
    one, _, controller = await two(cluster)
    assert await controller.reassign({T: (0, 1)}) == {T: None}
    assert (await assignment(cluster)).partitions == {0: (0, 1)}
    await one.until(lambda: list(one.metadata("t")[0].replicas) == [0, 1])
    assert await controller.elect_leaders([T], unclean=False) == {T: 0}
    await is_led_by(cluster, one, 0)
    assert await controller.reassignments() == {}


async def test_a_replica_that_leaves_is_deleted_and_gives_up_leading(cluster: TestCluster) -> None:
    one, other, controller = await two(cluster)
    assert await controller.reassign({T: (0,)}) == {T: None}
    state = await state_of(cluster.admin, "t")
    assert (state.leader, state.isr) == (0, (0,))
    await other.until(lambda: 0 in other.stopped("t"))
    assert other.stopped("t")[0].delete_partition
    with trio.fail_after(PATIENCE_S):
        while await assignment(cluster) != TopicAssignment({0: (0,)}):
            await trio.lowlevel.checkpoint()
    await one.until(lambda: one.roles("t")[0].replicas == [0])
    assert not one.stopped("t")


async def test_a_move_waits_for_its_replicas_to_be_in_sync_and_can_be_taken_back(cluster: TestCluster) -> None:
    _, other, controller = await two(cluster)
    await cluster.kill(other)  # and out of the ISR
    results = await controller.reassign({T: (1,)})
    with trio.fail_after(PATIENCE_S):
        while (await state_of(cluster.admin, "t")).isr != (0,):
            results = await controller.reassign({T: (1,)})
    assert results == {T: None}
    assert (await assignment(cluster)).removing == {0: (0,)}
    assert (await controller.reassignments())[T].target == (1,)
    assert await controller.reassign({T: None}) == {T: None}
    assert await assignment(cluster) == TopicAssignment({0: (1, 0)})
    assert kinds(await controller.reassign({T: None})) == {T: NoReassignmentInProgress}


@pytest.mark.parametrize("target", [(), (0, 0), (-1,), (0, 7)])
async def test_replicas_that_cannot_be(cluster: TestCluster, target: tuple[int, ...]) -> None:
    _, _, controller = await two(cluster)
    assert kinds(await controller.reassign({T: target})) == {T: InvalidReplicaAssignment}
    nothing = TopicPartition("t", 5)
    assert kinds(await controller.reassign({nothing: (0,)})) == {nothing: UnknownTopicOrPartition}
    assert await assignment(cluster) == TopicAssignment({0: (1, 0)})


async def test_any_replica_leads_where_there_is_no_leader(cluster: TestCluster) -> None:
    one, other, controller = await two(cluster)
    assert kinds(await controller.elect_leaders([T], unclean=True)) == {T: ElectionNotNeeded}
    await create_topic(cluster.admin, NewTopic("u", 1, 1, {0: (1,)}))
    await one.until(lambda: 0 in one.metadata("u"))
    await cluster.kill(other)
    await one.until(lambda: one.metadata("u")[0].leader == -1)
    name = TopicPartition("u", 0)
    assert kinds(await controller.elect_leaders([name], unclean=True)) == {name: EligibleLeadersNotAvailable}


async def test_orders_in_the_tree_are_carried_out_and_removed(cluster: TestCluster) -> None:
    one, _, _ = await two(cluster)
    row: dict[str, Any] = {"topic": "t", "partition": 0}
    for path, rows, led_by in [
        (znodes.REASSIGN_PARTITIONS, [{**row, "replicas": [0, 1]}], 1),
        (znodes.PREFERRED_REPLICA_ELECTION, [row], 0),
    ]:
        await cluster.admin.multi([Create(path, json.dumps({"version": 1, "partitions": rows}).encode())])
        with trio.fail_after(PATIENCE_S):
            while await cluster.admin.exists(path) is not None:
                pass
        await is_led_by(cluster, one, led_by)
    assert (await assignment(cluster)).partitions == {0: (0, 1)}
    # What cannot be read must not stay for ever, nor stop the controller.
    await cluster.admin.multi([Create(znodes.REASSIGN_PARTITIONS, b"?")])
    with trio.fail_after(PATIENCE_S):
        while await cluster.admin.exists(znodes.REASSIGN_PARTITIONS) is not None:
            pass


async def test_only_the_active_controller_takes_orders(cluster: TestCluster) -> None:
    _, other, _ = await two(cluster)
    standby = cluster.controller(other)
    with pytest.raises(NotController):
        await standby.reassign({T: (0,)})
    with pytest.raises(NotController):
        await standby.reassignments()
