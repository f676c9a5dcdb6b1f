"""How handlers answer: at once where there are few rows, else in pieces (`pace.py`).

A handler that may have many rows is written as a generator that yields between them, and replies at its end. A few rows
are done at once, in the hub's turn as in any plain handler; many in a task, which gives way every few milliseconds.
What such an answer tells is looked up before the first yield, or may change between rows without harm: a handler says
which.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.broker.pace import LARGE_BYTES, Pace
from ottla.wire.error_codes import error_codes
from ottla.wire.schema import ITEMS_AT_ONCE, Api, Message

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

#: Rows that are answered at once: at 2 to 5 us each, less than a millisecond and a half.
ROWS_AT_ONCE = 256


def is_in_turn(request: Request, rows: int) -> bool:
    """Whether a handler of so many rows is run at once, inside the hub's turn, instead of in a task."""
    return rows <= ROWS_AT_ONCE and len(request) <= LARGE_BYTES


def in_pieces(broker: Broker, request: Request, rows: int, pieces: Iterable[None]) -> None:
    """Runs the generator of a handler, at once or in a task. What it raises costs the request's connection."""
    if rows <= ROWS_AT_ONCE:
        for _ in pieces:
            pass
        return

    async def paced(_broker: Broker, _request: Request) -> None:
        pace = Pace()
        for _ in pieces:
            await pace.turn()

    broker.in_background(paced, request)


def reply(broker: Broker, request: Request, api: Api[Any, Any], response: Message) -> None:
    """Answers a request: at once if the answer has few rows, else in pieces. Nothing may change the rows any more. The
    error codes of the answer are counted if the broker has metrics.
    """
    encoding = api.encoding_response(request.api_version, response)
    if encoding.is_done:
        if broker.is_measured:
            note_errors(broker, api, list(error_codes(response)))
        request.reply(encoding.bytes)
        return

    async def rest(broker: Broker, request: Request) -> None:
        pace = Pace()
        while encoding.go_on():
            await pace.turn()
        if broker.is_measured:
            codes = error_codes(response)
            while some := list(islice(codes, ITEMS_AT_ONCE)):
                await pace.turn()
                note_errors(broker, api, some)
        request.reply(encoding.bytes)

    broker.in_background(rest, request)


def note_errors(broker: Broker, api: Api[Any, Any], codes: list[int]) -> None:
    """Counts error codes of an answer, for the metrics of this broker."""
    if codes and broker.is_measured:
        broker.server.hub.note_errors(api.key, codes)
