"""Ctrl-C of a running pipeline, and what Spark refuses: one line, and no traceback of py4j or of Spark."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.peers.ottla import Brokers
from tests.peers.processes import is_readable

pytestmark = pytest.mark.spark
#: For a JVM's start, and a query's first batch.
TIMEOUT_S = 600

CONFIG = """\
table = "visits"
[source]
bootstrap = "{bootstrap}"
topics = ["activity"]
[stream]
checkpoint = "checkpoint"
records_per_batch = 1000
every_s = 1
"""


@pytest.mark.judge
def test_ctrl_c_on_a_terminal(brokers: Brokers, tmp_path: Path) -> None:
    """The terminal sends the signal to the JVM and to Spark's Python processes as well."""
    broker = brokers()
    ottla = [sys.executable, "-m", "ottla"]
    subprocess.run([*ottla, "generate", "activity", "-n", "20000", "-b", broker.bootstrap], check=True)
    (tmp_path / "visits.toml").write_text(CONFIG.format(bootstrap=broker.bootstrap))
    end, other = pty.openpty()
    process = subprocess.Popen(
        [*ottla, "pipeline", "run", "sessionize", "-c", "visits.toml", "--cores", "1"],
        stdin=other, stdout=other, stderr=other, cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    os.close(other)
    shown = ""
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while " done: " not in shown:
            assert is_readable(end, max(0, deadline - time.monotonic())), shown
            shown += os.read(end, 4096).decode()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        # Until the JVM, which has the terminal too, is gone.
        while is_readable(end, TIMEOUT_S):
            try:
                shown += os.read(end, 4096).decode()
            except OSError:
                break
    finally:
        process.kill()
        process.wait()
        os.close(end)
    assert "sessionize: interrupted after " in shown
    assert "the same command goes on from there" in shown
    assert not [word for word in ("Traceback", "KeyboardInterrupt", "ERROR", "Exception") if word in shown], shown


@pytest.mark.judge
def test_what_spark_refuses_is_one_line(brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers()
    ottla = [sys.executable, "-m", "ottla"]
    subprocess.run([*ottla, "generate", "activity", "-n", "100", "-b", broker.bootstrap], check=True)
    config = CONFIG.format(bootstrap=broker.bootstrap).replace(
        'table = "visits"', 'source_name = "a"\ntarget_name = "b"'
    )
    config = (
        f'where = "valeu is not null"\nrename = "copy-{{topic}}"\n{config}[target]\nbootstrap = "{broker.bootstrap}"\n'
    )
    (tmp_path / "mirror.toml").write_text(config)
    done = subprocess.run(
        [*ottla, "pipeline", "run", "mirror_transform", "-c", "mirror.toml", "--cores", "1"],
        capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert "valeu" in line


def test_a_heap_that_java_does_not_understand(brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers()
    ottla = [sys.executable, "-m", "ottla"]
    subprocess.run([*ottla, "topic", "create", "activity", "-b", broker.bootstrap], check=True)
    (tmp_path / "visits.toml").write_text(CONFIG.format(bootstrap=broker.bootstrap))
    done = subprocess.run(
        [*ottla, "pipeline", "run", "sessionize", "-c", "visits.toml", "--memory", "much"],
        capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr, done.stderr
    assert "Error: cannot start Spark: " in done.stderr
