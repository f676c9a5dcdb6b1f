"""`ottla test-broker`: one line of JSON, and an end with the process that began it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Client, batch
from tests.support.waiting import PATIENCE_S, eventually

COMMAND = [sys.executable, "-m", "ottla", "test-broker"]


@contextmanager
def started(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A command whose first line is that of a test-broker. It is killed in the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def refuses(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number: signal.Signals) -> None:
    with started([*COMMAND, "--set", "num.partitions=2"]) as (process, told):
        (broker,) = told["brokers"]
        assert told["bootstrap_servers"] == f"{broker['host']}:{broker['port']}"
        with Client.connect(broker["host"], broker["port"], "test") as connection:
            connection.produce("t", batch(b"1"))
        assert Path(told["data_dir"]).is_dir()
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    assert not Path(told["data_dir"]).exists()


def test_it_ends_with_the_process_that_began_it(tmp_path: Path) -> None:
    lines = f"""
import subprocess
process = subprocess.Popen({[*COMMAND, "--data-dir", str(tmp_path)]}, stdout=subprocess.PIPE, text=True)
print(process.stdout.readline(), flush=True)
input()
"""
    with started([sys.executable, "-c", lines]) as (parent, told):
        (broker,) = told["brokers"]
        assert not refuses((broker["host"], broker["port"]))
        parent.kill()
        parent.wait(PATIENCE_S)
    eventually("it has ended", lambda: (tmp_path / ".kafka_cleanshutdown").exists())
    assert refuses((broker["host"], broker["port"]))


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, said in (
        (["--set", "num.partition=1"], "num.partitions"),
        (["--set", "log.dirs=x"], "data_dir"),
        (["--data-dir", str(tmp_path / "file")], "file"),
        (["--brokers", "0"], "0"),
    ):
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode in (1, 2)
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_it_takes_faults_by_http() -> None:
    with started([*COMMAND, "--faults-port", "0"]) as (process, told):
        body = json.dumps({"api": "Produce", "close": "before", "times": 1}).encode()
        with urllib.request.urlopen(told["faults"], body, timeout=PATIENCE_S) as answer:
            assert json.load(answer) == {"id": 1, "broker": 1, "hits": 0}
        (broker,) = told["brokers"]
        with Client.connect(broker["host"], broker["port"], "test") as connection, pytest.raises(ConnectionError):
            connection.produce("t", batch(b"1"))
        with urllib.request.urlopen(f"{told['faults']}/1?count=1", timeout=PATIENCE_S) as answer:
            assert json.load(answer)["hits"] == 1
        port = told["faults"].rpartition(":")[2].partition("/")[0]
        done = subprocess.run([*COMMAND, "--faults-port", port], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 1
        assert f"cannot listen on port {port} for faults: " in done.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_brokers_are_paused_and_moved_by_http() -> None:
    with started([*COMMAND, "--faults-port", "0", "--brokers", "2"]) as (process, told):

        def ask(path: str, body: object = None) -> Any:
            data = b"" if body is None else json.dumps(body).encode()
            with urllib.request.urlopen(f"{told['http']}{path}", data, timeout=PATIENCE_S) as answer:
                return json.load(answer)

        assert ask("/brokers/2/pause")["is_paused"]
        assert not ask("/brokers/2/resume")["is_paused"]
        assert not ask("/brokers/2/kill")["is_running"]
        assert ask("/brokers/2/start")["is_running"]
        assert ask("/coordinators", {"group": "g", "to": 1}) == {"broker": 1}
        ask("/brokers/1/pause")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
