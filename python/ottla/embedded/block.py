"""`with` and `async with`: something that starts at the beginning of a block and is closed at its end.

Both the block and its end may fail, and of two errors Python raises the later one. Here that would be the wrong one: a
test whose assertion failed would show a broker that had failed, too. So the error of the block goes on, and the other
one is told with it: by a note, by `__context__` and by a line of the log. A cancellation is no such error. Who has
asked for it drops it, and would drop with it what is told.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, Self

import trio

from ottla.embedded.waiting import in_thread

logger: Final = logging.getLogger("ottla.embedded")


class Block:
    """Has `start` and `close`, which may take a while; `async with` waits for them without stopping the loop.

    What `close` raises at the end of a block is raised, unless the block has raised an error itself: then that goes on,
    with a note.
    """

    def start(self) -> Self:
        """Begins."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends, and leaves nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception as failure:
            if error is None or _is_cancellation(error):
                raise
            _tell(error, failure)

    async def __aenter__(self) -> Self:
        return await in_thread(self.start, otherwise=self.close)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await in_thread(self.close)
        except Exception as failure:
            if error is None or _is_cancellation(error):
                raise
            _tell(error, failure)


def _is_cancellation(error: BaseException) -> bool:
    """True for what ends a block because somebody else has asked for its end, and for a group of nothing else."""
    import asyncio

    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_cancellation, error.exceptions))
    return isinstance(error, trio.Cancelled | asyncio.CancelledError | GeneratorExit)


def _tell(error: BaseException, failure: Exception) -> None:
    """Adds to the error of a block that its end has failed, too."""
    said = f"{type(failure).__name__}: {failure}"
    logger.error("a block ends with %s, and its end has failed: %s", type(error).__name__, said)
    error.add_note(f"At the end of the block there was another error: {said}")
    # It was raised while the block's error was handled, and so has that as its context. Here it is the other way round.
    _first_of(failure, until=error).__context__ = None
    _first_of(error, until=failure).__context__ = failure


def _first_of(error: BaseException, until: BaseException) -> BaseException:
    """The first error in a row of contexts, or the first after `until`."""
    while error.__context__ is not None and error.__context__ is not until:
        error = error.__context__
    return error
