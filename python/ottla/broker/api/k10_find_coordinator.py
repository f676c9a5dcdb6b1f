"""FindCoordinator (key 10): the broker that coordinates a group, or (since version 1) a transactional id.

That is the leader of the key's partition of the internal topic, which is created when somebody first asks for it.
Version 3: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from ottla.kafka import COORDINATOR_OF_GROUP, COORDINATOR_OF_TRANSACTION
from ottla.wire.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import ClusterRooms

    FindCoordinator: TypeAlias = "Call[FindCoordinatorRequest, FindCoordinatorResponse]"


#: The text that Kafka writes here where there is nothing to say (`Errors.NONE.message`).
NO_ERROR = "NONE"


async def handle(call: FindCoordinator, rooms: ClusterRooms) -> None:
    asked = call.message
    answer = FindCoordinatorResponse(error_message=NO_ERROR, node_id=-1, port=-1)
    try:
        answer.node_id, answer.host, answer.port = await _find(call, rooms, asked)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, str(error)
    call.reply(answer)


async def _find(call: FindCoordinator, rooms: ClusterRooms, asked: FindCoordinatorRequest) -> tuple[int, str, int]:
    if asked.key_type == COORDINATOR_OF_GROUP:
        topic, resource = rooms.groups.topic, Resource.GROUP
    elif asked.key_type == COORDINATOR_OF_TRANSACTION:
        topic, resource = rooms.transactions.topic, Resource.TRANSACTIONAL_ID
    else:
        raise InvalidRequest(
            f"Unknown coordinator type {asked.key_type}: {COORDINATOR_OF_GROUP} is group, "
            f"{COORDINATOR_OF_TRANSACTION} transaction."
        )
    if (rights := call.rights) is not None:
        rights.check(Operation.DESCRIBE, resource, asked.key)
    try:
        await topic.ensure()
    except KafkaError as error:
        raise CoordinatorNotAvailable(str(error)) from error
    metadata = rooms.metadata
    index = topic.partition_for(asked.key)
    partition = metadata.topics.get(topic.name, {}).get(index)
    leader = metadata.brokers.get(partition.leader) if partition is not None else None
    endpoint = rooms.endpoint(leader, call.session) if leader is not None else None
    if leader is None or endpoint is None:
        raise CoordinatorNotAvailable(f"{topic.name}-{index} has no leader that this listener can reach.")
    host, port = endpoint
    return leader.broker_id, host, port
