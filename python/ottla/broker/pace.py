"""Requests of many rows: the loop belongs to everybody, so they are answered in pieces.

A handler that may have many rows is written as a generator that yields between them, and replies at its end. A few rows
are done at once, in the hub's turn as in any plain handler; many in a task, which gives way every few milliseconds.
What such an answer tells is looked up before the first yield, or may change between rows without harm: a handler says
which.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import trio

from ottla.wire.error_codes import error_codes
from ottla.wire.schema import Api, Message

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.broker.broker import Broker

#: Rows that are answered at once: at 2 to 5 us each, less than a millisecond and a half.
ROWS_AT_ONCE = 256
#: How long a task goes on before others have their turn.
SLICE_S = 0.002


class Pace:
    """Gives way when a slice of time is over: `await pace.turn()` between the rows of an async handler."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_S

    async def turn(self) -> None:
        """Returns at once, or when every other task and the hub had their turn."""
        if time.monotonic() >= self._until:
            await trio.lowlevel.checkpoint()
            self._until = time.monotonic() + SLICE_S


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
    """Answers a request. The error codes of the answer are counted if the broker has metrics."""
    body = api.encode_response(request.api_version, response)
    if broker.is_measured:
        note_errors(broker, api, error_codes(response))
    request.reply(body)


def note_errors(broker: Broker, api: Api[Any, Any], codes: list[int]) -> None:
    """Counts the error codes of an answer, for the metrics of this broker."""
    if codes and broker.is_measured:
        broker.server.hub.note_errors(api.key, codes)
