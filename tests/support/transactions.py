"""The requests of a transactional producer, each asked until the coordinator has time for it."""

from collections.abc import Callable, Iterable
from typing import Any

from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from ottla.wire.k02_list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from ottla.wire.k24_add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.k26_end_txn import END_TXN, EndTxnRequest
from ottla.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducersRequest, TopicRequest
from ottla.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest
from tests.support.client import Client, batch
from tests.support.waiting import eventually

PASSING = {
    ConcurrentTransactions.code,
    CoordinatorLoadInProgress.code,
    CoordinatorNotAvailable.code,
    NotCoordinator.code,
}


SETTINGS = {"transaction.state.log.num.partitions": 3, "offsets.topic.num.partitions": 3}


TOPIC = "data"


def again(ask: Callable[[], Any], errors: Callable[[Any], Iterable[int]] = lambda one: [one.error_code]) -> Any:
    """Asks until no error of the answer is one that passes."""
    answers: list[Any] = []

    def lasts() -> bool:
        answers[:] = [ask()]
        return PASSING.isdisjoint(errors(answers[0]))

    eventually("an answer that lasts", lasts, facts=lambda: answers)
    return answers[0]


def find(client: Client, name: str) -> Any:
    return again(lambda: client.call(FIND_COORDINATOR, FindCoordinatorRequest(key=name, key_type=1), 3))


def init(
    client: Client, name: str | None, *, timeout_ms: int = 60_000, known: tuple[int, int] = (-1, -1), version: int = 4
) -> Any:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
    if version >= 3:
        request.producer_id, request.producer_epoch = known
    return again(lambda: client.call(INIT_PRODUCER_ID, request, version))


def add(client: Client, name: str, producer: Any, *partitions: int, topic: str = TOPIC, version: int = 2) -> list[int]:
    request = AddPartitionsToTxnRequest(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
    )

    def codes(answer: Any) -> list[int]:
        rows = [row for topic in answer.results for row in topic.results]
        assert sorted(row.partition_index for row in rows) == sorted(partitions)
        return [row.error_code for row in sorted(rows, key=lambda row: row.partition_index)]

    return codes(again(lambda: client.call(ADD_PARTITIONS_TO_TXN, request, version), codes))


def end(client: Client, name: str, producer: Any, *, commit: bool = True, version: int = 2) -> int:
    request = EndTxnRequest(
        transactional_id=name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )
    return again(lambda: client.call(END_TXN, request, version)).error_code


def describe(client: Client, name: str) -> Any:
    (row,) = client.call(
        DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=[name]), 0
    ).transaction_states
    assert row.transactional_id == name
    return row


def begun(client: Client, name: str, *partitions: int, **options: int) -> Any:
    find(client, name)
    producer = init(client, name, **options)
    assert producer.error_code == 0
    if partitions:
        assert set(add(client, name, producer, *partitions)) == {0}
    return producer


COMMITTED = 1


def last_offset(client: Client, topic: str, isolation_level: int) -> int:
    row = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-1)
    asked = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name=topic, partitions=[row])]
    )
    (found,) = client.call(LIST_OFFSETS, asked, 5).topics[0].partitions
    assert found.error_code == 0
    return found.offset


def producers(client: Client, topic: str, index: int = 0) -> tuple[int, list[tuple[int, ...]]]:
    asked = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
    (row,) = client.call(DESCRIBE_PRODUCERS, asked).topics[0].partitions
    return row.error_code, [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in row.active_producers
    ]


def mark(client: Client, topic: str, producer: tuple[int, int], *, commit: bool, epoch: int = 0, index: int = 0) -> int:
    """Writes a marker, of which the transaction's coordinator hears nothing; the error code."""
    marker = WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=epoch,
    )
    (row,) = client.call(WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[marker])).markers
    assert row.producer_id == producer[0]
    (partition,) = row.topics[0].partitions
    return partition.error_code


def nothing_hangs(client: Client, topic: str) -> None:
    assert [row for row in producers(client, topic)[1] if row[4] != -1] == []
    assert last_offset(client, topic, COMMITTED) == last_offset(client, topic, 0)


class Writer:
    """A producer that always has a transaction. Where it ends, its coordinator hears nothing of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sequence = 0
        self.id = (0, 0)

    def begin(self, client: Client) -> None:
        found = begun(client, self.name, 0)
        self.id = (found.producer_id, found.producer_epoch)

    def write(self, client: Client, *given: bytes) -> int:
        """Returns the offset."""
        options = {"producer_id": self.id[0], "producer_epoch": self.id[1], "base_sequence": self.sequence}
        records = batch(*given, transactional=True, **options)
        (row,) = client.produce(TOPIC, records, acks=1, transactional_id=self.name).responses[0].partitions
        assert row.error_code == 0
        self.sequence += len(given)
        return row.base_offset

    def end(self, client: Client, *, commit: bool) -> None:
        assert mark(client, TOPIC, self.id, commit=commit) == 0
