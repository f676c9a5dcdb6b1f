"""FindCoordinator: which broker coordinates a group (key type 0) or a transactional id (1, since version 1)."""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V


class FindCoordinatorRequest(Message):
    key: str = ""
    key_type: Annotated[Int8, V("1+")] = 0


class FindCoordinatorResponse(Message):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("1+", nullable="1+", ignorable=True)] = ""
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0


FIND_COORDINATOR = Api(
    10,
    "FindCoordinator",
    "0-3",
    flexible=3,
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    has_small_answers=True,
    # The one whose coordinator is looked for.
    needs="DESCRIBE on GROUP or DESCRIBE on TRANSACTIONAL_ID",
)
