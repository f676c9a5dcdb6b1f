"""The loop belongs to everybody: what takes long goes on in slices, between which the others have their turns.

A handler of many rows waits for `pace.turn()` between them, or is a generator that `replies.in_pieces` runs.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import trio

from ottla.wire.schema import Api

if TYPE_CHECKING:
    from ottla._core import Request

#: A request with more bytes is decoded in pieces, in a task.
LARGE_BYTES = 16 * 1024
#: How long a task goes on before others have their turn.
SLICE_S = 0.002
#: After ten of the collector's second looks at what is new, it looks at everything.
LOOKS_MAX = 6


class Pace:
    """Gives way when a slice of time is over: `await pace.turn()` between the rows of an async handler."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_S

    async def turn(self) -> None:
        """Returns at once, or when every other task and the hub had their turn."""
        if time.monotonic() >= self._until:
            if gc.get_count()[2] >= LOOKS_MAX:
                # The rows of a large request are no garbage before it is answered, and then need no collector: to look
                # through all of them again and again would take the loop for 100 ms each time.
                gc.freeze()
            await trio.lowlevel.checkpoint()
            self._until = time.monotonic() + SLICE_S


async def decode(api: Api[Any, Any], request: Request) -> None:
    """Decodes a large request in pieces, before its handler asks for the message."""
    decoding = api.decoding_request(request.api_version, request)
    pace = Pace()
    while decoding.go_on():
        await pace.turn()
    request.put_message(decoding.message)
