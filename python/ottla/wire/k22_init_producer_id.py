"""InitProducerId: an id for an idempotent or transactional producer.

Version 4 knows PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class InitProducerIdRequest(Message):
    """A producer that begins, or begins again."""

    #: Null: any broker gives an id that nobody had before, with epoch 0. "" is refused. Otherwise its coordinator gives
    #: the id that belongs to it, with a higher epoch, and aborts an open transaction.
    transactional_id: Annotated[str | None, V(nullable="0+")] = ""
    #: The coordinator aborts transactions that are open for longer. More than transaction.max.timeout.ms is
    #: INVALID_TRANSACTION_TIMEOUT. Without a transactional id it means nothing.
    transaction_timeout_ms: Int32 = 0
    #: The id with which a transactional producer wants to go on after an error (KIP-360). -1: it has none.
    producer_id: Annotated[Int64, V("3+")] = -1
    #: The epoch that it has. If another producer came since, it is refused as fenced. -1: it has none, and then it has
    #: no id either.
    producer_epoch: Annotated[Int16, V("3+")] = -1


class InitProducerIdResponse(Message):
    """The id, for the batches to come."""

    throttle_time_ms: Annotated[Int32, V(ignorable=True)] = 0
    error_code: Int16 = 0
    #: -1 after an error.
    producer_id: Int64 = -1
    #: Brokers refuse batches of a lower one. -1 after an error.
    producer_epoch: Int16 = 0


INIT_PRODUCER_ID = Api(
    22,
    "InitProducerId",
    "0-4",
    flexible=2,
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    has_small_answers=True,
    # The first with a transactional id, the second without.
    needs="WRITE on TRANSACTIONAL_ID or IDEMPOTENT_WRITE on CLUSTER",
)
