"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

There are no coordinators yet: clients are told to try again later, which they do without failing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import CoordinatorNotAvailable
from ottla.wire.k10_find_coordinator import FIND_COORDINATOR, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

VERSIONS = range(4)


def handle(broker: Broker, request: Request) -> None:
    answer = FindCoordinatorResponse(error_code=CoordinatorNotAvailable.code, node_id=-1, host="", port=-1)
    request.reply(FIND_COORDINATOR.encode_response(request.api_version, answer))
