"""A coordinator of transactions and of a group stands still for longer than its session, and others take its place:
what it remembers of a transaction is out of date, and nothing final may be said by it.
"""

from contextlib import ExitStack
from typing import Any

import pytest

from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from ottla.wire.k28_txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.cluster import asking
from tests.cluster.rounds import Round
from tests.cluster.stand import Cluster, Member
from tests.faults.broker import settings
from tests.peers.skips import module
from tests.support import transactions
from tests.support.client import Client
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
STATE, GROUPS = "__transaction_state", "__consumer_offsets"
#: Of these some are coordinated by each broker.
NAMES = 20
#: Requests in the coordinator's sockets when it goes on: some of them it meets before it hears that it was replaced.
WAITING = 20
#: Codes at which producers look for the coordinator, or try again.
PASSING = {"NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}


def test_offsets_come_to_a_coordinator_that_stood_still(cluster: Cluster) -> None:
    """It coordinated both the transactional id and the group, and knows nothing of the transaction that the producer
    has begun meanwhile with the next coordinator. A producer that is told so has to end; it is to look elsewhere.
    """
    with Round(cluster, settings.seed(), copies=False) as load:
        coordinator, other, name, group = one_of_both(cluster, load.prefix)
        topic = load.another_topic("read")
        with asking.client(cluster, coordinator) as client:
            producer = transactions.init(client, name)
            assert offsets_added(client, name, producer, group) == 0
            assert transactions.end(client, name, producer) == 0
            eventually(
                "the transaction is complete",
                lambda: transactions.describe(client, name).transaction_state == "CompleteCommit",
            )
        with ExitStack() as stack:
            waiting = [stack.enter_context(asking.client(cluster, coordinator)) for _ in range(WAITING)]
            with coordinator.paused():
                cluster.leaves(coordinator)
                eventually("another one coordinates", lambda: found(cluster, other, name) is not coordinator)
                with asking.client(cluster, found(cluster, other, name)) as client:
                    assert offsets_added(client, name, producer, group) == 0
                for each in waiting:
                    each.send(TXN_OFFSET_COMMIT, offsets(name, producer, group, topic), 3)
            errors = {asking.name_of(code) for each in waiting for code in codes_of(each)}
        print(f"figures: {coordinator.name} answered {sorted(errors)}")
        assert errors <= PASSING
        cluster.returns(coordinator)
        with asking.client(cluster, found(cluster, other, name)) as client:
            assert transactions.end(client, name, producer, commit=False) == 0
        cluster.all_in_sync(*load.topics, topic, STATE)
        load.writes()
        load.finish()
    load.judge(at_least=200)


def one_of_both(cluster: Cluster, prefix: str) -> tuple[Member, Member, str, str]:
    """A broker that coordinates a transactional id and a group, another broker, and their names."""
    asking.created(cluster, STATE, prefix, asking.TRANSACTIONAL_ID)
    asking.created(cluster, GROUPS, prefix, asking.GROUP)
    names = [f"{prefix}{number}" for number in range(NAMES)]
    ids = {asking.coordinator(cluster, each, asking.TRANSACTIONAL_ID): each for each in names}
    groups = {asking.coordinator(cluster, each, asking.GROUP): each for each in names}
    one = next(member for member in cluster.brokers if member in ids and member in groups)
    other = next(member for member in cluster.brokers if member is not one)
    return one, other, ids[one], groups[one]


def found(cluster: Cluster, asked: Member, name: str) -> Member:
    """The broker that coordinates the id, as this one says."""
    with asking.client(cluster, asked) as client:
        return cluster.broker(transactions.find(client, name).node_id)


def offsets_added(client: Client, name: str, producer: Any, group: str) -> int:
    request = AddOffsetsToTxnRequest(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id=group,
    )
    return int(transactions.again(lambda: client.call(ADD_OFFSETS_TO_TXN, request, 1)).error_code)


def offsets(name: str, producer: Any, group: str, topic: str) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(topic, [row])],
    )


def codes_of(client: Client) -> list[int]:
    """The error codes of the answer that the connection waits for; none if the connection has ended."""
    try:
        answer = client.receive()
    except OSError:
        return []
    return [row.error_code for topic in answer.topics for row in topic.partitions]
