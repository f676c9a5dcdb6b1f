"""Numbers, names and streams that nobody expects: one line that says what is wrong, and never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.ottla import Broker
from tests.support.waiting import PATIENCE_S

from .conftest import Ottla

HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "create", "t", "-p", HUGE),
        ("topic", "create", "t", "-r", HUGE),
        ("topic", "alter", "t", "-p", HUGE),
        ("topic", "list", "--timeout-ms", HUGE),
        ("consume", "t", "-t", HUGE),
        ("group", "reset", "g", "--to-time", HUGE),
        ("transaction", "list", "--producer-id", HUGE),
        ("transaction", "list", "--longer-than-ms", HUGE),
        ("transaction", "abort", "t", "0", "--producer-id", HUGE, "--producer-epoch", "1"),
        ("transaction", "abort", "t", "0", "--producer-id", "1", "--producer-epoch", HUGE),
        ("transaction", "abort", "t", "0", "--producer-id", "1", "--producer-epoch", "1", "--coordinator-epoch", HUGE),
        ("bench", "consume", "--topic", "t", "--messages", "1", "--fetch-size", HUGE),
        ("bench", "produce", "--topic", "t", "--num-records", "1", "--record-size", HUGE),
        ("bench", "produce", "--topic", "t", "--num-records", "1", "--throughput", "nan"),
        ("bench", "latency", "--topic", "t", "--record-size", HUGE),
        ("scrape", "t", "http://127.0.0.1:1/", "-p", HUGE),
        ("scrape", "t", "http://127.0.0.1:1/", "-e", "nan"),
        ("scrape", "t", "http://[::1"),
        ("scrape", "t", "http://a b/"),
        ("scrape", "t", "http://a:99999/"),
        ("generate", "t", "--partitions", HUGE),
        ("generate", "t", "--members", HUGE),
        ("generate", "t", "--items", HUGE),
        ("generate", "t", "--bots", HUGE),
        ("generate", "t", "--hours", HUGE),
        ("generate", "t", "--hours", "inf"),
        ("generate", "t", "--late", "nan"),
        ("topic", "list", "-b", "x" * 70),
        ("topic", "list", "-b", "\udcff:9092"),
        ("doctor", "a..b:9092"),
        ("serve", "--data-dir", ""),
        ("serve", "--zookeeper", ""),
        ("serve", "--zookeeper", "h:x"),
        ("tree", "dump", "--data-dir", ""),
        ("tree", "dump", "--zookeeper", "x y:1"),
        ("tree", "dump", "--zookeeper", "\udcff"),
        ("tree", "dump", "--zookeeper", "h:1/\udcff"),
        ("tree", "dump", "--zookeeper", "x" * 70),
        ("serve", "--zookeeper", "a..b:1"),
        ("serve", "--zookeeper", "h:1//kafka"),
        ("doctor", "--migration", "--zookeeper", "\udcff:2181"),
        ("tree", "import", "--zookeeper", ""),
        ("produce", "t", "-H", "\udcff=1"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_a_wrong_command_line(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    error = ottla(*arguments, code=2).err
    assert "Error: Invalid value for" in error


def test_servers_of_zookeeper_in_a_file_are_looked_at_too(ottla: Ottla, tmp_path: Path) -> None:
    error = ottla("serve", "--set", "zookeeper.connect=h:x", "--data-dir", str(tmp_path), code=1).err
    assert error == (
        "Error: cannot start the broker: zookeeper.connect: 'h:x' is not HOST:PORT,... such as 127.0.0.1:2181/kafka\n"
    )


@pytest.mark.parametrize(
    "name",
    ["", "..", "bad name", "bad\nname", "\udcff", "x" * 40_000],
    ids=["none", "dots", "blank", "line", "bytes", "long"],
)
def test_names_that_nothing_can_have(ottla: Ottla, broker: Broker, name: str) -> None:
    at = ("-b", broker.bootstrap, "--timeout-ms", "500")
    ottla("topic", "create", "t", "--if-not-exists", *at)
    for arguments in (
        ("topic", "create", name),
        ("topic", "describe", name),
        ("topic", "alter", name, "-p", "2"),
        ("topic", "delete", name, "-y"),
        ("topic", "alter", "t", "-u", name),
        ("consume", name, "-e"),
        ("produce", name),
        ("group", "describe", name),
        ("group", "delete", name, "-y"),
        ("group", "reset", "g", "-t", name, "--to-latest"),
        ("transaction", "describe", name),
        ("transaction", "producers", name),
        ("bench", "consume", "--topic", name, "--messages", "1"),
        ("bench", "produce", "--topic", name, "--num-records", "1"),
    ):
        error = ottla(*arguments, *at, code=1).err
        assert error.startswith("Error: "), arguments
        assert "Traceback" not in error
        assert len(error.splitlines()) == 1, error


def test_a_group_may_have_any_name_and_a_lag_of_any_size(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("produce", "lines", *at, stdin=b"x\n" * 1234)
    ottla("group", "reset", "a\nb", "-t", "lines", "--to-earliest", "--yes", *at)
    head, header, row = ottla("group", "describe", "a\nb", *at).out.splitlines()
    assert head == r"a\nb: Empty, 0 members"
    assert row.split()[:5] == ["lines", "0", "0", "1234", "1,234"]
    assert header.index("lag") + len("lag") == row.index("1,234") + len("1,234")


def test_an_invalid_name_is_printed_once_and_escaped(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    for name, shown in (("bad name", "'bad name'"), ("a\nb\x1b[31m", r"'a\nb\x1b[31m'"), ("x" * 300, f"'{'x' * 300}'")):
        for arguments in (
            ("topic", "create", name),
            ("topic", "describe", name),
            ("topic", "alter", name, "-p", "2"),
            ("topic", "delete", "-y", name),
            ("produce", name),
            ("consume", name),
            ("bench", "produce", "--topic", name, "--num-records", "1"),
            ("bench", "consume", "--topic", name, "--messages", "1"),
            ("generate", name),
            ("transaction", "producers", name),
        ):
            error = ottla(*arguments, *at, code=1).err
            assert error.endswith(
                f"{shown}: a topic's name has 1 to 249 ASCII letters, digits, dots, underlines and hyphens "
                "(INVALID_TOPIC_EXCEPTION)\n"
            ), error
            assert error.count(shown) == 1
    ottla("topic", "create", "there", *at)
    error = ottla("topic", "alter", "there", "--set", "flush.ms=1\n2", *at, code=1).err
    assert r"flush.ms=1\n2: a whole number" in error


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (json.dumps({"value": "x", "timestamp": int(HUGE)}), f"timestamp is {HUGE}, which needs more than 64 bits"),
        (r'{"value": "x", "headers": [{"name": "\ud800"}]}', "the name of a header must be text"),
        ('{"value": "x", "headers": [{"name": 5}]}', "the name of a header must be text"),
        ("[" * 200_000, "no JSON"),
    ],
    ids=["time", "surrogate", "number", "depth"],
)
def test_lines_of_json(ottla: Ottla, broker: Broker, line: str, problem: str) -> None:
    error = ottla("produce", "t", "--json", "-b", broker.bootstrap, stdin=line.encode(), code=1).err
    assert f"Error: stdin, line 1: {problem}" in error


def test_bytes_that_are_no_text_may_separate(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("produce", "t", "-k", "\udcff", *at, stdin=b"key\xffvalue\n")
    assert ottla("consume", "t", "--from-beginning", "-e", "-K", *at).out == "key\tvalue\n"


def test_an_import_of_what_is_neither_file_nor_folder(ottla: Ottla) -> None:
    error = ottla("log", "import", "--format", "0.7", "/dev/null", "--topic", "t", code=1).err
    assert error == "Error: /dev/null: there is no file named <byte offset>.kafka, as Kafka 0.7 names them\n"


def test_an_address_with_colons_is_in_brackets(ottla: Ottla) -> None:
    error = ottla("topic", "list", "-b", "[::1]:1", "--timeout-ms", "500", code=1).err
    assert "`ottla doctor [::1]:1` says what answers" in error


def shell(line: str, broker: Broker, **environment: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        ["bash", "-c", line.replace("ottla", f"{sys.executable} -m ottla")],
        capture_output=True,
        text=True,
        env={**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap, **environment},
        timeout=PATIENCE_S,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize(
    "line",
    [
        "ottla topic list",
        "ottla topic describe t",
        "ottla consume t --from-beginning -e",
        "ottla doctor",
        "ottla --help",
        "ottla topic list --json",
    ],
)
def test_an_output_that_cannot_be_written(ottla: Ottla, broker: Broker, line: str) -> None:
    ottla("produce", "t", "-b", broker.bootstrap, stdin=b"x\n")
    done = shell(f"{line} > /dev/full", broker)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_streams_that_are_closed(ottla: Ottla, broker: Broker) -> None:
    ottla("produce", "t", "-b", broker.bootstrap, stdin=b"x\n")
    assert shell("ottla consume t --from-beginning -e >&-", broker).returncode == 0
    assert shell("ottla produce t <&-", broker).stderr == "produced 0 records to t\n"
    assert shell("ottla produce t 2>&- </dev/null", broker).returncode == 0
    assert "--yes" in shell("ottla topic delete t <&-", broker).stderr
    assert shell("ottla topic delete -y t <&-", broker).stdout == "deleted topic t\n"


def test_letters_that_the_terminal_does_not_have(broker: Broker) -> None:
    done = shell("ottla doctor", broker, PYTHONIOENCODING="latin-1")
    assert r"\u2713 protocol" in done.stdout


def test_requests_that_a_broker_does_not_have(ottla: Ottla, bootstrap: str) -> None:
    """`bootstrap` is once Kafka 2.7's."""
    for arguments in (("transaction", "list"), ("transaction", "find-hanging")):
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *arguments, "-b", bootstrap],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert "Traceback" not in done.stderr
        assert done.returncode == 0 or f"the broker at {bootstrap} has no " in done.stderr
