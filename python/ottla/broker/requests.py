"""Dispatch: from a request's key to its handler, and what happens when a handler fails.

A plain handler answers at once, inside the hub's turn; an async one runs in a task of its own and answers when it can.
Nothing a client sends can stop anything but its own connection: bytes that are no message close it with one log line
that names key, version and client; a mistake of ours does so too, with its traceback.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import pkgutil
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, TypeAlias

from ottla import wire
from ottla.broker import api
from ottla.broker.quotas.measured import Measured, MeasuredTask
from ottla.broker.request_memory import decode
from ottla.coordination.tree import TreeError
from ottla.errors import ProtocolError
from ottla.net.server import about, refuse
from ottla.slices import LARGE_BYTES
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k01_fetch import FETCH

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.contexts import AnswerContext, AsyncHandler
    from ottla.broker.quotas.clients import ClientQuotas

log = logging.getLogger("ottla.requests")

MODULES = {
    int(name[1:].partition("_")[0]): importlib.import_module(f"ottla.broker.api.{name}")
    for name in sorted(found.name for found in pkgutil.iter_modules(api.__path__))
}

#: The APIs that are served, in all versions of their declarations.
SUPPORTED = {key: wire.api(key) for key in sorted(MODULES)}

#: Produce and Fetch: their rows are decoded without Python.
DECODED_BY_HUB = frozenset({PRODUCE.key, FETCH.key})

Handler: TypeAlias = "Callable[[Request], object]"


class Requests:
    """The handlers of one broker, by key."""

    def __init__(self, broker: AnswerContext) -> None:
        self._broker = broker
        self._start = broker.in_background
        self._handlers: dict[int, Handler] = {}
        self._quotas: ClientQuotas | None = None
        self.arrange()

    def measure(self, quotas: ClientQuotas | None) -> None:
        """From now on requests are measured for these quotas, or for none."""
        self._quotas = quotas
        self.arrange()

    def arrange(self) -> None:
        """Chooses how each API is handled: with quotas or without, and whether its requests are logged."""
        quotas = self._quotas
        for key, module in MODULES.items():
            is_task = inspect.iscoroutinefunction(module.handle)
            handler: Handler = MethodType(module.handle, self._broker)
            if is_task:
                handler = partial(self._start, module.handle)
            if quotas is not None:
                measured: Handler = Measured(quotas, key, handler)
                if is_task:
                    measured = MeasuredTask(quotas, key, module.handle, self._start)
                handler = partial(self._by_listener, handler, measured) if not SUPPORTED[key].has_quotas else measured
            self._handlers[key] = handler
            if log.isEnabledFor(logging.DEBUG):
                self._handlers[key] = partial(_said, wire.name(key), self._handlers[key])

    def _by_listener(self, handler: Handler, measured: Handler, request: Request) -> object:
        """A request that brokers send each other has no quotas where brokers are."""
        are_brokers = request.listener in self._broker.config.listeners_between_brokers
        return (handler if are_brokers else measured)(request)

    def handle(self, request: Request) -> None:
        """Starts one request. The handler answers it, now or later."""
        try:
            if len(request) > LARGE_BYTES and request.api_key not in DECODED_BY_HUB:
                self._start(self._handle_large, request)
            else:
                self._handlers[request.api_key](request)
        except BaseException as error:
            _refuse(request, error)

    async def _handle_large(self, _broker: AnswerContext, request: Request) -> None:
        await decode(wire.api(request.api_key), request, self._broker.request_memory)
        self._handlers[request.api_key](request)


def _said(name: str, handler: Callable[[Request], object], request: Request) -> None:
    """Logs a request, and hands it on."""
    host, port = request.peer_address
    log.debug(
        "%s %d of client %r at %s:%d, %d bytes",
        name,
        request.api_version,
        request.client_id,
        host,
        port,
        len(request),
        extra=about(request),
    )
    handler(request)


async def answer(handle: AsyncHandler, broker: AnswerContext, request: Request) -> None:
    """Runs an async handler. Its failure costs the request's connection."""
    try:
        await handle(broker, request)
    except BaseException as error:
        _refuse(request, error)


def _refuse(request: Request, error: BaseException) -> None:
    """Closes the connection; the hub tells whose it was and why, and where the mistake is ours its traceback is logged
    too. A tree that is out of reach is nobody's mistake: what was asked for may have happened or not.
    """
    if isinstance(error, ProtocolError | TreeError):
        request.close(str(error))
    else:
        refuse(request, error)
