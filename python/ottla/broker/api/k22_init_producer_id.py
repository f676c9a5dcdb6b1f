"""InitProducerId (key 22): a producer id that nobody ever had, for idempotent producers.

Ids come from blocks reserved in the coordination tree before any of them is given out, so that none is given twice, not
even after a crash. Versions 3 and 4 let a producer name the id it has (KIP-360): that concerns transactional ids only,
which need a coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordination.tree import TreeError
from ottla.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, InvalidRequest, KafkaError
from ottla.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(5)


async def handle(broker: Broker, request: Request) -> None:
    version = request.api_version
    asked: InitProducerIdRequest = INIT_PRODUCER_ID.decode_request(version, request)
    answer = InitProducerIdResponse()
    if (asked.producer_id == -1) != (asked.producer_epoch == -1):
        answer.error_code = InvalidRequest.code
    elif asked.transactional_id is not None:
        answer.error_code = CoordinatorNotAvailable.code if asked.transactional_id else InvalidRequest.code
    else:
        try:
            answer.producer_id = await broker.producer_ids.next()
            answer.producer_epoch = 0
        except KafkaError as error:
            answer.error_code = error.code
        except TreeError:
            # The tree is away: the client asks again.
            answer.error_code = CoordinatorLoadInProgress.code
    request.reply(INIT_PRODUCER_ID.encode_response(version, answer))
