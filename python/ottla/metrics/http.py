"""The HTTP side: starlette's routes, served by hypercorn in a task of the broker's own loop.

That it is the broker's loop is the point of /healthz: an answer means that the loop turns.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio.lowlevel
import trio
from hypercorn.config import Config
from hypercorn.trio import serve as serve_asgi
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ottla.metrics import exposition

if TYPE_CHECKING:
    from ottla.metrics.families import Family

logger = logging.getLogger("ottla.metrics")

#: Scrapes that wait for the one that runs; more are sent away.
SCRAPES_MAX: Final = 8


class Watched(Protocol):
    """What is watched."""

    def metrics(self) -> Iterator[tuple[Family, exposition.Rows]]:
        """Every metric that there is now; rows are made as they are asked for."""

    def not_ready(self) -> Mapping[str, str]:
        """Why no traffic should be sent here: which part, and what it is about. Empty if some may be."""


def app(watched: Watched) -> Starlette:
    """The three pages."""
    scraping = trio.Lock()

    async def lines() -> AsyncIterator[bytes]:
        async with scraping:
            for family, rows in watched.metrics():
                for piece in exposition.pieces(family, rows):
                    yield piece
                    await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()
            yield exposition.process()

    async def metrics(_: Request) -> Response:
        if scraping.statistics().tasks_waiting >= SCRAPES_MAX:
            return Response("too many scrapes at a time\n", 503, media_type="text/plain")
        return StreamingResponse(lines(), media_type=exposition.CONTENT_TYPE)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def readyz(_: Request) -> Response:
        reasons = watched.not_ready()
        if reasons:
            return JSONResponse({"status": "not ready", "reasons": dict(reasons)}, 503)
        return JSONResponse({"status": "ready"})

    routes = [Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    return Starlette(routes=routes)


def _first(group: BaseExceptionGroup[OSError]) -> OSError:
    """The first error in groups of groups."""
    error: OSError | BaseExceptionGroup[OSError] = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def serve(
    watched: Watched, address: str, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serves until cancelled; started with the URL, when it listens. Raises OSError if the address is not to be had."""
    config = Config()
    config.bind = [address]
    config.accesslog = None
    config.errorlog = logging.getLogger("ottla.metrics.http")
    # What it says at its start is no error, and said below.
    config.errorlog.setLevel(logging.WARNING)
    config.include_server_header = False
    config.keep_alive_timeout = 75.0
    config.h11_max_incomplete_size = 16 * 1024
    config.graceful_timeout = 0.5

    # starlette's streams are anyio's, which imports what it needs for trio when it is first used: a tenth of a second
    # or half of one, in which nobody would be answered once there are clients.
    await anyio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        serving = partial(serve_asgi, app(watched), config, shutdown_trigger=trio.sleep_forever)
        try:
            (url,) = await nursery.start(serving)
        except* OSError as group:
            problem = _first(group)
            why = problem.strerror or problem
            raise OSError(problem.errno, f"metrics.listener: cannot listen on {address}: {why}") from None
        logger.info("metrics, healthz and readyz are at %s", url)
        task_status.started(url)
