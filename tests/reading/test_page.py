"""The blocks of docs/python/scan.md, as they stand but for addresses."""

import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla.log import Log
from tests.peers.skips import module
from tests.support.client import Client, batch
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S

module("arrow", "pyarrow")


def ran(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two topics in the directory `data`."""
    for partition in range(2):
        with Log.open(_made(tmp_path / "data") / f"orders-{partition}", mode="a") as log:
            log.append_many([("alice", "3 apples"), ("bob", "1 pear"), ("alice", "2 plums")])
    with Log.open(tmp_path / "data" / "fruits-0", mode="a") as log:
        log.append_many(['{"fruit":"apple","count":3}', '{"fruit":"apple","count":4}', None])
    return tmp_path


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def test_frames(folder: Path) -> None:
    """Blocks one after the other in one process, which has polars only once to load."""
    for name in ("polars", "duckdb"):
        module("frames", name)
    blocks = (
        block("python", "duckdb.sql", "docs/python/scan.md"),
        block("python", 'frame.filter(pl.col("key")', "docs/python/scan.md"),
        block("python", "pa.schema([", "docs/python/scan.md"),
    )
    frames, lazy, json = ran("\nprint('---')\n".join(blocks), folder).split("---\n")
    assert "shape: (6, 6)" in frames
    assert frames.splitlines()[-1] == "6"
    assert "│ 4   ┆ 2      │" in lazy
    assert "shape: (2, 6)" in lazy
    assert "│ apple ┆ 7     │" in json


def test_times(tmp_path: Path) -> None:
    with ottla.Broker() as broker:
        broker.create_topic("orders")
        with Client.connect(broker.host, broker.port, "test") as client:
            client.produce("orders", batch(b"1 pear", timestamp_ms=1_800_000_000_000))
        code = block("python", "timedelta(minutes=10)", "docs/python/scan.md")
        printed = ran(code.replace("127.0.0.1:9092", broker.bootstrap_servers), tmp_path)
    assert printed == "{0: (0, 1)}\n1\n"
