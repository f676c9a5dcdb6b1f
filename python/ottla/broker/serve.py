"""Running a broker as a process: signals, limits, and what is said when it serves."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Protocol

import trio

from ottla._core import __version__
from ottla.broker.broker import Broker
from ottla.broker.tree import StoppedBeforeStart
from ottla.broker.watching.watch import watched
from ottla.config import BrokerConfig

logger = logging.getLogger("ottla")


class Started(Protocol):
    """A broker that serves."""

    id: int

    @property
    def address(self) -> str:
        """HOST:PORT of the first listener."""


def serve(
    config: BrokerConfig,
    ready: Callable[[Started], None],
    *,
    adopt: bool = False,
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Runs one broker until SIGTERM or SIGINT, then stops it cleanly: others lead, what was read is finished, logs are
    flushed, the clean-shutdown marker is written. A second signal ends the wait for others, and nothing else.

    `ready(broker)` is called once, when it serves, and `stopping()` when it begins to stop after that. `adopt`: topics
    are made from logs whose tree is lost.

    Raises OSError if an address or directory cannot be had, KafkaError if another process has the directory or it
    belongs to another cluster, ConfigError for settings that cannot work.
    """
    trio.run(_serve, config, ready, adopt, stopping)


async def _serve(
    config: BrokerConfig, ready: Callable[[Started], None], adopt: bool, stopping: Callable[[], None]
) -> None:
    began = trio.current_time()
    logger.info("Ottla %s starts as process %d, on Python %s", __version__, os.getpid(), sys.version.split()[0])
    # A start that has begun to open logs is finished before it is undone; only waiting for others ends at once.
    waits, hears, serves, handing_over = (trio.CancelScope() for _ in range(4))
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_obey, signals, (waits, hears, serves), handing_over)
            with suppress(StoppedBeforeStart):
                async with (
                    watched(config) as readiness,
                    Broker.start(config, waits, readiness.at, hears=hears, adopt=adopt) as broker,
                ):
                    broker.handing_over = handing_over
                    if not serves.cancel_called:
                        readiness.serves(broker)
                        ready(broker)
                        logger.info("serving, %d ms after the start", 1000 * (trio.current_time() - began))
                    with serves:
                        await trio.sleep_forever()
                    readiness.stopping()
                    stopping()
                    logger.info("stopping")
            nursery.cancel_scope.cancel()
    logger.info("stopped")


async def _obey(signals: AsyncIterator[int], ends: Iterable[trio.CancelScope], handing_over: trio.CancelScope) -> None:
    """The first signal ends the broker; a second one its wait for others to lead."""
    received = 0
    async for number in signals:
        received += 1
        logger.info("received %s", signal.Signals(number).name)
        if received > 1:
            handing_over.cancel()
        for scope in ends:
            scope.cancel()
