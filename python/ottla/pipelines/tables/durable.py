"""Makes files and folders durable, so that a power cut does not take them."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Makes the content of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
