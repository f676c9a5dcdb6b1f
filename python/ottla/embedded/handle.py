"""The handle of something that happens to a broker until it is removed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ottla.embedded.hits import PATIENCE_S, Hits
from ottla.embedded.plan import Plan


class Handle:
    """Counts what it has met, and ends when it is removed; as a context manager, with its block. All methods may be
    called from any thread.
    """

    @property
    def hits(self) -> int:
        """How many requests it has met, or operations of the disk. One is counted when it comes, before anything
        becomes of it.
        """
        raise NotImplementedError

    def wait(self, count: int = 1, timeout: float = PATIENCE_S) -> None:
        """Returns when it has `count` hits. It stops the thread that calls it: in an event loop call it by
        `asyncio.to_thread` or `trio.to_thread.run_sync`.

        Raises:
            TimeoutError: it has fewer after `timeout` seconds.
        """
        raise NotImplementedError

    def remove(self) -> None:
        """Ends it. What comes from now on is served; requests that it keeps without an answer get none."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


class RuleHandle(Handle):
    """The handle of a rule of a plan, which meets requests."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._hits = Hits()

    @property
    def hits(self) -> int:
        return self._hits.count

    def wait(self, count: int = 1, timeout: float = PATIENCE_S) -> None:
        self._hits.wait(count, timeout, repr(self))

    def remove(self) -> None:
        self._plan.remove_rules(lambda rule: rule is self)
