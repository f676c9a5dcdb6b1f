"""`ottla mirror FILE` as a process."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.conftest import Ottla
from tests.peers.ottla import Brokers
from tests.support.client import Client, batch, values
from tests.support.waiting import PATIENCE_S, eventually

FILE = """
clusters = A, B
A.bootstrap.servers = {A}
B.bootstrap.servers = {B}
A->B.enabled = true
A->B.topics = orders
replication.factor = 1
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """process(text) mirrors as a file with this text says; what is left of it at the end is killed."""
    with ExitStack() as stack:

        def start(text: str) -> subprocess.Popen[str]:
            file = tmp_path / "mirror.properties"
            file.write_text(text)
            command = [sys.executable, "-m", "ottla", "mirror", str(file)]
            made = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.enter_context(made)
            stack.callback(made.kill)
            return made

        yield start


def there(bootstrap: str) -> Client:
    host, port = bootstrap.split(":")
    return Client.connect(host, int(port), "test")


def test_two_clusters(tmp_path: Path, process: Callable[[str], subprocess.Popen[str]]) -> None:
    with Brokers(tmp_path) as brokers:
        one, two = (brokers(settings={"group.initial.rebalance.delay.ms": 0}).bootstrap for _ in "AB")
        with there(one) as here, there(two) as other:
            here.create("orders")
            here.produce("orders", batch(b"one"))
            mirror = process(FILE.format(A=one, B=two))
            assert mirror.stdout is not None
            assert mirror.stdout.readline() == "ottla mirror ready: A->B\n"
            here.produce("orders", batch(b"two"))
            eventually("both are there", lambda: values(other.fetch("A.orders")) == [b"one", b"two"])
            mirror.send_signal(signal.SIGTERM)
            _, errors = mirror.communicate(timeout=PATIENCE_S)
            assert mirror.returncode == 0, errors
            assert "A->B: A.orders is made, with 1 partition" in errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "clusters in {file}: it names no cluster; say `clusters = A, B`"),
        (FILE.replace("topics", "topcis"), "A->B.topcis in {file}: there is no such setting; did you mean topics?"),
    ],
)
def test_a_wrong_file(ottla: Ottla, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(text.replace("{A}", "a:1").replace("{B}", "b:1"))
    assert ottla("mirror", str(file), code=1).err == f"Error: cannot mirror: {message.format(file=file)}\n"
    (tmp_path / "gone").mkdir()
    assert "cannot mirror" in ottla("mirror", str(tmp_path / "gone" / "x"), code=1).err
