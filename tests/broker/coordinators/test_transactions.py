"""The transaction coordinator, asked by a client that says exactly what a test wants said."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    InvalidTxnState,
    OperationNotAttempted,
    ProducerFenced,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
)
from ottla.log import Log
from ottla.transaction.records import decode_value, encode_key, encode_value
from ottla.transaction.transaction import EPOCH_MAX
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from ottla.wire.k66_list_transactions import LIST_TRANSACTIONS, ListTransactionsRequest
from tests.peers.ottla import Broker, Brokers
from tests.support.client import Client, connect
from tests.support.transactions import SETTINGS, TOPIC, add, again, begun, describe, end, find, init
from tests.support.waiting import eventually

_names = (f"id-{number}" for number in itertools.count())


@pytest.fixture
def name() -> str:
    """A transactional id that no other test uses."""
    return next(_names)


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("broker")) as brokers:
        broker = brokers(settings=SETTINGS)
        with connect(broker) as client:
            client.create(TOPIC, 3)
        yield broker
        assert "Traceback" not in broker.output()


def test_the_coordinator_is_found_and_its_topic_made(client: Client, shared_broker: Broker, name: str) -> None:
    answer = find(client, name)
    assert (answer.error_code, answer.port) == (0, shared_broker.port)
    assert answer.node_id == shared_broker.id
    assert sorted(path.name for path in shared_broker.data.glob("__transaction_state-*")) == [
        f"__transaction_state-{index}" for index in range(3)
    ]
    other = client.call(FIND_COORDINATOR, FindCoordinatorRequest(key=name, key_type=7), 1)
    assert other.error_code == InvalidRequest.code


def test_every_producer_gets_a_higher_epoch(client: Client, name: str) -> None:
    find(client, name)
    seen = [(each.producer_id, each.producer_epoch) for each in (init(client, name) for _ in range(3))]
    assert seen == [(seen[0][0], epoch) for epoch in range(3)]
    assert init(client, None).producer_id != seen[0][0], "an idempotent producer needs no coordinator"


@pytest.mark.parametrize("version", range(5))
def test_what_cannot_be_initialized(client: Client, name: str, version: int) -> None:
    find(client, name)
    for refused, error in (
        (init(client, "", version=version), InvalidRequest),
        (init(client, name, timeout_ms=0, version=version), InvalidTransactionTimeout),
        (init(client, name, timeout_ms=900_001, version=version), InvalidTransactionTimeout),
    ):
        assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (error.code, -1, -1)
    assert init(client, name, timeout_ms=900_000, version=version).error_code == 0
    if version >= 3:
        assert init(client, name, known=(5, -1), version=version).error_code == InvalidRequest.code


def test_a_producer_goes_on_after_an_error(client: Client, name: str) -> None:
    """KIP-360; PRODUCER_FENCED is known from version 4."""
    first = begun(client, name)
    known = (first.producer_id, first.producer_epoch)
    assert init(client, name, known=known).producer_epoch == 1
    assert init(client, name, known=known).producer_epoch == 1, "the answer may have been lost"
    assert init(client, name).producer_epoch == 2
    assert init(client, name, known=known, version=3).error_code == InvalidProducerEpoch.code
    assert init(client, name, known=known, version=4).error_code == ProducerFenced.code


def test_a_transaction_is_described(client: Client, name: str) -> None:
    producer = begun(client, name, 2, 0, timeout_ms=12_345)
    row = describe(client, name)
    assert (row.error_code, row.transaction_state, row.transaction_timeout_ms) == (0, "Ongoing", 12_345)
    assert (row.producer_id, row.producer_epoch) == (producer.producer_id, producer.producer_epoch)
    assert [(each.topic, each.partitions) for each in row.topics] == [(TOPIC, [0, 2])]
    assert row.transaction_start_time_ms > 1_700_000_000_000
    assert describe(client, "nobody's").error_code == TransactionalIdNotFound.code
    assert describe(client, "").error_code == InvalidRequest.code


def test_transactions_are_listed(client: Client, name: str) -> None:
    producer = begun(client, name, 0)

    def listed(version: int = 1, **filters: Any) -> Any:
        answer = again(lambda: client.call(LIST_TRANSACTIONS, ListTransactionsRequest(**filters), version))
        assert answer.error_code == 0
        return answer

    row = next(row for row in listed(0).transaction_states if row.transactional_id == name)
    assert (row.producer_id, row.transaction_state) == (producer.producer_id, "Ongoing")
    assert listed(producer_id_filters=[producer.producer_id]).transaction_states == [row]
    assert row in listed(state_filters=["Ongoing", "nonsense"]).transaction_states
    assert listed(state_filters=["nonsense"]).unknown_state_filters == ["nonsense"]
    assert listed(state_filters=["nonsense"]).transaction_states == []
    assert row not in listed(state_filters=["Empty"]).transaction_states
    assert row not in listed(duration_filter=600_000).transaction_states


def test_partitions_are_added_together_or_not_at_all(client: Client, name: str) -> None:
    producer = begun(client, name)
    assert add(client, name, producer, 0, 7) == [OperationNotAttempted.code, UnknownTopicOrPartition.code]
    assert add(client, name, producer, 0, topic="unknown") == [UnknownTopicOrPartition.code]
    assert describe(client, name).transaction_state == "Empty"
    assert add(client, name, producer, 0, 1) == [0, 0]
    assert add(client, name, producer, 1) == [0]
    assert add(client, name, producer, 2) == [0]
    assert describe(client, name).topics[0].partitions == [0, 1, 2]


def test_a_groups_offsets_are_one_more_partition(client: Client, name: str) -> None:
    producer = begun(client, name)
    request = AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=producer.producer_id, producer_epoch=0, group_id="group"
    )
    assert client.call(ADD_OFFSETS_TO_TXN, request, 2).error_code == 0
    (row,) = describe(client, name).topics
    # "group".hashCode() is 98629247
    assert (row.topic, row.partitions) == ("__consumer_offsets", [98629247 % 3])
    request.producer_epoch = 1
    assert client.call(ADD_OFFSETS_TO_TXN, request, 2).error_code == ProducerFenced.code
    assert client.call(ADD_OFFSETS_TO_TXN, request, 1).error_code == InvalidProducerEpoch.code


@pytest.mark.parametrize(
    ("version", "fenced"), [(0, InvalidProducerEpoch), (1, InvalidProducerEpoch), (2, ProducerFenced)]
)
def test_a_zombie_is_refused(client: Client, name: str, version: int, fenced: Any) -> None:
    zombie = begun(client, name)
    newer = begun(client, name)
    assert add(client, name, zombie, 0, version=version) == [fenced.code]
    assert end(client, name, zombie, version=version) == fenced.code
    newer.producer_id += 1_000
    assert add(client, name, newer, 0, version=version) == [InvalidProducerIdMapping.code]
    assert end(client, name, newer, version=version) == InvalidProducerIdMapping.code
    assert add(client, "nobody's", newer, 0, version=version) == [InvalidProducerIdMapping.code]
    assert end(client, "", newer, version=version) == InvalidRequest.code


def test_nothing_to_end(client: Client, name: str) -> None:
    assert end(client, name, begun(client, name)) == InvalidTxnState.code


def test_a_restart_takes_nothing_away(tmp_path: Path, name: str) -> None:
    with Brokers(tmp_path) as brokers:
        broker = brokers(settings=SETTINGS)
        with connect(broker) as client:
            client.create(TOPIC, 3)
            producer = begun(client, name, 0, 2, timeout_ms=54_321)
            before = describe(client, name)
        broker.kill()
        broker = brokers.restart(broker, settings=SETTINGS)
        with connect(broker) as client:
            find(client, name)
            again(lambda: describe(client, name))
            assert describe(client, name) == before
            assert add(client, name, producer, 1) == [0]
            assert describe(client, name).topics[0].partitions == [0, 1, 2]


def test_ids_expire_and_may_come_again(tmp_path: Path, name: str) -> None:
    """The broker that expires them after a millisecond starts with both: an id in no transaction goes at any moment."""
    expiring = SETTINGS | {
        "transactional.id.expiration.ms": 1,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 20,
    }
    with Brokers(tmp_path) as brokers:
        broker = brokers(settings=SETTINGS)
        with connect(broker) as client:
            client.create(TOPIC, 3)
            held = begun(client, name, 0)
            first = begun(client, "short")
        broker.stop()
        broker = brokers.restart(broker, settings=expiring)
        with connect(broker) as client:
            find(client, name)
            find(client, "short")
            eventually(
                "the expiry of the transactional id",
                lambda: describe(client, "short").error_code == TransactionalIdNotFound.code,
            )
            assert again(lambda: describe(client, name)).transaction_state == "Ongoing", "it is in use"
            new = init(client, "short")
            assert (new.error_code, new.producer_epoch) == (0, 0)
            assert new.producer_id != first.producer_id
            assert end(client, name, held) == 0
        broker.stop()
        broker = brokers.restart(broker, settings=SETTINGS)
        with connect(broker) as client:
            find(client, name)
            listed = again_listed(client)
            assert {row.transactional_id for row in listed} <= {name, "short"}


def again_listed(client: Client) -> Any:
    return again(lambda: client.call(LIST_TRANSACTIONS, ListTransactionsRequest(), 1)).transaction_states


def test_another_producer_id_when_the_epochs_are_used_up(tmp_path: Path, name: str) -> None:
    """The last epoch but one is given out, the last one only fences."""
    with Brokers(tmp_path) as brokers:
        broker = brokers(settings={"transaction.state.log.num.partitions": 1})
        with connect(broker) as client:
            client.create(TOPIC, 3)
            first = begun(client, name)
        broker.stop()
        with Log.open(broker.data / "__transaction_state-0", mode="a") as log:
            (value,) = [record.value for record in log]
            assert value is not None
            log.append(encode_value(decode_value(value)._replace(epoch=EPOCH_MAX - 2)), key=encode_key(name))
        broker = brokers.restart(broker)
        with connect(broker) as client:
            last = begun(client, name, 0)
            assert (last.producer_id, last.producer_epoch) == (first.producer_id, EPOCH_MAX - 1)
            another = init(client, name)
            assert another.producer_epoch == 0
            assert another.producer_id != first.producer_id
            assert end(client, name, last) == InvalidProducerIdMapping.code
