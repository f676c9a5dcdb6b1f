"""ElectLeaders (key 43): makes preferred replicas leaders, or (version 1) any replica where a partition has no leader
(KIP-460). Answers when this broker's own metadata shows the new leaders. Only the controller elects.

Asked for all partitions, it leaves out those that need no election.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.freeing import Freed
from ottla.errors import ElectionNotNeeded, InvalidRequest, KafkaError, NotController, RequestTimedOut
from ottla.kafka import TopicPartition
from ottla.slices import Slices
from ottla.wire.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    ElectLeaders: TypeAlias = "Call[ElectLeadersRequest, ElectLeadersResponse]"


PREFERRED, UNCLEAN = 0, 1


async def handle(call: ElectLeaders, rooms: AdminRooms) -> None:
    asked = call.message
    response = ElectLeadersResponse()
    if asked.election_type not in (PREFERRED, UNCLEAN):
        response.error_code = InvalidRequest.code
    else:
        mine = Freed()
        results = await _elect(call, rooms, asked, mine)
        topics: dict[str, ReplicaElectionResult] = mine.add({})
        slices = Slices()
        for name, error in results.items():
            await slices.row()
            if asked.topic_partitions is None and isinstance(error, ElectionNotNeeded):
                continue
            topic = topics.setdefault(name.topic, ReplicaElectionResult(topic=name.topic))
            row = PartitionResult(partition_id=name.partition, error_message=None)
            if error is not None:
                row.error_code, row.error_message = error.code, str(error)
            topic.partition_result.append(row)
        response.replica_election_results = list(topics.values())
    call.reply(response)


async def _elect(
    call: ElectLeaders, rooms: AdminRooms, asked: ElectLeadersRequest, mine: Freed
) -> dict[TopicPartition, KafkaError | None]:
    slices = Slices()
    names: dict[TopicPartition, None] = mine.add({})
    errors: dict[TopicPartition, KafkaError | None] = mine.add({})
    if asked.topic_partitions is None:
        # A few bytes that ask for all partitions are counted as a request that names them.
        partitions = sum(map(len, rooms.metadata.topics.values()))
        await call.weigh(partitions)
        for topic, rows in rooms.metadata.topics.copy().items():
            for index in rows:
                await slices.row()
                names[TopicPartition(topic, index)] = None
    else:
        for wanted in asked.topic_partitions:
            await slices.row()
            for index in wanted.partition_id:
                await slices.row()
                names[TopicPartition(wanted.topic, index)] = None
    try:
        results = mine.add(await rooms.controller.elect_leaders(names, unclean=asked.election_type == UNCLEAN))
    except NotController as error:
        for name in names:
            await slices.row()
            errors[name] = error
        return errors
    leaders: dict[TopicPartition, int] = mine.add({})
    for name, result in results.items():
        await slices.row()
        if not isinstance(result, KafkaError):
            leaders[name] = result

    def led(name: TopicPartition) -> bool:
        known = rooms.metadata.topics.get(name.topic, {}).get(name.partition)
        return known is not None and known.leader == leaders[name]

    with rooms.metadata.patience(max(asked.timeout_ms, 0) / 1000):
        await rooms.metadata.wait_for_each(led, leaders)
    late = RequestTimedOut("A leader was elected, but it was not known here in time.")
    for name, result in results.items():
        await slices.row()
        errors[name] = result if isinstance(result, KafkaError) else None if led(name) else late
    return errors
