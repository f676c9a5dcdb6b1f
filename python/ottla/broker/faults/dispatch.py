"""Between the dispatcher and the handlers, while a plan wants to see every request.

Otherwise it is not there: the dispatcher has the handlers themselves (`Requests.intercept`), and the hub its leases.
While a plan is used there are no leases, so that Produces and Fetches come here too. A Fetch that waited in the hub is
answered then, and the next one comes here. One that waits in Python is answered as it would have been.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ottla.broker.faults.answers import ANSWERED_FIRST, refusal, split
from ottla.broker.faults.deeds import Asked, Deed
from ottla.broker.faults.names import Names, asks_for_all
from ottla.broker.faults.partitions import Rooms
from ottla.broker.faults.requests import Action, FaultyCall, FaultyRequest
from ottla.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from ottla.wire.k00_produce import PRODUCE
from ottla.wire.k01_fetch import FETCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla import _core
    from ottla.broker.call import AnyCall
    from ottla.broker.faults.deeds import Plan
    from ottla.broker.requests import Requests, Way
    from ottla.replication.leases import Leases
    from ottla.replication.turn import Turn
    from ottla.wire.schema import Message

#: Of a Fetch as a whole, whatever it reads.
OF_SESSIONS = frozenset({FetchSessionIdNotFound.code, InvalidFetchSessionEpoch.code})


class Interception:
    """Does with the requests of one broker what a plan says. All methods are for the loop's thread."""

    def __init__(self, requests: Requests, leases: Leases, turn: Turn, plan: Plan) -> None:
        self._requests = requests
        self._leases = leases
        self._turn = turn
        self._plan = plan
        self._is_on = False
        self._has_ended = False
        #: Requests that are not answered, or not yet. The hub would close the connection of one that is dropped.
        self._held: set[_core.Request] = set()

    def arrange(self) -> None:
        """Notes whether the plan is used."""
        is_on = self._plan.is_used() and not self._has_ended
        if is_on is not self._is_on:
            self._is_on = is_on
            self._requests.intercept(self._wrapped if is_on else None)
            self._leases.step_aside(is_on)

    def end(self) -> None:
        """The broker stops: whoever got no answer gets none, and is not waited for."""
        self._has_ended = True
        self.arrange()
        for request in self._held:
            request.close()
        self._held.clear()

    def _wrapped(self, way: Way) -> Callable[[AnyCall, Any], None]:
        return partial(self._handle, way)

    def _handle(self, way: Way, call: AnyCall, rooms: Any) -> None:
        asked = Asked(call)
        if call.api.key == FETCH.key:
            _note_session(asked, rooms)
        deed = self._plan.decide(asked)
        # It may have been the last one.
        self.arrange()
        if deed is None:
            request = FaultyRequest(call.request, _at_once, asked.produce)
            _serve(way, call if asked.produce is None else FaultyCall(call, request, None), rooms)
        elif deed.delay_s and not deed.after:
            call.in_background(self._do_later, way, call, rooms, asked, deed)
        else:
            self._do(way, call, rooms, asked, deed)

    async def _do_later(self, way: Way, call: AnyCall, rooms: Any, asked: Asked, deed: Deed) -> None:
        if await self._passes(call.request, deed.delay_s):
            self._do(way, call, rooms, asked, deed)
            # The hub ends its turns itself; this task runs outside of them.
            self._turn.end()

    async def _passes(self, request: _core.Request, delay_s: float) -> bool:
        """Waits. False if nobody waits for an answer any more."""
        self._held.add(request)
        await trio.sleep(delay_s)
        self._held.discard(request)
        return request.is_waiting and not self._has_ended

    def _hold(self, request: _core.Request) -> None:
        """There is no answer to it while the broker lives."""
        if self._has_ended:
            request.close()
        else:
            self._held.add(request)

    def _do(self, way: Way, call: AnyCall, rooms: Any, asked: Asked, deed: Deed) -> None:
        request = call.request
        if not deed.after and deed.closes:
            return request.close()
        if not deed.after and not deed.answers:
            return self._hold(request)
        finish = partial(self._finish, call, deed) if deed.after else _at_once
        code = deed.error
        if code is None:
            return _serve(way, FaultyCall(call, FaultyRequest(request, finish, asked.produce), _seen(asked)), rooms)
        if asked.produce is not None:
            amends = code if deed.after else None
            wrapped = FaultyRequest(request, finish, asked.produce, amends, deed.about)
            there = rooms if deed.after else Rooms(rooms, deed.about, code)
            return _serve(way, FaultyCall(call, wrapped, None), there)
        wrapped = FaultyRequest(request, finish)
        if call.api.key == FETCH.key:
            if code in OF_SESSIONS and call.version >= 7:
                request.fetch()
                return wrapped.reply_fetch([], error_code=code)
            # It changes nothing, so that its rows fail before they are read in any case.
            _wake(asked, rooms, deed.about)
            return _serve(way, FaultyCall(call, wrapped, None), Rooms(rooms, deed.about, code))
        return _refuse(way, call, wrapped, rooms, asked, deed)

    def _finish(self, call: AnyCall, deed: Deed, answer: Action, is_sent: bool) -> None:
        """The work is done, and would be answered by `answer`; False for `is_sent`: without telling anybody."""
        request = call.request
        end = answer
        if deed.closes:
            end = request.close
        elif not deed.answers and is_sent:
            end = partial(self._hold, request)
        if deed.delay_s:
            call.in_background(self._end_later, request, deed.delay_s, end)
        else:
            end()

    async def _end_later(self, request: _core.Request, delay_s: float, end: Action) -> None:
        if await self._passes(request, delay_s):
            end()


def _refuse(way: Way, call: AnyCall, wrapped: FaultyRequest, rooms: Any, asked: Asked, deed: Deed) -> None:
    """Answers an error in a request of any other API, before or after the work for it."""
    assert deed.error is not None
    message = asked.message
    refused = refusal(call.api, call.version, deed.error, deed.about)

    def amend(answer: Message) -> Message:
        return refused.amend(answer, message)

    is_first = call.api.key in ANSWERED_FIRST or (refused.in_rows and asks_for_all(message))
    if deed.after or is_first:
        return _serve(way, FaultyCall(call, wrapped, message, amend), rooms)
    meant, others = split(message, refused.about) if refused.in_rows else (message, None)
    refusing = refused.answer(message if meant is None else meant)
    if others is None:
        return call.reply(refusing)
    return _serve(way, FaultyCall(call, wrapped, others, lambda answer: refused.join(answer, refusing)), rooms)


def _serve(way: Way, call: AnyCall, rooms: Any) -> None:
    if way.is_task:
        call.in_background(way.handle, call, rooms)  # type: ignore[arg-type]  # it is async
    else:
        way.handle(call, rooms)


def _at_once(answer: Action, _is_sent: bool) -> None:
    answer()


def _seen(asked: Asked) -> Message | None:
    """The message for a handler. Those of Produce and Fetch read the hub's own forms."""
    return None if asked.api.key in (PRODUCE.key, FETCH.key) else asked.message


def _note_session(asked: Asked, rooms: Any) -> None:
    session = rooms.fetch_sessions.get(getattr(asked.message, "session_id", 0))
    if session is not None:
        asked.session = frozenset(session.entries)


def _wake(asked: Asked, rooms: Any, about: Names) -> None:
    """Has a session read those of its partitions that are to fail, though there may be nothing new in them."""
    session = rooms.fetch_sessions.get(getattr(asked.message, "session_id", 0))
    for key, entry in session.entries.items() if session is not None else ():
        if about.covers(Names(*key)):
            session.live.setdefault(key, entry)
