"""A broker that is a copy of a process is as one that was started: its end, its surroundings, its own signals."""

import fcntl
import os
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from ottla._core import raise_descriptor_limit
from tests.peers import forks
from tests.peers.ottla import Brokers
from tests.support.waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def _copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each lane."""
    monkeypatch.setattr(forks, "is_on", True)


def test_it_is_a_copy_and_ends_as_it_should(brokers: Brokers) -> None:
    one, two = brokers(), brokers()
    assert isinstance(one.process, forks.Fork)
    parents = {psutil.Process(broker.pid).ppid() for broker in (one, two)}
    assert len(parents) == 1
    assert parents != {os.getpid()}
    with pytest.raises(subprocess.TimeoutExpired):
        one.process.wait(0)
    assert one.running
    assert one.kill() == -signal.SIGKILL
    assert two.running
    assert two.stop() == 0


def test_a_refusal_has_its_exit_code_and_its_words(brokers: Brokers) -> None:
    refused = brokers(settings={"num.partitions": "many"}, wait=False)
    assert refused.process.wait(PATIENCE_S) == 1
    assert "num.partitions" in refused.output()


def test_its_end_is_seen_by_a_process_with_many_descriptors(brokers: Brokers) -> None:
    process = brokers().process
    assert isinstance(process, forks.Fork)
    raise_descriptor_limit()
    high = socket.socket(fileno=fcntl.fcntl(process._reports, fcntl.F_DUPFD_CLOEXEC, 1024))
    process._reports.close()
    process._reports = high
    assert process.poll() is None
    process.kill()
    assert process.wait(PATIENCE_S) == -signal.SIGKILL


def test_its_surroundings_are_those_of_now(brokers: Brokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTTLA_LEASES", "perhaps")
    refused = brokers(wait=False)
    assert refused.process.wait(PATIENCE_S) == 1
    assert "OTTLA_LEASES is 'perhaps'" in refused.output()
    monkeypatch.setenv("OTTLA_LEASES", "on")
    broker = brokers(data=Path("here"))
    assert Path(f"/proc/{broker.pid}/cwd").readlink() == tmp_path
    assert (tmp_path / "here" / "meta.properties").exists()


def test_other_programs_and_variables_of_the_interpreter_are_not_copied() -> None:
    assert forks.is_possible(["ottla"], {"OTTLA_BOOT_ID": "1"})
    assert not forks.is_possible(["ottla"], {"LD_PRELOAD": "clocks.so"})
    assert not forks.is_possible(["tests.support.watched_broker", "file"], {})
