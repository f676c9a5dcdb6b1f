"""Answers of brokers to what they were told: which replicas work there, and which are deleted."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import trio

from ottla.controller.deletions import Deletions
from ottla.controller.events import Answered, Events, ReplicasRestored
from ottla.controller.model import Cluster
from ottla.controller.moves import Moves
from ottla.controller.partition_states import PartitionStates
from ottla.controller.relapses import Relapses
from ottla.controller.requests import ControlRequest
from ottla.errors import StaleControllerEpoch, StorageError, UnknownTopicOrPartition, counted
from ottla.kafka import TopicPartition
from ottla.slices import in_slices

logger = logging.getLogger("ottla.controller.controller")


class Answers:
    """Draws the conclusions from answers. An answer of a former life of a broker says nothing."""

    def __init__(
        self,
        cluster: Cluster,
        states: PartitionStates,
        moves: Moves,
        deletions: Deletions,
        relapses: Relapses,
        events: Events,
        nursery: trio.Nursery,
    ) -> None:
        self._cluster = cluster
        self._states = states
        self._moves = moves
        self._deletions = deletions
        self._relapses = relapses
        self._events = events
        self._nursery = nursery
        #: Replicas that work again and have waited.
        self._restored: set[TopicPartition] = set()

    async def to_leader_and_isr(self, answer: Answered) -> None:
        if self._is_current(answer):
            await self._roles_taken(answer.request.broker, answer.response)

    async def to_stop_replica(self, answer: Answered) -> None:
        if self._is_current(answer):
            await self._replicas_stopped(answer.request, answer.response)

    def to_update_metadata(self, answer: Answered) -> None:
        """There is nothing to do but to say so if it was refused."""
        self._is_current(answer)

    async def use_restored(self) -> None:
        """Replicas that work again have waited long enough, if they are still known."""
        names, self._restored = sorted(self._restored), set()
        await self._states.availability_changed([name for name in names if self._cluster.get(name) is not None])

    def _is_current(self, answer: Answered) -> bool:
        """The broker that was asked lives still. If it answered with an error, that is said here."""
        request = answer.request
        broker = self._cluster.brokers.get(request.broker)
        if broker is None or broker.epoch != request.broker_epoch:
            return False
        if code := answer.response.error_code:
            logger.warning("broker %d answered %s with error %d", broker.id, request.api.name, code)
        return True

    async def _roles_taken(self, broker: int, response: Any) -> None:
        cluster = self._cluster
        before = cluster.failed_replicas.get(broker, set())
        after = set(before)
        unheard = cluster.unheard.get(broker, set())
        heard = set()
        async for answer in in_slices(response.partition_errors):
            name = TopicPartition(answer.topic_name, answer.partition_index)
            if name in unheard:
                unheard.discard(name)
                heard.add(name)
            if answer.error_code == StorageError.code:
                after.add(name)
            elif answer.error_code in (0, StaleControllerEpoch.code):
                # No news to it, and its log works.
                after.discard(name)
        cluster.failed_replicas[broker] = after
        # One that works again, since its log could be made after all, may lead: nobody else may be there to do so.
        restored, failed = sorted(before - after), sorted(after - before)
        heard.difference_update(restored, failed)
        if restored:
            logger.info("broker %d has %s that it had not before", broker, counted(len(restored), "replica"))
            if wait_s := self._relapses.restored(broker, trio.current_time()):
                self._nursery.start_soon(self._use_later, restored, wait_s)
            else:
                await self._states.availability_changed(restored)
        if failed:
            self._relapses.failed(broker, trio.current_time())
            of = counted(len(failed), "replica")
            logger.warning("broker %d has no working log directory for %s", broker, of)
            for deletion in cluster.deletions.values():
                deletion.failed(broker, [name.partition for name in failed if name.topic == deletion.topic])
            await self._states.availability_changed(failed)
        if heard:
            await self._states.availability_changed(sorted(heard))

    async def _use_later(self, restored: list[TopicPartition], wait_s: float) -> None:
        await trio.sleep(wait_s)
        self._restored.update(restored)
        self._events.put(ReplicasRestored())

    async def _replicas_stopped(self, request: ControlRequest, response: Any) -> None:
        failed = {
            (answer.topic_name, answer.partition_index)
            for answer in response.partition_errors
            if answer.error_code not in (0, UnknownTopicOrPartition.code)
        }
        is_refused = bool(response.error_code)
        await self._deletions.answered(request, is_refused=is_refused, failed=failed)
        if self._cluster.endings:
            await self._replicas_left(request, is_refused=is_refused, failed=failed)

    async def _replicas_left(
        self, request: ControlRequest, *, is_refused: bool, failed: Collection[tuple[str, int]]
    ) -> None:
        """A broker was to delete replicas that moved elsewhere. If it could not, nothing that is asked again helps."""
        broker, endings, refused = request.broker, self._cluster.endings, 0
        async for topic, state in in_slices(
            (each.topic_name, state) for each in request.message.topic_states for state in each.partition_states
        ):
            name = TopicPartition(topic, state.partition_index)
            if state.delete_partition and name in endings:
                refused += is_refused or name in failed
                endings.answered(broker, name, state.leader_epoch)
        if refused:
            of = counted(refused, "replica")
            logger.warning("broker %d keeps %s that moved elsewhere: it could not delete them", broker, of)
        await self._moves.end()
