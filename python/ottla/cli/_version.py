"""The line of `ottla --version`: what is installed, and from which commit and with which profile it was made."""

from __future__ import annotations

import os
from pathlib import Path

_UNKNOWN = "unknown"


def line() -> str:
    """Says, for instance: ottla 0.1.0 (commit 1a2b3c4d, release)."""
    from ottla._core import BUILD_PROFILE, __version__

    return f"ottla {__version__} (commit {commit()}, {BUILD_PROFILE})"


def commit(package: Path = Path(__file__).parents[1]) -> str:
    """The commit that `package` was made from: `make wheel` puts it into the wheel, and a work tree asks git. It ends
    in `-dirty` where files differed from that commit. `unknown` in a package that was made otherwise.
    """
    try:
        return (package / "commit.txt").read_text().strip()
    except FileNotFoundError:
        root = package.parents[1]
        return _of_work_tree(root) if (root / ".git").exists() else _UNKNOWN


def _of_work_tree(root: Path) -> str:
    import subprocess

    describe = ["git", "-C", str(root), "describe", "--always", "--exclude=*", "--abbrev=8", "--dirty"]
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        found = subprocess.run(describe, capture_output=True, text=True, env=quiet, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return _UNKNOWN
    return found.stdout.strip() or _UNKNOWN
