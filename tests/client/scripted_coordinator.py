"""The coordinator's half of a scripted broker: of groups with one member each, and of transactions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.client.consumer_protocol import PROTOCOL_TYPE
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotCoordinator,
    OperationNotAttempted,
)
from ottla.kafka import TopicPartition
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.k09_offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.wire.k10_find_coordinator import FindCoordinatorResponse
from ottla.wire.k11_join_group import JOIN_GROUP, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.k12_heartbeat import HEARTBEAT, HeartbeatResponse
from ottla.wire.k13_leave_group import LEAVE_GROUP, LeaveGroupResponse
from ottla.wire.k14_sync_group import SYNC_GROUP, SyncGroupResponse
from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS, DescribedGroup, DescribeGroupsResponse
from ottla.wire.k16_list_groups import ListedGroup, ListGroupsResponse
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdResponse
from ottla.wire.k24_add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnResponse
from ottla.wire.k26_end_txn import END_TXN, EndTxnResponse
from ottla.wire.k28_txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tests.client.scripted_cluster import World


@dataclass
class Transaction:
    """What the coordinator knows of a transactional id."""

    producer_id: int
    epoch: int = 0
    is_open: bool = False
    partitions: set[TopicPartition] = field(default_factory=set)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    #: Codes that the next AddPartitionsToTxn requests with a partition are answered with.
    errors: dict[TopicPartition, deque[int]] = field(default_factory=dict)
    ends: list[bool] = field(default_factory=list)
    """How its transactions ended: committed, or not."""
    written: list[tuple[TopicPartition, int]] = field(default_factory=list)
    """The records of the one that is open."""
    unmarked: set[TopicPartition] = field(default_factory=set)
    """Partitions that had no leader when the last one ended: another one begins when they have their markers."""


class Coordinator:
    """Answers for what the world says that it coordinates, with a code for the rest."""

    world: World
    number: int

    async def _on_10(self, message: Any) -> Any:
        world = self.world
        if world.coordinator is None:
            return FindCoordinatorResponse(error_code=CoordinatorNotAvailable.code)
        found = world.brokers[world.coordinator]
        return FindCoordinatorResponse(node_id=found.number, host="127.0.0.1", port=found.port)

    def _refusal(self, key: int) -> int:
        if befalls := self.world.befalls.pop(key, None):
            befalls()
        if self.world.coordinator != self.number:
            return NotCoordinator.code
        errors = self.world.errors.get(key)
        return errors.popleft() if errors else 0

    async def _on_11(self, message: Any) -> Any:
        world = self.world
        if code := self._refusal(JOIN_GROUP.key):
            return JoinGroupResponse(error_code=code)
        world.members += 1
        name = message.member_id or f"member-{world.members}"
        chosen = message.protocols[0]
        members = [JoinGroupResponseMember(name, None, bytes(chosen.metadata))]
        return JoinGroupResponse(0, 0, world.members, PROTOCOL_TYPE, chosen.name, name, name, members)

    async def _on_14(self, message: Any) -> Any:
        code = self._refusal(SYNC_GROUP.key)
        mine = b"" if code else bytes(message.assignments[0].assignment)
        return SyncGroupResponse(0, code, PROTOCOL_TYPE, message.protocol_name, mine)

    async def _on_12(self, message: Any) -> Any:
        return HeartbeatResponse(error_code=self._refusal(HEARTBEAT.key))

    async def _on_13(self, message: Any) -> Any:
        return LeaveGroupResponse(error_code=self._refusal(LEAVE_GROUP.key))

    async def _on_15(self, message: Any) -> Any:
        rows = [DescribedGroup(self._refusal(DESCRIBE_GROUPS.key), name, "Empty") for name in message.groups]
        return DescribeGroupsResponse(groups=rows)

    async def _on_16(self, message: Any) -> Any:
        return ListGroupsResponse(groups=[ListedGroup("g", PROTOCOL_TYPE, "Empty")])

    async def _on_8(self, message: Any) -> Any:
        code = self._refusal(OFFSET_COMMIT.key)
        topics = []
        for each in message.topics:
            for row in each.partitions:
                if not code:
                    self.world.committed[TopicPartition(each.name, row.partition_index)] = row.committed_offset
            rows = [OffsetCommitResponsePartition(row.partition_index, code) for row in each.partitions]
            topics.append(OffsetCommitResponseTopic(each.name, rows))
        return OffsetCommitResponse(topics=topics)

    async def _on_9(self, message: Any) -> Any:
        if code := self._refusal(OFFSET_FETCH.key):
            return OffsetFetchResponse(error_code=code)
        committed = self.world.committed
        if message.topics is None:
            asked = sorted(committed)
        else:
            asked = [TopicPartition(each.name, number) for each in message.topics for number in each.partition_indexes]
        topics = [
            OffsetFetchResponseTopic(
                each.topic, [OffsetFetchResponsePartition(each.partition, committed.get(each, -1))]
            )
            for each in asked
        ]
        return OffsetFetchResponse(topics=topics)

    # --- transactions ---

    async def _on_22(self, message: Any) -> Any:
        if message.transactional_id is None:
            return InitProducerIdResponse(producer_id=1)
        if code := self._refusal(INIT_PRODUCER_ID.key):
            return InitProducerIdResponse(error_code=code)
        known = self.world.transactions
        found = known.setdefault(message.transactional_id, Transaction(1000 + len(known), -1))
        if self._is_ending(found):
            return InitProducerIdResponse(error_code=ConcurrentTransactions.code)
        found.epoch += 1
        self._end(found, False)
        return InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.epoch)

    def _transaction(self, key: int, message: Any) -> tuple[Transaction | None, int]:
        """The one that a request is about, or the code that refuses it."""
        if code := self._refusal(key):
            return None, code
        found = self.world.transactions[message.transactional_id]
        if (message.producer_id, message.producer_epoch) != (found.producer_id, found.epoch):
            return None, InvalidProducerEpoch.code
        if key != END_TXN.key and self._is_ending(found):
            return None, ConcurrentTransactions.code
        return found, 0

    def _is_ending(self, transaction: Transaction) -> bool:
        transaction.unmarked = {each for each in transaction.unmarked if not self.world.leads(each)}
        return bool(transaction.unmarked)

    async def _on_24(self, message: Any) -> Any:
        found, code = self._transaction(ADD_PARTITIONS_TO_TXN.key, message)
        places = [TopicPartition(each.name, number) for each in message.topics for number in each.partitions]
        codes = dict.fromkeys(places, code)
        if found is not None:
            refused = {each: found.errors[each].popleft() for each in places if found.errors.get(each)}
            if refused:
                codes = dict.fromkeys(places, OperationNotAttempted.code) | refused
            else:
                found.is_open = True
                found.partitions.update(places)
        topics: dict[str, AddPartitionsToTxnTopicResult] = {}
        for place in places:
            row = AddPartitionsToTxnPartitionResult(place.partition, codes[place])
            topics.setdefault(place.topic, AddPartitionsToTxnTopicResult(place.topic, [])).results.append(row)
        return AddPartitionsToTxnResponse(results=list(topics.values()))

    async def _on_25(self, message: Any) -> Any:
        found, code = self._transaction(ADD_OFFSETS_TO_TXN.key, message)
        if found is not None:
            found.is_open = True
        return AddOffsetsToTxnResponse(error_code=code)

    async def _on_28(self, message: Any) -> Any:
        """Of the group's coordinator, which asks nobody."""
        code = self._refusal(TXN_OFFSET_COMMIT.key)
        topics = []
        for each in message.topics:
            for row in each.partitions:
                if not code:
                    place = TopicPartition(each.name, row.partition_index)
                    self.world.transactions[message.transactional_id].offsets[place] = row.committed_offset
            rows = [TxnOffsetCommitResponsePartition(row.partition_index, code) for row in each.partitions]
            topics.append(TxnOffsetCommitResponseTopic(each.name, rows))
        return TxnOffsetCommitResponse(topics=topics)

    async def _on_26(self, message: Any) -> Any:
        found, code = self._transaction(END_TXN.key, message)
        if found is None:
            return EndTxnResponse(error_code=code)
        if found.is_open:
            self._end(found, message.committed)
        elif found.ends[-1:] != [message.committed]:
            return EndTxnResponse(error_code=InvalidTxnState.code)
        return EndTxnResponse()

    def _end(self, transaction: Transaction, committed: bool) -> None:
        if transaction.is_open:
            transaction.ends.append(committed)
            if committed:
                self.world.committed.update(transaction.offsets)
            else:
                for partition, offset in transaction.written:
                    self.world[partition].aborted.add(offset)
            transaction.unmarked = {each for each in transaction.partitions if not self.world.leads(each)}
        transaction.is_open = False
        transaction.partitions.clear()
        transaction.written.clear()
        transaction.offsets.clear()
