"""Writes `sync.pyi`: the signatures of the blocking classes, taken from the source of those under trio.

`python -m ottla.client.sync_stub` writes the file, which a test compares with what would be written.
"""

from pathlib import Path

from ottla.client import sync
from ottla.client.facade import FACADES
from ottla.client.stubs import Stub, formatted

FILE = Path(sync.__file__).with_suffix(".pyi")
BLOCK = """
def __enter__(self) -> Self: ...
def __exit__(
    self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
) -> None: ...
def close(self) -> None: ...
"""


def render() -> str:
    """The text of the file, before it is formatted."""
    return Stub(
        head='"""Written by `python -m ottla.client.sync_stub`."""',
        kinds=FACADES,
        imports=(
            "from collections.abc import Iterator",
            "from contextlib import contextmanager",
            "from types import TracebackType",
            "from typing import Self",
        ),
        block=BLOCK,
        # What a blocking method gives where the other one gives something to await or to iterate over.
        names={"AsyncIterator": "Iterator", "AsyncIterable": "Iterable"},
    ).render()


if __name__ == "__main__":
    FILE.write_text(formatted(render(), FILE))
