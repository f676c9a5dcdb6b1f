"""LeaderAndIsr (key 4): the controller tells a broker which partitions it leads or follows. Taken on
listeners for brokers only.

A request of an older controller, or one meant for an earlier life of this broker, changes nothing. A controller that
takes this broker for the leader where it has resigned is to elect anew (`Registration.renew`). Version 2: states
grouped by topic. 4: flexible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.between import PARTITIONS_MAX, check_replicas, is_partition
from ottla.broker.freeing import Freed
from ottla.broker.metadata_cache import Update
from ottla.errors import (
    InvalidTopic,
    MayHaveLost,
    RemoteProtocolError,
    StaleBrokerEpoch,
    StaleControllerEpoch,
    StorageError,
    UnknownTopicOrPartition,
)
from ottla.kafka import PartitionKey, TopicPartition
from ottla.logging_setup import of_partition
from ottla.replication.roles import PartitionState, has_resigned
from ottla.slices import Slices
from ottla.wire.k04_leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import ControlRooms

    LeaderAndIsr: TypeAlias = "Call[LeaderAndIsrRequest, LeaderAndIsrResponse]"


async def handle(call: LeaderAndIsr, rooms: ControlRooms) -> None:
    asked = call.message
    answer = LeaderAndIsrResponse()
    await rooms.look_for_controller(asked.controller_epoch)
    async with rooms.replicas.changing:
        # Only now: what was true when the request came may not be so any more.
        if rooms.is_stale(asked.broker_epoch):
            answer.error_code = StaleBrokerEpoch.code
        elif not rooms.accept_controller(asked.controller_id, asked.controller_epoch):
            answer.error_code = StaleControllerEpoch.code
        else:
            answer.partition_errors = await _apply(call, rooms, asked)
            rooms.standing.told(asked.broker_epoch)
            rooms.metadata.changed()
    call.reply(answer)


def _states(asked: LeaderAndIsrRequest) -> Iterator[tuple[str, LeaderAndIsrPartitionState]]:
    for state in asked.ungrouped_partition_states:
        yield state.topic_name, state
    for topic in asked.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state


async def _apply(
    call: LeaderAndIsr, rooms: ControlRooms, asked: LeaderAndIsrRequest
) -> list[LeaderAndIsrPartitionError]:
    """Caller holds the lock of role changes."""
    mine = Freed()
    states: dict[PartitionKey, PartitionState] = mine.add({})
    new: set[PartitionKey] = mine.add(set())
    errors: dict[TopicPartition, int] = mine.add({})
    is_to_elect_anew = False
    slices = call.slices()
    for topic, state in _states(asked):
        await slices.row()
        if len(errors) > PARTITIONS_MAX:
            raise RemoteProtocolError(f"more than {PARTITIONS_MAX} partitions are told of at once")
        check_replicas(state.isr, state.replicas)
        key = TopicPartition(topic, state.partition_index)
        if not is_partition(rooms, *key):
            errors[key] = InvalidTopic.code
            continue
        known = rooms.replicas.partitions.get(key)
        errors[key] = 0
        if rooms.replicas.is_offline(*key):
            # A log that could not be opened fails alone, not the other partitions of its topic.
            rooms.replicas.mark_offline(*key)
            errors[key] = StorageError.code
        elif known is not None and state.leader_epoch <= known.leader_epoch:
            errors[key] = StaleControllerEpoch.code
            told = (state.leader, state.leader_epoch)
            is_to_elect_anew |= has_resigned(*told, rooms.id, known.leader_epoch, known.is_leader)
        elif rooms.id not in state.replicas:
            errors[key] = UnknownTopicOrPartition.code
        else:
            if state.is_new:
                new.add((topic, state.partition_index))
            # A plain tuple is no object for the collector.
            states[topic, state.partition_index] = PartitionState(
                state.controller_epoch,
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                tuple(state.replicas),
                state.zk_version,
                tuple(state.adding_replicas),
                tuple(state.removing_replicas),
            )
    if is_to_elect_anew:
        rooms.registration.renew(asked.broker_epoch, asked.controller_epoch)
    await _name_new_leaders(rooms, asked.controller_id, states, call.slices())
    for (topic, index), error in (await rooms.replicas.apply_changing(states, new)).items():
        if isinstance(error, MayHaveLost):
            rooms.log.warning("%s-%d is refused: %s", topic, index, error, extra=of_partition(topic, index))
        else:
            rooms.log.error("cannot use the log of %s-%d: %s", topic, index, error, extra=of_partition(topic, index))
        errors[TopicPartition(topic, index)] = error.code
    answer = []
    for (topic, index), code in errors.items():
        await slices.row()
        answer.append(LeaderAndIsrPartitionError(topic_name=topic, partition_index=index, error_code=code))
    call.leave([states, new, errors])
    return answer


async def _name_new_leaders(
    rooms: ControlRooms, controller_id: int, states: Mapping[PartitionKey, PartitionState], slices: Slices
) -> None:
    """Clients of partitions that this broker is about to lead no longer learn from its metadata where to go. They ask
    as soon as they are refused, which is before UpdateMetadata comes; and a client that is told of the former leader
    once more may wait for a second until it asks again (librdkafka).
    """
    partitions = rooms.replicas.partitions
    async with rooms.metadata.updating:
        update = Update(rooms.metadata)
        update.keep_brokers()
        for key, state in states.items():
            await slices.row()
            partition = partitions.get(key)
            if partition is not None and partition.is_leader and state.leader != rooms.id:
                update.add_role(*key, state)
        await update.apply(controller_id, slices)
