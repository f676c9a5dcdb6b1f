"""Free memory that a virtual machine really has.

Some hosts take a guest's free pages back within seconds (free page reporting) and give them again at the first touch,
4 KiB at a time: on one machine appending to a file cost 0.3 ms of CPU a MB where its pages were there, 4.5 where they
were not. Whoever happens to get fresh pages looks several times dearer than it is. So before a case as much memory is
touched and freed as it will want: for all brokers alike, and with nothing to be seen where the host takes nothing.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MB = 1 << 20
# What a Java process wants in its first second.
LEAST = 512 * MB
MOST = 3 << 30
# Cases of a rehearsal have a quarter of the numbers, or some third of the seconds, and are slower than a round's.
REHEARSED = 5
SPARE = 1.25
MADV_POPULATE_WRITE = 23


def touch(wanted: int) -> None:
    """Makes up to `wanted` bytes of free memory present, at most half of what is free: nothing is evicted for it."""
    size = min(wanted, _free() // 2) & -mmap.PAGESIZE
    if size > 0:
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            try:
                memory.madvise(MADV_POPULATE_WRITE)
            except OSError:  # Linux before 5.14
                for start in range(0, size, mmap.PAGESIZE):
                    memory[start] = 1


class Memory:
    """Knows what each case took when it was last measured."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, bool], int] = {}

    @contextmanager
    def ready(self, case: str, is_rehearsal: bool) -> Iterator[None]:
        """Within it the case has the memory that it took before."""
        key = (case, is_rehearsal)
        touch(max(LEAST, min(MOST, int(self._expected(case, is_rehearsal) * SPARE))))
        before = _free()
        yield
        self._taken[key] = max(self._taken.get(key, 0), before - _free())

    def _expected(self, case: str, is_rehearsal: bool) -> float:
        if (known := self._taken.get((case, is_rehearsal))) is not None:
            return known
        return REHEARSED * self._taken.get((case, True), 0)


def _free() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemFree:")) * 1024
