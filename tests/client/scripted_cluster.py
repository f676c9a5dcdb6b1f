"""Brokers of a cluster that does what a test says: leaders move, stand still or are gone, logs are cut, topics are made
anew. They speak Kafka's protocol on real sockets, in the test's own trio run.

What they know is one `World`; each broker leads what the world says that it leads, and answers for what it does not
with the code that Kafka has for that.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from ottla import _core
from ottla.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.kafka import EARLIEST, LATEST, NO_EPOCH, NO_LEADER, TopicPartition
from ottla.wire import headers
from ottla.wire.k00_produce import PRODUCE, PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.wire.k01_fetch import FETCH, FetchablePartitionResponse, FetchableTopicResponse, FetchResponse
from ottla.wire.k02_list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.k03_metadata import (
    METADATA,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.k08_offset_commit import (
    OFFSET_COMMIT,
)
from ottla.wire.k09_offset_fetch import (
    OFFSET_FETCH,
)
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR
from ottla.wire.k11_join_group import JOIN_GROUP
from ottla.wire.k12_heartbeat import HEARTBEAT
from ottla.wire.k13_leave_group import LEAVE_GROUP
from ottla.wire.k14_sync_group import SYNC_GROUP
from ottla.wire.k15_describe_groups import DESCRIBE_GROUPS
from ottla.wire.k16_list_groups import LIST_GROUPS
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsResponse, ApiVersionsResponseKey
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID
from ottla.wire.k23_offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from ottla.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from ottla.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from ottla.wire.k26_end_txn import END_TXN
from ottla.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from ottla.wire.schema import Api
from tests.client.scripted_coordinator import Coordinator, Transaction
from tests.support.client import batch

APIS: dict[int, Api[Any, Any]] = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        API_VERSIONS,
        INIT_PRODUCER_ID,
        ADD_PARTITIONS_TO_TXN,
        ADD_OFFSETS_TO_TXN,
        END_TXN,
        TXN_OFFSET_COMMIT,
        OFFSET_FOR_LEADER_EPOCH,
    )
}
VERSIONS = ApiVersionsResponse(api_keys=[ApiVersionsResponseKey(key, 0, api.versions[-1]) for key, api in APIS.items()])


@dataclass
class Part:
    """A partition: its leader, if it has one, and the records by offset, from `start` on, with their epochs."""

    leader: int | None = 1
    epoch: int = 0
    start: int = 0
    records: list[tuple[int, bytes]] = field(default_factory=list)
    #: Codes that the next Fetch and Produce requests are answered with.
    errors: deque[int] = field(default_factory=deque)
    #: Offsets of records whose transaction was aborted.
    aborted: set[int] = field(default_factory=set)
    #: Offsets of records whose checksum is wrong.
    damaged: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def add(self, *values: bytes) -> None:
        self.records += [(self.epoch, value) for value in values]

    def moves(self, leader: int | None) -> None:
        """Another broker leads it, in the next epoch."""
        self.leader = leader
        self.epoch += 1

    def loses(self, count: int) -> None:
        """Its last records, as under an unclean election."""
        del self.records[len(self.records) - count :]

    def batches(self, offset: int) -> bytes:
        """All records from an offset on, a batch each."""
        made = b""
        for number, (epoch, value) in enumerate(self.records[offset - self.start :], offset):
            one = batch(value)
            if number in self.damaged:
                one = one[:-1] + bytes([one[-1] ^ 1])
            made += number.to_bytes(8, "big") + one[8:12] + epoch.to_bytes(4, "big") + one[16:]
        return made

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to this one, and where it ends."""
        known = [each for each, _ in self.records if each <= epoch]
        if not known:
            return NO_EPOCH, -1
        return max(known), self.start + sum(each <= max(known) for each, _ in self.records)


