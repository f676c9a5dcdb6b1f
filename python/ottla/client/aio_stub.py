"""Writes `aio.pyi`: the signatures of the classes for asyncio, taken from the source of those under trio.

`python -m ottla.client.aio_stub` writes the file, which a test compares with what would be written.
"""

from pathlib import Path

from ottla.client import aio
from ottla.client.aio_facade import FACADES
from ottla.client.stubs import Stub, formatted

FILE = Path(aio.__file__).with_suffix(".pyi")
BLOCK = """
async def __aenter__(self) -> Self: ...
async def __aexit__(
    self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
) -> None: ...
async def aclose(self) -> None: ...
"""


def render() -> str:
    """The text of the file, before it is formatted."""
    return Stub(
        head='"""Written by `python -m ottla.client.aio_stub`."""',
        kinds=FACADES,
        imports=(
            "from collections.abc import AsyncIterator",
            "from contextlib import asynccontextmanager",
            "from types import TracebackType",
            "from typing import Self",
        ),
        block=BLOCK,
        is_async=True,
    ).render()


if __name__ == "__main__":
    FILE.write_text(formatted(render(), FILE))
