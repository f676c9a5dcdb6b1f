"""Free memory that a virtual machine really has.

Some hosts take a guest's free pages back within seconds (free page reporting) and give them again at the first touch,
4 KiB at a time: on one machine appending to a file cost 0.3 ms of CPU a MB where its pages were there, 4.5 where they
were not. Whoever happens to get fresh pages looks several times dearer than it is, most of all who writes fastest. So
each case has as much memory as it will want held present for it, and given free piece by piece while it takes it: for
all brokers alike, and with nothing to be seen where the host takes nothing.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MB = 1 << 20
# What a Java process wants in its first second.
LEAST = 512 * MB
# A file of 4 GB, and what else a case takes.
MOST = 6 << 30
PIECE = 16 * MB
# So much is free and present at any time; what is taken between two looks is less.
AHEAD = 64 * MB
LOOK_S = 0.005
# Cases of a rehearsal have a quarter of the numbers, or some third of the seconds, and are slower than a round's.
REHEARSED = 5
SPARE = 1.25
MADV_POPULATE_WRITE = 23
TAKEN = ("Buffers:", "Cached:", "AnonPages:", "Slab:")


def touch(wanted: int) -> None:
    """Makes up to `wanted` bytes of free memory present, at most half of what is free: nothing is evicted for it."""
    if (size := min(wanted, _kept("MemFree:") // 2) & -mmap.PAGESIZE) > 0:
        _present(size).close()


class Memory:
    """Holds memory for cases, and knows what each took when it was last measured."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, bool], int] = {}
        self._held: list[mmap.mmap] = []

    @contextmanager
    def ready(self, case: str, is_rehearsal: bool) -> Iterator[None]:
        """Within it the case has the memory that it took before."""
        key = (case, is_rehearsal)
        self._hold(max(LEAST, min(MOST, int(self._expected(case, is_rehearsal) * SPARE))))
        with _Giving(self._held) as giving:
            yield
        self._taken[key] = max(self._taken.get(key, 0), giving.taken)

    def release(self) -> None:
        """Gives free what is held."""
        while self._held:
            self._held.pop().close()

    def _hold(self, wanted: int) -> None:
        """Adds to the memory that the last case left held, up to `wanted` bytes or about half of what is free."""
        free = _kept("MemFree:")
        while (held := len(self._held) * PIECE) < wanted and (free + held) // 2 - held >= PIECE:
            self._held.append(_present(PIECE))
            free -= PIECE

    def _expected(self, case: str, is_rehearsal: bool) -> float:
        if (known := self._taken.get((case, is_rehearsal))) is not None:
            return known
        return REHEARSED * self._taken.get((case, True), 0)


class _Giving:
    """Gives pieces free as fast as memory is taken."""

    def __init__(self, held: list[mmap.mmap]) -> None:
        self.taken = 0
        self._held = held
        self._before = _kept(*TAKEN)
        self._given = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Giving:
        self._give()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._give()

    def _run(self) -> None:
        while not self._ends.wait(LOOK_S):
            self._give()

    def _give(self) -> None:
        # What is held counts as taken until it is given.
        self.taken = max(self.taken, _kept(*TAKEN) + self._given - self._before)
        while self._held and self._given < self.taken + AHEAD:
            self._held.pop().close()
            self._given += PIECE


def _present(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # The page cache takes large pieces for large writes: they are given back as such.
    with suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    try:
        memory.madvise(MADV_POPULATE_WRITE)
    except OSError:  # Linux before 5.14
        for start in range(0, size, mmap.PAGESIZE):
            memory[start] = 1
    return memory


def _kept(*names: str) -> int:
    """Bytes of these lines of /proc/meminfo."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(names)) * 1024
