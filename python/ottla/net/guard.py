"""The guard of every way from the hub into Python: a mistake there costs one connection, never the broker.

Handlers, completions, the ends of turns, wake-ups of waiting requests, deadlines and disconnections run outside of any
task, one after the other, for clients that have nothing to do with each other. What one of them raises stops at the
place that called it; the others go on. Its request is dropped with it, and the hub closes the connection of a request
that nobody can answer any more.

A panic of the native module is such a mistake too. It comes as `pyo3_runtime.PanicException`, which is no `Exception`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import trio

logger = logging.getLogger("ottla.guard")

_NOT_OURS = (KeyboardInterrupt, SystemExit, GeneratorExit, trio.Cancelled)


def failed(place: str, error: BaseException, about: Mapping[str, object] | None = None) -> None:
    """Logs what `place` raised, with its traceback and the fields `about` it. For an `except BaseException`.

    Raises again what no mistake is: an interrupt, the end of the program, a cancellation.
    """
    if isinstance(error, _NOT_OURS):
        raise error
    logger.error("%s failed; others are served on", place, exc_info=error, extra=about)
