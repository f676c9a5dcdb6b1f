"""Requests of two controllers that wait for each other: each is decided when its turn comes, from a fresh look."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.errors import FencedLeaderEpoch, StaleControllerEpoch
from ottla.replication.log_manager import LogManager
from ottla.wire.k04_leader_and_isr import (
    LEADER_AND_ISR,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.k05_stop_replica import (
    STOP_REPLICA,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from tests.support.client import Client
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio
BASE = 1_000_000


class Slow:
    """Holds each creation of logs until it is let go, so that requests stand behind each other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = trio.Event()
        self.waiting = 0
        before: Callable[..., Awaitable[Any]] = LogManager.open_or_create

        async def held(logs: LogManager, *arguments: Any) -> Any:
            self.waiting += 1
            await self.go.wait()
            return await before(logs, *arguments)

        monkeypatch.setattr(LogManager, "open_or_create", held)


@asynccontextmanager
async def started(path: Path) -> AsyncIterator[Broker]:
    async with Broker.start(BrokerConfig({"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0"})) as broker:
        yield broker


async def ask(broker: Broker, api: Any, request: Any, version: int) -> Any:
    def run() -> Any:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "controller") as client:
            return client.call(api, request, version)

    return await trio.to_thread.run_sync(run)


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


def stopping(broker: Broker, controller_epoch: int, leader_epoch: int) -> StopReplicaRequest:
    state = StopReplicaPartitionState(leader_epoch=leader_epoch, delete_partition=True)
    topics = [StopReplicaTopicState(topic_name="t", partition_states=[state])]
    return StopReplicaRequest(
        controller_id=broker.id, controller_epoch=BASE + controller_epoch, broker_epoch=-1, topic_states=topics
    )


async def in_turn(broker: Broker, slow: Slow, requests: list[tuple[Any, Any, int]]) -> list[Any]:
    """Sends requests behind one that is held, each when the one before waits for the lock; the answers."""
    answers: dict[int, Any] = {}

    async def one(number: int, api: Any, request: Any, version: int) -> None:
        answers[number] = await ask(broker, api, request, version)

    lock = broker.replicas.changing
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, -1, LEADER_AND_ISR, leading(broker, 1, 1, "held"), 4)
            await comes_true("the first one's turn", lambda: slow.waiting == 1)
            for number, asked in enumerate(requests):
                nursery.start_soon(one, number, *asked)
                await comes_true("a wait", lambda number=number: lock.statistics().tasks_waiting == number + 1)
            slow.go.set()
    return [answers[number] for number in range(len(requests))]


async def test_a_leader_and_isr_of_the_controller_before_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the epochs of the log: an entry of the newer epoch would be gone, and with it where to truncate."""
    async with started(tmp_path) as broker:
        slow = Slow(monkeypatch)
        newer, older = leading(broker, 3, 6), leading(broker, 2, 5)
        answers = await in_turn(broker, slow, [(LEADER_AND_ISR, newer, 4), (LEADER_AND_ISR, older, 4)])
        assert [answer.error_code for answer in answers] == [0, StaleControllerEpoch.code]
        partition = broker.replicas.partitions["t", 0]
        assert (partition.leader_epoch, partition.log.leader_epoch) == (6, 6)
        assert partition.log.leader_epochs == [(6, 0)]


async def test_a_repeated_leader_and_isr_of_the_same_controller_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path) as broker:
        slow = Slow(monkeypatch)
        requests = [(LEADER_AND_ISR, leading(broker, 3, epoch), 4) for epoch in (6, 5)]
        answers = await in_turn(broker, slow, requests)
        assert [answer.error_code for answer in answers] == [0, 0]
        assert answers[1].partition_errors[0].error_code == StaleControllerEpoch.code
        assert broker.replicas.partitions["t", 0].log.leader_epochs == [(6, 0)]


async def test_a_stop_replica_that_waited_deletes_nothing_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path) as broker:
        slow = Slow(monkeypatch)
        newer = (LEADER_AND_ISR, leading(broker, 3, 6), 4)
        old_controller = (STOP_REPLICA, stopping(broker, 2, 5), 3)
        old_epoch = (STOP_REPLICA, stopping(broker, 3, 5), 3)
        answers = await in_turn(broker, slow, [newer, old_controller, old_epoch])
        assert [answer.error_code for answer in answers] == [0, StaleControllerEpoch.code, 0]
        assert answers[2].partition_errors[0].error_code == FencedLeaderEpoch.code
        assert broker.replicas.partitions["t", 0].is_leader
        assert (tmp_path / "t-0").is_dir()


async def test_in_every_order_the_newest_word_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, order in enumerate(permutations(range(4))):
        async with started(tmp_path / str(number)) as broker:
            slow = Slow(monkeypatch)
            requests = [
                (LEADER_AND_ISR, leading(broker, 2, 5), 4),
                (STOP_REPLICA, stopping(broker, 2, 5), 3),
                (LEADER_AND_ISR, leading(broker, 3, 6), 4),
                (LEADER_AND_ISR, leading(broker, 3, 7), 4),
            ]
            await in_turn(broker, slow, [requests[index] for index in order])
            partition = broker.replicas.partitions["t", 0]
            assert (partition.is_leader, partition.leader_epoch, partition.log.leader_epoch) == (True, 7, 7), order
            epochs = [epoch for epoch, _ in partition.log.leader_epochs]
            assert epochs == sorted(epochs), order
            assert (tmp_path / str(number) / "t-0").is_dir(), order
        monkeypatch.undo()
