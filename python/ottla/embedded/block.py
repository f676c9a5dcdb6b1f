"""`with` and `async with`: something that starts at the beginning of a block and is closed at its end."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ottla.embedded.waiting import in_thread


class Block:
    """Has `start` and `close`, which may take a while; `async with` waits for them without stopping the loop."""

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
        self.close()

    async def __aenter__(self) -> Self:
        return await in_thread(self.start, otherwise=self.close)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(self.close)
