"""Spark's Python processes connect before they do anything that takes long, and end without a word."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.local import EARLY
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark
SECONDS_MAX = 120

# Imports nothing and asks for no connection until it is told to; then says hello through pyspark, as its workers do.
LATE = """
import os, sys
sys.stdin.readline()
from pyspark.worker_util import get_sock_file_to_executor
with get_sock_file_to_executor(timeout=None) as file:
    file.write(file.read(5))
"""


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "jvm.sock")


def test_the_connection_does_not_wait_for_imports(address: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(EARLY), "PYTHON_WORKER_FACTORY_SOCK_PATH": address}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(1)
        server.settimeout(SECONDS_MAX)
        command = [sys.executable, "-c", LATE]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, text=True) as process:
            try:
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(SECONDS_MAX)
                    assert process.stdin is not None
                    process.stdin.write("go\n")
                    process.stdin.flush()
                    connection.sendall(b"hello")
                    with connection.makefile("rb") as file:
                        assert file.read(4) == process.pid.to_bytes(4, "big")
                        assert file.read(5) == b"hello"
            finally:
                process.kill()


def test_another_sitecustomize_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.found = True")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(EARLY), str(tmp_path)))}
    program = "import sys, sitecustomize; print(sys.found, sitecustomize.__file__, sys.path)"
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert said.startswith(f"True {tmp_path}")
    assert str(EARLY) not in said


@pytest.mark.parametrize("kind", ["pyspark.worker", "pyspark.sql.worker.lookup_data_sources"])
def test_an_idle_worker_whose_connection_ends_says_nothing(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The JVM closes it at the end of a session, before the daemon's input ends."""
    # All of a socket's path may have 107 characters, of which its name, from pyspark, has 42.
    folder = tmp_path_factory.mktemp("d")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(EARLY), os.environ.get("PYTHONPATH", ""))),
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
        "SPARK_REUSE_WORKER": "1",
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
    }
    command = [sys.executable, "-m", "pyspark.daemon", kind]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            length = int.from_bytes(process.stdout.read(4), "big")
            address = process.stdout.read(length).decode()
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(SECONDS_MAX)
                connection.connect(address)
                worker = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
            eventually("the worker ends", lambda: not Path(f"/proc/{worker}").exists())
            process.stdin.close()
            assert process.stderr.read() == b""
            process.wait(SECONDS_MAX)
        finally:
            process.kill()
