"""Spark's Python processes connect before they do anything that takes long."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.local import EARLY

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
