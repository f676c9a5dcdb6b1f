"""Four brokers that only listen, of which one is the controller, and a topic whose partitions move between them."""

from __future__ import annotations

from typing import Any

import trio

from ottla.controller import Controller, NewTopic, create_topic
from ottla.controller.decisions import IsrChange
from ottla.coordination import znodes
from ottla.coordination.znodes import PartitionState, TopicAssignment
from ottla.kafka import TopicPartition
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker
from tests.support.trees import state_of
from tests.support.waiting import PATIENCE_S, comes_true

T = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


class Four:
    """Brokers 0 to 3, of which 3 is the controller, and a topic of two partitions on 0 and 1; 0 leads."""

    def __init__(self, cluster: TestCluster, brokers: list[FakeBroker], controller: Controller) -> None:
        self.cluster = cluster
        self.brokers = brokers
        self.controller = controller

    @classmethod
    async def start(cls, cluster: TestCluster) -> Four:
        brokers = [await cluster.broker(number) for number in range(4)]
        controller = cluster.controller(brokers[3])
        await brokers[0].until(lambda: brokers[0].live_brokers() == [0, 1, 2, 3])
        await create_topic(cluster.admin, NewTopic("t", 2, 2, {0: (0, 1), 1: (0, 1)}))
        await brokers[1].until(lambda: sorted(brokers[1].roles("t")) == [0, 1])
        return cls(cluster, brokers, controller)

    async def state(self, name: TopicPartition = T) -> PartitionState:
        return await state_of(self.cluster.admin, *name)

    async def assignment(self) -> TopicAssignment:
        path = znodes.topic_path("t")
        return TopicAssignment.decode(path, (await self.cluster.admin.get(path)).data)

    async def in_sync(self, *isr: int, name: TopicPartition = T) -> None:
        """The leader asks for this ISR, and gets it."""
        cluster = self.controller.cluster
        assert cluster is not None
        partition = cluster.topics[name.topic][name.partition]
        state = partition.state
        assert state is not None
        change = IsrChange(state.leader_epoch, isr, partition.version)
        epoch = cluster.brokers[state.leader].epoch
        answer = await self.controller.alter_isr(state.leader, epoch, {name: change})
        assert not isinstance(answer[name], Exception), answer

    async def have_answered(self, *brokers: int) -> None:
        """Returns when the controller has done what follows from their answers."""

        def waiting() -> set[int]:
            return {broker for broker, requests in self.controller.requests_waiting().items() if requests}

        await comes_true("their answers", lambda: not waiting() & set(brokers))
        # Its events come one after the other.
        await self.controller.reassignments()

    async def until_reads(self, wanted: TopicAssignment) -> None:
        """The tree has this assignment."""
        with trio.fail_after(PATIENCE_S):
            while await self.assignment() != wanted:
                await trio.testing.wait_all_tasks_blocked()

    async def until_assigned(self, *replicas: int, name: TopicPartition = T) -> None:
        """The move is over: these replicas, and none on their way."""
        with trio.fail_after(PATIENCE_S):
            while True:
                assignment = await self.assignment()
                if (
                    assignment.partitions[name.partition] == replicas
                    and name.partition not in {*assignment.adding, *assignment.removing}
                ):  # fmt: skip
                    return
                await trio.testing.wait_all_tasks_blocked()


def role(broker: FakeBroker, name: TopicPartition = T) -> Any:
    return broker.roles(name.topic).get(name.partition)


async def has_role(broker: FakeBroker, epoch: int, name: TopicPartition = T) -> Any:
    """The role that the broker was told last, once it is of this leader epoch."""
    await broker.until(lambda: role(broker, name) is not None and role(broker, name).leader_epoch >= epoch)
    assert role(broker, name).leader_epoch == epoch
    return role(broker, name)


async def deleted(broker: FakeBroker, name: TopicPartition = T) -> Any:
    await broker.until(lambda: name.partition in broker.stopped(name.topic))
    stop = broker.stopped(name.topic)[name.partition]
    assert stop.delete_partition
    return stop
