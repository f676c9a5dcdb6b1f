"""File systems for tests that need one of their own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.peers.skips import require


@contextmanager
def small_tmpfs(path: Path, size_mb: int) -> Iterator[Path]:
    """A file system in memory that really has no space left after so many megabytes, mounted at `path`, which is made.

    Skips (or fails, if mounts are required) where this process may not mount.
    """
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(path)], capture_output=True)
    if done.returncode != 0:
        require("mounts", f"mount: {done.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