class World:
    """What all brokers know. Call `change` after changes that fetches which wait are to see."""

    def __init__(self, *brokers: int) -> None:
        self.brokers = {number: Broker(self, number) for number in brokers}
        self.topics: dict[str, dict[int, Part]] = {}
        self.coordinator: int | None = brokers[0]
        self.committed: dict[TopicPartition, int] = {}
        #: Codes that the next requests of an API to the coordinator are answered with.
        self.errors: dict[int, deque[int]] = {}
        #: What happens when the next request of an API comes to the coordinator, before it is looked at.
        self.befalls: dict[int, Callable[[], None]] = {}
        self.members = 0
        self.transactions: dict[str, Transaction] = {}
        self._changed = trio.Event()

    def __getitem__(self, partition: TopicPartition) -> Part:
        return self.topics[partition.topic][partition.partition]

    def leads(self, partition: TopicPartition) -> bool:
        """Returns True if a broker leads the partition."""
        leader = self[partition].leader
        return leader is not None and not self.brokers[leader].is_dead

    def topic(self, name: str, *leaders: int | None) -> None:
        """A new topic with so many partitions."""
        self.topics[name] = {number: Part(leader) for number, leader in enumerate(leaders)}

    def change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def changed_before(self, deadline: float) -> None:
        with trio.move_on_at(deadline):
            await self._changed.wait()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[World]:
        """Until the block ends."""
        async with trio.open_nursery() as nursery:
            for broker in self.brokers.values():
                serve = partial(trio.serve_tcp, broker.serve, 0, host="127.0.0.1")
                (listener,) = await nursery.start(serve)
                broker.port = listener.socket.getsockname()[1]
            yield self
            nursery.cancel_scope.cancel()


