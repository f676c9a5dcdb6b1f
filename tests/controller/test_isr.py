"""AlterIsr at the controller: what leaders ask for, over a real tree with brokers that only listen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from ottla.controller import delete_topics
from ottla.controller.decisions import IsrChange
from ottla.controller.events import BrokerChange, BrokerModifications, Event, Reassign
from ottla.controller.isr import Altered
from ottla.coordination import znodes
from ottla.coordination.tree import ConnectionLoss, Set
from ottla.coordination.znodes import PartitionState
from ottla.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    StaleBrokerEpoch,
    UnknownTopicOrPartition,
)
from ottla.kafka import TopicPartition
from ottla.wire.k06_update_metadata import UPDATE_METADATA
from tests.controller.conftest import TestCluster
from tests.controller.three import T, Three
from tests.support.trees import state_of

pytestmark = pytest.mark.trio


async def test_an_isr_shrinks_and_grows_in_one_leader_epoch(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    shrunk = await three.ask(2, 1)
    assert shrunk == Altered(PartitionState(2, 0, (2, 1), 1), 1)
    assert await state_of(cluster.admin, "t") == shrunk.state
    for broker in three.brokers:
        await broker.until(lambda broker=broker: broker.metadata("t")[0].isr == [2, 1])
        assert broker.metadata("t")[0].zk_version == 1
    grown = await three.ask(2, 1, 3, version=1)
    assert grown == Altered(PartitionState(2, 0, (2, 1, 3), 1), 2)
    for broker in three.brokers:
        await broker.until(lambda broker=broker: broker.metadata("t")[0].isr == [2, 1, 3])
        assert broker.roles("t")[0].isr == [2, 3, 1], "leaders are answered, nobody is told a role"


async def test_what_is_asked_for_again_is_answered_with_what_holds(cluster: TestCluster) -> None:
    """A leader that missed the answer asks the same, with the version that it still knows."""
    three = await Three.start(cluster)
    altered = await three.ask(2, 1)
    assert await three.ask(2, 1) == altered
    assert await three.ask(1, 2) == altered, "the order says nothing"
    assert await three.version() == 1


async def test_what_a_leader_may_not_change(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    await cluster.admin.set(znodes.state_path(*T), PartitionState(2, 4, (2, 3, 1), 1).encode())
    await cluster.admin.create(znodes.ISR_CHANGE_PREFIX, znodes.encode_isr_change([T]), sequential=True)
    await three.one.until(lambda: three.one.metadata("t")[0].leader_epoch == 4)
    for isr, epoch, of, expected in [
        ((2, 1), 3, 2, FencedLeaderEpoch),
        ((2, 1), 5, 2, NotController),
        ((2, 1), 4, 1, InvalidRequest),
        ((3, 1), 4, 3, InvalidRequest),
        ((), 4, 2, InvalidRequest),
        ((1, 3), 4, 2, InvalidRequest),
        ((2, 2), 4, 2, InvalidRequest),
        ((2, 1, 3, 7), 4, 2, InvalidRequest),
    ]:
        assert await three.ask(*isr, epoch=epoch, version=1, of=of) is expected, isr
    assert await three.ask(2, 1, epoch=4, version=0) is InvalidUpdateVersion
    assert await three.ask(2, 1, epoch=4, version=-1) is InvalidUpdateVersion
    assert await three.ask(2, 1, name=TopicPartition("t", 1)) is UnknownTopicOrPartition
    assert await three.ask(2, 1, name=TopicPartition("u", 0)) is UnknownTopicOrPartition
    assert await three.version() == 1, "nothing was written"
    assert isinstance(await three.ask(2, 1, epoch=4, version=1), Altered)


async def test_a_state_that_somebody_else_wrote_is_left_and_told(cluster: TestCluster) -> None:
    """A leader with a protocol before AlterIsr writes into the tree itself."""
    three = await Three.start(cluster)
    await cluster.admin.set(znodes.state_path(*T), PartitionState(2, 0, (2,), 1).encode())
    assert await three.ask(2, 1) is InvalidUpdateVersion
    await three.three.until(lambda: three.three.metadata("t")[0].isr == [2])
    assert await three.ask(2, 1, version=1) == Altered(PartitionState(2, 0, (2, 1), 1), 2)


async def test_rows_are_answered_one_by_one_and_written_together(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = await Three.start(cluster, partitions=4)
    tree = cluster.trees[1]
    written: list[Any] = []
    multi = tree.multi

    async def counted(operations: Sequence[Any]) -> list[Any]:
        written.append([operation.path for operation in operations])
        return await multi(operations)

    monkeypatch.setattr(tree, "multi", counted)
    told = len(three.three.of(UPDATE_METADATA))
    names = [TopicPartition("t", number) for number in range(5)]
    changes = {name: IsrChange(0, (2, 3), 0) for name in names}
    results = await three.controller.alter_isr(2, three.epoch(2), changes)
    assert [type(results[name]) for name in names] == [Altered] * 4 + [UnknownTopicOrPartition]
    assert written == [[znodes.CONTROLLER_EPOCH, *(znodes.state_path("t", number) for number in range(4))]]
    await three.three.until(lambda: len(three.three.of(UPDATE_METADATA)) > told)
    (rows,) = [topic.partition_states for topic in three.three.of(UPDATE_METADATA)[-1].topic_states]
    assert [(row.partition_index, row.isr) for row in rows] == [(number, [2, 3]) for number in range(4)]


async def test_the_leader_is_who_it_says(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    change = {T: IsrChange(0, (2, 1), 0)}
    for broker, epoch in [(2, three.epoch(2) - 1), (2, three.epoch(2) + 100), (2, -1), (9, 5)]:
        with pytest.raises(StaleBrokerEpoch):
            await three.controller.alter_isr(broker, epoch, change)
    assert await three.version() == 0
    assert three.controller.is_active


async def test_only_the_controller_alters(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    other = cluster.controller(three.two)
    with pytest.raises(NotController):
        await other.alter_isr(2, three.epoch(2), {T: IsrChange(0, (2, 1), 0)})


async def test_a_zombie_controller_alters_nothing(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    await cluster.admin.multi([Set(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(7))])
    with pytest.raises(NotController):
        await three.ask(2, 1)
    assert await three.version() == 0


async def test_an_answer_of_the_tree_that_was_lost_is_looked_up(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = await Three.start(cluster)
    tree = cluster.trees[1]
    multi = tree.multi
    lost = 0

    async def losing(operations: Sequence[Any]) -> list[Any]:
        nonlocal lost
        results = await multi(operations)
        if lost == 0 and any(isinstance(operation, Set) for operation in operations):
            lost += 1
            raise ConnectionLoss("/", "the answer is lost")
        return results

    monkeypatch.setattr(tree, "multi", losing)
    assert await three.ask(2, 1) == Altered(PartitionState(2, 0, (2, 1), 1), 1)
    assert (lost, await three.version()) == (1, 1)


async def test_a_replica_of_a_broker_that_is_gone_does_not_join(cluster: TestCluster) -> None:
    """Its leader would wait for it for ever: it begins a new epoch, without the replica."""
    three = await Three.start(cluster)
    assert isinstance(await three.ask(2, 1), Altered)
    await cluster.kill(three.three)
    await three.one.until(lambda: three.one.live_brokers() == [1, 2])
    told = len(three.two.received)
    before = Altered(PartitionState(2, 0, (2, 1), 1), 1)
    assert await three.ask(2, 1, 3, version=1) == before, "not an error: Kafka 2.7 would propose nothing any more"
    await three.two.until(lambda: three.two.roles("t")[0].leader_epoch == 1)
    assert three.two.roles("t")[0].isr == [2, 1]
    assert await state_of(cluster.admin, "t") == PartitionState(2, 1, (2, 1), 1)
    assert await three.ask(2, 1, 3, version=1) is FencedLeaderEpoch
    assert len(three.two.received) > told


@pytest.mark.parametrize("came_back", [False, True])
async def test_registrations_are_looked_at_anew(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, came_back: bool
) -> None:
    """The controller has not heard yet that broker 3 is gone, or that another process is broker 3 now."""
    three = await Three.start(cluster)
    assert isinstance(await three.ask(2, 1), Altered)
    with monkeypatch.context() as deaf:
        deaf.setattr(
            three.controller._events, "put", _all_but(three.controller._events.put, BrokerChange, BrokerModifications)
        )
        await (cluster.restart if came_back else cluster.kill)(three.three)
        assert await three.ask(2, 1, 3, version=1) == Altered(PartitionState(2, 0, (2, 1), 1), 1)
    await three.two.until(lambda: three.two.roles("t")[0].leader_epoch == 1)
    assert (await state_of(cluster.admin, "t")).isr == (2, 1)
    await three.two.until(lambda: three.two.live_brokers() == ([1, 2, 3] if came_back else [1, 2]))
    if came_back:
        assert isinstance(await three.ask(2, 1, 3, epoch=1, version=2), Altered)


def _all_but(put: Any, *kinds: type[Event]) -> Any:
    return lambda event: isinstance(event, kinds) or put(event)


async def test_a_replica_without_a_log_directory_does_not_join(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    assert isinstance(await three.ask(2, 1), Altered)
    three.three.errors["t", 0] = 56
    await cluster.admin.create(znodes.LOG_DIR_EVENT_PREFIX, znodes.encode_log_dir_event(3), sequential=True)
    await three.one.until(lambda: three.one.metadata("t")[0].offline_replicas == [3])
    assert await three.ask(2, 1, 3, version=1) == Altered(PartitionState(2, 0, (2, 1), 1), 1)
    assert await three.version() == 1
    # A leader that knows a newer state than its controller takes none that is older.
    assert await three.ask(2, 1, 3, version=2) is InvalidUpdateVersion


async def test_a_topic_on_its_way_out_is_unknown(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    three.three.silent = True
    await delete_topics(cluster.admin, ["t"])
    await three.one.until(lambda: three.one.metadata("t") == {})
    assert await three.ask(2, 1) is UnknownTopicOrPartition


async def test_a_move_ends_when_the_isr_has_grown(cluster: TestCluster) -> None:
    three = await Three.start(cluster)
    assert isinstance(await three.ask(2, 1), Altered)
    assert await three.controller.reassign({T: (2, 3)}) == {T: None}
    assert T in await three.controller.reassignments(), "3 is not in sync yet"
    state = await state_of(cluster.admin, "t")
    assert isinstance(await three.ask(2, 1, 3, epoch=state.leader_epoch, version=await three.version()), Altered)
    await three.one.until(lambda: 0 in three.one.stopped("t"))
    assert (await state_of(cluster.admin, "t")).isr == (2, 3)


async def test_leaders_are_heard_before_what_can_wait(cluster: TestCluster) -> None:
    """While the controller is busy an administrator asks it for something, and then a leader does."""
    three = await Three.start(cluster)
    begun, go = trio.Event(), trio.Event()
    seen: list[int] = []

    async def busy() -> None:
        begun.set()
        await go.wait()

    async def look() -> None:
        assert three.controller.cluster is not None
        partition = three.controller.cluster.get(T)
        assert partition is not None
        seen.append(partition.version)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(three.controller._order, Reassign(busy))
        await begun.wait()
        nursery.start_soon(three.controller._order, Reassign(look))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(three.ask, 2, 1)
        await trio.testing.wait_all_tasks_blocked()
        go.set()
    assert seen == [1], "the leader came first"
