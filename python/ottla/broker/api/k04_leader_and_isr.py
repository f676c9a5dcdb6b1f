"""LeaderAndIsr (key 4): the controller tells a broker which partitions it leads or follows. Between brokers only: not
advertised.

A request of an older controller, or one meant for an earlier life of this broker, changes nothing. Version 2: states
grouped by topic. 4: flexible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.between import is_heard, is_partition
from ottla.broker.pace import Pace
from ottla.broker.replies import reply
from ottla.errors import InvalidTopic, StaleBrokerEpoch, StaleControllerEpoch, StorageError, UnknownTopicOrPartition
from ottla.logging_setup import of_partition
from ottla.replication.partition import PartitionState
from ottla.wire.k04_leader_and_isr import (
    LEADER_AND_ISR,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(5)
ADVERTISED = False


async def handle(broker: Broker, request: Request) -> None:
    if not is_heard(broker, request):
        return
    version = request.api_version
    asked: LeaderAndIsrRequest = LEADER_AND_ISR.decode_request(version, request)
    answer = LeaderAndIsrResponse()
    async with broker.replicas.changing:
        # Only now: what was true when the request came may not be so any more.
        if broker.is_stale(asked.broker_epoch):
            answer.error_code = StaleBrokerEpoch.code
        elif not broker.accept_controller(asked.controller_id, asked.controller_epoch):
            answer.error_code = StaleControllerEpoch.code
        else:
            answer.partition_errors = await _apply(broker, asked)
            broker.metadata.changed()
    reply(broker, request, LEADER_AND_ISR, answer)


def _states(asked: LeaderAndIsrRequest) -> Iterator[tuple[str, LeaderAndIsrPartitionState]]:
    for state in asked.ungrouped_partition_states:
        yield state.topic_name, state
    for topic in asked.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state


async def _apply(broker: Broker, asked: LeaderAndIsrRequest) -> list[LeaderAndIsrPartitionError]:
    """Caller holds the lock of role changes."""
    states: dict[str, dict[int, PartitionState]] = {}
    new: dict[str, set[int]] = {}
    errors: dict[tuple[str, int], int] = {}
    pace = Pace()
    for topic, state in _states(asked):
        await pace.turn()
        key = (topic, state.partition_index)
        if not is_partition(broker, *key):
            errors[key] = InvalidTopic.code
            continue
        known = broker.replicas.partitions.get(key)
        errors[key] = 0
        if (known is not None and known.is_offline) or key in broker.logs.failures:
            # A log that could not be opened fails alone, not the other partitions of its topic.
            broker.replicas.mark_offline(*key)
            errors[key] = StorageError.code
        elif known is not None and state.leader_epoch <= known.leader_epoch:
            errors[key] = StaleControllerEpoch.code
        elif broker.id not in state.replicas:
            errors[key] = UnknownTopicOrPartition.code
        else:
            if state.is_new:
                new.setdefault(topic, set()).add(state.partition_index)
            states.setdefault(topic, {})[state.partition_index] = PartitionState(
                state.controller_epoch,
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                tuple(state.replicas),
                state.zk_version,
            )
    for topic, partitions in states.items():
        for index, error in (await broker.replicas.apply_changing(topic, partitions, new.get(topic, ()))).items():
            broker.log.error("cannot use the log of %s-%d: %s", topic, index, error, extra=of_partition(topic, index))
            errors[topic, index] = error.code
    answer = []
    for (topic, index), code in errors.items():
        await pace.turn()
        answer.append(LeaderAndIsrPartitionError(topic_name=topic, partition_index=index, error_code=code))
    return answer
