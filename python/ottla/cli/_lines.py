"""Lines from files or stdin, read in a thread so that what was read is sent while the next part is awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import BinaryIO

CHUNK_BYTES = 1 << 20


async def lines(source: BinaryIO, read: Callable[[int], None]) -> AsyncGenerator[list[bytes], None]:
    """Yields the complete lines of each part that arrives, without their ends; the last line may lack its end.

    read: is told how many bytes each part had.
    """
    import trio

    rest = b""
    # A terminal or pipe gives what is there, at most CHUNK_BYTES; cancelling must not wait for the next key press.
    while part := await trio.to_thread.run_sync(source.read1, CHUNK_BYTES, abandon_on_cancel=True):  # type: ignore[attr-defined]
        read(len(part))
        *complete, rest = (rest + part).split(b"\n") if rest else part.split(b"\n")
        yield [line.removesuffix(b"\r") for line in complete]
    if rest:
        yield [rest.removesuffix(b"\r")]
