"""Before handlers, where there is an authorizer: what a request needs as a whole.

The declarations' `needs` say it (`ottla.wire.needs`). A need is of the request as a whole if it is about the cluster,
or about the one group or transactional id that the request names. They are asked for in the order in which they stand
there, which is Kafka's. A request that lacks one is answered with its error, in the form in which Kafka answers a
request that failed as a whole. Needs for rows, and those of which one is enough, are the handlers'.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import trio

from ottla.broker.authorization.authorizer import ERRORS
from ottla.broker.faults.answers import refusal
from ottla.broker.faults.names import ANY
from ottla.wire.acls import CLUSTER_NAME
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k35_describe_log_dirs import DESCRIBE_LOG_DIRS
from ottla.wire.k51_alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from ottla.wire.needs import Need, Resource

if TYPE_CHECKING:
    from ottla.broker.call import AnyCall
    from ottla.wire.schema import Api, Message

#: Their handlers ask: records say what a Produce needs, DescribeLogDirs is answered without rows and without an error,
#: and only the controller says who may alter credentials.
BY_HANDLERS: Final = frozenset({PRODUCE.key, DESCRIBE_LOG_DIRS.key, ALTER_USER_SCRAM_CREDENTIALS.key})
#: The fields by which a request names its one group, or its one transactional id.
_FIELDS: Final = {Resource.GROUP: "group_id", Resource.TRANSACTIONAL_ID: "transactional_id"}
#: A larger request that is refused may have many rows, which are made in a thread.
FEW_BYTES: Final = 2048


Handle: TypeAlias = "Callable[[AnyCall, Any], Coroutine[Any, Any, None] | None]"


class Whole(NamedTuple):
    """A need of requests as a whole. `field` is where a request has the name of the resource; None for the cluster."""

    need: Need
    field: str | None


def needs_of(api: Api[Any, Any]) -> list[Whole]:
    """The needs of the requests of an API as a whole, in the order in which they are asked for."""
    found: list[Whole] = []
    if api.key in BY_HANDLERS:
        return found
    for any_of in api.needs:
        if len(any_of) > 1:
            continue
        (need,) = any_of
        field = _FIELDS.get(need.resource)
        if need.resource is Resource.CLUSTER:
            found.append(Whole(need, None))
        elif field is not None and field in api.request.__struct_fields__:
            found.append(Whole(need, field))
    return found


def guarded(api: Api[Any, Any], handle: Handle) -> Handle:
    """A handler behind the gate; the same one if requests of the API need nothing as a whole."""
    needs = needs_of(api)
    if not needs:
        return handle

    def allowed(call: AnyCall) -> None:
        if api.is_between_brokers:
            call.request.mark_broker()

    async def task(call: AnyCall, rooms: Any) -> None:
        if code := _lacking(call, needs):
            await _refuse(call, code)
            return
        allowed(call)
        if (rest := handle(call, rooms)) is not None:
            await rest

    def at_once(call: AnyCall, rooms: Any) -> None:
        if code := _lacking(call, needs):
            call.in_background(_refuse, call, code)
            return
        allowed(call)
        handle(call, rooms)

    return task if inspect.iscoroutinefunction(handle) else at_once


def _lacking(call: AnyCall, needs: list[Whole]) -> int:
    """The error of the first need that the client is denied; 0 if there is none."""
    rights = call.rights
    assert rights is not None
    for (operation, resource), field in needs:
        name = CLUSTER_NAME if field is None else getattr(call.message, field)
        if name is not None and not rights.may(operation, resource, name):
            return ERRORS[resource].code
    return 0


async def _refuse(call: AnyCall, code: int) -> None:
    message = call.message

    def answer() -> Message:
        return refusal(call.api, call.version, code, ANY).answer(message)

    call.reply(answer() if len(call.request) <= FEW_BYTES else await trio.to_thread.run_sync(answer))
