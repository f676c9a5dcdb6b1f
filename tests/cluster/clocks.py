"""Brokers whose clocks are wrong: their processes are told another time of day by libfaketime (Debian: libfaketime).

Only the time of day is another one. What measures durations (CLOCK_MONOTONIC), and the times of files, are as they are.
"""

from pathlib import Path

from tests.peers.skips import require

LIBRARY = "libfaketimeMT.so.1"


def library() -> Path | None:
    return next(Path("/usr/lib").glob(f"*/faketime/{LIBRARY}"), None)


def need_clocks() -> None:
    """Skip (or fail, if they are required) where clocks cannot be made wrong."""
    if library() is None:
        require("clocks", "libfaketime is absent: apt-get install libfaketime")


def environment(ahead_s: int) -> dict[str, str]:
    """For a process whose clock is so many seconds ahead, or behind where that is negative."""
    found = library()
    assert found is not None
    return {
        "LD_PRELOAD": str(found),
        "FAKETIME": f"{ahead_s:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
