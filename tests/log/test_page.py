"""The blocks of docs/python/log.md, as they stand, one after the other."""

import subprocess
import sys
from pathlib import Path

from tests.peers.skips import module
from tests.support import shown
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S


def ran(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    blocks = (
        block("python", "log.append_many", "docs/python/log.md"),
        block("python", "log.refresh()", "docs/python/log.md"),
        block("python", "verify(", "docs/python/log.md"),
        block("python", "repair(", "docs/python/log.md"),
        block("python", "compact(", "docs/python/log.md"),
    )
    read, followed, verified, repaired, compacted = ran(["-c", "\nprint('---')\n".join(blocks)], tmp_path).split(
        "---\n"
    )
    assert read.splitlines() == ["1 b'bob' b'1 pear' []", "2 b'alice' b'2 plums' []", "0 3 0"]
    assert followed.splitlines() == ["b'3 apples'", "b'1 pear'", "b'2 plums'"]
    assert (verified, repaired) == ("1 3 []\n", "range(0, 3)\n")
    assert compacted.startswith("3 2 ")


def test_the_commands(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    ran(["-c", block("python", "log.append_many", "docs/python/log.md")], tmp_path)
    verify, repair = shown.typed(block("sh", "ottla log repair", "docs/python/log.md"))
    assert "3 records" in ran(["-m", "ottla", *verify], tmp_path)
    assert ran(["-m", "ottla", *repair], tmp_path) == "nothing is damaged\n"


def test_polars(tmp_path: Path) -> None:
    module("arrow", "pyarrow")
    module("frames", "polars")
    (tmp_path / "data").mkdir()
    blocks = (
        block("python", "log.append_many", "docs/python/log.md"),
        block("python", "pa.Table.from_batches", "docs/python/log.md"),
    )
    assert '│ b"alice" ┆ 2   │' in ran(["-c", "\n".join(blocks)], tmp_path)
