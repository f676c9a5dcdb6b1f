"""Lines from files or stdin, read in a thread so that what was read is sent while the next part is awaited."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

CHUNK_BYTES = 1 << 20


class Source(Protocol):
    """A file without a buffer of Python's: `read` gives what is there, at most `size` bytes."""

    def read(self, size: int, /) -> bytes | None: ...


def stdin() -> Source:
    """Standard input without Python's buffer. A thread that waits in the buffer's read holds the buffer's lock, and
    the interpreter cannot end while it does.
    """
    buffer = sys.stdin.buffer
    return getattr(buffer, "raw", buffer)


async def lines(source: Source, read: Callable[[int], None]) -> AsyncGenerator[list[bytes], None]:
    """Yields the complete lines of each part that arrives, without their ends; the last line may lack its end.

    read: is told how many bytes each part had.
    """
    import trio

    rest = b""
    # A terminal or pipe gives what is there; cancelling must not wait for the next key press.
    while part := await trio.to_thread.run_sync(source.read, CHUNK_BYTES, abandon_on_cancel=True):
        read(len(part))
        *complete, rest = (rest + part).split(b"\n") if rest else part.split(b"\n")
        yield [line.removesuffix(b"\r") for line in complete]
    if rest:
        yield [rest.removesuffix(b"\r")]
