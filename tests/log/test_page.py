"""The blocks of docs/python/log.md, as they stand, one after the other."""

import subprocess
import sys
from pathlib import Path

from tests.peers.skips import module
from tests.support import shown
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S


def ran(command: list[str], folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_page_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    read = ran(["-c", block("python", "log.append_many", "docs/python/log.md")], tmp_path)
    assert read == ["1 b'bob' b'1 pear' []", "2 b'alice' b'2 plums' []", "0 3 0"]
    followed = ran(["-c", block("python", "log.refresh()", "docs/python/log.md")], tmp_path)
    assert followed == ["b'3 apples'", "b'1 pear'", "b'2 plums'"]
    assert ran(["-c", block("python", "verify(", "docs/python/log.md")], tmp_path) == ["1 3 []"]
    verified, repaired = shown.typed(block("sh", "ottla log repair", "docs/python/log.md"))
    assert "3 records" in ran(["-m", "ottla", *verified], tmp_path)[-1]
    assert ran(["-m", "ottla", *repaired], tmp_path) == ["nothing is damaged"]
    assert ran(["-c", block("python", "repair(", "docs/python/log.md")], tmp_path) == ["range(0, 3)"]
    module("arrow", "pyarrow")
    module("frames", "polars")
    grouped = ran(["-c", block("python", "pa.Table.from_batches", "docs/python/log.md")], tmp_path)
    assert '│ b"alice" ┆ 2   │' in grouped
    compacted = ran(["-c", block("python", "compact(", "docs/python/log.md")], tmp_path)
    assert compacted[0].startswith("3 2 ")
