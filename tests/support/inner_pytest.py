"""Runs of pytest that tests start, as a user does in a folder of his own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S


def run_pytest(folder: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    """The output of pytest in this folder. Fails if the exit status is another than `code`, or if the run does not end:
    then each of its processes says where its threads are.
    """
    # Temporary folders of its own: otherwise the run would remove at its end those of whole runs of these tests before,
    # which takes a busy disk minutes.
    own = {"PYTHONFAULTHANDLER": "1", "PYTEST_DEBUG_TEMPROOT": str(_made(folder / "temporary"))}
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, "."],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **own, **environment},
        process_group=0,
    ) as process:
        try:
            output, _ = process.communicate(timeout=2 * PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)
            output, _ = process.communicate()
            pytest.fail(f"the run does not end:\n{output}")
    assert process.returncode == code, output
    return output


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
