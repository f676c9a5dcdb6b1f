"""StopReplica (key 5): the controller tells a broker to stop serving partitions, and maybe to delete them. Taken on
listeners for brokers only.

Versions 0-2 say for the whole request whether to delete; version 3 says it, and the leader epoch, for each partition.

A replica whose log cannot be used keeps that mark, as in Kafka: it is neither stopped nor deleted, and the controller
is told so. Without the mark the next request would be told that there never was such a partition.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.between import is_partition
from ottla.errors import FencedLeaderEpoch, InvalidTopic, StaleBrokerEpoch, StaleControllerEpoch, StorageError
from ottla.kafka import EPOCH_DURING_DELETE, NO_EPOCH
from ottla.wire.k05_stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import ControlRooms

    StopReplica: TypeAlias = "Call[StopReplicaRequest, StopReplicaResponse]"


logger = logging.getLogger("ottla")


async def handle(call: StopReplica, rooms: ControlRooms) -> None:
    asked = call.message
    answer = StopReplicaResponse()
    await rooms.look_for_controller(asked.controller_epoch)
    async with rooms.replicas.changing:
        # Only now: a newer controller may have given the partitions back while this waited.
        if rooms.is_stale(asked.broker_epoch):
            answer.error_code = StaleBrokerEpoch.code
        elif not rooms.accept_controller(asked.controller_id, asked.controller_epoch):
            answer.error_code = StaleControllerEpoch.code
        else:
            slices = call.slices()
            deleted = []
            for partition in _partitions(asked):
                await slices.row()
                stopped = await _stop(rooms, *partition)
                answer.partition_errors.append(stopped)
                if partition[-1] and not stopped.error_code:
                    deleted.append(stopped)
            if deleted:
                await _sync(rooms, deleted)
    call.reply(answer)


def _partitions(asked: StopReplicaRequest) -> Iterator[tuple[str, int, int, bool]]:
    """Topic, partition, leader epoch, whether to delete."""
    for states in asked.topic_states:
        for state in states.partition_states:
            yield states.topic_name, state.partition_index, state.leader_epoch, state.delete_partition
    for topic in asked.topics:
        for index in topic.partition_indexes:
            yield topic.name, index, NO_EPOCH, asked.delete_partitions
    for partition in asked.ungrouped_partitions:
        yield partition.topic_name, partition.partition_index, NO_EPOCH, asked.delete_partitions


async def _sync(rooms: ControlRooms, deleted: Iterable[StopReplicaPartitionError]) -> None:
    """The controller takes a topic out of the tree when it has this answer. A folder that a power cut brought back
    would then be one that nobody knows, and the next topic of its name would get the records.
    """
    try:
        await rooms.replicas.sync_deletions()
    except StorageError as error:
        logger.error("%s", error)
        for stopped in deleted:
            stopped.error_code = error.code


async def _stop(
    rooms: ControlRooms, topic: str, index: int, leader_epoch: int, delete: bool
) -> StopReplicaPartitionError:
    """Caller holds the lock of role changes."""
    answer = StopReplicaPartitionError(topic_name=topic, partition_index=index)
    if not is_partition(rooms, topic, index):
        answer.error_code = InvalidTopic.code
        return answer
    if rooms.replicas.is_offline(topic, index):
        answer.error_code = StorageError.code
        return answer
    known = rooms.replicas.partitions.get((topic, index))
    if known is not None and leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH):
        # A controller raises the epoch before it stops a replica: one with the known epoch is older than that. But
        # Kafka's has a broker that hands over stop first. If it went on to fetch, a leader of Kafka 2.7 would take it
        # into the ISR again, and wait for it when it is gone.
        hands_over = rooms.replicas.is_leaving and known.is_following and not delete
        if leader_epoch < known.leader_epoch or (leader_epoch == known.leader_epoch and not hands_over):
            answer.error_code = FencedLeaderEpoch.code
            return answer
    try:
        await rooms.replicas.stop_changing(topic, index, delete)
    except StorageError as error:
        answer.error_code = error.code
    return answer
