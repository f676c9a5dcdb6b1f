"""FindCoordinator: which broker coordinates a group or a transactional id.

Whoever leads the key's partition of __consumer_offsets or __transaction_state does. The topic is made when somebody
first asks.
"""

from __future__ import annotations

from typing import Annotated

from ottla.wire.schema import Api, Int8, Int16, Int32, Message, V


class FindCoordinatorRequest(Message):
    """A group or a transactional id."""

    #: The group id or the transactional id; its hash tells the partition.
    key: str = ""
    #: 0 a group, 1 a transactional id (KIP-98). In version 0 it is a group.
    key_type: Annotated[Int8, V("1+")] = 0


class FindCoordinatorResponse(Message):
    """The coordinator's address, on the listener through which the request came."""

    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    #: Kafka writes "NONE" where there is no error.
    error_message: Annotated[str | None, V("1+", nullable="1+", ignorable=True)] = ""
    #: -1 after an error.
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
