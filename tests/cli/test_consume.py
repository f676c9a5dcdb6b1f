"""`ottla consume` of what `ottla produce` wrote."""

import os
import pty
import subprocess
import sys

import pytest

from tests.support.waiting import PATIENCE_S

from .conftest import Ottla

ALL = ("--from-beginning", "--until-end")


@pytest.fixture(scope="module")
def topic() -> str:
    return "consumed"


@pytest.fixture(autouse=True, scope="module")
def produced(bootstrap: str, topic: str) -> None:
    """Six records in two partitions, one of each kind, with known times."""
    lines = (
        b'{"partition": 0, "timestamp": 1000, "value": "a0"}\n'
        b'{"partition": 0, "timestamp": 2000, "value": "a1", "key": "k",'
        b' "headers": [{"name": "h", "value": "1"}, {"name": "n"}]}\n'
        b'{"partition": 0, "timestamp": 3000, "value": null, "key": "gone"}\n'
        b'{"partition": 1, "timestamp": 1500, "value": ""}\n'
        b'{"partition": 1, "timestamp": 2500, "value_base64": "AP8K"}\n'
        b'{"partition": 1, "timestamp": 3500, "value": "b2"}\n'
    )
    command = [sys.executable, "-m", "ottla"]
    subprocess.run([*command, "topic", "create", topic, "-p", "2", "-b", bootstrap], check=True)
    subprocess.run([*command, "produce", topic, "--json", "-b", bootstrap], input=lines, check=True)


def test_values(ottla: Ottla, bootstrap: str, topic: str) -> None:
    assert ottla("consume", topic, "-p", "0", *ALL, "-b", bootstrap).out == "a0\na1\n\n"


def test_keys_headers_and_nothing(ottla: Ottla, bootstrap: str, topic: str) -> None:
    result = ottla(
        "consume", topic, "-p", "0", *ALL, "--keys", "--headers", "-k", "|", "--null-marker", "NULL", "-b", bootstrap
    )
    assert result.out == "|NULL|a0\nh=1,n=NULL|k|a1\n|gone|NULL\n"


def test_a_format_of_ones_own(ottla: Ottla, bootstrap: str, topic: str) -> None:
    """In kcat's letters; the end of a line is among them."""
    at = ("-b", bootstrap)
    form = r"%t %p %o %T %k=%s (%K, %S) %h %%\x21\n"
    shown = ottla("consume", topic, "-p", "0", *ALL, "-f", form, "--null-marker", "NULL", *at).out
    assert shown.splitlines() == [
        "consumed 0 0 1000 NULL=a0 (-1, 2)  %!",
        "consumed 0 1 2000 k=a1 (1, 2) h=1,n=NULL %!",
        "consumed 0 2 3000 gone=NULL (4, -1)  %!",
    ]
    assert ottla("consume", topic, "-p", "0", *ALL, "-f", "%s,", *at).out == "a0,a1,,"
    assert ottla("consume", topic, "-p", "0", *ALL, "-n", "1", "-f", "%R%s", *at).out == "\0\0\0\2a0"
    refused = ottla("consume", topic, "--format", "%x", *at, code=2).err
    assert "%x means nothing; there are %s (the value), " in " ".join(refused.split())
    assert "% means nothing" in ottla("consume", topic, "--format", "%", *at, code=2).err
    for other in ("--json", "--keys", "--headers"):
        assert "contradict each other" in ottla("consume", topic, "-f", "%s", other, *at, code=2).err
    assert r"\xg0 is no byte" in ottla("consume", topic, "-f", r"\xg0", *at, code=2).err


def test_several_topics(ottla: Ottla, bootstrap: str, topic: str) -> None:
    at = ("-b", bootstrap)
    ottla("topic", "create", "beside", "--if-not-exists", "-p", "1", *at)
    if not ottla("consume", "beside", *ALL, *at).out:
        ottla("produce", "beside", *at, stdin=b"c\n")
    shown = ottla("consume", topic, "beside", topic, *ALL, "-p", "0", "-f", r"%t:%s\n", *at).out
    assert sorted(shown.splitlines()) == ["beside:c", "consumed:", "consumed:a0", "consumed:a1"]
    error = ottla("consume", topic, "beside", "-p", "1", *at, code=1).err
    assert "topic 'beside' has no partition 1; its last is 0" in error


