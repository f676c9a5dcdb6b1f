"""The blocks of docs/python/aio.md, as they stand but for addresses: they run, and their types are right."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.ottla import Broker
from tests.support.readme import PROJECT, block
from tests.support.waiting import PATIENCE_S

BLOCKS = (
    block("python", "async for record in consumer:\n                print(record.offset", "docs/python/aio.md"),
    block("python", "asyncio.timeout(2)", "docs/python/aio.md"),
    block("python", "producer.transaction()", "docs/python/aio.md"),
)


def ran(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=PROJECT, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_they_run(prompt_broker: Broker) -> None:
    first, second, third = (ran("-c", each.replace("127.0.0.1:9092", prompt_broker.bootstrap)) for each in BLOCKS)
    assert first == "0 b'alice' b'3 apples' [('shop', b'4')]\n1 b'bob' b'1 pear' []\n"
    assert second == "no more orders\n"
    assert third == ""


def test_their_types_are_right(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    files = []
    for number, text in enumerate(BLOCKS):
        file = tmp_path / f"block_{number}.py"
        file.write_text(text)
        files.append(str(file))
    ran("-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}", *files)
