"""Where tests kill tasks and drivers: named points that do nothing unless $OTTLA_SINK_STOPS names a folder.

If the folder has a file of the point's name, the process makes one named POINT-PID and waits to be killed; when the
file is gone it ends by itself.
"""

import os
from pathlib import Path

import trio


async def reached(point: str) -> None:
    """Goes on at once, except in such a test."""
    if (folder := os.environ.get("OTTLA_SINK_STOPS")) is not None and (stop := Path(folder, point)).exists():
        Path(folder, f"{point}-{os.getpid()}").touch()
        while stop.exists():
            await trio.sleep(0.02)
        os._exit(1)
