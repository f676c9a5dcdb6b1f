"""Fetches for one stream: a task that asks the leaders of its partitions, as long as the stream has room.

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
from ottla.client.fetcher import Fetched, Fetcher
from ottla.client.starts import Starts
from ottla.errors import CorruptMessage, KafkaError, OffsetOutOfRange, ProtocolError, error
from ottla.kafka import EARLIEST, LATEST, TopicPartition

logger = logging.getLogger(__name__)

FETCH_BYTES = 16 * 1024 * 1024
"""Of one answer, whatever its partitions."""
RESETS = {"smallest": EARLIEST, "largest": LATEST}


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
        self._fetcher = Fetcher(
            self._cluster,
            fetch_bytes=FETCH_BYTES,
            partition_bytes=config.fetch_message_max_bytes,
            wait_ms_max=config.fetch_wait_max_ms,
        )
        #: Partitions to begin where `auto.offset.reset` says.
        self._starts = Starts(self._cluster, RESETS.get(config.auto_offset_reset), self._fetcher.interrupt)
        self._next: dict[TopicPartition, int] = {}
        """Where to fetch on."""
        self._lock = trio.Lock()
        self._changes = 0
        self._polling = trio.CancelScope()
        self._wake = trio.Event()
        self._failed = False
        self._told: frozenset[TopicPartition] = frozenset()
        """The partitions of which was said that they cannot be fetched."""
        stream.has_room = lambda: soon(self._set)

    def _set(self) -> None:
        self._wake.set()

    async def change(
        self, add: Mapping[TopicPartition, int | None] | None = None, remove: Collection[TopicPartition] = ()
    ) -> None:
        """After this nothing comes of the partitions that were removed. Those that are added begin at an offset, at
        EARLIEST, or without one where `auto.offset.reset` says.
        """
        self._changes += 1
        self._polling.cancel()
        try:
            async with self._lock:
                self._failed = False
                for place in remove:
                    self._next.pop(place, None)
                    self._starts.discard(place)
                for place, offset in (add or {}).items():
                    if offset is not None and offset != EARLIEST:
                        self._starts.discard(place)
                        self._begin(place, offset)
                    elif self._config.auto_offset_reset in RESETS:
                        self._starts.add({place: offset})
                    else:
                        self._fail(OffsetOutOfRange(f"{place}: group '{self._config.group_id}' has no offset there"))
        finally:
            self._changes -= 1
        self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                # What is set from here on is seen by the wait.
                self._wake = trio.Event()
                has_work = self._next or self._starts or self._starts.found
                if not has_work or self._stream.is_full or self._failed:
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

    def _begin(self, place: TopicPartition, offset: int) -> None:
        self._next[place] = offset
        self._stream.start(place, offset)

    async def _poll(self) -> None:
        self._starts.find()
        now = trio.current_time()
        until = min(now + self._config.fetch_wait_max_ms / 1000, self._starts.next_time())
        try:
            # Without a checkpoint from here on: what came is with the stream before a poll can be cancelled.
            self._take(await self._fetcher.fetch(self._next, now, until))
        except (OffsetOutOfRange, CorruptMessage) as problem:
            self._fail(problem)
        except (KafkaError, OSError, ProtocolError) as problem:
            logger.warning("group '%s' cannot fetch: %s", self._config.group_id, problem)
            await trio.sleep(self._config.refresh_leader_backoff_ms / 1000)
        for place, found in self._starts.found.items():
            self._begin(place, found.offset)
        self._starts.found.clear()
        self._starts.refused.clear()
        self._tell()

    def _tell(self) -> None:
        """Says once of each partition that it cannot be fetched now."""
        problems = {**self._starts.problems, **self._fetcher.problems}
        for place in problems.keys() - self._told:
            logger.warning("group '%s' cannot fetch %s: %s", self._config.group_id, place, problems[place])
        self._told = frozenset(problems)

    def _take(self, fetched: Fetched) -> None:
        """Raises what is wrong with one partition when the stream has what came of the others."""
        beyond: list[TopicPartition] = []
        problems: list[KafkaError] = []
        for place, row in fetched.rows.items():
            if row.error_code == OffsetOutOfRange.code:
                beyond.append(place)
            elif row.error_code:
                problems.append(error(row.error_code, str(place)))
            else:
                try:
                    # Only where they end; what is inside is decoded, and its CRC checked, where it is read.
                    batches = _core.read_batches(row.records or b"", check_crc=False)
                except CorruptMessage as problem:
                    problems.append(CorruptMessage(f"{place} at offset {self._next[place]}: {problem}"))
                    continue
                if batches and row.records is not None:
                    end = batches[-1].last_offset + 1
                    self._stream.put(Chunk(place, self._next[place], end, row.records))
                    self._next[place] = end
        if beyond:
            self._reset(beyond)
        if problems:
            raise problems[0]

    def _reset(self, places: Sequence[TopicPartition]) -> None:
        """Forgets offsets that their partitions do not have (any more)."""
        where = f"{places[0]} has no offset {self._next[places[0]]}, where group '{self._config.group_id}' is"
        if self._config.auto_offset_reset == "error":
            self._fail(OffsetOutOfRange(where))
            return
        logger.warning("%s; it goes on at the %s one", where, self._config.auto_offset_reset)
        for place in places:
            del self._next[place]
            self._starts.add({place: None})

    def _fail(self, problem: Exception) -> None:
        self._failed = True
        self._stream.fail(problem)
