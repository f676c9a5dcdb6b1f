"""Moving replicas between this broker's log directories while they serve (KIP-113, AlterReplicaLogDirs).

The copy is a *future* log in the other directory. A few tasks copy one partition each, a piece at a time on a worker
thread, the partition first that comes first by name, as Kafka's ReplicaAlterLogDirsThread does; whoever catches up
takes the place of the current log (see `rust/log/moving.rs`). `replica.alter.log.dirs.io.max.bytes.per.second` holds
for all of them together.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import trio

from ottla.errors import KafkaError, OffsetOutOfRange
from ottla.kafka import PartitionKey
from ottla.logging_setup import of_partition

if TYPE_CHECKING:
    from ottla.replication.log_manager import LogManager
    from ottla.replication.partition import Partition

logger = logging.getLogger("ottla.moves")


#: What is copied between two looks at the throttle; a larger piece gains nothing.
PIECE_BYTES = 1 << 20
#: Before copying is tried again after an error that does not take a directory out of use.
RETRY_SECONDS = 1.0


class Replicas(Protocol):
    """What moves need of the broker's replicas."""

    @property
    def partitions(self) -> Mapping[PartitionKey, Partition]:
        """Those that the broker has a role for."""

    async def replace_with_future(self, key: PartitionKey) -> bool:
        """Ends the move of a partition. False if too much is left of it. Raises StorageError."""

    def check_directories(self) -> bool:
        """Takes the partitions of log directories that failed offline. False if there is none that is news."""


class Moves:
    """The moves of one broker: `start` names a partition that has a future log, `run` does the work."""

    def __init__(self, replicas: Replicas, logs: LogManager) -> None:
        self._replicas = replicas
        self._logs = logs
        self._waiting: set[PartitionKey] = set()
        self._running: set[PartitionKey] = set()
        self._idle = trio.lowlevel.ParkingLot()
        self._free_at = 0.0

    def start(self, topic: str, index: int) -> None:
        """Goes on with a move, once the partition has a role. Nothing happens to one that is under way."""
        if (topic, index) not in self._running:
            self._waiting.add((topic, index))
            self._idle.unpark()

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(self._logs.move_threads):
                nursery.start_soon(self._work)

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                await self._idle.park()
            key = min(self._waiting)
            self._waiting.remove(key)
            self._running.add(key)
            try:
                await self._move(key)
            finally:
                self._running.remove(key)

    async def _move(self, key: PartitionKey) -> None:
        """Until the copy has taken the log's place, or there is nothing to move any more."""
        logger.info("copying %s-%d into its new log directory begins or goes on", *key, extra=of_partition(*key))
        while True:
            partition = self._replicas.partitions.get(key)
            current, future = self._logs.logs.get(key), self._logs.futures.get(key)
            if partition is None or partition.is_offline or current is None or future is None:
                return
            piece_bytes = min(PIECE_BYTES, max(1, self._rate))
            try:
                copied = await trio.to_thread.run_sync(current.copy_to, future, piece_bytes)
                if copied < piece_bytes and await self._replicas.replace_with_future(key):
                    return
            except OffsetOutOfRange:
                continue  # records were deleted meanwhile: the next piece begins behind them
            except KafkaError as error:
                if self._logs.futures.get(key) is future and not self._replicas.check_directories():
                    logger.error(
                        "copying %s-%d into its new log directory failed: %s", *key, error, extra=of_partition(*key)
                    )
                    await trio.sleep(RETRY_SECONDS)
                continue
            await self._throttle(copied)

    @property
    def _rate(self) -> int:
        return self._logs.config.get_int("replica.alter.log.dirs.io.max.bytes.per.second")

    async def _throttle(self, copied: int) -> None:
        now = trio.current_time()
        self._free_at = max(now, self._free_at) + copied / max(1, self._rate)
        if self._free_at > now:
            await trio.sleep_until(self._free_at)
