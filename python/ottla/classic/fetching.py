"""Fetches for one stream: a task that polls the leaders of its partitions, as long as the stream has room.

Not through `ottla.client.Consumer`: that makes an object of each record here, in the loop's thread, and what the
stream does with it then costs half as much again. The stream decodes what came as it came, one message at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

import trio

from ottla import _core
from ottla.classic.config import ConsumerConfig
from ottla.classic.stream import AnyStream, Chunk
from ottla.client.cluster import Address, Cluster
from ottla.client.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from ottla.client.offsets import list_offsets
from ottla.errors import CorruptMessage, KafkaError, OffsetOutOfRange, ProtocolError, error
from ottla.kafka import CONSUMER, EARLIEST, LATEST, TopicPartition

logger = logging.getLogger(__name__)

FETCH_BYTES = 16 * 1024 * 1024
"""Of one answer, whatever its partitions."""


class StreamFetcher:
    """`change` says which partitions; between changes a task, `run`, fetches them."""

    def __init__(
        self, config: ConsumerConfig, stream: AnyStream, brokers: Sequence[Address], soon: Callable[..., None]
    ) -> None:
        self._config = config
        self._stream = stream
        self._cluster = Cluster(
            [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in brokers],
            client_id=config.client_id or config.group_id,
            timeout_ms=config.socket_timeout_ms,
        )
        self._next: dict[TopicPartition, int | None] = {}
        """Where to fetch on; None: where `auto.offset.reset` says."""
        self._lock = trio.Lock()
        self._changes = 0
        self._polling = trio.CancelScope()
        self._wake = trio.Event()
        self._failed = False
        stream.has_room = lambda: soon(self._set)

    def _set(self) -> None:
        self._wake.set()

    async def change(
        self, add: Mapping[TopicPartition, int | None] | None = None, remove: Collection[TopicPartition] = ()
    ) -> None:
        """After this nothing comes of the partitions that were removed."""
        self._changes += 1
        self._polling.cancel()
        try:
            async with self._lock:
                for place in remove:
                    self._next.pop(place, None)
                for place, offset in (add or {}).items():
                    self._next[place] = offset
                    if offset is not None:
                        self._stream.start(place, offset)
                self._failed = False
        finally:
            self._changes -= 1
        self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                # What is set from here on is seen by the wait.
                self._wake = trio.Event()
                if not self._next or self._stream.is_full or self._failed:
                    await self._wake.wait()
                    continue
                async with self._lock:
                    if self._changes:  # asked for while this waited for the lock; it is next
                        continue
                    with trio.CancelScope() as self._polling:
                        await self._poll()
        finally:
            with trio.CancelScope(shield=True):
                await self._cluster.aclose()

    async def _poll(self) -> None:
        try:
            await self._begin()
            asked = {place: at for place, at in self._next.items() if at is not None}
            answers: list[tuple[TopicPartition, _core.FetchedPartition]] = []
            leaders = await self._cluster.by_leader(asked)
            async with trio.open_nursery() as nursery:
                for leader, places in leaders.items():
                    nursery.start_soon(self._ask, leader, {place: asked[place] for place in places}, answers)
            await self._take(asked, answers)
        except (OffsetOutOfRange, CorruptMessage) as problem:
            self._fail(problem)
        except (KafkaError, OSError, ProtocolError) as problem:
            logger.warning("group '%s' cannot fetch: %s", self._config.group_id, problem)
            await self._back_off()

    async def _ask(
        self,
        leader: Address,
        asked: Mapping[TopicPartition, int],
        answers: list[tuple[TopicPartition, _core.FetchedPartition]],
    ) -> None:
        topics: dict[str, list[FetchPartition]] = {}
        for (topic, number), offset in asked.items():
            row = FetchPartition(
                partition=number, fetch_offset=offset, partition_max_bytes=self._config.fetch_message_max_bytes
            )
            topics.setdefault(topic, []).append(row)
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=self._config.fetch_wait_max_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic=name, partitions=rows) for name, rows in topics.items()],
        )
        try:
            connection = await self._cluster.connection(leader)
            timeout_ms = self._config.socket_timeout_ms + self._config.fetch_wait_max_ms
            answer = await connection.call(FETCH, request, timeout_ms=timeout_ms)
        except (KafkaError, OSError, ProtocolError) as problem:
            logger.warning("group '%s' cannot fetch: %s", self._config.group_id, problem)
            self._cluster.forget(topics)
            await self._back_off()
            return
        answers += [(TopicPartition(each.topic, each.partition), each) for each in answer.partitions]

    async def _take(
        self, asked: Mapping[TopicPartition, int], answers: Sequence[tuple[TopicPartition, _core.FetchedPartition]]
    ) -> None:
        """Without a checkpoint until all of it is with the stream: a poll that is cancelled gives nothing."""
        beyond: list[TopicPartition] = []
        stale: dict[str, KafkaError] = {}
        for place, answer in answers:
            if answer.error_code == OffsetOutOfRange.code:
                beyond.append(place)
            elif answer.error_code:
                stale[place.topic] = error(answer.error_code, str(place))
            # Only where they end; what is inside is decoded, and its CRC checked, where it is read.
            elif batches := _core.read_batches(answer.records or b"", check_crc=False):
                assert answer.records is not None
                end = batches[-1].last_offset + 1
                self._stream.put(Chunk(place, asked[place], end, answer.records))
                self._next[place] = end
        if beyond:
            self._reset(beyond)
        if stale:
            logger.warning("group '%s' cannot fetch: %s", self._config.group_id, next(iter(stale.values())))
            self._cluster.forget(stale)
            await self._back_off()

    async def _begin(self) -> None:
        """Finds the offsets of partitions that have none."""
        without = [place for place, offset in self._next.items() if offset is None]
        if not without:
            return
        if self._config.auto_offset_reset == "error":
            raise OffsetOutOfRange(f"{without[0]}: group '{self._config.group_id}' has no offset there")
        time = EARLIEST if self._config.auto_offset_reset == "smallest" else LATEST
        for place, found in (await list_offsets(self._cluster, dict.fromkeys(without, time))).items():
            self._next[place] = found.offset
            self._stream.start(place, found.offset)

    def _reset(self, places: Sequence[TopicPartition]) -> None:
        """Forgets offsets that their partitions do not have (any more)."""
        where = f"{places[0]} has no offset {self._next[places[0]]}, where group '{self._config.group_id}' is"
        if self._config.auto_offset_reset == "error":
            self._fail(OffsetOutOfRange(where))
            return
        logger.warning("%s; it goes on at the %s one", where, self._config.auto_offset_reset)
        for place in places:
            self._next[place] = None

    def _fail(self, problem: Exception) -> None:
        self._failed = True
        self._stream.fail(problem)

    async def _back_off(self) -> None:
        await trio.sleep(self._config.refresh_leader_backoff_ms / 1000)
