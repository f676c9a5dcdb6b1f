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
from ottla.controller.registration import Registration
from ottla.coordination.tree import SessionExpired, SessionState
from ottla.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    StorageError,
)
from ottla.replication.awaited import AWAITED_S, Awaited
from ottla.replication.log_manager import LogManager
from ottla.wire.k01_fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.wire.k03_metadata import METADATA, MetadataRequest, MetadataRequestTopic
from ottla.wire.k04_leader_and_isr import (
    LEADER_AND_ISR,
    LeaderAndIsrRequest,
)
from ottla.wire.k05_stop_replica import (
    STOP_REPLICA,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.wire.k06_update_metadata import (
    UPDATE_METADATA,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.peers.ports import free_port
from tests.support.client import Client
from tests.support.control_requests import BASE, OTHER, ask, elsewhere, leading, produced, started
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio


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


async def leaders(broker: Broker) -> list[int]:
    """Who leads the partitions of "t", as a client is told."""

    def run() -> list[int]:
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "consumer") as client:
            answer = client.call(METADATA, MetadataRequest([MetadataRequestTopic(name="t")]), 9)
            return [row.leader_id for row in sorted(answer.topics[0].partitions, key=lambda row: row.partition_index)]

    return await trio.to_thread.run_sync(run)


def stopping(
    broker: Broker, controller_epoch: int, leader_epoch: int, *, topic: str = "t", delete: bool = True
) -> StopReplicaRequest:
    state = StopReplicaPartitionState(leader_epoch=leader_epoch, delete_partition=delete)
    topics = [StopReplicaTopicState(topic_name=topic, partition_states=[state])]
    return StopReplicaRequest(
        controller_id=broker.id, controller_epoch=BASE + controller_epoch, broker_epoch=-1, topic_states=topics
    )


async def in_turn(broker: Broker, slow: Slow, requests: list[tuple[Any, Any, int]]) -> list[Any]:
    """Sends requests behind one that is held, each when the one before waits for the lock; the answers."""
    answers: dict[int, Any] = {}

    async def one(number: int, api: Any, request: Any, version: int) -> None:
        answers[number] = await ask(broker, api, request, version)

    lock = broker.replicas.changing
    with trio.fail_after(PATIENCE_S):
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


async def test_a_request_for_the_former_life_is_not_taken_for_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registration of a process that was killed is there until its session ends, and the controller speaks to its
    address, where another process listens already.
    """
    registers, asked, former_is_gone = trio.Event(), trio.Event(), trio.Event()
    register, made = Registration.register, Registration.made

    async def registered_later(registration: Registration, **options: Any) -> int:
        registers.set()
        await former_is_gone.wait()
        return await register(registration, **options)

    async def waits(registration: Registration) -> None:
        asked.set()
        await made(registration)

    monkeypatch.setattr(Registration, "register", registered_later)
    monkeypatch.setattr(Registration, "made", waits)
    port = free_port()
    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": f"PLAINTEXT://127.0.0.1:{port}"})
    answers = []
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            async with Broker.start(config):
                await trio.sleep_forever()

        nursery.start_soon(serve)
        await registers.wait()

        def ask_stranger() -> Any:
            request = LeaderAndIsrRequest(controller_id=OTHER, controller_epoch=1, broker_epoch=0)
            with Client.connect("127.0.0.1", port, "controller") as client:
                return client.call(LEADER_AND_ISR, request, 4)

        async def ask_it() -> None:
            answers.append(await trio.to_thread.run_sync(ask_stranger))
            nursery.cancel_scope.cancel()

        nursery.start_soon(ask_it)
        await asked.wait()
        assert answers == []
        former_is_gone.set()
    assert [answer.error_code for answer in answers] == [StaleBrokerEpoch.code]


def of_epoch(broker: Broker, controller_epoch: int) -> LeaderAndIsrRequest:
    """A request of a controller that nothing was heard of."""
    return LeaderAndIsrRequest(OTHER, controller_epoch, broker_epoch=broker.registration.epoch)


@asynccontextmanager
async def looking(path: Path, **settings: str) -> AsyncIterator[Broker]:
    """A broker that looks into the tree for controllers."""
    given = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", **settings}
    async with Broker.start(BrokerConfig(given)) as broker:
        yield broker


async def no_answer() -> None:
    await trio.sleep_forever()


async def session_ends() -> None:
    raise SessionExpired


@pytest.mark.parametrize("sync", [no_answer, session_ends])
async def test_a_controller_is_believed_where_the_tree_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Callable[[], Awaitable[None]]
) -> None:
    """This broker may be the only one that cannot reach the tree, and be elected."""
    async with looking(tmp_path, **{"controller.socket.timeout.ms": "400"}) as broker:
        monkeypatch.setattr(broker.tree, "sync", sync)
        with trio.fail_after(PATIENCE_S):
            assert (await ask(broker, LEADER_AND_ISR, of_epoch(broker, BASE), 4)).error_code == 0
        assert broker.controller_epoch == BASE
        # From now on the one before is refused.
        answer = await ask(broker, LEADER_AND_ISR, of_epoch(broker, BASE - 1), 4)
        assert answer.error_code == StaleControllerEpoch.code


async def test_without_a_session_the_tree_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with looking(tmp_path, **{"controller.socket.timeout.ms": "100000000"}) as broker:
        monkeypatch.setattr(broker.tree, "sync", no_answer)
        with monkeypatch.context() as patched:
            patched.setattr(type(broker.tree), "state", SessionState.EXPIRED)
            with trio.fail_after(PATIENCE_S):
                await broker.look_for_controller(BASE)
        assert broker.controller_epoch == BASE


async def test_a_controller_of_which_the_tree_knows_nothing_is_refused(tmp_path: Path) -> None:
    async with looking(tmp_path) as broker:
        known = broker.controller_epoch
        answer = await ask(broker, LEADER_AND_ISR, of_epoch(broker, BASE), 4)
        assert answer.error_code == StaleControllerEpoch.code
        assert broker.controller_epoch == known


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


async def test_who_is_told_what_it_resigned_from_has_the_controller_elect_anew(tmp_path: Path) -> None:
    """A former controller has removed its registration, and elected nobody: told so once more it would never lead."""
    async with started(tmp_path) as broker:
        await ask(broker, LEADER_AND_ISR, leading(broker, 3, 5), 4)
        registered = broker.registration.epoch
        await ask(broker, LEADER_AND_ISR, leading(broker, 3, 5), 4)
        await broker.replicas.resign()
        await ask(broker, LEADER_AND_ISR, leading(broker, 3, 4), 4)
        await ask(broker, LEADER_AND_ISR, elsewhere(broker, 3, 5), 4)
        assert broker.registration._renewed is None, "nobody takes it for what it was"
        answer = await ask(broker, LEADER_AND_ISR, leading(broker, 3, 5), 4)
        assert answer.partition_errors[0].error_code == StaleControllerEpoch.code
        await comes_true("another registration", lambda: broker.registration.epoch > registered)
        await ask(broker, LEADER_AND_ISR, leading(broker, 4, 6), 4)
        assert broker.replicas.partitions["t", 0].is_leader


async def test_a_stop_replica_that_waited_deletes_nothing_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(tmp_path) as broker:
        slow = Slow(monkeypatch)
        newer = (LEADER_AND_ISR, leading(broker, 3, 6), 4)
        old_controller = (STOP_REPLICA, stopping(broker, 2, 5), 3)
        fenced = [(STOP_REPLICA, stopping(broker, 3, epoch), 3) for epoch in (5, 6)]
        answers = await in_turn(broker, slow, [newer, old_controller, *fenced])
        assert [answer.error_code for answer in answers] == [0, StaleControllerEpoch.code, 0, 0]
        assert [answer.partition_errors[0].error_code for answer in answers[2:]] == [FencedLeaderEpoch.code] * 2
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


async def test_a_client_that_is_refused_learns_at_once_who_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UpdateMetadata comes later; nothing else may change before."""
    async with started(tmp_path) as broker:
        await ask(broker, LEADER_AND_ISR, leading(broker, 1, 5), 4)
        states = [
            UpdateMetadataPartitionState(
                partition_index=index, leader=broker.id, leader_epoch=5, isr=[broker.id], replicas=[broker.id]
            )
            for index in range(2)
        ]
        alive = [
            UpdateMetadataBroker(number, endpoints=[UpdateMetadataEndpoint(9, "127.0.0.1", "PLAINTEXT")])
            for number in (broker.id, OTHER)
        ]
        told = UpdateMetadataRequest(
            broker.id, BASE + 1, topic_states=[UpdateMetadataTopicState("t", states)], live_brokers=alive
        )
        await ask(broker, UPDATE_METADATA, told, 6)
        assert await leaders(broker) == [broker.id, broker.id]
        slow = Slow(monkeypatch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, broker, LEADER_AND_ISR, elsewhere(broker, 2, 6), 4)
            await comes_true("the change of roles", lambda: slow.waiting == 1)
            assert await produced(broker, "t") == NotLeaderOrFollower.code
            assert await leaders(broker) == [OTHER, broker.id]
            slow.go.set()
        # All else is as it was.
        known = broker.metadata.topics["t"][0]
        assert (known.leader_epoch, known.isr, known.replicas) == (6, (OTHER,), (broker.id, OTHER))
        assert broker.metadata.brokers.keys() == {broker.id, OTHER}


@pytest.mark.parametrize("is_leaving", [False, True])
async def test_who_hands_over_does_not_follow_its_heir(tmp_path: Path, is_leaving: bool) -> None:
    """It would be in sync again, and be waited for when it is gone."""
    async with started(tmp_path) as broker:
        await ask(broker, LEADER_AND_ISR, leading(broker, 1, 5), 4)
        broker.replicas.is_leaving = is_leaving
        await ask(broker, LEADER_AND_ISR, elsewhere(broker, 2, 6), 4)
        assert not broker.replicas.partitions["t", 0].is_leader
        assert broker.following.has(("t", 0)) is not is_leaving


@pytest.mark.parametrize("is_leaving", [False, True])
async def test_who_hands_over_follows_no_more_when_it_is_told(tmp_path: Path, is_leaving: bool) -> None:
    """Kafka's controller says so before it raises the leader epoch. All others wait for an epoch that is newer."""
    async with started(tmp_path) as broker:
        await ask(broker, LEADER_AND_ISR, elsewhere(broker, 1, 5), 4)
        assert broker.following.has(("t", 0))
        broker.replicas.is_leaving = is_leaving
        for epoch, delete in [(4, False), (5, True)]:
            answer = await ask(broker, STOP_REPLICA, stopping(broker, 1, epoch, delete=delete), 3)
            assert answer.partition_errors[0].error_code == FencedLeaderEpoch.code
        answer = await ask(broker, STOP_REPLICA, stopping(broker, 1, 5, delete=False), 3)
        assert answer.partition_errors[0].error_code == (0 if is_leaving else FencedLeaderEpoch.code)
        assert broker.following.has(("t", 0)) is not is_leaving


async def test_a_follower_can_ask_at_once_for_what_is_led_since_a_moment_ago(tmp_path: Path) -> None:
    """Its Fetch waits for something new in another partition, and would do so for ten minutes."""

    def led(topic: str, controller_epoch: int) -> LeaderAndIsrRequest:
        asked = leading(broker, controller_epoch, 5, topic)
        (state,) = asked.topic_states[0].partition_states
        state.replicas = state.isr = [broker.id, OTHER]
        return asked

    def fetched() -> int:
        """The error code of an answer, which would come after ten minutes. A client waits for less."""
        row = FetchPartition(current_leader_epoch=5)
        asked = FetchRequest(
            replica_id=OTHER, max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[row])]
        )
        with Client.connect("127.0.0.1", broker.addresses.listening[0].port, "follower") as client:
            answer = client.call(FETCH, asked, 12)
        return int(answer.responses[0].partition_responses[0].error_code)

    now = 100.0
    errors = []
    async with started(tmp_path) as broker:
        broker.replicas.awaited = Awaited(lambda: now)
        await ask(broker, LEADER_AND_ISR, led("t", 1), 4)
        now += AWAITED_S
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def wait() -> None:
                errors.append(await trio.to_thread.run_sync(fetched))

            await comes_true("the Fetch waits", lambda: broker.deadlines.purgatories()["Fetch"] == 1)
            assert errors == []
            await ask(broker, LEADER_AND_ISR, led("other", 2), 4)
        errors.append(await trio.to_thread.run_sync(fetched))
    assert errors == [0, 0]


