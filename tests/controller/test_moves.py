"""Moves of partitions to other brokers, over a real tree with brokers that only listen."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from ottla.controller import NewTopic, create_topic, delete_topics
from ottla.coordination import znodes
from ottla.coordination.tree import Create, Set
from ottla.coordination.znodes import TopicAssignment
from ottla.kafka import TopicPartition
from tests.controller.conftest import TestCluster
from tests.controller.four import OTHER, Four, T, deleted, has_role, role
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


async def test_new_replicas_come_in_and_the_old_ones_go_when_all_are_in_sync(cluster: TestCluster) -> None:
    four = await Four.start(cluster)
    assert await four.controller.reassign({T: (2, 3)}) == {T: None}
    assert await four.assignment() == TopicAssignment({0: (2, 3, 0, 1), 1: (0, 1)}, {0: (2, 3)}, {0: (0, 1)})
    moving = (await four.controller.reassignments())[T]
    assert (moving.target, moving.adding, moving.removing) == ((2, 3), (2, 3), (0, 1))
    # The leader hears of its followers in a new epoch; to them it is a new replica.
    for broker in four.brokers:
        told = await has_role(broker, 1)
        assert (told.leader, told.isr, told.replicas) == (0, [0, 1], [2, 3, 0, 1])
        assert (told.adding_replicas, told.removing_replicas) == ([2, 3], [0, 1])
        assert told.is_new == (broker.id in (2, 3))
    await four.in_sync(0, 1, 2)
    await four.brokers[0].until(lambda: four.brokers[0].metadata("t")[0].isr == [0, 1, 2])
    assert (await four.controller.reassignments())[T] == moving, "3 is not in sync"
    await four.in_sync(0, 1, 2, 3)
    await four.until_assigned(2, 3)
    state = await four.state()
    assert (state.leader, state.leader_epoch, state.isr) == (2, 2, (2, 3))
    for broker in four.brokers[2:]:
        assert (await has_role(broker, 2)).replicas == [2, 3]
        assert not broker.stopped("t")
    for broker in four.brokers[:2]:
        assert (await deleted(broker)).leader_epoch == 2
        assert role(broker).leader_epoch == 1
    assert await four.controller.reassignments() == {}


async def test_a_move_that_is_taken_back_leaves_nothing_behind(cluster: TestCluster) -> None:
    four = await Four.start(cluster)
    await four.controller.reassign({T: (2, 3)})
    await four.in_sync(0, 1, 2)
    assert await four.controller.reassign({T: None}) == {T: None}
    state = await four.state()
    assert (state.leader, state.leader_epoch, state.isr) == (0, 2, (0, 1))
    await four.until_reads(TopicAssignment({0: (0, 1), 1: (0, 1)}))
    for broker in four.brokers[2:]:
        await deleted(broker)
    for broker in four.brokers[:2]:
        assert (await has_role(broker, 2)).replicas == [0, 1]
        assert not broker.stopped("t")


async def test_another_target_drops_what_only_the_first_one_wanted(cluster: TestCluster) -> None:
    four = await Four.start(cluster)
    await four.controller.reassign({T: (2,)})
    await four.in_sync(0, 1)
    assert await four.controller.reassign({T: (3, 1)}) == {T: None}
    await deleted(four.brokers[2])
    await four.until_reads(TopicAssignment({0: (3, 1, 0), 1: (0, 1)}, {0: (3,)}, {0: (0,)}))
    # Asking for the same again disturbs nobody.
    assert await four.controller.reassign({T: (3, 1)}) == {T: None}
    assert (await four.state()).leader_epoch == 2
    await four.in_sync(0, 1, 3)
    await four.until_assigned(3, 1)
    await deleted(four.brokers[0])


async def test_the_only_replica_in_sync_stays_until_others_are(cluster: TestCluster) -> None:
    """2 was wanted and is in sync, and the others that were are gone, when 3 alone is wanted."""
    four = await Four.start(cluster)
    await four.controller.reassign({T: (2, 3)})
    await four.in_sync(0, 1, 2)
    for gone in four.brokers[:2]:
        await cluster.kill(gone)
    await four.brokers[3].until(lambda: four.brokers[3].metadata("t")[0].isr == [2])
    assert await four.controller.reassign({T: (3,)}) == {T: None}
    assignment = await four.assignment()
    assert (assignment.partitions[0], assignment.adding[0], assignment.removing[0]) == ((3, 0, 1, 2), (3, 2), (0, 1, 2))
    assert (await four.state()).leader == 2
    assert not four.brokers[2].stopped("t")
    # Nor is it part of where the partition was, for who takes the move back; there is nobody else in sync, either.
    assert await four.controller.reassign({T: None}) == {T: None}
    await four.until_reads(TopicAssignment({0: (0, 1, 2), 1: (0, 1)}, {0: (2,)}, {0: (2,)}))
    assert await four.controller.reassign({T: (3,)}) == {T: None}
    await four.in_sync(2, 3)
    await four.until_assigned(3)
    state = await four.state()
    assert (state.leader, state.isr) == (3, (3,))
    await deleted(four.brokers[2])


async def test_the_next_controller_goes_on(cluster: TestCluster) -> None:
    """The one before died with the assignment written, and nobody told."""
    four = await Four.start(cluster)
    await cluster.kill(four.brokers[3])
    path = znodes.topic_path("t")
    node = await cluster.admin.get(path)
    moving = TopicAssignment({0: (2, 0, 1), 1: (0, 1)}, {0: (2,)}, {0: (1,)})
    await cluster.admin.multi([Set(path, moving.encode(), node.stat.version)])
    four.controller = cluster.controller(four.brokers[2])
    told = await has_role(four.brokers[0], 1)
    assert told.replicas == [2, 0, 1]
    assert (await has_role(four.brokers[2], 1)).adding_replicas == [2]
    await four.in_sync(0, 1, 2)
    await four.until_assigned(2, 0)
    await deleted(four.brokers[1])


async def test_the_node_in_the_tree_names_what_is_under_way(cluster: TestCluster) -> None:
    four = await Four.start(cluster)
    row = {"topic": "t", "replicas": [2, 3]}
    rows = [{**row, "partition": number} for number in (0, 1, 7)]
    asked = json.dumps({"version": 1, "partitions": rows}).encode()
    await cluster.admin.multi([Create(znodes.REASSIGN_PARTITIONS, asked)])

    async def named() -> list[int] | None:
        if await cluster.admin.exists(znodes.REASSIGN_PARTITIONS) is None:
            return None
        content = json.loads((await cluster.admin.get(znodes.REASSIGN_PARTITIONS)).data)
        assert all(each["replicas"] == [2, 3] for each in content["partitions"])
        return [each["partition"] for each in content["partitions"]]

    async def until_named(*partitions: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while await named() != list(partitions):
                await trio.testing.wait_all_tasks_blocked()

    await until_named(0, 1)  # there is no partition 7
    await has_role(four.brokers[2], 1, OTHER)
    await four.in_sync(0, 1, 2, 3)
    await four.until_assigned(2, 3)
    await until_named(1)
    # The request overrules it; then nothing is left.
    assert await four.controller.reassign({OTHER: None}) == {OTHER: None}
    with trio.fail_after(PATIENCE_S):
        while await named() is not None:
            await trio.testing.wait_all_tasks_blocked()
    await four.until_reads(TopicAssignment({0: (2, 3), 1: (0, 1)}))


async def test_a_topic_may_be_deleted_while_it_moves(cluster: TestCluster) -> None:
    four = await Four.start(cluster)
    await four.controller.reassign({T: (2,), OTHER: (3,)})
    await delete_topics(cluster.admin, ["t"])
    for broker, names in zip(four.brokers, [(T, OTHER), (T, OTHER), (T,), (OTHER,)], strict=True):
        for name in names:
            await deleted(broker, name)
    with trio.fail_after(PATIENCE_S):
        while await cluster.admin.exists(znodes.topic_path("t")) is not None:
            await trio.testing.wait_all_tasks_blocked()


async def test_many_moves_are_few_writes(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    four = await Four.start(cluster)
    topics = [f"many-{number}" for number in range(50)]
    for topic in topics:
        await create_topic(cluster.admin, NewTopic(topic, 4, 1, dict.fromkeys(range(4), (0,))))
    names = [TopicPartition(topic, number) for topic in topics for number in range(4)]
    await four.brokers[0].until(lambda: all(len(four.brokers[0].roles(topic)) == 4 for topic in topics))
    tree = cluster.trees[3]
    multi, writes = tree.multi, 0

    async def counted(operations: Any) -> Any:
        nonlocal writes
        writes += 1
        return await multi(operations)

    monkeypatch.setattr(tree, "multi", counted)
    assert set((await four.controller.reassign(dict.fromkeys(names, (1, 0)))).values()) == {None}
    assert writes <= 4
    assert len(await four.controller.reassignments()) == len(names)
    assert (
        all(role(four.brokers[1], name) for name in names)
        or await four.brokers[1].until(lambda: all(role(four.brokers[1], name) is not None for name in names)) is None
    )
