"""Requests under quotas: each is timed while it keeps this broker busy, and asked when it is answered for how long its
connection is muted then.

`Requests` uses this only while there are quotas; without any, a request costs nothing more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla import wire
from ottla.broker.quotas.clients import Client, ClientQuotas, now_ms
from ottla.broker.quotas.timing import AsyncHandler, Timer, also_timed
from ottla.kafka import ANONYMOUS
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.schema import describe

if TYPE_CHECKING:
    from ottla._core import FetchRequest, Request
    from ottla.broker.fetch.result import FetchResult


def client_of(request: Request) -> Client:
    return ANONYMOUS, request.client_id or ""


class _Cost(Timer):
    """The timer of a request under quotas, and what the request costs its client."""

    __slots__ = ("_client", "_produced", "_quotas")

    def __init__(self, quotas: ClientQuotas, request: Request) -> None:
        super().__init__(quotas.timers)
        self._quotas = quotas
        self._client = client_of(request)
        self._produced = len(request) if request.api_key == PRODUCE.key else -1

    def throttle_ms(self) -> int:
        """The request is answered; what it costs after that is not counted."""
        at_ms = now_ms()
        throttle_ms = self._quotas.used_time(self._client, self.spent_s, at_ms)
        if self._produced >= 0:
            throttle_ms = max(throttle_ms, self._quotas.produced(self._client, self._produced, at_ms))
        return throttle_ms


class Measured:
    """A plain handler under quotas."""

    __slots__ = ("_handler", "_named_since", "_quotas")

    def __init__(self, quotas: ClientQuotas, key: int, handler: Callable[[Request], object]) -> None:
        self._quotas = quotas
        self._handler = handler
        self._named_since = throttle_time_since(key)

    def _timer(self, request: Request) -> Timer:
        timer = _Cost(self._quotas, request)
        request.limit(timer.throttle_ms, request.api_version >= self._named_since)
        return timer

    def __call__(self, request: Request) -> object:
        timer = self._timer(request)
        timer.begin()
        try:
            return self._handler(request)
        finally:
            timer.end()


class MeasuredTask(Measured):
    """An async handler under quotas: `start` runs what it is given in a task."""

    __slots__ = ("_handle", "_start")

    def __init__(
        self,
        quotas: ClientQuotas,
        key: int,
        handle: AsyncHandler,
        start: Callable[[Callable[..., Awaitable[None]], Request], object],
    ) -> None:
        super().__init__(quotas, key, lambda _: None)
        self._handle = handle
        self._start = start

    def __call__(self, request: Request) -> object:
        timer = self._timer(request)

        return self._start(also_timed(timer, self._handle), request)


def throttle_time_since(key: int) -> int:
    """The first version of an API whose answers begin with their throttle time."""
    first = describe(wire.api(key).response).fields[0]
    return first.versions[0] if first.name == "throttle_time_ms" else 2**15


def throttle_fetch(quotas: ClientQuotas, request: Request, fetch: FetchRequest, result: FetchResult) -> int:
    """For how long a Fetch that would be answered with `result` is throttled: then it must be answered empty. 0 for
    other brokers' fetches.
    """
    if fetch.is_follower:
        return 0
    size = result.answer_bytes
    client = client_of(request)
    by_size = quotas.fetched(client, size)
    by_time = request.take_throttle()
    if by_time and not by_size:
        quotas.not_fetched(client, size)
    return max(by_size, by_time)


def fetch_bytes_max(quotas: ClientQuotas, request: Request, fetch: FetchRequest) -> int:
    """More bytes in one answer would be throttled even if nothing was fetched before: a consumer could never go on."""
    return 2**31 - 1 if fetch.is_follower else quotas.fetch_bytes_max(client_of(request))
