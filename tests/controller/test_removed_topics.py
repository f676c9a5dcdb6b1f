"""Topics that somebody removes from the tree by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import trio

from ottla.controller import NewTopic, Registration, create_topic, delete_topics, get_or_create_cluster_id, missing
from ottla.controller.controller import Controller
from ottla.controller.missing import Missing
from ottla.coordination import znodes
from ottla.coordination.tree import Create, Operation, Tree, children_or_none, get_or_none
from ottla.coordination.tree import Delete as DeleteNode
from ottla.kafka import EPOCH_DURING_DELETE, TopicPartition
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k05_stop_replica import STOP_REPLICA
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.support.trees import state_of
from tests.support.waiting import PATIENCE_S, comes_true


def test_what_is_missing_is_believed_when_nothing_follows() -> None:
    topics = Missing()
    assert not topics
    topics.miss(["a"], 10.0)
    assert topics.rest_s(11.0) == 2.0
    topics.miss(["b", "c"], 12.0)
    assert (topics.rest_s(12.0), topics.rest_s(15.0)) == (3.0, 0.0)
    topics.wait_on(20.0)
    assert topics.rest_s(21.0) == 2.0
    assert "a" in topics
    topics.found({"a", "x"})
    assert "a" not in topics
    assert topics.take() == ["b", "c"]
    assert not topics


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "REST_S", 0.0)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "REST_S", math.inf)


async def removal(tree: Tree, topic: str) -> list[Operation]:
    parent = znodes.partitions_path(topic)
    numbers = await children_or_none(tree, parent) or []
    below = [path for number in numbers for path in (f"{parent}/{number}/state", f"{parent}/{number}")]
    return [DeleteNode(path) for path in (*below, parent, znodes.topic_path(topic))]


async def remove(tree: Tree, topic: str) -> None:
    """As `deleteall`."""
    for operation in await removal(tree, topic):
        await tree.multi([operation])


async def remove_and_make(tree: Tree, topic: str, assignment: dict[int, tuple[int, ...]]) -> None:
    """In one transaction, so that nobody sees that it was gone."""
    made = znodes.TopicAssignment(assignment).encode()
    await tree.multi([*await removal(tree, topic), Create(znodes.topic_path(topic), made)])


async def start(cluster: TestCluster) -> tuple[Controller, list[FakeBroker]]:
    """The controller is broker 0. Topics t and u of two partitions are on 1 and 2."""
    brokers = [await cluster.broker(number) for number in range(3)]
    for broker in brokers:
        broker.registration = Registration(
            cluster.trees[broker.id],
            broker.id,
            broker.describe,
            cluster_id=await get_or_create_cluster_id(cluster.admin),
        )
    controller = cluster.controller(brokers[0])
    for topic in "tu":
        await create_topic(cluster.admin, NewTopic(topic, assignment={0: (1, 2), 1: (2, 1)}))
        for broker in brokers:
            await broker.until(lambda broker=broker, topic=topic: broker.metadata(topic).keys() == {0, 1})  # type: ignore[misc]
    return controller, brokers


async def is_stopped(broker: FakeBroker, *, by_now: int = 2) -> None:
    """The topic t leaves the metadata, and the broker's replicas of it stop."""
    await broker.until(lambda: not broker.metadata("t") and len(broker.stopped("t")) >= by_now)
    for state in broker.stopped("t").values():
        assert (state.leader_epoch, state.delete_partition) == (EPOCH_DURING_DELETE, False)


async def events_over(controller: Controller) -> None:
    """All that was to be done is."""
    await comes_true("answers", lambda: not any(controller.requests_waiting().values()))
    await controller.reassignments()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.trio
@pytest.mark.usefixtures("at_once")
async def test_its_replicas_are_stopped_and_kept(cluster: TestCluster, caplog: pytest.LogCaptureFixture) -> None:
    controller, brokers = await start(cluster)
    await remove(cluster.admin, "t")
    for broker in brokers[1:]:
        await is_stopped(broker)
    await brokers[0].until(lambda: not brokers[0].metadata("t"))
    await events_over(controller)
    (line,) = warnings(caplog)
    for word in ("topic t ", "t-N in log.dirs", "keep their folders", "ottla topic delete"):
        assert word in line
    assert not brokers[0].stopped("t")
    for broker in brokers:
        assert broker.metadata("u").keys() == {0, 1}
        assert not broker.stopped("u")
    assert controller.epoch == 1
    assert controller.cluster is not None
    assert controller.cluster.topics.keys() == controller.cluster.born.keys() == {"u"}


