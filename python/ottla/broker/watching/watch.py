"""Watching a broker from its first moment to its last: the HTTP side runs before logs are opened and after they are
closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ottla.broker.watching.readiness import Readiness
from ottla.config import BrokerConfig, ConfigError
from ottla.extras import extra

if TYPE_CHECKING:
    from ottla.broker.watching.metrics import BrokerMetrics, Told


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

    Raises ConfigError if a package is missing or the settings of the listener cannot be served, OSError if the address
    is not to be had.
    """
    readiness = Readiness()
    text = config.get_str("metrics.listener")
    if not text:
        yield readiness
        return
    # Not before it is wanted: most brokers start without.
    from ottla.broker.watching import access

    place = access.of(config)
    try:
        with extra("metrics"):
            from ottla.broker.watching.metrics import BrokerMetrics
            from ottla.metrics.doors import Secured
            from ottla.metrics.http import serve, serve_unix
    except ModuleNotFoundError as error:
        raise ConfigError(access.LISTENER, f"{access.LISTENER}={text}: {error}") from error
    seen = _Watched(BrokerMetrics(readiness), readiness)
    async with trio.open_nursery() as nursery:
        if place.path is not None:
            await nursery.start(serve_unix, seen, place.path)
        else:
            certificate, password = place.certificate, place.password
            secured = Secured(
                None if certificate is None else certificate.context,
                None if password is None else password.login,
                readiness.refused,
            )
            await nursery.start(serve, seen, place.host, place.port, secured)
            for part in (certificate, password):
                if part is not None:
                    nursery.start_soon(part.watch)
        yield readiness
        nursery.cancel_scope.cancel()
