"""`make cluster` as a user runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]


def test_the_demonstration(tmp_path: Path, zookeeper: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ottla.local_cluster.demo", "--zookeeper", zookeeper],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 10
    assert all(line.startswith("✓ ") for line in lines)
    killed = re.search(r"killed broker (\d) \(kill -9\), which led 2 of the partitions", done.stdout)
    assert killed
    others = sorted({1, 2, 3} - {int(killed[1])})
    assert f"brokers {others[0]} and {others[1]} lead all of them" in done.stdout
    assert f"started broker {killed[1]} again: all replicas in sync" in done.stdout
    read = re.search(r"read back: all ([\d,]+) acknowledged records are there", done.stdout)
    assert read
    assert int(read[1].replace(",", "")) > 100
    assert list(tmp_path.iterdir()) == [], "it cleans up"
