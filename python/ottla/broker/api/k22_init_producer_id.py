"""InitProducerId (key 22): a producer id that nobody ever had, or for a transactional id the one it has under a new
epoch, which fences whoever used it before.

Ids come from blocks reserved in the coordination tree before any of them is given out, so that none is given twice, not
even after a crash. From version 3 a transactional producer may name the id and epoch that it has (KIP-360): it goes on
after an error, unless a newer one came in between. PRODUCER_FENCED is known from version 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.coordination.tree import TreeError
from ottla.errors import (
    ClusterAuthorizationFailed,
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    InvalidRequest,
    KafkaError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)
from ottla.wire.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla.broker.authorization.authorizer import Rights
    from ottla.broker.call import Call
    from ottla.broker.rooms import TransactionRooms

    InitProducerId: TypeAlias = "Call[InitProducerIdRequest, InitProducerIdResponse]"


async def handle(call: InitProducerId, rooms: TransactionRooms) -> None:
    version = call.version
    asked = call.message
    answer = InitProducerIdResponse(producer_epoch=-1)
    if error_code := _lacking(call.rights, asked.transactional_id):
        answer.error_code = error_code
    elif (asked.producer_id == -1) != (asked.producer_epoch == -1):
        answer.error_code = InvalidRequest.code
    elif asked.transactional_id is None:
        try:
            answer.producer_id = await rooms.producer_ids.next()
            answer.producer_epoch = 0
        except KafkaError as error:
            answer.error_code = error.code
        except TreeError:
            # The tree is away: the client asks again.
            answer.error_code = CoordinatorLoadInProgress.code
    else:
        known = None if asked.producer_id == -1 else (asked.producer_id, asked.producer_epoch)
        answer.error_code, answer.producer_id, answer.producer_epoch = await rooms.transactions.initialize(
            asked.transactional_id, asked.transaction_timeout_ms, known
        )
        if version < 4 and answer.error_code == ProducerFenced.code:
            answer.error_code = InvalidProducerEpoch.code
    call.reply(answer)


def _lacking(rights: Rights | None, transactional_id: str | None) -> int:
    """The error code of a client that may not do this; 0 if it may."""
    if rights is None:
        return 0
    if transactional_id is None:
        may = rights.may(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
        return 0 if may else ClusterAuthorizationFailed.code
    may = rights.may(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
    return 0 if may else TransactionalIdAuthorizationFailed.code
