"""Lines from files or stdin, read in a thread so that what was read is sent while the next part is awaited."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

CHUNK_BYTES = 1 << 20
LINE_BYTES_MAX = 100 * 1024 * 1024
"""As large as a request may be (socket.request.max.bytes) unless brokers are told otherwise."""


class Source(Protocol):
    """A file without a buffer of Python's: `read` gives what is there, at most `size` bytes."""

    def read(self, size: int, /) -> bytes | None: ...


def stdin() -> Source:
    """Standard input without Python's buffer. A thread that waits in the buffer's read holds the buffer's lock, and
    the interpreter cannot end while it does.
    """
    buffer = sys.stdin.buffer
    return getattr(buffer, "raw", buffer)


class LineTooLong(ValueError):
    """The line after those that were given has more bytes than it may have."""


async def lines(source: Source, read: Callable[[int], None], bytes_max: int) -> AsyncGenerator[list[bytes], None]:
    """Yields the complete lines of each part that arrives, without their ends; the last line may lack its end.

    read: is told how many bytes each part had. bytes_max: of a line that is longer no more than that is kept.

    Raises:
        LineTooLong: a line is longer; those before it were given.
    """
    import trio

    begun: list[bytes] = []  # the pieces of a line whose end has not come
    size = 0
    # A terminal or pipe gives what is there; cancelling must not wait for the next key press.
    while part := await trio.to_thread.run_sync(source.read, CHUNK_BYTES, abandon_on_cancel=True):
        read(len(part))
        first, *others = part.split(b"\n")
        begun.append(first)
        size += len(first)
        if others and size <= bytes_max + 1:
            *complete, last = b"".join(begun), *others
            begun, size = [last], len(last)
            found = [line.removesuffix(b"\r") for line in complete]
            long = next((number for number, line in enumerate(found) if len(line) > bytes_max), None)
            yield found[:long]
            if long is not None:
                raise LineTooLong
        if size > bytes_max + 1:  # it may be the beginning of its end
            raise LineTooLong
    if size:
        line = b"".join(begun).removesuffix(b"\r")
        if len(line) > bytes_max:
            raise LineTooLong
        yield [line]
