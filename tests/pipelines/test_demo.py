"""`make demo` as a user runs it, with few repetitions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.demo import weblog
from ottla.pipelines.demo.__main__ import _difference
from ottla.pipelines.demo.summary import Hour, Page, Summary
from tests.peers.skips import module, require

PNG = b"\x89PNG\r\n\x1a\n"
HOUR = Hour.parse("17/May/2015:10", 5, 1)


@pytest.mark.spark
@pytest.mark.judge
def test_the_demonstration(tmp_path: Path) -> None:
    """Its own exit code says whether Spark and the direct count agree; the lines that are no requests must be there
    too.
    """
    module("arrow", "matplotlib")
    try:
        import confluent_kafka  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as missing:
        require("spark", f"{missing.name} is not installed")
    log = tmp_path / "access.log"
    log.write_text("\n".join([*weblog.lines(2000, seed=3), "not a request", '1.2.3.4 - - [x] "-" 400 0', ""]))
    command = [
        "-m",
        "ottla.pipelines.demo",
        "--file",
        str(log),
        "--repeat",
        "3",
        "--output",
        str(tmp_path / "out"),
        "--cores",
        "2",
    ]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "produced 6,006 records with confluent-kafka" in done.stdout
    assert "agrees: 6,000 requests" in done.stdout
    assert " 6 malformed lines" in done.stdout
    assert "stopped the broker" in done.stdout
    assert (tmp_path / "out" / "web-requests.png").read_bytes().startswith(PNG)


def test_a_difference_is_shown() -> None:
    expected = Summary((HOUR,), (Page("/", 5),), 0)
    counted = Summary((HOUR._replace(requests=6),), (Page("/", 5),), 0)
    assert "requests: Spark 6, file 5" in _difference(counted, expected)
    assert "hour: Spark Hour(start=" in _difference(counted, expected)