@pytest.mark.parametrize("delete", [False, True])
async def test_who_cannot_be_used_stays_so_when_it_is_stopped(tmp_path: Path, delete: bool) -> None:
    """Its log is in a directory that failed. Clients and controllers are told so until the broker's next start."""
    async with started(tmp_path / "a", tmp_path / "b") as broker:
        for topic in ("t", "other"):
            await ask(broker, LEADER_AND_ISR, leading(broker, 1, 1, topic), 4)
        directory = broker.logs.directory_of("t", 0)
        assert directory is not None
        assert directory is not broker.logs.directory_of("other", 0)
        for key in broker.logs.take_offline(directory, "the test says so"):
            broker.replicas.mark_offline(*key)
        await broker.logs.directories.close_failed(directory)
        for epoch in (2, 3):
            answer = await ask(broker, STOP_REPLICA, stopping(broker, 1, epoch, delete=delete), 3)
            assert [row.error_code for row in answer.partition_errors] == [StorageError.code]
            assert await produced(broker, "t") == StorageError.code
        answer = await ask(broker, LEADER_AND_ISR, leading(broker, 1, 4), 4)
        assert [row.error_code for row in answer.partition_errors] == [StorageError.code]
        assert (directory.path / "t-0").is_dir()
        assert await produced(broker, "other") == 0
        answer = await ask(broker, STOP_REPLICA, stopping(broker, 1, 2, topic="other", delete=delete), 3)
        assert [row.error_code for row in answer.partition_errors] == [0]
