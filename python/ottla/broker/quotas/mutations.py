"""The quota of changes to topics (KIP-599): CreateTopics, CreatePartitions and DeleteTopics take one permit for each
partition.

Clients that know of it get THROTTLING_QUOTA_EXCEEDED for what is above the quota; for older ones it is done, and they
are throttled for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.quotas.clients import now_ms
from ottla.broker.quotas.cost import throttle_time_since
from ottla.errors import ThrottlingQuotaExceeded

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.quotas.clients import Client, ClientQuotas
    from ottla.broker.quotas.rates import TokenBucket
    from ottla.wire.schema import Api


class Mutations:
    """The changes of one call. `strict_since`: the version from which clients know THROTTLING_QUOTA_EXCEEDED."""

    __slots__ = ("_api", "_permits", "_request", "_strict", "_throttle_ms")

    def __init__(
        self, quotas: ClientQuotas | None, api: Api[Any, Any], request: Request, client: Client, strict_since: int
    ) -> None:
        self._api = api
        self._request = request
        self._strict = request.api_version >= strict_since
        self._throttle_ms = 0
        self._permits: tuple[TokenBucket, float] | None = None
        if quotas is not None:
            self._permits = quotas.mutation(client)

    def __bool__(self) -> bool:
        """True if the client has a quota for changes."""
        return self._permits is not None

    def take(self, partitions: int) -> None:
        """Takes permits for changing so many partitions. Raises ThrottlingQuotaExceeded if there are none."""
        if self._permits is None:
            return
        bucket, quota = self._permits
        at_ms = now_ms()
        if not self._strict:
            bucket.take(partitions, quota, at_ms)
        self._throttle_ms = bucket.throttle_ms(quota, at_ms)
        if self._strict:
            if self._throttle_ms:
                raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
            bucket.take(partitions, quota, at_ms)

    def settle(self) -> None:
        """Before the answer: it names the throttle time, and the connection is muted."""
        if self._throttle_ms:
            request = self._request
            throttle_ms = max(request.take_throttle(), self._throttle_ms)
            request.limit(lambda: throttle_ms, request.api_version >= throttle_time_since(self._api))