def test_nothing_printed_is_explained(ottla: Ottla, bootstrap: str, topic: str) -> None:
    at = ("-b", bootstrap)
    result = ottla("consume", topic, "-e", *at)
    assert (result.out, result.err) == ("", "nothing after the end; --from-beginning reads what is there\n")
    assert ottla("consume", topic, "-t", "9999", "-e", *at).err == "nothing to be read there\n"
    assert ottla("consume", topic, "-p", "0", *ALL, *at).err == ""


def test_a_terminal_that_waits_is_told(bootstrap: str, topic: str) -> None:
    terminal, other = pty.openpty()
    command = [sys.executable, "-m", "ottla", "consume", topic, "-b", bootstrap]
    with subprocess.Popen(command, stdout=other, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting for new records; --from-beginning reads what is there too\n"
        process.send_signal(2)
        assert process.wait(PATIENCE_S) == 130
    os.close(other)
    os.close(terminal)


def test_json(ottla: Ottla, bootstrap: str, topic: str) -> None:
    records = ottla("consume", topic, "-p", "1", "--json", *ALL, "-b", bootstrap).json
    assert records[1] == {
        "topic": topic,
        "partition": 1,
        "offset": 1,
        "timestamp": 2500,
        "key": None,
        "value_base64": "AP8K",
    }
    assert len(records) == 3


def test_json_can_be_produced_again(ottla: Ottla, bootstrap: str, topic: str) -> None:
    original = ottla("consume", topic, "--json", *ALL, "-b", bootstrap)
    ottla("topic", "create", "again", "-p", "2", "--if-not-exists", "-b", bootstrap)
    ottla("produce", "again", "--json", "-b", bootstrap, stdin=original.out.encode())
    copy = ottla("consume", "again", "--json", *ALL, "-b", bootstrap)
    assert sorted(copy.out.replace('"again"', f'"{topic}"').splitlines()) == sorted(original.out.splitlines())


@pytest.mark.parametrize(
    ("start", "values"),
    [
        (("--offset", "1"), ["a1", ""]),
        (("--offset", "-1"), [""]),
        (("--offset", "-100"), ["a0", "a1", ""]),
        (("--offset", "3"), []),
        (("--timestamp", "2000"), ["a1", ""]),
        (("--timestamp", "1970-01-01T00:00:02.001+00:00"), [""]),
        (("--timestamp", "9999"), []),
        ((), []),
        (("--from-beginning", "-n", "1"), ["a0"]),
    ],
)
def test_where_it_begins(ottla: Ottla, bootstrap: str, topic: str, start: tuple[str, ...], values: list[str]) -> None:
    result = ottla("consume", topic, "-p", "0", *start, "--until-end", "-b", bootstrap)
    assert result.out.splitlines() == values


def test_what_is_not_there(ottla: Ottla, bootstrap: str, topic: str) -> None:
    at = ("-b", bootstrap)
    error = ottla("consume", topic, "--offset", "4", *at, code=1).err
    assert "-0 has no offset 4: it begins at 0 and ends before 3" in error
    assert "has no partition 2; its last is 1" in ottla("consume", topic, "-p", "2", *at, code=1).err
    assert "(UNKNOWN_TOPIC_OR_PARTITION)" in ottla("consume", "nowhere", *at, code=1).err
    assert "no time such as" in ottla("consume", topic, "-t", "noon", *at, code=2).err
    assert "contradict each other" in ottla("consume", topic, "-t", "1", "--from-beginning", *at, code=2).err


def test_new_records_come_as_they_are_produced(ottla: Ottla, bootstrap: str) -> None:
    ottla("topic", "create", "live", "--if-not-exists", "-b", bootstrap)
    command = [sys.executable, "-m", "ottla", "consume", "live", "--from-beginning", "-b", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        for line in (b"one\n", b"two\n"):
            ottla("produce", "live", "-b", bootstrap, stdin=line)
            assert consumer.stdout.readline() == line
        consumer.send_signal(2)
        assert consumer.wait(PATIENCE_S) == 130


def test_a_reader_that_goes_away_ends_it_quietly(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-m", "ottla", "consume", topic, "--from-beginning", "-b", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        consumer.stdout.close()
        assert consumer.wait(PATIENCE_S) == 1
        assert consumer.stderr.read() == b""


def test_long_work_shows_its_progress_on_a_terminal(bootstrap: str, topic: str) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "ottla", "consume", topic, *ALL, "-b", bootstrap]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, check=True)
    os.close(follower)
    shown = os.read(leader, 1 << 16)
    os.close(leader)
    assert done.stdout.count(b"\n") >= 6
    assert f"consuming {topic}".encode() in shown
