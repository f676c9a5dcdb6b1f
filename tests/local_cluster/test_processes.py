"""A process is known again by its number and its start; no other is touched."""

import platform
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.local_cluster import processes
from ottla.local_cluster.processes import Process, launch, send, wait_until
from tests.support.waiting import PATIENCE_S

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]

#: exit(2), which ends one thread.
EXIT_THREAD = {"x86_64": 60, "aarch64": 93}


@pytest.fixture(params=["proc", "ps"])
def sleeper(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A process that does nothing, found by /proc, and as on systems without it."""
    if request.param == "ps":
        monkeypatch.setattr(processes, "_PROC", Path("/nowhere"))
        monkeypatch.delattr(signal, "pidfd_send_signal", raising=False)
    process = launch(SLEEPER, tmp_path / "log")
    yield process
    send(process, signal.SIGKILL)
    assert wait_until(lambda: not process.runs, PATIENCE_S)


def test_it_runs_until_it_is_ended(sleeper: Process) -> None:
    assert sleeper.runs
    send(sleeper, signal.SIGTERM)
    assert wait_until(lambda: not sleeper.runs, PATIENCE_S)
    send(sleeper, signal.SIGTERM)


def test_another_with_its_number_is_left_alone(sleeper: Process) -> None:
    """As after a restart of the machine, when the number means something else."""
    former = Process(sleeper.pid, "long ago")
    assert not former.runs
    send(former, signal.SIGKILL)
    assert sleeper.runs
    assert not wait_until(lambda: not sleeper.runs, 0.2)


def test_one_that_ended_by_itself_does_not_run(tmp_path: Path) -> None:
    process = launch([sys.executable, "-c", "print('gone')"], tmp_path / "log")
    assert wait_until(lambda: not process.runs, PATIENCE_S)
    assert (tmp_path / "log").read_text() == "gone\n"


@pytest.mark.skipif(platform.machine() not in EXIT_THREAD, reason="the number of a system call")
def test_one_whose_first_thread_ended_runs(tmp_path: Path) -> None:
    """It has its ports still. Java's first thread often ends before the others."""
    code = f"""
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("up", flush=True)
ctypes.CDLL(None).syscall({EXIT_THREAD[platform.machine()]}, 0)
"""
    process = launch([sys.executable, "-c", code], tmp_path / "log")
    stat = Path(f"/proc/{process.pid}/stat")
    assert wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", PATIENCE_S)
    assert process.runs
    send(process, signal.SIGKILL)
    assert wait_until(lambda: not process.runs, PATIENCE_S)


def test_ctrl_c_does_not_reach_it(tmp_path: Path) -> None:
    """It is in a session of its own, which no terminal signals."""
    log = tmp_path / "log"
    process = launch([sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid(), flush=True)"], log)
    assert wait_until(lambda: not process.runs, PATIENCE_S)
    assert log.read_text() == "True\n"


def test_a_wait_has_an_end() -> None:
    began = time.monotonic()
    assert not wait_until(lambda: False, 0.1)
    assert time.monotonic() - began >= 0.1
