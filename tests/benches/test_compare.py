"""The measuring itself: one scenario with tiny sizes against our own broker, so that it cannot rot unseen."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benches.suite.frames import produce_frame
from benches.suite.generators import ROOT, Load, build_load, synchronous
from benches.suite.proof import NotEqual, check_frames, check_values
from benches.suite.servers import create_topic
from tests.peers.ottla import Broker

#: As `make test-rust` compiles the crate, so that all it depends on is there.
CRATE = "profile.quick.package.ottla-core"
CHECKED = ["--config", f"{CRATE}.opt-level=0", "--config", f"{CRATE}.debug-assertions=true"]


@pytest.fixture(scope="module")
def load() -> Load:
    return Load(build_load(CHECKED))


@pytest.mark.judge
def test_a_scenario_leaves_a_table_figures_and_a_picture(load: Load, tmp_path: Path) -> None:
    command = [sys.executable, "benches/compare.py", "--quick", "--against", "none", "--only", "small-requests"]
    options = ["--load", str(load.binary), "--out", str(tmp_path)]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "50 + 200 idle" in done.stdout
    result = json.loads((tmp_path / "small-requests.json").read_text())
    assert result["problems"] == []
    figures = result["rows"]["one in flight"]
    assert all(len(values["Ottla"]) == 1 and values["Ottla"][0] >= 0 for values in figures.values())
    assert figures["requests a second"]["Ottla"][0] > 0
    assert "requests a second" in (tmp_path / "README.md").read_text()
    assert (tmp_path / "small-requests.png").stat().st_size > 0
    assert [row["of"] for row in result["warm_ups"]] == ["small Produce", "rehearsals"]
    targets = {row["target"]: row["verdict"] for row in json.loads((tmp_path / "targets.json").read_text())}
    assert targets["small-requests: 50 + 200 idle connections, requests a second, ratio"] == "not measured"
    assert "10 (own)" in done.stdout


@pytest.mark.judge
def test_end_to_end_is_measured_with_each_kind_of_acknowledgement(load: Load, tmp_path: Path) -> None:
    command = [sys.executable, "benches/compare.py", "--quick", "--against", "none", "--only", "end-to-end"]
    done = subprocess.run([*command, "--load", str(load.binary), "--out", str(tmp_path)], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "end-to-end.json").read_text())
    assert result["problems"] == []
    cases = {name: row for name, row in result["rows"].items() if name != "whole run"}
    assert len(cases) == 4
    for row in cases.values():
        assert row["sent late, p99.9, µs"]["Ottla"][0] > 0 < row["p99.9, µs"]["Ottla"][0]


@pytest.mark.soak
@pytest.mark.java
@pytest.mark.zookeeper
def test_three_brokers_are_measured(load: Load, tmp_path: Path) -> None:
    command = [sys.executable, "benches/cluster.py", "--quick", "--against", "none"]
    done = subprocess.run([*command, "--load", str(load.binary), "--out", str(tmp_path)], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "cluster.json").read_text())
    assert result["problems"] == []
    assert len(result["rows"]) == 10
    assert all(values["Ottla"][0] > 0 for row in result["rows"].values() for values in row.values())


@pytest.mark.soak
@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.parametrize(
    ("scenario", "cases"),
    [
        ("cluster-failover", 1),
        ("cluster-catch-up", 1),
        ("cluster-controller", 2),
        ("reliability-cluster", 35),
        ("reliability-cluster-killed", 6),
    ],
)
def test_faults_and_sizes_of_a_cluster_are_measured(load: Load, tmp_path: Path, scenario: str, cases: int) -> None:
    command = [sys.executable, "benches/cluster.py", "--quick", "--against", "none", "--only", scenario]
    done = subprocess.run([*command, "--load", str(load.binary), "--out", str(tmp_path)], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / f"{scenario}.json").read_text())
    assert result["problems"] == []
    assert len(result["rows"]) == cases
    assert all(values["Ottla"][0] >= 0 for row in result["rows"].values() for values in row.values())


@pytest.mark.judge
def test_a_record_is_sent_when_the_one_before_was_answered(load: Load, broker: Broker, tmp_path: Path) -> None:
    create_topic(broker, "t", 3)
    frames = [produce_frame(tmp_path, "t", 10, partition=index) for index in range(3)]
    options = {"frames": [str(frame.path) for frame in frames], "addresses": [broker.bootstrap] * 3}
    out = load(run="in_turn", **options, seconds=0.3, warm_up_s=0.1)
    assert max(out["sent"]) - min(out["sent"]) <= 1
    assert 0 < out["requests"] < sum(out["sent"])
    assert out["latency"]["count"] == out["requests"]
    assert out["failed"] == 0
    check_frames(load, broker, "t", zip(frames, out["sent"], strict=True), 3)
    wrong = produce_frame(tmp_path, "not-there", 10)
    out = load(run="in_turn", frames=[str(wrong.path)], addresses=[broker.bootstrap], seconds=0.1)
    assert out["failed"] == sum(out["sent"]) > 0


def test_a_producer_that_waits_for_each_record_says_what_became_of_it(broker: Broker) -> None:
    create_topic(broker, "t", 2)
    settings = {"acks": "all", "message.timeout.ms": 20_000}
    options = {"topic": "t", "partitions": 2, "record_bytes": 100, "settings": settings}
    producer = synchronous(bootstrap=broker.bootstrap, **options)
    broker.wait_until(lambda: all((broker.data / f"t-{index}").glob("*.log") for index in range(2)))
    broker.wait_until(lambda: any(path.stat().st_size for path in broker.data.glob("t-1/*.log")))
    out = producer.result()
    assert [number for number, _ in out["acknowledged"]] == list(range(out["sent"]))
    assert out["sent"] > 1
    assert out["failed"] == []


@pytest.mark.judge
@pytest.mark.parametrize(
    ("stopped", "rate", "record_bytes"), [("the broker", 2_000, 20_000), ("the generator", 200, 100)]
)
def test_end_to_end_counts_what_the_broker_delays_and_not_what_the_machine_does(
    load: Load, broker: Broker, stopped: str, rate: int, record_bytes: int
) -> None:
    """For a third of the run. More would be sent than sockets hold while the broker is stopped; what the generator
    makes up for they hold, and the broker soon has done.
    """
    seconds, stop_s = 3.0, 1.0
    create_topic(broker, "t")
    options = {"address": broker.bootstrap, "topic": "t", "acks": 1, "rate": rate, "record_bytes": record_bytes}
    generator = load.start(run="end_to_end", **options, seconds=seconds)
    broker.wait_until(lambda: any(path.stat().st_size for path in broker.data.glob("t-0/*.log")))
    pid = broker.pid if stopped == "the broker" else generator.process.pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):  # the run is not over meanwhile
        generator.process.wait(stop_s)
    os.kill(pid, signal.SIGCONT)
    found = generator.result()
    # A fifth of all are due meanwhile, find sockets that are full, and wait longer than this.
    waited_us = stop_s / 10 * 1e6
    late, latency = (dict(found[name]["curve_us"])[0.8] for name in ("late", "latency"))
    assert (latency > waited_us) is (stopped == "the broker")
    assert late > waited_us


@pytest.mark.judge
def test_a_run_that_does_not_compare_is_noticed(load: Load, broker: Broker, tmp_path: Path) -> None:
    create_topic(broker, "t", 2)
    frames = [produce_frame(tmp_path, "t", 10, 3, partition=index) for index in range(2)]
    options = {"address": broker.bootstrap, "frames": [str(frame.path) for frame in frames], "seconds": 60}
    sent = load(run="drive", **options, requests=7, connections=2, depth=3)["sent"]
    assert sum(sent) == 7
    check_frames(load, broker, "t", zip(frames, sent, strict=True), 2)
    with pytest.raises(NotEqual, match="21"):
        check_frames(load, broker, "t", [(frames[0], 7)], 2)
    with pytest.raises(NotEqual):
        check_values(load, broker, "t", 21, [b"nobody sent this"], partitions=2)
