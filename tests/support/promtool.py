"""Prometheus' own tool, which judges rules and expressions."""

import shutil
from pathlib import Path

from tests.peers.skips import require

PROJECT = Path(__file__).parents[2]


def found() -> str:
    """The tool's path: `make clients-tools` unpacks Debian's. Where there is none, the test is skipped."""
    unpacked = PROJECT / ".venvs" / "promtool" / "usr" / "bin" / "promtool"
    path = str(unpacked) if unpacked.exists() else shutil.which("promtool")
    if path is None:
        require("clients", "promtool is absent: apt-get install prometheus")
    return path