def order(broker: FakeBroker) -> list[Any]:
    """The requests that the broker got about partition 0 of t: roles with their leader epochs, and stops."""
    told: list[Any] = []
    for recorded in broker.received:
        for topic in getattr(recorded.message, "topic_states", ()):
            for state in topic.partition_states:
                if (topic.topic_name, state.partition_index) == ("t", 0):
                    if recorded.api is LEADER_AND_ISR:
                        told.append((state.leader_epoch, state.is_new))
                    elif recorded.api is STOP_REPLICA:
                        told.append("stop")
    return told


@pytest.mark.trio
@pytest.mark.usefixtures("never")
@pytest.mark.parametrize("is_seen", [True, False])
async def test_another_of_its_name_works_at_once(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture, is_seen: bool
) -> None:
    """It works whether its removal is seen before it is there or not; nobody waits for the tree to rest."""
    controller, brokers = await start(cluster)
    await controller.elect_leaders([TopicPartition("t", 0)], unclean=False)
    if is_seen:
        await remove(cluster.admin, "t")
        await controller.reassignments()
        await create_topic(cluster.admin, NewTopic("t", assignment={0: (2,)}))
    else:
        await remove_and_make(cluster.admin, "t", {0: (2,)})
    await brokers[1].until(lambda: brokers[1].metadata("t").keys() == {0})
    await brokers[2].until(lambda: len(order(brokers[2])) == 3)
    assert order(brokers[2]) == [(0, True), "stop", (0, True)]
    assert order(brokers[1]) == [(0, True), "stop"]
    assert brokers[1].metadata("t")[0].replicas == [2]
    assert (await state_of(cluster.admin, "t")).isr == (2,)
    (line,) = warnings(caplog)
    assert "topic t was removed" in line
    assert controller.epoch == 1


@pytest.mark.trio
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("instead", [None, b"no json", znodes.encode_cluster_id("another")])
@pytest.mark.parametrize("made_anew", [False, True])
async def test_a_tree_without_the_cluster_removes_nothing(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture, instead: bytes | None, made_anew: bool
) -> None:
    controller, brokers = await start(cluster)
    node = await cluster.admin.get(znodes.CLUSTER_ID)
    await cluster.admin.delete(znodes.CLUSTER_ID)
    if instead is not None:
        await cluster.admin.create(znodes.CLUSTER_ID, instead)
    if made_anew:
        await remove_and_make(cluster.admin, "t", {0: (2,)})
    else:
        await remove(cluster.admin, "t")
    await create_topic(cluster.admin, NewTopic("v", assignment={0: (1,)}))
    await brokers[1].until(lambda: brokers[1].metadata("v").keys() == {0})
    await events_over(controller)
    assert not any(broker.stopped("t") for broker in brokers)
    assert all(broker.metadata("t").keys() == {0, 1} for broker in brokers)
    assert warnings(caplog) == []
    if instead is not None:
        await cluster.admin.delete(znodes.CLUSTER_ID)
    await cluster.admin.create(znodes.CLUSTER_ID, node.data)
    await brokers[1].until(lambda: len(brokers[1].stopped("t")) == 2)
    await brokers[1].until(lambda: brokers[1].metadata("t").keys() == ({0} if made_anew else set()))
    assert controller.epoch == 1


@pytest.mark.trio
@pytest.mark.usefixtures("at_once")
async def test_its_moves_are_over(cluster: TestCluster) -> None:
    """One under way, and one at its end, which a broker holds up that does not answer."""
    controller, brokers = await start(cluster)
    asked = {("t", 0): (0,), ("t", 1): (1,)}
    brokers[2].silent = True
    await cluster.admin.create(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignment(asked))
    await brokers[1].until(lambda: brokers[1].roles("t")[1].replicas == [1])
    assert (await controller.reassignments()).keys() == {TopicPartition("t", 0)}
    await remove(cluster.admin, "t")
    await is_stopped(brokers[1])
    await is_stopped(brokers[0], by_now=1)
    assert await controller.reassignments() == {}
    assert await get_or_none(cluster.admin, znodes.REASSIGN_PARTITIONS) is None
    brokers[2].speak()
    await brokers[2].until(lambda: len(brokers[2].stopped("t")) == 2 and not brokers[2].metadata("t"))
    await events_over(controller)
    assert await get_or_none(cluster.admin, znodes.topic_path("t")) is None
    assert controller.epoch == 1


