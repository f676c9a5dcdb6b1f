"""How handlers answer: at once where there are few rows, else in slices.

A handler that may have many rows is written as a generator that yields between them, and replies at its end
(`ottla.slices.serve`). Few rows are done at once, in the hub's turn as in any plain handler. What such an answer tells
is looked up before the first yield, or may change between rows without harm: a handler says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.broker.freeing import free, lists_of
from ottla.slices import ROWS, Slices
from ottla.wire.error_codes import error_codes
from ottla.wire.schema import ITEMS_AT_ONCE, Api, Message

if TYPE_CHECKING:
    from ottla._core import Encoding, Request
    from ottla.broker.contexts import AnswerContext


def count_of(lists: Iterable[Sized]) -> int:
    """How many rows these lists have together; more than `ROWS` are not counted on, which would take the loop
    itself. A list counts as a row at least: a request may have any number of empty ones.
    """
    rows = 0
    for one in lists:
        rows += len(one) or 1
        if rows > ROWS:
            break
    return rows


def reply(broker: AnswerContext, request: Request, api: Api[Any, Any], response: Message) -> None:
    """Answers a request: at once if the answer has few rows, else in slices. Nothing may change the rows any more. The
    error codes of the answer are counted if the broker has metrics.
    """
    encoding = api.encoding_response(request.api_version, response)
    if encoding.is_done:
        if broker.is_measured:
            note_errors(broker, api, list(error_codes(response)))
        request.reply_encoded(encoding)
        return

    async def rest(broker: AnswerContext, request: Request) -> None:
        nonlocal response, encoding
        await _encode(broker, request, api, response, encoding)
        # The handler has returned, so that nobody has the answer any more, as a rule.
        lists = lists_of(response)
        del response, encoding
        await free(lists)

    broker.in_background(rest, request)


async def reply_here(broker: AnswerContext, request: Request, api: Api[Any, Any], response: Message) -> None:
    """The same; returns when the request is answered, and the answer's rows are freed as far as nobody else has them.
    The caller has no name for the answer.
    """
    encoding = api.encoding_response(request.api_version, response)
    await _encode(broker, request, api, response, encoding)
    lists = lists_of(response)
    del response, encoding
    await free(lists)


async def _encode(
    broker: AnswerContext, request: Request, api: Api[Any, Any], response: Message, encoding: Encoding
) -> None:
    slices = Slices()
    while encoding.go_on():
        await slices.row()
    if broker.is_measured:
        codes = error_codes(response)
        while some := list(islice(codes, ITEMS_AT_ONCE)):
            await slices.row()
            note_errors(broker, api, some)
        del codes
    request.reply_encoded(encoding)


def note_errors(broker: AnswerContext, api: Api[Any, Any], codes: list[int]) -> None:
    """Counts error codes of an answer, for the metrics of this broker."""
    if codes and broker.is_measured:
        broker.server.hub.note_errors(api.key, codes)
