"""The transaction coordinator as a running part of a broker: it loads, watches the clock, and sends markers.

Requests go straight to `coordinator`, which answers through callbacks; only what must wait first is here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection

import trio

from ottla.config import BrokerConfig
from ottla.coordination.tree import TreeError
from ottla.errors import (
    CoordinatorLoadInProgress,
    CorruptMessage,
    KafkaError,
    NotLeaderOrFollower,
    counted,
)
from ottla.kafka import NO_EPOCH, TopicPartition
from ottla.net.guard import failed
from ottla.peers import Dialer
from ottla.replication.internal_topic import InternalTopic
from ottla.slices import Slices
from ottla.transaction.coordinator import Coordinator
from ottla.transaction.sender import Directory, Sender
from ottla.transaction.shard import Shard
from ottla.transaction.transaction import NO_PRODUCER_ID

logger = logging.getLogger("ottla.transactions")

LOAD_RETRY_MS = 1000


class Transactions:
    """Transactions as the rest of the broker sees them. `next_producer_id` gives an id that nobody had; it may raise
    TreeError. `wall_ms` is the time that stands in records, in milliseconds since 1970.
    """

    def __init__(
        self,
        topic: InternalTopic,
        config: BrokerConfig,
        directory: Directory,
        next_producer_id: Callable[[], Awaitable[int]],
        dialer: Dialer,
        wall_ms: Callable[[], int],
    ) -> None:
        self.topic = topic
        self.coordinator = Coordinator(
            topic,
            wall_ms,
            config.get_int("transaction.max.timeout.ms"),
            wake=lambda: self._sender.wake(),
            may_be_replaced=directory.may_be_replaced,
        )
        self._directory = directory
        self._next_producer_id = next_producer_id
        self._sender = Sender(self.coordinator, directory, dialer)
        self._abort_interval_ms = config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        self._expire_interval_ms = config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms")
        self._expiration_ms = config.get_int("transactional.id.expiration.ms")
        self._nursery: trio.Nursery

    async def run(self) -> None:
        """Coordinates until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._sender.run)
            self._nursery.start_soon(self._every, self._abort_interval_ms, self.coordinator.abort_timed_out)
            self._nursery.start_soon(self._every, self._expire_interval_ms, self._expire)
            self.topic.subscribe(self)
            await trio.sleep_forever()

    async def _every(self, interval_ms: int, visit: Callable[[Shard], None]) -> None:
        while True:
            await trio.sleep(interval_ms / 1000)
            slices = Slices(own=True)
            for shard in tuple(self.coordinator.shards.values()):
                try:
                    visit(shard)
                except BaseException as error:
                    failed(f"a periodic look at the transactions of partition {shard.index}", error)
                # Each has thousands of ids.
                await slices.end()

    def _expire(self, shard: Shard) -> None:
        self.coordinator.expire(shard, self._expiration_ms)

    # --- roles: called by the topic ---

    def elected(self, index: int, leader_epoch: int) -> None:
        shard = self.coordinator.elected(index, leader_epoch)
        self._nursery.start_soon(self._load, shard)

    def resigned(self, index: int) -> None:
        self.coordinator.resigned(index)

    async def _load(self, shard: Shard) -> None:
        started = trio.current_time()
        while shard.current:
            try:
                records = await self._replay(shard)
            except NotLeaderOrFollower:
                return
            except KafkaError as problem:
                logger.error("%s-%d cannot be read, trying again: %s", self.topic.name, shard.index, problem)
                shard.transactions.clear()
                await trio.sleep(LOAD_RETRY_MS / 1000)
                continue
            self.coordinator.loaded(shard)
            if records:
                logger.info(
                    "coordinating %s of %s-%d under epoch %d, read from %s in %d ms",
                    counted(len(shard.transactions), "transactional id"),
                    *(self.topic.name, shard.index, shard.epoch, counted(records, "record")),
                    (trio.current_time() - started) * 1000,
                )
            return

    async def _replay(self, shard: Shard) -> int:
        count = 0
        async for batch in self.topic.load(shard.index):
            if not shard.current:
                raise NotLeaderOrFollower
            for offset, key, value in batch.records:
                count += 1
                try:
                    shard.replay(key, value)
                except CorruptMessage as problem:
                    logger.error("%s-%d offset %d is left out: %s", self.topic.name, shard.index, offset, problem)
        return count

    # --- requests ---

    async def initialize(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None
    ) -> tuple[int, int, int]:
        """InitProducerId: error code, producer id, epoch."""
        new_producer_id = NO_PRODUCER_ID
        if self.coordinator.needs_producer_id(transactional_id):
            try:
                new_producer_id = await self._next_producer_id()
            except KafkaError as problem:
                return problem.code, NO_PRODUCER_ID, NO_EPOCH
            except TreeError:
                # The tree is away: the client asks again.
                return CoordinatorLoadInProgress.code, NO_PRODUCER_ID, NO_EPOCH
        answered = trio.Event()
        answer = (0, NO_PRODUCER_ID, NO_EPOCH)

        def initialized(code: int, producer_id: int, epoch: int) -> None:
            nonlocal answer
            answer = code, producer_id, epoch
            answered.set()

        self.coordinator.initialize(transactional_id, timeout_ms, expected, new_producer_id, initialized)
        await answered.wait()
        return answer

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Before a transaction's first batch in a partition is appended: 0 where the transaction has the partition,
        else the error code (KIP-890).

        Where another broker coordinates the id, all is taken as true: no release up to 2.7 can be asked.
        """
        index = self.topic.partition_for(transactional_id)
        own = TopicPartition(self.topic.name, index)
        if index not in self.coordinator.shards and self._directory.is_led_elsewhere(own):
            return dict.fromkeys(partitions, 0)
        return self.coordinator.verify(transactional_id, producer_id, producer_epoch, partitions)
