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
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla import wire
from ottla.broker import api
from ottla.broker.authorization.gate import guarded
from ottla.broker.call import AnyCall, Call
from ottla.broker.principals import NoPrincipal
from ottla.net.server import about
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k01_fetch import FETCH
from ottla.wire.k36_sasl_authenticate import SASL_AUTHENTICATE
from ottla.wire.needs import Operation, Resource

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.quotas.clients import ClientQuotas
    from ottla.broker.serving import Serving
    from ottla.replication.turn import Turn
    from ottla.wire.schema import Api

log = logging.getLogger("ottla.requests")

MODULES = {
    int(name[1:].partition("_")[0]): importlib.import_module(f"ottla.broker.api.{name}")
    for name in sorted(found.name for found in pkgutil.iter_modules(api.__path__))
}

#: The APIs that are served, in all versions of their declarations.
SUPPORTED = {key: wire.api(key) for key in sorted(MODULES)}

#: Large ones are not decoded before their handler is called: the rows of Produce and Fetch are decoded without Python,
#: and a token of SASL may be no message.
DECODED_BY_HANDLERS = frozenset({PRODUCE.key, FETCH.key, SASL_AUTHENTICATE.key})


class Way(NamedTuple):
    """How the requests of one API are handled."""

    api: Api[Any, Any]
    handle: Callable[[AnyCall, Any], Coroutine[Any, Any, None] | None]
    is_task: bool


class Requests:
    """The handlers of one broker, by key. `rooms`: the broker. `turn`: the hub's, in which requests are handed out."""

    def __init__(self, serving: Serving, rooms: object, turn: Turn) -> None:
        self._serving = serving
        self._turn = turn
        self._rooms = rooms
        ways = {
            key: Way(SUPPORTED[key], module.handle, inspect.iscoroutinefunction(module.handle))
            for key, module in MODULES.items()
        }
        if serving.authorizer is not None:
            ways = {key: way._replace(handle=guarded(way.api, way.handle)) for key, way in ways.items()}
        self._own_ways = self._ways = ways
        self._is_logged = False
        self.arrange()

    def arrange(self) -> None:
        """Notes whether requests are logged."""
        self._is_logged = log.isEnabledFor(logging.DEBUG)

    def intercept(self, wrapped: Callable[[Way], Callable[[AnyCall, Any], None]] | None) -> None:
        """From now on requests are handled by what `wrapped` makes of their ways; None: as they were."""
        ways = self._own_ways
        self._ways = (
            ways
            if wrapped is None
            else {key: way._replace(handle=wrapped(way), is_task=False) for key, way in ways.items()}
        )

    def handle(self, request: Request) -> None:
        """Starts one request. The handler answers it, now or later."""
        self._turn.is_open = True
        way = self._ways[request.api_key]
        call: AnyCall = Call(self._serving, way.api, request)
        try:
            if self._is_logged:
                _log(call)
            if request.awaits_principal:
                self._know(call)
            if way.api.is_between_brokers and not call.session.may_be_broker:
                call.refuse(_for_brokers(call, self._serving.config.listeners_between_brokers))
            elif (quotas := self._serving.quotas) is not None and _has_quotas(call):
                self._serve_measured(way, call, quotas)
            else:
                self._serve(way, call)
        except BaseException as error:
            call.fail(error)

    def _know(self, call: AnyCall) -> None:
        """The first request of a client that has shown a certificate. Raises NoPrincipal where it is nobody's."""
        audit = self._serving.audit
        try:
            principal = call.session.principal
        except NoPrincipal as error:
            if audit is not None:
                audit.certificate(call.session, call.client_id, reason=str(error))
            raise
        if audit is not None:
            audit.certificate(call.session, call.client_id, user=principal)
        call.request.know_principal()

    def _serve(self, way: Way, call: AnyCall) -> None:
        if call.is_large and call.api.key not in DECODED_BY_HANDLERS:
            call.in_background(self._serve_large, way, call)
        elif way.is_task:
            call.in_background(way.handle, call, self._rooms)  # type: ignore[arg-type]  # it is async
        else:
            way.handle(call, self._rooms)

    def _serve_measured(self, way: Way, call: AnyCall, quotas: ClientQuotas) -> None:
        call.measure(quotas)
        with call.resumed():
            self._serve(way, call)

    async def _serve_large(self, way: Way, call: AnyCall) -> None:
        await call.decode_in_slices()
        done = way.handle(call, self._rooms)
        if done is not None:
            await done


def _has_quotas(call: AnyCall) -> bool:
    """False for a request that brokers send each other, where brokers are, of a client that may be one."""
    if call.api.has_quotas or not call.session.may_be_broker:
        return True
    rights = call.rights
    return rights is not None and not rights.might(Operation.CLUSTER_ACTION, Resource.CLUSTER)


def _for_brokers(call: AnyCall, listeners: frozenset[str]) -> str:
    """ApiVersions names what brokers send each other on every listener, as Kafka does. The listener tells brokers
    from clients, where there are several.
    """
    return (
        f"API key {call.api.key} is for brokers, and taken on {' and '.join(sorted(listeners))} only "
        "(inter.broker.accepted.listener.names)"
    )


def _log(call: AnyCall) -> None:
    request = call.request
    host, port = call.session.address
    log.debug(
        "%s %d of client %r at %s:%d, %d bytes",
        call.api.name,
        call.version,
        request.client_id,
        host,
        port,
        len(request),
        extra=about(request),
    )
