"""Three brokers of which one is the controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.controller import Controller, NewTopic, create_topic
from ottla.controller.decisions import IsrChange
from ottla.coordination import znodes
from ottla.errors import (
    KafkaError,
)
from ottla.kafka import TopicPartition
from tests.controller.conftest import TestCluster
from tests.controller.fakes import FakeBroker

T = TopicPartition("t", 0)


class Three:
    """Brokers 1, 2 and 3, of which 1 is the controller, and a topic that 2 leads."""

    def __init__(self, cluster: TestCluster, brokers: Sequence[FakeBroker], controller: Controller) -> None:
        self.cluster = cluster
        self.brokers = brokers
        self.one, self.two, self.three = brokers
        self.controller = controller

    @classmethod
    async def start(cls, cluster: TestCluster, partitions: int = 1) -> Three:
        brokers = [await cluster.broker(number) for number in (1, 2, 3)]
        controller = cluster.controller(brokers[0])
        await brokers[0].until(lambda: brokers[0].live_brokers() == [1, 2, 3])
        await create_topic(cluster.admin, NewTopic("t", assignment=dict.fromkeys(range(partitions), (2, 3, 1))))
        for broker in brokers:
            await broker.until(lambda broker=broker: len(broker.metadata("t")) == partitions)
        return cls(cluster, brokers, controller)

    async def ask(self, *isr: int, epoch: int = 0, version: int = 0, name: TopicPartition = T, of: int = 2) -> Any:
        """The answer to the leader: the state and its version, or the kind of error."""
        change = IsrChange(epoch, isr, version)
        result = (await self.controller.alter_isr(of, self.epoch(of), {name: change}))[name]
        return type(result) if isinstance(result, KafkaError) else result

    def epoch(self, broker: int) -> int:
        registration = self.brokers[broker - 1].registration
        assert registration is not None
        return registration.epoch

    async def version(self, name: TopicPartition = T) -> int:
        return (await self.cluster.admin.get(znodes.state_path(*name))).stat.version
