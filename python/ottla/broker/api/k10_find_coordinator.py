"""FindCoordinator (key 10): which broker coordinates a group or a transactional id: the leader of its partition of the
internal topic, which is created when it is first asked for.

There are no group coordinators yet: clients are told to try again later, which they do without failing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker
    from ottla.replication.internal_topic import InternalTopic

VERSIONS = range(4)

GROUP, TRANSACTION = 0, 1


async def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: FindCoordinatorRequest = FIND_COORDINATOR.decode_request(version, request)
    answer = FindCoordinatorResponse(node_id=-1, host="", port=-1)
    try:
        if asked.key_type == TRANSACTION:
            answer.node_id, answer.host, answer.port = await _find(
                broker, request, broker.transactions.topic, asked.key
            )
        else:
            raise CoordinatorNotAvailable if asked.key_type == GROUP else InvalidRequest
    except KafkaError as error:
        answer.error_code = error.code
    request.reply(FIND_COORDINATOR.encode_response(version, answer))


async def _find(broker: Broker, request: Request, topic: InternalTopic, key: str) -> tuple[int, str, int]:
    """Raises CoordinatorNotAvailable: the client asks again."""
    try:
        await topic.ensure()
    except KafkaError as error:
        raise CoordinatorNotAvailable(str(error)) from error
    partition = broker.metadata.topics.get(topic.name, {}).get(topic.partition_for(key))
    leader = None if partition is None else broker.metadata.brokers.get(partition.leader)
    endpoint = None if leader is None else broker.endpoint(leader, request)
    if leader is None or endpoint is None:
        raise CoordinatorNotAvailable
    return leader.broker_id, *endpoint
