"""`ottla cluster`: brokers on this machine are started, killed, resumed and stopped, and seen meanwhile."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.local_cluster import running
from ottla.local_cluster.ports import is_free
from ottla.local_cluster.state import LocalBroker, LocalCluster, existing, load
from tests.peers.ports import free_port as any_free_port
from tests.support.waiting import eventually

from .conftest import Ottla

#: Fast ends of sessions, and leaders that stay where a test has brought them.
QUICK = ("--set", "zookeeper.session.timeout.ms=4000", "--set", "auto.leader.rebalance.enable=false")


def ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        first = any_free_port()
        if all(is_free(port) for port in range(first, first + count)):
            return first


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The directory of a cluster, of which nothing is left running."""
    path = tmp_path / "cluster"
    yield path
    if load(path) is not None:
        running.stop(path, kill=True)


def test_a_cluster_of_its_own(ottla: Ottla, folder: Path) -> None:
    """With a tree of its own: started, hurt, resumed, grown, stopped, and started again with its data."""
    at = ("--dir", str(folder))
    first = ports(4)
    started = ottla("cluster", "start", "3", "--port", str(first), *QUICK, *at).out.splitlines()
    assert re.fullmatch(r"started the coordination tree at 127\.0\.0\.1:\d+, as a ZooKeeper .*", started[0])
    assert started[1:4] == [f"started broker {i} at 127.0.0.1:{first + i - 1}" for i in (1, 2, 3)]
    bootstrap = existing(folder).bootstrap
    assert started[4] == f"3 brokers at {bootstrap}, with data and logs in {folder}"
    ottla("topic", "create", "kept", "-p", "3", "-b", bootstrap)
    ottla("produce", "kept", "-b", bootstrap, stdin=b"one\ntwo\n")

    assert ottla("cluster", "stop", "2", "--kill", *at).out == "killed broker 2\n"
    eventually("others lead", lambda: one_of(ottla, *at)["offline"] == 0 < one_of(ottla, *at)["under_replicated"])  # type: ignore[operator]
    assert ottla("cluster", "stop", "2", *at).out == "broker 2 did not run\n"
    said = ottla("cluster", "start", "4", *at).out
    assert f"started broker 2 at 127.0.0.1:{first + 1}" in said
    assert f"started broker 4 at 127.0.0.1:{first + 3}" in said
    assert "started broker 1" not in said
    eventually("all is in sync", lambda: one_of(ottla, *at)["under_replicated"] == 0)

    ottla("broker", "balance", "-y", "-b", bootstrap)
    before = one_of(ottla, *at)
    led = {row["id"] for row in before["brokers"] if row["leaders"]}  # type: ignore[attr-defined]
    stopped = ottla("cluster", "stop", *at).out.splitlines()
    assert stopped == [*(f"stopped broker {i}" for i in (1, 2, 3, 4)), "stopped the coordination tree"]
    for number in (1, 2, 3, 4):
        log = (folder / f"broker-{number}" / "log.txt").read_text()
        assert log.rstrip().endswith("ottla: stopped"), "a clean end"
    last = (folder / f"broker-{before['controller']}" / "log.txt").read_text()
    for number in led - {before["controller"]}:
        assert re.search(rf"broker {number} led \d+ partitions? and still leads 0", last), "others took over before"
    assert not any(broker.runs for broker in existing(folder).brokers)
    ottla("cluster", "start", *at)
    read = ottla("consume", "kept", "--from-beginning", "--until-end", "-b", bootstrap).out
    assert sorted(read.split()) == ["one", "two"]


def one_of(ottla: Ottla, *arguments: str) -> dict[str, object]:
    """The only row of `ottla cluster status --json`."""
    (found,) = ottla("cluster", "status", "--json", *arguments).json
    assert isinstance(found, dict)
    return found


