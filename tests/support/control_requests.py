"""Requests of controllers to a broker that obeys whoever says to be the controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.wire.k04_leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.support.client import Client, batch

BASE = 1_000_000
#: A broker that is not there.
OTHER = 7


@asynccontextmanager
async def started(*paths: Path) -> AsyncIterator[Broker]:
    """A broker to which every controller was elected that says so."""
    settings = {
        "log.dirs": ",".join(map(str, paths)),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        # Nobody takes over what it leads when it stops.
        "controlled.shutdown.retry.backoff.ms": "20",
    }
    async with Broker.start(BrokerConfig(settings)) as broker:

        async def elected(controller_epoch: int) -> None:
            broker.controller_epoch = max(broker.controller_epoch, controller_epoch)

        broker.look_for_controller = elected  # type: ignore[method-assign]
        yield broker


async def ask(broker: Broker, api: Any, request: Any, version: int) -> Any:
    def run() -> Any:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "controller") as client:
            return client.call(api, request, version)

    return await trio.to_thread.run_sync(run)


async def produced(broker: Broker, topic: str) -> int:
    """The error code that a producer is answered with."""

    def run() -> int:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "producer") as client:
            ((row,),) = [each.partitions for each in client.produce(topic, batch(b"x"), acks=1).responses]
            return int(row.error_code)

    return await trio.to_thread.run_sync(run)


def elsewhere(broker: Broker, controller_epoch: int, leader_epoch: int) -> LeaderAndIsrRequest:
    """The other broker leads, and this one is out of the ISR."""
    asked = leading(broker, controller_epoch, leader_epoch)
    (state,) = asked.topic_states[0].partition_states
    state.leader, state.replicas, state.isr = OTHER, [broker.id, OTHER], [OTHER]
    return asked


def leading(broker: Broker, controller_epoch: int, leader_epoch: int, topic: str = "t") -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        controller_epoch=BASE + controller_epoch,
        leader=broker.id,
        leader_epoch=leader_epoch,
        isr=[broker.id],
        replicas=[broker.id],
        is_new=True,
    )
    topics = [LeaderAndIsrTopicState(topic_name=topic, partition_states=[state])]
    return LeaderAndIsrRequest(
        controller_id=broker.id, controller_epoch=BASE + controller_epoch, broker_epoch=-1, topic_states=topics
    )
