"""Watching a broker from its first moment to its last: the HTTP side runs before logs are opened and after they are
closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from ottla.broker.watching.readiness import Readiness
from ottla.config import BrokerConfig, ConfigError, parse_address
from ottla.extras import extra

if TYPE_CHECKING:
    from ottla.broker.watching.metrics import BrokerMetrics, Told

#: Where metrics are served if `metrics.listener` names no host.
LOOPBACK: Final = "127.0.0.1"


class _Watched:
    def __init__(self, metrics: BrokerMetrics, readiness: Readiness) -> None:
        self._metrics = metrics
        self._readiness = readiness

    def metrics(self) -> Iterator[Told]:
        return self._metrics()

    def not_ready(self) -> Mapping[str, str]:
        return self._readiness.reasons()


@asynccontextmanager
async def watched(config: BrokerConfig) -> AsyncIterator[Readiness]:
    """Serves /metrics, /healthz and /readyz inside the `async with` block, if the settings want it. The broker's start
    and end are told to what this gives.

    Raises ConfigError if a package is missing, OSError if the address is not to be had.
    """
    readiness = Readiness()
    text = config.get_str("metrics.listener")
    if not text:
        yield readiness
        return
    try:
        host, port = parse_address(text)
    except ValueError as error:
        raise ConfigError("metrics.listener", f"metrics.listener: {error}") from None
    try:
        with extra("metrics"):
            from ottla.broker.watching.metrics import BrokerMetrics
            from ottla.metrics.http import serve
    except ModuleNotFoundError as error:
        raise ConfigError("metrics.listener", f"metrics.listener={text}: {error}") from error
    async with trio.open_nursery() as nursery:
        # Kafka has no such listener, so no file of Kafka's expects `:PORT` to be open to other machines.
        await nursery.start(serve, _Watched(BrokerMetrics(readiness), readiness), host or LOOPBACK, port)
        yield readiness
        nursery.cancel_scope.cancel()
