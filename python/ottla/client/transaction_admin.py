"""What an administrator sees of transactions, and the one thing to be done about them: ending one that hangs (KIP-664).

A transaction hangs in a partition when its coordinator does not know (any more) that the partition is part of it:
nobody will ever end it there, and readers of committed records stop before it. A marker written past the coordinator
ends it.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ottla.client.answers import row_about
from ottla.client.cluster import Cluster
from ottla.client.coordinators import find_coordinator, while_coordinator
from ottla.errors import TransactionalIdNotFound, UnknownTopicOrPartition, check
from ottla.kafka import COORDINATOR_OF_TRANSACTION, TopicPartition
from ottla.wire.k27_write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.wire.k61_describe_producers import DESCRIBE_PRODUCERS, DescribeProducersRequest, TopicRequest
from ottla.wire.k65_describe_transactions import (
    DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.k66_list_transactions import LIST_TRANSACTIONS, ListTransactionsRequest

MAX_TIMEOUT_MS = 900_000
"""`transaction.max.timeout.ms` unless a broker is told otherwise: no healthy transaction is older."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id that broker `coordinator` has. `state` as Kafka writes it, such as `CompleteCommit`."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id in full. `started_ms` is since the epoch, None where no transaction was begun since the last
    producer came; `partitions` are those of the open transaction, or those whose marker is still to be written.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer as a partition remembers it. `start_offset` is where its open transaction begins, None without one;
    `coordinator_epoch` that of its last marker, -1 without one.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int | None


class TransactionAdmin:
    """Calls about transactions over a `Cluster`. Errors are `KafkaError`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = (), open_longer_than_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers, those of some states or producers, in order.

        A state that no broker knows matches nothing. `open_longer_than_ms` needs brokers of 3.8, or ours.
        """
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=open_longer_than_ms,
        )

        async def once() -> list[TransactionListing]:
            await self.cluster.refresh([])
            found = []
            for broker, address in self.cluster.metadata.brokers.items():
                connection = await self.cluster.connection(address)
                answer = await connection.call(LIST_TRANSACTIONS, request, timeout_ms=self.cluster.timeout_ms)
                check(answer.error_code)
                found += [
                    TransactionListing(each.transactional_id, broker, each.producer_id, each.transaction_state)
                    for each in answer.transaction_states
                ]
            return sorted(found, key=lambda each: each.transactional_id)

        return await self.cluster.retry(once)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """One transactional id.

        Raises:
            TransactionalIdNotFound: there is none of this name, or it has expired.
        """

        async def once() -> TransactionDescription:
            broker, address = await find_coordinator(self.cluster, transactional_id, COORDINATOR_OF_TRANSACTION)
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

            async def call() -> DescribeTransactionsResponse:
                connection = await self.cluster.connection(address)
                return await connection.call(DESCRIBE_TRANSACTIONS, request, timeout_ms=self.cluster.timeout_ms)

            answer = await while_coordinator(self.cluster, transactional_id, address, call, COORDINATOR_OF_TRANSACTION)
            row = row_about(f"transactional id '{transactional_id}'", answer.transaction_states)
            check(row.error_code, f"transactional id '{transactional_id}'")
            started_ms = row.transaction_start_time_ms
            return TransactionDescription(
                transactional_id,
                broker,
                row.producer_id,
                row.producer_epoch,
                row.transaction_state,
                row.transaction_timeout_ms,
                started_ms if started_ms >= 0 else None,
                tuple(TopicPartition(each.topic, index) for each in row.topics for index in each.partitions),
            )

        return await self.cluster.retry(once)

    async def describe_producers(self, partitions: Iterable[TopicPartition]) -> list[ProducerState]:
        """The producers that the partitions' leaders remember, in the order of the partitions.

        Raises:
            UnknownTopicOrPartition: one does not exist.
        """
        wanted = list(dict.fromkeys(partitions))

        async def once() -> list[ProducerState]:
            found: dict[TopicPartition, list[ProducerState]] = {}
            for leader, led in (await self.cluster.by_leader(wanted)).items():
                topics: dict[str, list[int]] = {}
                for topic, index in led:
                    topics.setdefault(topic, []).append(index)
                request = DescribeProducersRequest(
                    topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
                )
                connection = await self.cluster.connection(leader)
                answer = await connection.call(DESCRIBE_PRODUCERS, request, timeout_ms=self.cluster.timeout_ms)
                for row in answer.topics:
                    for each in row.partitions:
                        partition = TopicPartition(row.name, each.partition_index)
                        if each.error_code:
                            self.cluster.forget([row.name])
                        check(each.error_code, each.error_message or str(partition))
                        found[partition] = [
                            ProducerState(
                                partition,
                                producer.producer_id,
                                producer.producer_epoch,
                                producer.coordinator_epoch,
                                producer.last_sequence,
                                producer.last_timestamp,
                                producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None,
                            )
                            for producer in each.active_producers
                        ]
            return [producer for partition in wanted for producer in found[partition]]

        return await self.cluster.retry(once, final=(UnknownTopicOrPartition,))

    async def hanging_transactions(
        self, partitions: Iterable[TopicPartition] | None = None, *, max_timeout_ms: int = MAX_TIMEOUT_MS
    ) -> list[ProducerState]:
        """The open transactions, in these partitions or all, that nobody will end: they had no write for
        `max_timeout_ms`, and their producer's coordinator does not have the partition in an open transaction.
        """
        if partitions is None:
            answer = await self.cluster.retry(self.cluster.refresh)
            partitions = [
                TopicPartition(topic.name, each.partition_index) for topic in answer.topics for each in topic.partitions
            ]
        oldest_ms = time.time_ns() // 1_000_000 - max_timeout_ms
        candidates = [
            producer
            for producer in await self.describe_producers(partitions)
            if producer.start_offset is not None and producer.last_timestamp_ms < oldest_ms
        ]
        if not candidates:
            return []
        listed = await self.list_transactions(producer_ids={producer.producer_id for producer in candidates})
        names = {each.producer_id: each.transactional_id for each in listed}
        open_partitions = {
            producer_id: await self._open_partitions(transactional_id)
            for producer_id, transactional_id in names.items()
        }
        return [each for each in candidates if each.partition not in open_partitions.get(each.producer_id, ())]

    async def _open_partitions(self, transactional_id: str) -> Collection[TopicPartition]:
        try:
            return (await self.describe_transaction(transactional_id)).partitions
        except TransactionalIdNotFound:
            return ()

    async def abort_transaction(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int = -1
    ) -> None:
        """Writes an abort marker into one partition, past the coordinator. For transactions that hang: one that is
        alive would lose this partition's records.

        Raises:
            InvalidProducerEpoch: the producer has a later epoch there. TransactionCoordinatorFenced: so has its
            coordinator. UnknownTopicOrPartition: there is no such partition.
        """
        topics = [WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])]
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=topics,
            # A producer that never ended a transaction there has none: 0 is not after any coordinator's.
            coordinator_epoch=max(coordinator_epoch, 0),
        )

        async def once() -> None:
            connection = await self.cluster.connection(await self.cluster.leader(partition))
            answer = await connection.call(
                WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[marker]), timeout_ms=self.cluster.timeout_ms
            )
            topic = row_about(str(partition), row_about(str(partition), answer.markers).topics)
            code = row_about(str(partition), topic.partitions).error_code
            if code:
                self.cluster.forget([partition.topic])
            check(code, str(partition))

        await self.cluster.retry(once, final=(UnknownTopicOrPartition,))