class Broker(Coordinator):
    """One of them. `stands_still` keeps it from answering, `is_dead` closes what connects, `hangs_up` closes each
    connection after an answer of these APIs, and `swallows` are answers that are lost with their connection. `babbles`
    are bytes that the next request of an API gets instead of being carried out, and `instead` messages.
    """

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.host = "127.0.0.1"
        self.port = 0
        self.is_dead = False
        self.hangs_up: set[int] = set()
        self.swallows: Counter[int] = Counter()
        self.babbles: dict[int, bytes] = {}
        self.instead: dict[int, Any] = {}
        self.asked: Counter[str] = Counter()
        self._may_go_on = trio.Event()
        self._may_go_on.set()
        self._streams: set[trio.SocketStream] = set()

    def stands_still(self) -> None:
        self._may_go_on = trio.Event()

    def goes_on(self) -> None:
        self._may_go_on.set()

    async def dies(self) -> None:
        self.is_dead = True
        for stream in list(self._streams):
            await trio.aclose_forcefully(stream)

    async def serve(self, stream: trio.SocketStream) -> None:
        self._streams.add(stream)
        try:
            buffer = b""
            while not self.is_dead:
                while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "big"):
                    data = await stream.receive_some()
                    if not data:
                        return
                    buffer += data
                size = 4 + int.from_bytes(buffer[:4], "big")
                frame, buffer = buffer[4:size], buffer[size:]
                key = await self._answer(stream, frame)
                if key in self.hangs_up:
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._streams.discard(stream)
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.SocketStream, frame: bytes) -> int:
        key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
        length = int.from_bytes(frame[8:10], "big", signed=True)
        body = 10 + max(0, length) + (headers.request_header_version(key, version) == 2)
        api = APIS[key]
        self.asked[api.name] += 1
        await self._may_go_on.wait()
        if (babble := self.babbles.pop(key, None)) is not None:
            await stream.send_all(babble)
            return key
        handler: Callable[[Any], Awaitable[Any]] = getattr(self, f"_on_{key}")
        answer = self.instead.pop(key, None) or await handler(api.decode_request(version, frame, body))
        await self._may_go_on.wait()
        if self.swallows[key]:
            self.swallows[key] -= 1
            raise trio.BrokenResourceError
        made = api.encode_response(version, answer)
        tags = b"\0" if headers.response_header_version(key, version) else b""
        await stream.send_all((4 + len(tags) + len(made)).to_bytes(4, "big") + frame[4:8] + tags + made)
        return key

    def _part(self, partition: TopicPartition, epoch: int = NO_EPOCH) -> tuple[Part | None, int]:
        """The partition if this broker leads it in this epoch, and the code that says otherwise."""
        part = self.world.topics.get(partition.topic, {}).get(partition.partition)
        if part is None:
            return None, UnknownTopicOrPartition.code
        if part.leader != self.number:
            return None, NotLeaderOrFollower.code
        if epoch not in (NO_EPOCH, part.epoch):
            return None, (FencedLeaderEpoch if epoch < part.epoch else UnknownLeaderEpoch).code
        return part, 0

    async def _on_18(self, message: Any) -> Any:
        return VERSIONS

    async def _on_3(self, message: Any) -> Any:
        world = self.world
        living = [each for each in world.brokers.values() if not each.is_dead]
        names = world.topics if message.topics is None else [each.name for each in message.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(each.number, each.host, each.port) for each in living],
            cluster_id="scripted",
            controller_id=living[0].number if living else NO_LEADER,
            topics=[
                MetadataResponseTopic(
                    error_code=0 if name in world.topics else UnknownTopicOrPartition.code,
                    name=name,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=number,
                            leader_id=NO_LEADER if part.leader is None else part.leader,
                            leader_epoch=part.epoch,
                        )
                        for number, part in world.topics.get(name, {}).items()
                    ],
                )
                for name in names
            ],
        )

    async def _on_1(self, message: Any) -> Any:
        deadline = trio.current_time() + message.max_wait_ms / 1000
        while True:
            rows = [
                (each.topic, row, *self._fetched(each.topic, row)) for each in message.topics for row in each.partitions
            ]
            if trio.current_time() >= deadline or any(code or data for _, _, code, data, _ in rows):
                break
            await self.world.changed_before(deadline)
        topics: dict[str, FetchableTopicResponse] = {}
        for name, row, code, data, end in rows:
            topics.setdefault(name, FetchableTopicResponse(name)).partition_responses.append(
                FetchablePartitionResponse(
                    partition=row.partition,
                    error_code=code,
                    high_watermark=end,
                    last_stable_offset=end,
                    record_set=data,
                )
            )
        return FetchResponse(responses=list(topics.values()))

    def _fetched(self, topic: str, row: Any) -> tuple[int, bytes, int]:
        """The code, records, and the end of the log."""
        part, code = self._part(TopicPartition(topic, row.partition), row.current_leader_epoch)
        if part is None:
            return code, b"", -1
        if part.errors:
            return part.errors.popleft(), b"", -1
        if not part.start <= row.fetch_offset <= part.end:
            return OffsetOutOfRange.code, b"", -1
        return 0, part.batches(row.fetch_offset), part.end

    async def _on_2(self, message: Any) -> Any:
        topics = []
        for each in message.topics:
            rows = []
            for row in each.partitions:
                part, code = self._part(TopicPartition(each.name, row.partition_index))
                offset = -1
                if part is not None:
                    offset = {EARLIEST: part.start, LATEST: part.end}[row.timestamp]
                rows.append(ListOffsetsPartitionResponse(row.partition_index, code, offset=offset))
            topics.append(ListOffsetsTopicResponse(each.name, rows))
        return ListOffsetsResponse(topics=topics)

    async def _on_23(self, message: Any) -> Any:
        topics = []
        for each in message.topics:
            rows = []
            for row in each.partitions:
                partition = TopicPartition(each.name, row.partition_index)
                part, code = self._part(partition, row.current_leader_epoch)
                epoch, end = (NO_EPOCH, -1) if part is None else part.end_of(row.leader_epoch)
                rows.append(OffsetForLeaderPartitionResult(code, row.partition_index, epoch, end))
            topics.append(OffsetForLeaderTopicResult(each.name, rows))
        return OffsetForLeaderEpochResponse(topics=topics)

    async def _on_0(self, message: Any) -> Any:
        topics = []
        for each in message.topics:
            rows = []
            for row in each.partitions:
                part, code = self._part(TopicPartition(each.name, row.partition_index))
                offset = -1
                if part is not None and part.errors:
                    code = part.errors.popleft()
                elif part is not None:
                    offset = part.end
                    part.add(*values_of(row.records))
                    if message.transactional_id is not None:
                        written = self.world.transactions[message.transactional_id].written
                        place = TopicPartition(each.name, row.partition_index)
                        written += [(place, number) for number in range(offset, part.end)]
                rows.append(PartitionProduceResponse(row.partition_index, code, offset))
            topics.append(TopicProduceResponse(each.name, rows))
        self.world.change()
        return ProduceResponse(responses=topics)


def values_of(records: bytes) -> list[bytes]:
    """The values in a Produce request's batches."""
    found = []
    for each in _core.read_batches(records):
        whole = records[each.position : each.position + each.size_bytes]
        found += [bytes(record.value or b"") for record in _core.RecordReader(whole)]
    return found
