"""UpdateMetadata (key 6): the controller tells a broker who is alive and who leads what. Between brokers only: not
advertised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.between import is_heard, is_partition
from ottla.broker.metadata_cache import Update
from ottla.broker.pace import Pace
from ottla.broker.replies import reply
from ottla.errors import StaleBrokerEpoch, StaleControllerEpoch
from ottla.wire.k06_update_metadata import UPDATE_METADATA, UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(7)
ADVERTISED = False


async def handle(broker: Broker, request: Request) -> None:
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
        deleted = await _apply(broker, asked)
        if deleted:
            broker.groups.removal.partitions_deleted(deleted)
    reply(broker, request, UPDATE_METADATA, answer)


async def _apply(broker: Broker, asked: UpdateMetadataRequest) -> list[tuple[str, int]]:
    """Returns the partitions that are gone. Rows of partitions that cannot be are left out; the answer has no place to
    say so.
    """
    pace = Pace()
    async with broker.metadata.updating:
        update = Update(broker.metadata)
        for topic in asked.topic_states:
            await pace.turn()
            for state in topic.partition_states:
                await pace.turn()
                if is_partition(broker, topic.topic_name, state.partition_index):
                    update.add(topic.topic_name, state)
        update.apply(asked.controller_id, asked.live_brokers)
        return update.deleted
