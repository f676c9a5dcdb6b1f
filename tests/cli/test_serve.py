"""`ottla serve` as a process: what it says, and how it starts, refuses and ends."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.cli._hints import hints
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from tests.peers.ottla import Brokers
from tests.peers.skips import module
from tests.support.client import batch, connect
from tests.support.waiting import PATIENCE_S, eventually

READY = re.compile(r"ottla ready: broker (\d+) at (\S+):(\d+)\n")


@contextmanager
def serve(*arguments: str, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    """A broker that is ready, and what its line says; killed at the end if it still runs."""
    command = [sys.executable, "-m", "ottla", "serve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = READY.fullmatch(line)
            assert match, line
            yield process, match
        finally:
            process.kill()


def refused(*arguments: str, cwd: Path) -> str:
    """The stderr of a broker that cannot start; it must end with 1 and not be ready."""
    command = [sys.executable, "-m", "ottla", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=cwd)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_directory_that_is_in_use(tmp_path: Path) -> None:
    with serve("--listen", "127.0.0.1:0", cwd=tmp_path):
        said = refused("--listen", "127.0.0.1:0", cwd=tmp_path)
    assert said.splitlines()[-1].startswith("Error: cannot start the broker: ")
    assert said.endswith(
        "data is in use by another process: does a broker run on it? --data-dir names another directory\n"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    with serve("--listen", "127.0.0.1:0", "--id", "7", cwd=tmp_path) as (process, ready):
        assert (ready[1], ready[2]) == ("7", "127.0.0.1")
        with socket.create_connection(("127.0.0.1", int(ready[3])), timeout=PATIENCE_S):
            pass
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        assert out == ""  # the one line was all there is
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert "broker.id=7" in (tmp_path / "data" / "meta.properties").read_text()


@pytest.mark.zookeeper
def test_a_second_signal_ends_the_wait_for_others(brokers: Brokers, zookeeper: str) -> None:
    """The controller stands still, so that it gives what this broker leads to nobody."""
    controller = brokers(broker_id=2, zookeeper=zookeeper)
    broker = brokers(broker_id=1, zookeeper=zookeeper)
    with connect(controller) as client:
        client.create_on("t", {0: [1, 2]})
    with connect(broker) as client:
        eventually("it leads", lambda: client.produce("t", batch(b"v")).responses[0].partitions[0].error_code == 0)
        # It is told that after its role. Before it knows of company it waits for nobody.
        eventually("it knows of the topic", lambda: client.call(METADATA, MetadataRequest(topics=None), 8).topics)
    controller.process.send_signal(signal.SIGSTOP)
    try:
        broker.process.send_signal(signal.SIGTERM)
        eventually("it is told", lambda: "ottla: stopping" in broker.output_tail())
        assert broker.running
        assert broker.stop() == 0
    finally:
        controller.process.send_signal(signal.SIGCONT)
    assert "nobody else was waited for any longer" in broker.output_tail()
    assert (broker.data / ".kafka_cleanshutdown").exists()


def test_a_file_of_settings_and_what_wins(tmp_path: Path, free_port: int) -> None:
    (tmp_path / "server.properties").write_text(
        f"broker.id=3\nlisteners=PLAINTEXT://127.0.0.1:{free_port}\nlog.dirs={tmp_path}/a\nnum.partitons=4\nnum.io.threads=9\n"
    )
    options = ("--config", "server.properties", "--set", "broker.id=4", "--id", "5", "--data-dir", f"{tmp_path}/b")
    with serve(*options, cwd=tmp_path) as (process, ready):
        assert ready.groups() == ("5", "127.0.0.1", str(free_port))
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE_S)
    assert "no setting is called num.partitons, it has no effect; did you mean num.partitions?" in err
    assert "without effect in this version of Ottla: num.io.threads" in err
    assert not (tmp_path / "a").exists()


def test_a_second_broker_is_refused_by_the_first_ones_port_and_directory(tmp_path: Path) -> None:
    with serve("--listen", "127.0.0.1:0", "--data-dir", "one", cwd=tmp_path) as (_, ready):
        address = f"127.0.0.1:{ready[3]}"
        error = refused("--listen", address, "--data-dir", "two", cwd=tmp_path)
        assert f"cannot start the broker: cannot listen on {address}: Address already in use" in error
        error = refused("--listen", "127.0.0.1:0", "--data-dir", "one", cwd=tmp_path)
        assert "one" in error
        assert "another" in error or "locked" in error


def test_a_directory_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in ("file", "file/data"):
        error = refused("--data-dir", directory, "--listen", "127.0.0.1:0", cwd=tmp_path)
        assert error.endswith(
            "Error: cannot start the broker: file is a file, and data directories (--data-dir, log.dirs) are folders\n"
        ), error


def test_zookeeper_that_does_not_answer(tmp_path: Path, free_port: int) -> None:
    options = ("--zookeeper", f"127.0.0.1:{free_port}", "--set", "zookeeper.connection.timeout.ms=500")
    error = refused("--listen", "127.0.0.1:0", *options, cwd=tmp_path)
    assert f"no ZooKeeper server at 127.0.0.1:{free_port} answered within 500 ms" in error
    assert "leave zookeeper.connect out" in error
    assert "/: " not in error


def test_a_brokers_port_where_a_zookeeper_is_named(tmp_path: Path) -> None:
    with serve("--listen", "127.0.0.1:0", "--data-dir", "one", cwd=tmp_path) as (_, ready):
        where = f"127.0.0.1:{ready[3]}"
        options = ("--zookeeper", where, "--set", "zookeeper.connection.timeout.ms=500", "--data-dir", "two")
        error = refused("--listen", "127.0.0.1:0", *options, cwd=tmp_path)
    assert f"no ZooKeeper server at {where} answered within 500 ms: a Kafka broker answers at {where}" in error
    assert "Name ZooKeeper's port, mostly 2181" in error
    assert "/: " not in error


def test_a_directory_of_another_broker(tmp_path: Path) -> None:
    with serve("--listen", "127.0.0.1:0", "--id", "1", cwd=tmp_path) as (process, _):
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    error = refused("--listen", "127.0.0.1:0", "--id", "2", cwd=tmp_path)
    assert "broker.id" in error or "broker 1" in error


def test_a_wildcard_listener_warns(tmp_path: Path) -> None:
    with serve("--listen", ":0", cwd=tmp_path) as (process, _):
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE_S)
    assert "wildcard" in err


def test_hints_stand_on_one_screen(tmp_path: Path) -> None:
    with serve("--listen", "127.0.0.1:0", "--hints", cwd=tmp_path) as (process, ready):
        process.terminate()
        _, err = process.communicate(timeout=PATIENCE_S)
    text = hints(f"127.0.0.1:{ready[3]}", "./data", "python -m ottla")
    assert text in err
    assert len(text.splitlines()) <= 23
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("listens", "reached", "option"),
    [
        ("127.0.0.1:9092", "127.0.0.1:9092", ""),
        ("0.0.0.0:9092", "127.0.0.1:9092", ""),
        (":9093", "127.0.0.1:9093", " -b 127.0.0.1:9093"),
        ("[::]:9092", "[::1]:9092", " -b [::1]:9092"),
        ("broker.example:9094", "broker.example:9094", " -b broker.example:9094"),
    ],
)
def test_hints_name_an_address_that_clients_reach(listens: str, reached: str, option: str) -> None:
    text = hints(listens, "./data", "ottla")
    assert f"A broker is serving at {reached};" in text
    assert f"echo hello | ottla produce greetings{option}\n" in text
    assert f"kcat -b {reached} -t" in text
    assert listens == reached or listens not in text.replace(reached, "")


def waiting_for_zookeeper(address: str, cwd: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "ottla", "serve", "--listen", "127.0.0.1:0", "--zookeeper", address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)
    assert process.stderr is not None
    said = ""
    while "connecting to ZooKeeper" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    assert f"at {address}, for 18000 ms at most (zookeeper.connect; without it" in said
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_while_it_waits_for_zookeeper(tmp_path: Path, free_port: int, number: signal.Signals) -> None:
    with waiting_for_zookeeper(f"127.0.0.1:{free_port}", tmp_path) as process:
        try:
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, ""), err
    assert f"received {number.name}" in err
    assert "Traceback" not in err


@pytest.mark.clients
def test_the_hints_are_true(tmp_path: Path) -> None:
    """Every line that people are told to type is typed."""
    module("clients", "confluent_kafka")
    with serve("--listen", "127.0.0.1:0", cwd=tmp_path) as (_, ready):
        text = hints(f"127.0.0.1:{ready[3]}", "./data")
        shell = "\n".join(
            line[29:] for line in text.splitlines() if line[2:8].strip() in ("ottla", "") and " ottla " in line[2:]
        )
        shell = re.sub(r"\bottla\b", f"{sys.executable} -m ottla", shell)
        done = subprocess.run(["bash", "-euc", shell], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.stdout == "created topic greetings\nhello\n", done.stderr
        code = "\n".join(line[29:] for line in text.splitlines() if "confluent_kafka" in line or "producer" in line)
        subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
        command = [sys.executable, "-m", "ottla", "consume", "greetings", "--from-beginning", "--until-end", "--keys"]
        done = subprocess.run(
            [*command, "-b", f"127.0.0.1:{ready[3]}"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        assert sorted(done.stdout.splitlines()) == ["\thello", "to you\thello"]
