"""Blocks of pages are run as they stand, but for addresses and ports, with one broker."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.client.sync import Cluster, Producer
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.skips import require
from tests.support import shown
from tests.support.inner_pytest import run_pytest
from tests.support.readme import PROJECT, block
from tests.support.waiting import PATIENCE_S, eventually

PLACE = "127.0.0.1:9092"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker of all pages, with the metrics that one of them shows."""
    (arguments,) = shown.typed(block("sh", "ottla serve --metrics-port", "docs/metrics.md"))
    assert arguments == ["serve", "--metrics-port", "9404"]
    with Brokers(tmp_path_factory.mktemp("pages")) as brokers:
        settings = {"group.initial.rebalance.delay.ms": 0}
        yield brokers(arguments=("--metrics-port", str(METRICS_PORT)), settings=settings)


METRICS_PORT = free_port()


def program(code: str, broker: Broker) -> list[str]:
    """The command that runs a block of Python."""
    return [sys.executable, "-c", code.replace(PLACE, broker.bootstrap)]


def ran(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A command that does not end by itself; it is killed in the end."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_log(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    printed = ran([sys.executable, "-c", block("python", "ottla.log", "docs/python.md")], tmp_path)
    assert [line.split()[2:] for line in printed.splitlines()] == [
        ["b'bob'", "b'1", "pear'"],
        ["b'alice'", "b'2", "plums'"],
    ]


def test_a_broker_inside_a_program(tmp_path: Path) -> None:
    for code in (block("python", "partitions=3", "docs/python.md"), block("python", "ottla.Broker()")):
        assert ran([sys.executable, "-c", code], tmp_path).startswith("127.0.0.1:")


def test_a_cluster_inside_a_program(tmp_path: Path) -> None:
    printed = ran([sys.executable, "-c", block("python", "print(cluster.bootstrap", "docs/python.md")], tmp_path)
    assert printed.count("127.0.0.1:") == 3


def test_a_broker_for_other_languages(tmp_path: Path) -> None:
    (arguments,) = shown.typed(block("sh", "ottla test-broker", "docs/python.md"))
    with running([sys.executable, "-m", "ottla", *arguments], tmp_path) as process:
        told = json.loads(line(process))
        assert len(told["brokers"]) == 3
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    assert not Path(told["data_dir"]).exists()


def test_the_fixtures_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_page.py").write_text(block("python", "ottla_topic", "docs/python.md"))
    assert "1 passed" in run_pytest(tmp_path)


def test_faults_on_purpose(tmp_path: Path) -> None:
    code = block("python", "payments", "docs/python.md") + block("python", "faults.random", "docs/python.md")
    (tmp_path / "test_page.py").write_text(code)
    assert "2 passed" in run_pytest(tmp_path)


def test_disks_that_fail(tmp_path: Path) -> None:
    (tmp_path / "test_page.py").write_text(block("python", "ENOSPC", "docs/python.md"))
    assert "1 passed" in run_pytest(tmp_path)


def test_a_broker_stands_still(tmp_path: Path) -> None:
    assert ran([sys.executable, "-c", block("python", "leader.pause", "docs/python.md")], tmp_path) == ""


def test_power_that_goes(tmp_path: Path) -> None:
    assert ran([sys.executable, "-c", block("python", "power_loss", "docs/python.md")], tmp_path) == ""


def test_clocks_that_jump(tmp_path: Path) -> None:
    printed = ran([sys.executable, "-c", block("python", "clock.jump", "docs/python.md")], tmp_path)
    assert printed.startswith("7200.0 ")


def test_leaders_that_move(tmp_path: Path) -> None:
    assert ran([sys.executable, "-c", block("python", "move_leader", "docs/python.md")], tmp_path) == ""


def test_clients(served: Broker, tmp_path: Path) -> None:
    """One after the other, as a reader would: the first makes the topic."""
    first = block("python", "create_topic", "docs/client.md")
    assert ran(program(first, served), tmp_path) == "0 b'to you' b'hello'\n"
    connection = block("python", "Security.of", "docs/client.md")
    assert ran(program(connection, served), tmp_path) == "[0]\n"
    receipts = block("python", "send_with_receipt", "docs/client.md")
    printed = ran(program(receipts, served), tmp_path).split()
    assert (printed[:2], printed[3:]) == (["greetings-0", "1"], ["2"])
    group = block("python", "RebalanceListener", "docs/client.md")
    with running(program(group, served), tmp_path) as member:
        # It reads on until Ctrl-C.
        seen = [line(member) for _ in range(4)]
        assert seen == ["mine now: greetings-0\n", *(f"0 {offset} b'hello'\n" for offset in range(3))]
        member.send_signal(signal.SIGINT)
        assert member.communicate(timeout=PATIENCE_S)[0] == "no longer mine: greetings-0\n"


def test_metrics(served: Broker, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        require("clients", "curl is not installed")
    typed = block("sh", "curl", "docs/metrics.md").replace("9404", str(METRICS_PORT))
    printed = ran(["bash", "-euc", typed], tmp_path)
    assert "# TYPE kafka_" in printed
    assert printed.endswith('{"status": "alive"}{"status": "ready"}')


def copied(arguments: list[str], folder: Path) -> list[str]:
    """The table that `ottla mirror status` prints, once nothing of its topics is left to be copied."""
    first, *table = ran([sys.executable, "-m", "ottla", *arguments], folder).splitlines()
    is_done = first == "A->B: 1 instance, lag 0" and len(table) == 3
    return table if is_done and all("-" not in each.split() for each in table) else []


def test_a_mirror(served: Broker, brokers: Brokers, tmp_path: Path) -> None:
    target = brokers()
    with Cluster(served.bootstrap) as cluster, Producer(cluster) as producer:
        for topic, count in (("bills", 40), ("orders", 120)):
            for number in range(count):
                producer.send(topic, b"%d" % number)
    settings = block("properties", "A->B.enabled", "docs/mirror.md")
    settings = settings.replace("a1:9092", served.bootstrap).replace("b1:9092", target.bootstrap)
    (tmp_path / "mirror.properties").write_text(settings)
    typed = block("console", "ottla mirror ready", "docs/mirror.md")
    (arguments,) = shown.typed(typed)
    with running([sys.executable, "-m", "ottla", *arguments], tmp_path) as mirror:
        assert line(mirror) == typed.splitlines(keepends=True)[1]
        shows = block("console", "ottla mirror status", "docs/mirror.md")
        (arguments,) = shown.typed(shows)
        seen = eventually("copied", lambda: copied(arguments, tmp_path))
        assert [each.split()[:3] for each in seen] == [each.split()[:3] for each in shows.splitlines()[2:]]
        mirror.terminate()
        assert mirror.wait(PATIENCE_S) == 0


def test_a_wheel_is_found_whatever_its_platform(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "ottla-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl").touch()
    for page in ("spark.md", "metrics.md"):
        (typed,) = (
            each for each in shown.spans((PROJECT / "docs" / page).read_text()) if each.startswith("pip install")
        )
        printed = ran(["bash", "-euc", f'pip() {{ echo "$2"; }}; {typed}'], tmp_path)
        assert printed == f"dist/ottla-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl[{page[:-3]}]\n"
