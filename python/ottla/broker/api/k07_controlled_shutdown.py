"""ControlledShutdown (key 7): a broker that stops asks the controller to give its partitions to other leaders. Between
brokers only.

Version 0: a request header without client id. 2: the broker's epoch, so that its former life is told from it (KIP-380).
3: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.between import is_heard
from ottla.broker.replies import reply
from ottla.errors import KafkaError, NotController, StaleControllerEpoch
from ottla.slices import Slices
from ottla.wire.k07_controlled_shutdown import (
    CONTROLLED_SHUTDOWN,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AdminContext


async def handle(broker: AdminContext, request: Request) -> None:
    if not is_heard(broker, request):
        return
    asked: ControlledShutdownRequest = CONTROLLED_SHUTDOWN.decode_request(request.api_version, request)
    answer = ControlledShutdownResponse()
    try:
        remaining = await broker.controller.shut_down(asked.broker_id, asked.broker_epoch)
    except NotController:
        answer.error_code = StaleControllerEpoch.code  # of all errors the one that Kafka gives here
    except KafkaError as refused:
        answer.error_code = refused.code
    else:
        slices = Slices()
        for topic, index in remaining:
            await slices.row()
            answer.remaining_partitions.append(RemainingPartition(topic_name=topic, partition_index=index))
    reply(broker, request, CONTROLLED_SHUTDOWN, answer)
