"""A service manager is told when a broker serves and when it begins to stop (sd_notify, `Type=notify`)."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_S


def serve(directory: Path, notify: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "ottla", "serve", "--listen", "127.0.0.1:0", "--id", "7"]
    told = {**os.environ, "NOTIFY_SOCKET": notify}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=directory, env=told)


@pytest.mark.parametrize("kind", ["a file", "an abstract name"])
def test_it_says_ready_and_stopping(tmp_path: Path, kind: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(PATIENCE_S)
        name = str(tmp_path / "notify") if kind == "a file" else f"@{tmp_path}"
        manager.bind(name if kind == "a file" else "\0" + name[1:])
        with serve(tmp_path, name) as broker:
            try:
                said = manager.recv(1000).decode().splitlines()
                assert broker.stdout is not None
                address = broker.stdout.readline().split()[-1]
                assert said == ["READY=1", f"STATUS=broker 7 serves at {address}"]
                broker.send_signal(signal.SIGTERM)
                assert manager.recv(1000).decode().splitlines()[0] == "STOPPING=1"
                assert broker.wait(PATIENCE_S) == 0
            finally:
                broker.kill()


def test_a_manager_that_is_gone_is_a_warning(tmp_path: Path) -> None:
    with serve(tmp_path, str(tmp_path / "nothing")) as broker:
        try:
            assert broker.stdout is not None
            assert broker.stdout.readline().startswith("ottla ready: ")
            broker.send_signal(signal.SIGTERM)
            _, said = broker.communicate(timeout=PATIENCE_S)
        finally:
            broker.kill()
    assert broker.returncode == 0
    assert f"WARNING ottla: cannot tell {tmp_path / 'nothing'} READY=1: " in said
