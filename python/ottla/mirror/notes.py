"""A mirror's internal topics, as MirrorMaker 2 has them: heartbeats, offset syncs and checkpoints, written and read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

from ottla.client.admin import Admin
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.errors import CorruptMessage, KafkaError, RemoteProtocolError, TopicAlreadyExists
from ottla.kafka import EARLIEST, TopicPartition
from ottla.mirror.config import FlowConfig
from ottla.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from ottla.mirror.naming import HEARTBEATS, offset_syncs
from ottla.mirror.topics import create_topic

logger = logging.getLogger(__name__)

COMPACTED = {"cleanup.policy": "compact"}


class Notes:
    """`async with Notes(flow, source, target) as notes: ...`. What cannot be written is said and left out: copying
    goes on, and the next note says it again.
    """

    def __init__(self, flow: FlowConfig, source: Cluster, target: Cluster) -> None:
        self._flow = flow
        self._target = target
        self._syncs_in = target if flow.syncs_in_target else source
        self._syncs_topic = offset_syncs(flow.source if flow.syncs_in_target else flow.target)
        self._to_target = Producer(target)
        self._to_syncs = Producer(self._syncs_in)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._to_target)
        await self._stack.enter_async_context(self._to_syncs)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(KafkaError):
            await self._stack.__aexit__(kind, problem, trace)

    async def make_topics(self) -> None:
        """Makes the topics that are missing. Raises KafkaError, OSError."""
        flow = self._flow
        if flow.heartbeats_s is not None:
            await self._make(self._target, "heartbeats", HEARTBEATS, flow.heartbeats_factor)
        if flow.checkpoints_s is not None or flow.sync_offsets_s is not None:
            topic = flow.names.checkpoints(flow.source)
            await self._make(self._target, "checkpoints", topic, flow.checkpoints_factor)
        if flow.emits_syncs:
            await self._make(self._syncs_in, "offset-syncs", self._syncs_topic, flow.syncs_factor)

    async def _make(self, cluster: Cluster, what: str, topic: str, factor: int) -> None:
        alias = self._flow.target if cluster is self._target else self._flow.source
        setting = f"replication.factor or {what}.topic.replication.factor"
        with suppress(TopicAlreadyExists):
            await create_topic(Admin(cluster), alias, topic, 1, factor, COMPACTED, setting)

    async def beat(self) -> None:
        """Says that this flow is alive."""
        flow = self._flow
        await self._write(
            "heartbeats", self._to_target, HEARTBEATS, [Heartbeat(flow.source, flow.target, int(time.time() * 1000))]
        )

    async def write_syncs(self, syncs: Iterable[OffsetSync]) -> None:
        """Writes offset syncs, if the flow does that."""
        if self._flow.emits_syncs:
            await self._write("offset syncs", self._to_syncs, self._syncs_topic, syncs)

    async def write_checkpoints(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Writes checkpoints."""
        await self._write("checkpoints", self._to_target, self._flow.names.checkpoints(self._flow.source), checkpoints)

    async def read_syncs(self, add: Callable[[OffsetSync], object]) -> None:
        """Gives all offset syncs that are there to `add`. Raises KafkaError, OSError."""
        if not self._flow.emits_syncs:
            return
        place = TopicPartition(self._syncs_topic, 0)
        reader = Consumer(self._syncs_in, wait_ms=100)
        await reader.assign({place: EARLIEST})
        end = (await reader.ends())[place]
        while reader.positions[place] < end:
            for record in await reader.poll():
                try:
                    add(OffsetSync.decode(record.key, record.value))
                except CorruptMessage as error:
                    logger.warning("%s: %s at offset %d: %s", self._flow, place, record.offset, error)

    async def _write(
        self, what: str, producer: Producer, topic: str, notes: Iterable[Heartbeat | OffsetSync | Checkpoint]
    ) -> None:
        try:
            for note in notes:
                await producer.send(topic, note.value(), key=note.key(), partition=0)
            await producer.flush()
        except (KafkaError, OSError, RemoteProtocolError) as error:
            logger.warning("%s: %s cannot be written: %s", self._flow, what, error)
