"""What a transactional producer does while its coordinator, its group's and its leaders change under it: what passes is
tried again, each record is written once, and the transaction ends as the program said, or the program is told.

Each row befalls a broker that has answered before, at one step of a transaction; Java's producer goes on there too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable

import pytest
import trio

from ottla.client import Cluster, TopicPartition, TransactionalProducer
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    IllegalGeneration,
    InvalidProducerEpoch,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID
from ottla.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from ottla.wire.k26_end_txn import END_TXN
from ottla.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from ottla.wire.schema import Api
from tests.client.scripted_cluster import World
from tests.support.conversations import ROWS
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio
HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
STEPS = {
    "init": INIT_PRODUCER_ID,
    "add partitions": ADD_PARTITIONS_TO_TXN,
    "add offsets": ADD_OFFSETS_TO_TXN,
    "commit offsets": TXN_OFFSET_COMMIT,
    "end": END_TXN,
}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World(1, 2)
    made.topic("t", 1, 2)
    async with made.serving():
        yield made


def answers(error: type[KafkaError], times: int = 2) -> Callable[[World, Api], None]:
    def befalls(world: World, api: Api) -> None:
        world.errors[api.key] = deque([error.code] * times)

    return befalls


def moves(world: World, api: Api) -> None:
    """Found once, it is another broker, which the first one knows."""

    def move() -> None:
        world.coordinator = 2

    world.befalls[api.key] = move


def stands_still(world: World, api: Api) -> None:
    """It takes the request and answers nothing any more; another takes over."""

    def stop() -> None:
        world.brokers[1].stands_still()
        for part in world.topics["t"].values():
            part.leader = 2
        world.coordinator = 2

    world.befalls[api.key] = stop


def hangs_up(world: World, api: Api) -> None:
    for broker in world.brokers.values():
        broker.hangs_up.add(api.key)


def answer_is_lost(world: World, api: Api) -> None:
    """It was carried out; the request comes once more."""
    world.brokers[1].swallows[api.key] = 1


BEFALLS = {
    "not available": answers(CoordinatorNotAvailable),
    "loading": answers(CoordinatorLoadInProgress),
    "not coordinator": answers(NotCoordinator),
    "moves": moves,
    "stands still": stands_still,
    "hangs up": hangs_up,
    "answer is lost": answer_is_lost,
}


async def one_transaction(producer: TransactionalProducer, *, commit: bool = True) -> None:
    producer.begin()
    await producer.send("t", b"a", partition=0)
    await producer.send("t", b"b", partition=1)
    await producer.flush()
    await producer.send_offsets("g", {HERE: 7})
    await (producer.commit() if commit else producer.abort())


def values(world: World, partition: TopicPartition) -> list[bytes]:
    return [value for _, value in world[partition].records]


@pytest.mark.parametrize("befalls", BEFALLS.values(), ids=BEFALLS)
@pytest.mark.parametrize("api", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
async def test_a_coordinator_that_changes(
    world: World, api: Api, befalls: Callable[[World, Api], None], commit: bool
) -> None:
    befalls(world, api)
    async with Cluster(world.bootstrap, timeout_ms=math.inf) as cluster:
        with trio.fail_after(PATIENCE_S):
            async with TransactionalProducer(cluster, "x", linger_ms=0) as producer:
                await one_transaction(producer, commit=commit)
    assert values(world, HERE) == [b"a"]
    assert values(world, THERE) == [b"b"]
    assert world.transactions["x"].ends == [commit]
    assert world.committed == ({HERE: 7} if commit else {})
    assert not world.errors.get(api.key)
    assert not world.befalls
    assert not any(+broker.swallows for broker in world.brokers.values())


@pytest.mark.parametrize("api", [ADD_PARTITIONS_TO_TXN, INIT_PRODUCER_ID, END_TXN], ids=lambda api: api.name)
async def test_the_end_before_is_still_carried_out(world: World, api: Api) -> None:
    """CONCURRENT_TRANSACTIONS is no reason to look for another coordinator."""
    world.errors[api.key] = deque([ConcurrentTransactions.code] * 5)
    async with Cluster(world.bootstrap) as cluster:
        async with TransactionalProducer(cluster, "x") as producer:
            await one_transaction(producer)
        looked = sum(broker.asked[FIND_COORDINATOR.name] for broker in world.brokers.values())
    assert world.transactions["x"].ends == [True]
    assert looked == 2, "the transaction's, and the group's"


@pytest.mark.parametrize("name", ["no leader", "stands still", "dies", "moves", "not leader", "many errors"])
async def test_a_leader_that_changes(world: World, name: str) -> None:
    """Others are written to meanwhile, and the transaction is whole in the end."""
    row = ROWS[name]
    world.coordinator = 2
    async with (
        Cluster(f"127.0.0.1:{world.brokers[2].port}") as cluster,
        TransactionalProducer(cluster, "x", linger_ms=0) as producer,
    ):
        with trio.fail_after(PATIENCE_S):
            async with producer.transaction():
                await producer.send_and_wait("t", b"a", partition=0)
                await row.befalls(world)
                late = await producer.send_with_receipt("t", b"late", partition=0)
                for value in (b"b", b"c"):
                    await producer.send_and_wait("t", value, partition=1)
                assert world.transactions["x"].ends == []
                await row.ends(world)
                await late.wait()
    assert world.transactions["x"].ends == [True]
    assert values(world, HERE) == [b"a", b"late"]
    assert values(world, THERE) == [b"b", b"c"]


@pytest.mark.parametrize("error", [InvalidProducerEpoch, ProducerFenced])
@pytest.mark.parametrize("api", [ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, END_TXN])
async def test_one_that_is_fenced_is_told_at_once(world: World, api: Api, error: type[KafkaError]) -> None:
    world.topic("t", 1, 1)
    world.errors[api.key] = deque([error.code])
    async with Cluster(world.bootstrap) as cluster, TransactionalProducer(cluster, "x") as producer:
        with pytest.raises(error, match="'g'" if api is TXN_OFFSET_COMMIT else "'x'"):
            await one_transaction(producer)
    assert sum(broker.asked[api.name] for broker in world.brokers.values()) == 1
    assert world.transactions["x"].ends == []


async def test_a_member_that_was_replaced_is_told_at_once(world: World) -> None:
    """The transaction can be aborted, and the next one is written."""
    world.errors[TXN_OFFSET_COMMIT.key] = deque([IllegalGeneration.code])
    async with Cluster(world.bootstrap) as cluster, TransactionalProducer(cluster, "x") as producer:
        with pytest.raises(IllegalGeneration, match="'g': t-0"):
            await one_transaction(producer)
        await producer.abort()
        await one_transaction(producer)
    assert world.transactions["x"].ends == [False, True]
    assert world.committed == {HERE: 7}


async def test_the_error_is_that_of_the_partition_it_is_about(world: World) -> None:
    """Of the partitions beside it the coordinator says that they were not tried."""
    world.topic("t", 1, 1, 1)
    async with Cluster(world.bootstrap) as cluster, TransactionalProducer(cluster, "x", linger_ms=5000) as producer:
        wrong = TopicPartition("t", 1)
        world.transactions["x"].errors[wrong] = deque([TopicAuthorizationFailed.code])
        producer.begin()
        for number in range(3):
            await producer.send("t", b"a", partition=number)
        with pytest.raises(TopicAuthorizationFailed, match="'x': t-1"):
            await producer.flush()
        await producer.abort()
        async with producer.transaction():
            await producer.send("t", b"b", partition=1)
    assert world.transactions["x"].ends == [True]
    assert values(world, wrong) == [b"b"]


async def test_a_partition_that_the_coordinator_does_not_know_yet(world: World) -> None:
    """It hears of a new topic later than the leader, from which this producer has it."""
    async with Cluster(world.bootstrap) as cluster, TransactionalProducer(cluster, "x") as producer:
        world.transactions["x"].errors[THERE] = deque([UnknownTopicOrPartition.code] * 2)
        await one_transaction(producer)
    assert world.transactions["x"].ends == [True]
    assert values(world, THERE) == [b"b"]


async def test_an_abort_of_what_cannot_begin(world: World) -> None:
    """The transaction before has ended, and waits for the leader of one of its partitions."""
    async with (
        Cluster(world.bootstrap, timeout_ms=math.inf) as cluster,
        TransactionalProducer(cluster, "x") as producer,
    ):
        world.befalls[END_TXN.key] = lambda: world[HERE].moves(None)
        async with producer.transaction():
            await producer.send("t", b"a", partition=0)
        producer.begin()
        await producer.send("t", b"b", partition=1)
        with trio.fail_after(PATIENCE_S):
            while world.brokers[1].asked[ADD_PARTITIONS_TO_TXN.name] < 3:
                await trio.lowlevel.checkpoint()
            await producer.abort(is_last=True)
    assert values(world, THERE) == []
    assert world.transactions["x"].ends == [True]