@pytest.mark.trio
@pytest.mark.usefixtures("at_once")
async def test_its_deletion_is_over(cluster: TestCluster, caplog: pytest.LogCaptureFixture) -> None:
    controller, brokers = await start(cluster)
    brokers[2].silent = True
    await delete_topics(cluster.admin, ["t"])
    await brokers[1].until(lambda: len(brokers[1].stopped("t")) == 2)
    await remove(cluster.admin, "t")
    with trio.fail_after(PATIENCE_S):
        while await cluster.admin.children(znodes.DELETE_TOPICS):
            pass
    await controller.reassignments()
    assert controller.cluster is not None
    assert "t" not in controller.cluster.topics
    assert await get_or_none(cluster.admin, znodes.config_path("topics", "t")) is None
    assert warnings(caplog) == ["topic t was removed from the tree while it was deleted"]
    await create_topic(cluster.admin, NewTopic("t", assignment={0: (1, 2)}))
    brokers[2].speak()
    for broker in brokers:
        await broker.until(lambda broker=broker: broker.metadata("t").keys() == {0})  # type: ignore[misc]
    assert order(brokers[2]) == [(0, True), "stop", (0, True)]
    assert all(state.delete_partition for broker in brokers for state in broker.stopped("t").values())
    await events_over(controller)
    assert await get_or_none(cluster.admin, znodes.topic_path("t")) is not None


@pytest.mark.trio
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("again", [False, True])
async def test_a_mark_is_for_the_topic_that_it_was_made_for(cluster: TestCluster, again: bool) -> None:
    controller, brokers = await start(cluster)
    brokers[2].silent = True
    await delete_topics(cluster.admin, ["t"])
    await brokers[1].until(lambda: len(brokers[1].stopped("t")) == 2)
    mark = znodes.delete_topic_path("t")
    operations = await removal(cluster.admin, "t")
    made = Create(znodes.topic_path("t"), znodes.TopicAssignment({0: (1,)}).encode())
    remade: list[Operation] = [DeleteNode(mark), Create(mark)] if again else []
    if again:
        # The controller looks when all of it has happened.
        await cluster.admin.multi([*operations, made])
        await cluster.admin.multi(remade)
    else:
        await cluster.admin.multi([*operations, made])
    brokers[2].speak()
    with trio.fail_after(PATIENCE_S):
        while await get_or_none(cluster.admin, mark) is not None:
            pass
    await events_over(controller)
    assert (await get_or_none(cluster.admin, znodes.topic_path("t")) is None) == again
    if not again:
        await brokers[0].until(lambda: brokers[0].metadata("t").keys() == {0})


@pytest.mark.trio
@pytest.mark.usefixtures("never")
async def test_a_broker_that_dies_while_a_topic_is_missing_costs_nobody_its_place(cluster: TestCluster) -> None:
    """Its state cannot be written any more, and those of other topics can."""
    controller, brokers = await start(cluster)
    await remove(cluster.admin, "t")
    await controller.reassignments()
    await cluster.kill(brokers[1])
    await brokers[2].until(lambda: brokers[2].roles("u")[0].leader == 2)
    assert (await state_of(cluster.admin, "u")).isr == (2,)
    await events_over(controller)
    assert controller.epoch == 1


@pytest.mark.trio
@pytest.mark.usefixtures("never")
async def test_a_mark_of_a_topic_that_is_missing_deletes_nothing(cluster: TestCluster) -> None:
    controller, brokers = await start(cluster)
    await remove(cluster.admin, "t")
    await controller.reassignments()
    await cluster.admin.create(znodes.delete_topic_path("t"))
    await delete_topics(cluster.admin, ["u"])
    await brokers[1].until(lambda: len(brokers[1].stopped("u")) == 2)
    await events_over(controller)
    assert not any(broker.stopped("t") for broker in brokers)


@pytest.mark.trio
@pytest.mark.usefixtures("at_once")
async def test_a_topic_whose_states_alone_are_gone_is_served_on(cluster: TestCluster) -> None:
    controller, brokers = await start(cluster)
    for operation in (await removal(cluster.admin, "t"))[:-1]:
        await cluster.admin.multi([operation])
    assert json.loads((await cluster.admin.get(znodes.topic_path("t"))).data)["partitions"].keys() == {"0", "1"}
    await create_topic(cluster.admin, NewTopic("v", assignment={0: (1,)}))
    await brokers[1].until(lambda: brokers[1].metadata("v").keys() == {0})
    await events_over(controller)
    assert not any(broker.stopped("t") for broker in brokers)
    assert all(broker.metadata("t").keys() == {0, 1} for broker in brokers)
