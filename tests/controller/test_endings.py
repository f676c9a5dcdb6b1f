"""The ends of moves: the tree names those who held a partition until they have deleted it, whoever dies meanwhile."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from ottla.controller import NewTopic, create_topic, delete_topics, moves
from ottla.controller.decisions import IsrChange
from ottla.controller.endings import Endings
from ottla.coordination import znodes
from ottla.coordination.tree import Set
from ottla.coordination.znodes import TopicAssignment
from ottla.errors import NoReassignmentInProgress
from ottla.kafka import TopicPartition
from ottla.wire.k04_leader_and_isr import LEADER_AND_ISR
from ottla.wire.k05_stop_replica import STOP_REPLICA
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.controller.four import OTHER, Four, T, deleted, has_role, role
from tests.support.waiting import PATIENCE_S

IN_TREE = ((2, 0), (2,), (0,))

# Values.


def ending(*asked: int, until_s: float = 10.0) -> Endings:
    endings = Endings()
    endings.begin(T, IN_TREE, {0, 1})
    endings.asked(T, asked, 5, until_s)
    return endings


def test_a_move_ends_when_all_have_answered() -> None:
    endings = ending(0, 1)
    endings.answered(0, T, 5)
    assert endings.take_complete() == set()
    endings.answered(1, T, 5)
    assert endings.take_complete() == {T}
    assert endings.take_complete() == set()


def test_nobody_is_waited_for_where_nobody_was_asked() -> None:
    assert ending().take_complete() == {T}
    endings = Endings()
    endings.begin(T, IN_TREE, {0})
    assert endings.take_complete() == set(), "it is about to be asked"


def test_answers_to_older_requests_do_not_count() -> None:
    endings = ending(0)
    endings.answered(0, T, 4)
    endings.answered(0, OTHER, 5)
    assert endings.take_complete() == set()


def test_who_is_gone_is_not_waited_for_unless_it_comes_back() -> None:
    endings = ending(0, 1)
    endings.broker_left(0)
    assert endings.left_by(0) == [T]
    endings.asked_again(T, 0)
    endings.answered(1, T, 5)
    assert endings.take_complete() == set()
    endings.answered(0, T, 6)
    assert endings.take_complete() == {T}
    # At once, before anybody has looked.
    endings = ending(0)
    endings.broker_left(0)
    endings.asked_again(T, 0)
    assert endings.take_complete() == set()


def test_the_silent_have_their_time() -> None:
    endings = ending(0, 1, until_s=10.0)
    assert endings.next_s() == 10.0
    endings.answered(1, T, 5)
    assert endings.give_up(9.9) == {}
    assert endings.give_up(10.0) == {T: [0]}
    assert endings.next_s() is None
    assert endings.take_complete() == {T}


def test_what_the_tree_has_stays_while_more_leave() -> None:
    endings = ending(0)
    endings.begin(T, ((9,), (), ()), {3})
    known = endings.get(T)
    assert known is not None
    assert (known.in_tree, known.leaving) == (IN_TREE, {0, 1, 3})
    assert endings.of_topic("t") == {0: {0, 1, 3}}
    endings.forget(T)
    endings.forget(T)
    assert (endings.of_topic("t"), len(endings), endings.take_complete()) == ({}, 0, set())


# Over a real tree with brokers that only listen.


def has_folder(broker: FakeBroker) -> bool:
    """True if the broker has a replica of T by what it was told."""
    has = False
    for recorded in broker.received:
        for topic in getattr(recorded.message, "topic_states", ()):
            for state in topic.partition_states:
                if (topic.topic_name, state.partition_index) == T:
                    if recorded.api is LEADER_AND_ISR:
                        has |= broker.id in state.replicas
                    elif recorded.api is STOP_REPLICA:
                        has &= not state.delete_partition
    return has


def roles(broker: FakeBroker) -> int:
    """How often the broker was told that it has a replica of T."""
    return sum(
        (topic.topic_name, state.partition_index) == T and broker.id in state.replicas
        for message in broker.of(LEADER_AND_ISR)
        for topic in message.topic_states
        for state in topic.partition_states
    )


@pytest.fixture(autouse=True)
def _no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a move that waits for the wrong brokers ends all the same."""
    monkeypatch.setattr(moves, "ANSWERS_S", math.inf)


async def in_the_middle(
    cluster: TestCluster, *silent: int, to: tuple[int, ...] = (2, 3), four: Four | None = None
) -> Four:
    """T moves from 0 and 1 to others, and is at its end; `silent` have not answered."""
    four = four or await Four.start(cluster)
    await four.controller.reassign({T: to})
    for broker in silent:
        await has_role(four.brokers[broker], 1)
        four.brokers[broker].silent = True
    await four.in_sync(0, 1, *to)
    await has_role(four.brokers[to[-1]], 2)
    return four


