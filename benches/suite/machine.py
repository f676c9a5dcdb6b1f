"""Where the figures come from: the facts beside every table."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from benches.suite.generators import ROOT


def facts() -> dict[str, str]:
    """Processor, memory, file system and versions of what takes part."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    memory_kb = int(Path("/proc/meminfo").read_text().split(maxsplit=2)[1])
    return {
        "date": time.strftime("%F"),
        "commit": _first_line("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
        "processor": f"{processor}, {os.cpu_count()} cores",
        "memory": f"{memory_kb / (1 << 20):.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _first_line("java", "-version"),
        "load average before": f"{os.getloadavg()[0]:.1f}",
        "command": " ".join(["python", *(part.removeprefix(f"{ROOT}/") for part in sys.argv)]),
    }


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "absent"
    return ((done.stdout or done.stderr).splitlines() or [""])[0]
