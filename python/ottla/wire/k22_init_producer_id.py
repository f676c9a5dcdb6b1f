"""InitProducerId: an id for an idempotent or transactional producer.

Version 3 lets a producer raise its own epoch (KIP-360), 4 answers PRODUCER_FENCED.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int16, Int32, Int64, Message, V


class InitProducerIdRequest(Message):
    transactional_id: Annotated[str | None, V(nullable="0+")] = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, V("3+")] = -1
    producer_epoch: Annotated[Int16, V("3+")] = -1


class InitProducerIdResponse(Message):
    throttle_time_ms: Annotated[Int32, V(ignorable=True)] = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
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