MOVING = TopicAssignment({0: (2, 3, 0, 1), 1: (0, 1)}, {0: (2, 3)}, {0: (0, 1)})


@pytest.mark.trio
async def test_the_tree_names_those_who_have_not_answered(cluster: TestCluster) -> None:
    four = await in_the_middle(cluster, 0)
    state = await four.state()
    assert (state.leader, state.leader_epoch, state.isr) == (2, 2, (2, 3))
    assert role(four.brokers[2]).replicas == [2, 3]
    await deleted(four.brokers[1])
    await four.have_answered(1, 2, 3)
    assert await four.assignment() == MOVING
    assert await four.controller.reassignments() == {}, "clients wait for no copies"
    four.brokers[0].speak()
    await four.until_assigned(2, 3)
    assert not has_folder(four.brokers[0])


async def move(four: Four) -> None:
    await four.in_sync(0, 1, 2)


async def take_back(four: Four) -> None:
    await four.controller.reassign({T: None})


class Death:
    """A controller that dies at one of its writes, before it or when it is done."""

    def __init__(self, tree: Any, write: int, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.came = trio.Event()
        self._multi, self._left, self._when = tree.multi, write, when
        monkeypatch.setattr(tree, "multi", self._counted)

    async def _counted(self, operations: Any) -> Any:
        self._left -= 1
        if not self._left and self._when == "before":
            await self._die()
        results = await self._multi(operations)
        if not self._left:
            await self._die()
        return results

    async def _die(self) -> None:
        self.came.set()
        await trio.sleep_forever()


DEATHS = [(1, "after"), (2, "before"), (2, "after"), (3, "before"), (3, "after")]


@pytest.mark.trio
@pytest.mark.parametrize(("write", "when"), DEATHS)
@pytest.mark.parametrize("step", [move, take_back])
async def test_controllers_die_between_two_steps(
    cluster: TestCluster,
    monkeypatch: pytest.MonkeyPatch,
    step: Callable[[Four], Awaitable[None]],
    write: int,
    when: str,
) -> None:
    """Its writes: the ISR, or the assignment of a move that is taken back; the state without those who leave; the
    assignment without them. When that is there, nobody who lives has a folder of it.
    """
    four = await Four.start(cluster)
    await four.controller.reassign({T: (1, 2)})
    before, after = ((0, 1), (1, 2)) if step is move else ((1, 2), (1, 0))
    (leaving,) = (broker for broker in four.brokers if broker.id in set(before) - set(after))
    await four.brokers[2].until(lambda: has_folder(four.brokers[2]))
    death = Death(cluster.trees[3], write, when, monkeypatch)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await step(four)

        nursery.start_soon(run)
        with trio.fail_after(PATIENCE_S):
            await death.came.wait()
        nursery.cancel_scope.cancel()
    was_deleted, told = not has_folder(leaving), roles(leaving)
    await cluster.kill(four.brokers[3])
    four.controller = cluster.controller(four.brokers[1])
    await four.until_assigned(*after)
    assert not has_folder(leaving), "the tree names it no more"
    assert all(has_folder(four.brokers[broker]) for broker in after)
    assert not was_deleted or roles(leaving) == told, "it is no replica again"


@pytest.mark.trio
async def test_a_target_that_fell_behind_begins_anew(cluster: TestCluster) -> None:
    """A new controller cannot know that the old replica was deleted, where a broker of the target has left the ISR."""
    four = await in_the_middle(cluster, 0)
    await cluster.kill(four.brokers[3])
    four.brokers[0].speak()
    four.controller = cluster.controller(four.brokers[1])
    told = await has_role(four.brokers[0], 4)
    assert (told.leader, told.isr, told.removing_replicas) == (2, [2], [0, 1])
    assert await four.assignment() == MOVING
    await cluster.restart_dead(four.brokers[3])
    await four.brokers[2].until(lambda: four.brokers[2].live_brokers() == [0, 1, 2, 3])
    await four.in_sync(2, 3)
    await four.until_assigned(2, 3)
    assert not any(has_folder(broker) for broker in four.brokers[:2])


@pytest.mark.trio
async def test_a_broker_that_returns_meanwhile_deletes_what_it_has(cluster: TestCluster) -> None:
    four = await in_the_middle(cluster, 0, 1)
    zero = four.brokers[0]
    told = roles(zero)
    await cluster.kill(zero)
    zero.silent = False
    await four.brokers[2].until(lambda: four.brokers[2].live_brokers() == [1, 2, 3])
    await cluster.restart_dead(zero)
    await deleted(zero)
    await four.have_answered(0, 2, 3)
    assert await four.assignment() == MOVING, "1 has not answered"
    four.brokers[1].speak()
    await four.until_assigned(2, 3)
    assert not has_folder(zero)
    assert roles(zero) == told


@pytest.mark.trio
async def test_a_broker_that_leaves_holds_nothing_up(cluster: TestCluster) -> None:
    four = await in_the_middle(cluster, 0, 1)
    await cluster.kill(four.brokers[0])
    await cluster.kill(four.brokers[1])
    await four.until_assigned(2, 3)


@pytest.mark.trio
async def test_a_broker_that_is_away_is_not_waited_for(cluster: TestCluster) -> None:
    four = await Four.start(cluster)
    await four.controller.reassign({T: (2, 3)})
    await has_role(four.brokers[0], 1)
    await cluster.kill(four.brokers[1])
    await four.brokers[0].until(lambda: four.brokers[0].live_brokers() == [0, 2, 3])
    await four.in_sync(0, 2, 3)
    await four.until_assigned(2, 3)


@pytest.mark.trio
async def test_a_broker_that_registers_again_is_asked_again(cluster: TestCluster) -> None:
    """Its session ends and the next begins in one look: the request went with its epoch, and it lives."""
    four = await in_the_middle(cluster, 0)
    await deleted(four.brokers[1])
    gate = trio.Event()
    children = cluster.trees[3].children

    async def late(path: str, watch: Any = None) -> Any:
        if path == znodes.BROKER_IDS:
            await gate.wait()
        return await children(path, watch)

    cluster.trees[3].children = late  # type: ignore[method-assign]
    await cluster.kill(four.brokers[0])
    await cluster.restart_dead(four.brokers[0])
    gate.set()
    await four.brokers[2].until(lambda: len(four.brokers[2].live_brokers()) == 4)
    await four.have_answered(1, 2, 3)
    assert await four.assignment() == MOVING
    four.brokers[0].speak()
    await four.until_assigned(2, 3)
    assert not has_folder(four.brokers[0])


@pytest.mark.trio
@pytest.mark.parametrize("error", [11, 56, 74])
async def test_a_broker_that_refuses_holds_nothing_up(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture, error: int
) -> None:
    four = await in_the_middle(cluster, 0)
    four.brokers[0].errors["t", 0] = error
    four.brokers[0].speak()
    await four.until_assigned(2, 3)
    assert "broker 0 keeps 1 replica that moved elsewhere: it could not delete them" in caplog.text


@pytest.mark.trio
async def test_a_broker_that_does_not_answer_holds_nothing_up(
    cluster: TestCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "ANSWERS_S", 0.01)
    four = await in_the_middle(cluster, 0, 1)
    await four.until_assigned(2, 3)
    assert "1 move is not held up by brokers [0, 1], which do not say" in caplog.text
    for broker in four.brokers[:2]:
        broker.speak()
        await deleted(broker)


@pytest.mark.trio
async def test_an_order_in_between_forgets_nobody(cluster: TestCluster) -> None:
    four = await in_the_middle(cluster, 0)
    await deleted(four.brokers[1])
    assert isinstance((await four.controller.reassign({T: None}))[T], NoReassignmentInProgress)
    epoch = (await four.state()).leader_epoch
    assert await four.controller.reassign({T: (2, 3)}) == {T: None}
    assert (await four.state()).leader_epoch == epoch, "it is under way"
    assert await four.controller.reassign({T: (1, 3)}) == {T: None}
    assert await four.assignment() == TopicAssignment({0: (1, 3, 2, 0), 1: (0, 1)}, {0: (1, 0)}, {0: (2, 0)})
    assert (await has_role(four.brokers[3], 3)).replicas == [1, 3, 2]
    assert (await has_role(four.brokers[1], 3)).is_new
    four.brokers[0].speak()
    await four.until_reads(TopicAssignment({0: (1, 3, 2), 1: (0, 1)}, {0: (1,)}, {0: (2,)}))
    assert not has_folder(four.brokers[0])
    await four.in_sync(1, 2, 3)
    await four.until_assigned(1, 3)
    assert [has_folder(broker) for broker in four.brokers] == [False, True, False, True]


@pytest.mark.trio
async def test_a_topic_that_is_deleted_in_between_waits_for_those_who_left(cluster: TestCluster) -> None:
    four = await Four.start(cluster)
    await four.controller.reassign({OTHER: (1,)})
    await four.until_assigned(1, name=OTHER)
    await in_the_middle(cluster, 0, four=four)
    await delete_topics(cluster.admin, ["t"])
    for broker in four.brokers[1:]:
        await deleted(broker)
    await four.have_answered(1, 2, 3)
    assert await cluster.admin.exists(znodes.topic_path("t")) is not None
    four.brokers[0].speak()
    with trio.fail_after(PATIENCE_S):
        while await cluster.admin.exists(znodes.topic_path("t")) is not None:
            await trio.testing.wait_all_tasks_blocked()
    assert not any(has_folder(broker) for broker in four.brokers)


@pytest.mark.trio
async def test_another_partition_of_the_topic_moves_in_between(cluster: TestCluster) -> None:
    """The topic's node is read and written for it: what is decided of the first is not taken back."""
    four = await in_the_middle(cluster, 0)
    assert await four.controller.reassign({OTHER: (1, 2)}) == {OTHER: None}
    assert (await has_role(four.brokers[2], 1, OTHER)).replicas == [1, 2, 0]
    assert role(four.brokers[2]).replicas == [2, 3]
    cluster_known = four.controller.cluster
    assert cluster_known is not None
    assert cluster_known.topics["t"][0].replicas == (2, 3)
    four.brokers[0].speak()
    await four.until_assigned(2, 3)
    assert (await four.assignment()).removing == {1: (0,)}


@pytest.mark.trio
async def test_what_somebody_else_writes_in_between_holds(cluster: TestCluster) -> None:
    """By hand, or Kafka's controller before it lost its place."""
    four = await in_the_middle(cluster, 0)
    path = znodes.topic_path("t")
    node = await cluster.admin.get(path)
    other = TopicAssignment({0: (3, 2), 1: (0, 1)})
    await cluster.admin.multi([Set(path, other.encode(), node.stat.version)])
    known = four.controller.cluster
    assert known is not None
    with trio.fail_after(PATIENCE_S):
        while known.topics["t"][0].replicas != (3, 2):
            await trio.testing.wait_all_tasks_blocked()
    four.brokers[0].speak()
    await deleted(four.brokers[0])
    await four.have_answered(0, 1, 2, 3)
    assert await four.assignment() == other


@pytest.mark.trio
async def test_the_node_in_the_tree_names_a_move_until_its_end(cluster: TestCluster) -> None:
    four = await Four.start(cluster)
    asked = {(T.topic, T.partition): (2, 3)}
    await cluster.admin.create(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignment(asked))
    await has_role(four.brokers[3], 1)
    four.brokers[0].silent = True
    await four.in_sync(0, 1, 2, 3)
    await deleted(four.brokers[1])
    await four.have_answered(1, 2, 3)
    assert await cluster.admin.exists(znodes.REASSIGN_PARTITIONS) is not None
    four.brokers[0].speak()
    with trio.fail_after(PATIENCE_S):
        while await cluster.admin.exists(znodes.REASSIGN_PARTITIONS) is not None:
            await trio.testing.wait_all_tasks_blocked()
    assert (await four.assignment()).partitions[0] == (2, 3)


@pytest.mark.trio
async def test_many_ends_are_few_writes(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    four = await Four.start(cluster)
    topics = [f"many-{number}" for number in range(50)]
    for topic in topics:
        await create_topic(cluster.admin, NewTopic(topic, 4, 1, dict.fromkeys(range(4), (0,))))
    names = [TopicPartition(topic, number) for topic in topics for number in range(4)]
    await four.brokers[0].until(lambda: all(len(four.brokers[0].roles(topic)) == 4 for topic in topics))
    await four.controller.reassign(dict.fromkeys(names, (1,)))
    known = four.controller.cluster
    assert known is not None
    changes = {name: IsrChange(1, (0, 1), known.topics[name.topic][name.partition].version) for name in names}
    tree = cluster.trees[3]
    multi, writes = tree.multi, 0

    async def counted(operations: Any) -> Any:
        nonlocal writes
        writes += 1
        return await multi(operations)

    monkeypatch.setattr(tree, "multi", counted)
    await four.controller.alter_isr(0, known.brokers[0].epoch, changes)
    with trio.fail_after(PATIENCE_S):
        while await four.controller.reassignments() or len(known.endings):
            await trio.testing.wait_all_tasks_blocked()
    assert {known.topics[name.topic][name.partition].replicas for name in names} == {(1,)}
    assert all(four.brokers[0].stopped(topic).keys() == {0, 1, 2, 3} for topic in topics)
    assert writes <= 6
