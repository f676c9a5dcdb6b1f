"""The cost of a call for its client, under quotas: the time for which it keeps this broker busy, and the bytes that it
brings. Its answer asks for how long the connection is muted for that.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ottla.broker.quotas.clients import Client, ClientQuotas, now_ms
from ottla.broker.quotas.timing import Timer
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.schema import Api, describe

if TYPE_CHECKING:
    from ottla._core import Request


class Cost(Timer):
    """The timer of a call under quotas."""

    __slots__ = ("_client", "_produced", "_quotas")

    def __init__(self, quotas: ClientQuotas, api: Api[Any, Any], request: Request, client: Client) -> None:
        super().__init__()
        self._quotas = quotas
        self._client = client
        self._produced = len(request) if api.key == PRODUCE.key else -1
        request.limit(self.throttle_ms, request.api_version >= throttle_time_since(api))

    def throttle_ms(self) -> int:
        """The call is answered; what it costs after that is not counted."""
        at_ms = now_ms()
        throttle_ms = self._quotas.used_time(self._client, self.spent_s, at_ms)
        if self._produced >= 0:
            throttle_ms = max(throttle_ms, self._quotas.produced(self._client, self._produced, at_ms))
        return throttle_ms


@cache
def throttle_time_since(api: Api[Any, Any]) -> int:
    """The first version of an API whose answers begin with their throttle time."""
    first = describe(api.response).fields[0]
    return first.versions[0] if first.name == "throttle_time_ms" else 2**15
