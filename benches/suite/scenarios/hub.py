"""The bare hub as a server: benches/net_hub.py's, which answers 64 bytes with 64 bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benches.suite.generators import ROOT


@contextmanager
def bare_hub(folder: Path) -> Iterator[tuple[str, int]]:
    """HOST:PORT and pid."""
    command = [sys.executable, str(ROOT / "benches" / "net_hub.py"), "serve", str(folder / "hub")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"127.0.0.1:{int(process.stdout.readline())}", process.pid
    finally:
        process.communicate()
