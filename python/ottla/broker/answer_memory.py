"""Memory for large answers, which is there before they are made.

The rows of a large answer, and their bytes, live until the answer is made; then the hub counts it as unsent. If many
clients asked at once, all of that together would be more than any setting says. So an answer takes its memory from the
account of answers (`rust/net/budget`) while it grows, and waits where there is none: its request keeps nothing but its
frame, and the loop is free.

Its rows are objects, which take several times what their bytes do. Where all rows are in memory before the first is
encoded, few answers are made at a time (`Call.large_answer`), each from its first row to its last byte.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from ottla.errors import RemoteProtocolError

if TYPE_CHECKING:
    from ottla._core import Request
    from ottla.net import Server

#: An answer up to this size asks for nothing. It is counted when it is made.
SMALL_BYTES: Final = 64 * 1024
#: By how much it grows at a time.
STEP_BYTES: Final = 256 * 1024
#: Rows of an answer that need no place among these.
FEW_ROWS: Final = 128


class AnswerMemory:
    """The memory that one answer takes: `await memory.add(...)` before its rows are made and encoded.

    The bound of one answer is that of requests, `socket.request.max.bytes`: what nobody may send is not sent either. A
    client that asks for more is told to ask for less, by the reason for which its connection is closed.
    """

    __slots__ = ("_has", "_request", "_rows_bytes", "_server", "_size_bytes", "_size_bytes_max")

    def __init__(self, server: Server, request: Request, size_bytes_max: int) -> None:
        self._server = server
        self._request = request
        self._size_bytes = 0
        self._rows_bytes = 0
        self._has = SMALL_BYTES
        self._size_bytes_max = size_bytes_max

    async def add(self, size_bytes: int, rows_bytes: int = 0) -> None:
        """Returns when the answer may have so many bytes more; its rows, where they are its own, `rows_bytes`.

        Raises RemoteProtocolError if the answer is too large, or its client is gone.
        """
        self._size_bytes += size_bytes
        self._rows_bytes += rows_bytes
        if self._size_bytes > self._size_bytes_max:
            raise RemoteProtocolError(
                f"the answer would have more than socket.request.max.bytes={self._size_bytes_max}: ask for less at once"
            )
        needed = self._size_bytes + self._rows_bytes
        if needed > self._has:
            self._has = -(-needed // STEP_BYTES) * STEP_BYTES
            await self._reserve()

    async def size_is(self, size_bytes: int) -> None:
        """Returns when the answer may have `size_bytes` in all. Raises as `add` does."""
        await self.add(max(0, size_bytes - self._size_bytes))

    async def _reserve(self) -> None:
        told = trio.Event()
        is_granted = False

        def tell(value: bool | None, _error: BaseException | None) -> None:
            nonlocal is_granted
            is_granted = bool(value)
            told.set()

        now = self._server.submit(partial(self._request.reserve, self._has), tell)
        if now is None:
            await told.wait()
        if not (is_granted if now is None else now):
            raise RemoteProtocolError("nobody waits for the answer any more")
