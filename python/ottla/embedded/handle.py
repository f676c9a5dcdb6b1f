"""The handle of something that meets requests until it is removed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ottla.embedded.hits import PATIENCE_S, Hits
from ottla.embedded.plan import Plan


class Handle:
    """Counts the requests that it has met, and ends when it is removed; as a context manager, with its block. All
    methods may be called from any thread.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._hits = Hits()

    @property
    def hits(self) -> int:
        """How many requests it has met. One is counted when it comes, before anything becomes of it."""
        return self._hits.count

    def wait(self, count: int = 1, timeout: float = PATIENCE_S) -> None:
        """Returns when it has met `count` requests. It stops the thread that calls it: in an event loop call it by
        `asyncio.to_thread` or `trio.to_thread.run_sync`.

        Raises:
            TimeoutError: it has met fewer in `timeout` seconds.
        """
        self._hits.wait(count, timeout, repr(self))

    def remove(self) -> None:
        """Ends it. Requests that come from now on are served; those that it keeps without an answer get none."""
        self._plan.remove_rules(lambda rule: rule is self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