@pytest.mark.java
@pytest.mark.zookeeper
def test_status_of_a_cluster_that_is_hurt(
    ottla: Ottla, folder: Path, zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--dir", str(folder))
    ottla("cluster", "start", "2", "--zookeeper", zookeeper, "--port", str(ports(2)), *QUICK, *at)
    cluster = existing(folder)
    bootstrap = cluster.bootstrap
    ottla("topic", "create", "both", "-p", "2", "-r", "2", "-s", "min.insync.replicas=1", "-b", bootstrap)
    ottla("topic", "create", "alone", "-p", "2", "-r", "1", "-b", bootstrap)
    ottla("produce", "both", "-b", bootstrap, stdin=b"a\nb\nc\n")
    found = one_of(ottla, *at)
    assert (found["partitions"], found["under_replicated"], found["offline"], found["moves"]) == (4, 0, 0, [])
    assert [row["replicas"] for row in found["brokers"]] == [3, 3]  # type: ignore[attr-defined]
    assert [row["leaders"] for row in found["brokers"]] == [2, 2]  # type: ignore[attr-defined]
    assert [row["lag"] for row in found["brokers"]] == [0, 0]  # type: ignore[attr-defined]
    assert [row["address"] for row in found["brokers"]] == bootstrap.split(",")  # type: ignore[attr-defined]

    ottla("cluster", "stop", "1", "--kill", *at)
    eventually("it is noticed", lambda: one_of(ottla, *at)["offline"] == 1, facts=lambda: one_of(ottla, *at))
    found = one_of(ottla, *at)
    assert found["under_replicated"] == 2
    gone, there = found["brokers"]  # type: ignore[misc]
    assert (gone["address"], gone["leaders"], gone["lag"]) == (None, 0, None)
    assert (there["leaders"], there["controller"]) == (3, True)
    assert [(row["topic"], row["leader"]) for row in found["behind"]] == [("alone", -1), ("both", 2), ("both", 2)]  # type: ignore[attr-defined]
    lines = ottla("cluster", "status", *at).out.splitlines()
    assert lines[0].endswith(", controller 2, 2 brokers")
    assert lines[2].split()[:3] == ["1", "not", "there"]
    assert lines[4] == "4 partitions: 2 under-replicated, 1 offline, 1 not led by their preferred replica"
    assert lines[7].split() == ["alone", lines[7].split()[1], "none", "1", "1", "?"]

    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "cluster", "status", "--watch", "--interval", "0.1", "--json", *at],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        looks = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert [look["offline"] for look in looks] == [1, 1, 1]

    # Where no broker is named, the cluster that is in the usual directory is meant.
    monkeypatch.chdir(folder.parent)
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    assert one_of(ottla)["cluster"] == found["cluster"]
    ottla("cluster", "stop", *at)
    missing = ottla("cluster", "status", "--timeout-ms", "500", *at, code=1).err
    assert missing.startswith("Error: cannot see the cluster: no broker answers at ")


@pytest.mark.java
@pytest.mark.zookeeper
def test_wrong_input_changes_nothing(ottla: Ottla, folder: Path, zookeeper: str) -> None:
    at = ("--dir", str(folder))

    def refused(*arguments: str, code: int = 1) -> str:
        return ottla("cluster", *arguments, *at, code=code).err

    assert "there is no cluster in" in refused("stop")
    assert "there is no cluster in" in refused("status")
    assert "no setting is called num.partition;" in refused("start", "--set", "num.partition=3")
    assert "--port says where" in refused("start", "--set", "listeners=PLAINTEXT://:1", code=2)
    assert "Invalid value for '[N]'" in refused("start", "0", code=2)
    assert "is not HOST:PORT" in refused("start", "--zookeeper", "x:y", code=2)
    assert "there is no port 65536 for broker 2" in refused("start", "2", "--port", "65535", "--zookeeper", zookeeper)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused("start", "1", "--port", str(port), "--zookeeper", zookeeper)
        assert f"another program listens at 127.0.0.1:{port}: choose another --port" in said
    assert load(folder) is None

    ottla("cluster", "start", "1", "--port", str(ports(1)), "--zookeeper", zookeeper, *at)
    before = (folder / "cluster.json").read_text()
    assert f"is in the ZooKeeper {zookeeper}" in refused("start", "--zookeeper", "127.0.0.1:1")
    assert "is at the ports from" in refused("start", "--port", "1")
    assert "broker 1 runs already, without num.partitions" in refused("start", "--set", "num.partitions=3")
    assert "there is no broker 2; the cluster has broker 1" in refused("stop", "2")
    assert (folder / "cluster.json").read_text() == before


def test_a_cluster_that_is_stopped_says_how_it_is_started(ottla: Ottla, tmp_path: Path) -> None:
    LocalCluster(tmp_path, "127.0.0.1:1", brokers=[LocalBroker(ports(1), id=1)]).save()
    said = ottla("cluster", "status", "--dir", str(tmp_path), code=1).err
    assert said.endswith(f"; `ottla cluster start --dir {tmp_path}` starts what does not run of it\n")


@pytest.mark.java
@pytest.mark.zookeeper
def test_a_broker_that_does_not_start_is_explained_and_nothing_is_left(
    ottla: Ottla, folder: Path, zookeeper: str
) -> None:
    at = ("--dir", str(folder))
    ottla("cluster", "start", "1", "--port", str(ports(3)), "--zookeeper", zookeeper, *at)
    (folder / "broker-2").mkdir()
    (folder / "broker-2" / "data").write_text("a file, and no directory")
    said = ottla("cluster", "start", "3", *at, code=1).err
    assert said.startswith("Error: cannot start the cluster: broker 2 ended instead of being ready; its log ")
    assert "Error: cannot start the broker" in said or "the broker stopped" in said
    assert [broker.runs for broker in existing(folder).brokers] == [True, False, False], "what ran before still does"


@pytest.mark.java
@pytest.mark.zookeeper
def test_only_processes_of_its_own_are_ended(ottla: Ottla, folder: Path, zookeeper: str) -> None:
    """The file names a process by its start: when the number is another's, that one is left alone."""
    at = ("--dir", str(folder))
    ottla("cluster", "start", "1", "--port", str(ports(1)), "--zookeeper", zookeeper, *at)
    file = folder / "cluster.json"
    content = json.loads(file.read_text())
    ours = dict(content["brokers"][0]["process"])
    content["brokers"][0]["process"]["pid"] = os.getpid()
    file.write_text(json.dumps(content))
    assert ottla("cluster", "stop", "--kill", *at).out == "broker 1 did not run\n"
    os.kill(ours["pid"], signal.SIGKILL)
