"""UpdateMetadata (key 6): the controller tells a broker who is alive and who leads what. Between brokers only: not
advertised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.between import is_heard, is_partition
from ottla.broker.pace import reply
from ottla.errors import StaleBrokerEpoch, StaleControllerEpoch
from ottla.wire.k06_update_metadata import UPDATE_METADATA, UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(7)
ADVERTISED = False


def handle(broker: Broker, request: Request) -> None:
    if not is_heard(broker, request):
        return
    version = request.api_version
    asked: UpdateMetadataRequest = UPDATE_METADATA.decode_request(version, request)
    answer = UpdateMetadataResponse()
    if broker.is_stale(asked.broker_epoch):
        answer.error_code = StaleBrokerEpoch.code
    elif not broker.accept_controller(asked.controller_id, asked.controller_epoch):
        answer.error_code = StaleControllerEpoch.code
    else:
        _refuse_names(broker, asked)
        deleted = broker.metadata.update(asked)
        if deleted:
            broker.groups.removal.partitions_deleted(deleted)
    reply(broker, request, UPDATE_METADATA, answer)


def _refuse_names(broker: Broker, asked: UpdateMetadataRequest) -> None:
    """Leaves out the rows of partitions that cannot be; the answer has no place to say so."""
    asked.ungrouped_partition_states = [
        state
        for state in asked.ungrouped_partition_states
        if is_partition(broker, state.topic_name, state.partition_index)
    ]
    for topic in asked.topic_states:
        topic.partition_states = [
            state for state in topic.partition_states if is_partition(broker, topic.topic_name, state.partition_index)
        ]
    asked.topic_states = [topic for topic in asked.topic_states if topic.partition_states]
