"""ControlledShutdown (key 7): a broker that stops asks the controller to give its partitions to other leaders. Between
brokers only.

Version 0: a request header without client id. 2: the broker's epoch, so that its former life is told from it (KIP-380).
3: flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import KafkaError, NotController, StaleControllerEpoch
from ottla.wire.k07_controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition

if TYPE_CHECKING:
    from ottla.broker.call import Call
    from ottla.broker.rooms import AdminRooms

    ControlledShutdown: TypeAlias = "Call[ControlledShutdownRequest, ControlledShutdownResponse]"


async def handle(call: ControlledShutdown, rooms: AdminRooms) -> None:
    asked = call.message
    answer = ControlledShutdownResponse()
    try:
        remaining = await rooms.controller.shut_down(asked.broker_id, asked.broker_epoch)
    except NotController:
        answer.error_code = StaleControllerEpoch.code  # of all errors the one that Kafka gives here
    except KafkaError as refused:
        answer.error_code = refused.code
    else:
        slices = call.slices()
        for topic, index in remaining:
            await slices.row()
            answer.remaining_partitions.append(RemainingPartition(topic_name=topic, partition_index=index))
    call.reply(answer)
