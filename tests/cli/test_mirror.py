"""`ottla mirror FILE` as a process."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.cli.conftest import Ottla
from tests.metrics import scraped
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.peers.skips import require
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

SOON = {"group.initial.rebalance.delay.ms": 0}


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


@contextmanager
def waiting(mirror: subprocess.Popen[str]) -> Iterator[None]:
    """A line is read that may not come: then the process is ended, and with it its output."""
    timer = threading.Timer(PATIENCE_S, mirror.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def there(bootstrap: str) -> Client:
    host, port = bootstrap.split(":")
    return Client.connect(host, int(port), "test")


def test_two_clusters(tmp_path: Path, process: Callable[[str], subprocess.Popen[str]]) -> None:
    with Brokers(tmp_path) as brokers:
        one, two = (brokers(settings=SOON).bootstrap for _ in "AB")
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


def test_status(tmp_path: Path, process: Callable[[str], subprocess.Popen[str]], ottla: Ottla) -> None:
    away = f"127.0.0.1:{free_port()}"
    with Brokers(tmp_path) as brokers:
        one, two = (brokers(settings=SOON).bootstrap for _ in "AB")
        with there(one) as here, there(two) as other:
            here.create("orders")
            here.produce("orders", batch(b"one", b"two"))
            text = FILE.replace("A, B", "A, B, C").format(A=one, B=two)
            mirror = process(f"{text}C.bootstrap.servers = {away}\nA->C.enabled = true\n")
            file = str(tmp_path / "mirror.properties")

            def shown() -> dict[str, object]:
                first, *_ = ottla("mirror", "status", file, "--json", "--timeout-ms", "2000", code=1).out.splitlines()
                return dict(json.loads(first))

            row = {"topic": "orders", "partition": 0, "copied": 2, "end": 2, "lag": 0}
            eventually("both are copied", lambda: row in cast("list[object]", shown()["partitions"]))
            assert shown() | {"partitions": 0} == {
                "flow": "A->B",
                "instances": 1,
                "state": "Stable",
                "lag": 0,
                "partitions": 0,
            }
            mirror.send_signal(signal.SIGTERM)
            mirror.communicate(timeout=PATIENCE_S)
            here.produce("orders", batch(b"three"))
            found = ottla("mirror", "status", file, "--timeout-ms", "2000", code=1)
            head, names, *rows = found.out.splitlines()
            assert head == "A->B: no instance runs, lag 1"
            assert names.split() == ["topic", "partition", "copied", "end", "lag"]
            assert ["orders", "0", "2", "3", "1"] in [each.split() for each in rows]
            assert found.err.startswith("Error: cannot show 'A->C': ")
            assert away in found.err
            assert values(other.fetch("A.orders")) == [b"one", b"two"]


def test_metrics(tmp_path: Path, process: Callable[[str], subprocess.Popen[str]]) -> None:
    if not scraped.is_there:
        require("clients", "the packages of the extra `metrics` are not installed")
    away, port = f"127.0.0.1:{free_port()}", free_port()
    with Brokers(tmp_path) as brokers:
        one, two = (brokers(settings=SOON).bootstrap for _ in "AB")
        with there(one) as here:
            here.create("orders")
            records = batch(b"one", b"two", timestamp_ms=int(time.time() * 1000))
            here.produce("orders", records)
            text = FILE.replace("A, B", "A, B, C").format(A=one, B=two)
            mirror = process(f"{text}C.bootstrap.servers = {away}\nA->C.enabled = true\nmetrics.listener = :{port}\n")
            assert mirror.stdout is not None
            with waiting(mirror):
                assert mirror.stdout.readline() == "ottla mirror ready: A->B\n"
            place = {"flow": "A->B", "topic": "orders", "partition": 0}
            eventually("both are copied", lambda: scraped.scrape(port)("ottla_mirror_lag", **place) == 0)
            found = scraped.scrape(port)
            assert [found("ottla_mirror_running", flow=flow) for flow in ("A->B", "A->C")] == [1, 0]
            copied = found("ottla_mirror_records_total", flow="A->B")
            assert copied is not None
            assert copied >= 2
            assert (found("ottla_mirror_bytes_total", flow="A->B") or 0) >= len(records)
            assert found("ottla_mirror_errors_total", flow="A->B") == 0
            assert 0 <= (found("ottla_mirror_latency_seconds", flow="A->B") or -1) < PATIENCE_S
            status, page = scraped.get(port, "readyz")
            assert status == 503
            assert away in json.loads(page)["reasons"]["A->C"]
            mirror.send_signal(signal.SIGTERM)
            _, errors = mirror.communicate(timeout=PATIENCE_S)
            assert mirror.returncode == 0, errors


def test_an_address_for_metrics_that_is_not_to_be_had(ottla: Ottla, tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(f"{FILE.format(A='a:1', B='b:1')}metrics.listener = nowhere\n")
    assert ottla("mirror", str(file), code=1).err.startswith("Error: cannot mirror: metrics.listener: 'nowhere' ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_before_it_is_ready(
    tmp_path: Path, process: Callable[[str], subprocess.Popen[str]], number: signal.Signals
) -> None:
    """A flow whose cluster is away keeps the other neither from working nor from ending in order."""
    away = f"127.0.0.1:{free_port()}"
    with Brokers(tmp_path) as brokers, there(one := brokers(settings=SOON).bootstrap) as here:
        here.create("orders")
        mirror = process(FILE.format(A=one, B=away))
        assert mirror.stderr is not None
        with waiting(mirror):
            line = mirror.stderr.readline()
        assert f"A->B waits, and is tried again in 1 s: B: no broker answers at {away}: " in line
        mirror.send_signal(number)
        output, errors = mirror.communicate(timeout=PATIENCE_S)
        assert (mirror.returncode, output) == (0, "")
        assert "Traceback" not in errors


def test_ready_names_the_flows_that_run(tmp_path: Path, process: Callable[[str], subprocess.Popen[str]]) -> None:
    away = f"127.0.0.1:{free_port()}"
    with Brokers(tmp_path) as brokers:
        one, two = (brokers(settings=SOON).bootstrap for _ in "AB")
        text = FILE.replace("A, B", "A, B, C").format(A=one, B=two)
        mirror = process(f"{text}C.bootstrap.servers = {away}\nA->C.enabled = true\n")
        assert mirror.stdout is not None
        with waiting(mirror):
            assert mirror.stdout.readline() == "ottla mirror ready: A->B\n"
        mirror.send_signal(signal.SIGINT)
        output, errors = mirror.communicate(timeout=PATIENCE_S)
        assert (mirror.returncode, output) == (0, "")
        assert f"A->C waits, and is tried again in 1 s: C: no broker answers at {away}: " in errors
        assert "Traceback" not in errors


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
