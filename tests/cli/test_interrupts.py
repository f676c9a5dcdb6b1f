"""Ctrl-C: every command ends quietly with what it has done, exit code 130."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.peers.ottla import Broker, Brokers
from tests.peers.processes import is_readable
from tests.support.waiting import PATIENCE_S, eventually

QUIET = ("Traceback", "Fatal", "KeyboardInterrupt", "Exception")


def command(*arguments: str, broker: Broker) -> list[str]:
    return [sys.executable, "-m", "ottla", *arguments, "-b", broker.bootstrap]


class Terminal:
    """A command with a terminal of its own, and all that it has shown."""

    def __init__(self, *arguments: str, broker: Broker) -> None:
        self.end, other = pty.openpty()
        self.process = subprocess.Popen(
            command(*arguments, broker=broker), stdin=other, stdout=other, stderr=other, start_new_session=True
        )
        os.close(other)
        self.shown = ""

    def until(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert is_readable(self.end, max(0, deadline - time.monotonic())), f"{text!r} did not come: {self.shown!r}"
            self.shown += os.read(self.end, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        while is_readable(self.end):
            try:
                self.shown += os.read(self.end, 4096).decode()
            except OSError:  # Linux says so of a terminal that nobody has open
                break
        return code


@contextmanager
def terminal(*arguments: str, broker: Broker) -> Iterator[Terminal]:
    found = Terminal(*arguments, broker=broker)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        os.close(found.end)


def until_there(broker: Broker, topic: str, records: int) -> None:
    """Waits until a topic has so many records."""

    def count() -> int:
        done = subprocess.run(
            command("consume", topic, "--from-beginning", "-e", broker=broker), capture_output=True, check=True
        )
        return len(done.stdout.splitlines())

    eventually(f"{records} records in {topic}", lambda: count() == records)


@contextmanager
def piped(*arguments: str, broker: Broker) -> Iterator["subprocess.Popen[bytes]"]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(*arguments, broker=broker), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_produce_on_a_terminal(broker: Broker) -> None:
    with terminal("produce", "typed", broker=broker) as shown:
        shown.until("Ctrl-D ends")
        shown.type("one\ntwo\nthree\n")
        until_there(broker, "typed", 3)
        shown.process.send_signal(signal.SIGINT)
        assert shown.ended() == 130, shown.shown
    assert "produced 3 records to typed" in shown.shown
    assert not [word for word in QUIET if word in shown.shown], shown.shown
    # Not a bar that is drawn over what one types.
    assert "\x1b[" not in shown.shown


def test_produce_on_a_terminal_ends_with_ctrl_d(broker: Broker) -> None:
    with terminal("produce", "typed", broker=broker) as shown:
        shown.until("Ctrl-D ends")
        shown.type("one\n\x04")
        assert shown.ended() == 0, shown.shown
    assert "produced 1 record to typed" in shown.shown


def test_produce_from_a_pipe(broker: Broker) -> None:
    with piped("produce", "piped", broker=broker) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert b"created topic piped" in process.stderr.readline()
        process.stdin.write(b"one\ntwo\n")
        until_there(broker, "piped", 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read() == b"produced 2 records to piped\n"


def test_a_second_ctrl_c_ends_the_wait_for_what_cannot_be_delivered(brokers: Brokers) -> None:
    broker = brokers(settings={"min.insync.replicas": 2})
    with piped("produce", "waits", "--timeout-ms", "600000", broker=broker) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert b"created topic waits" in process.stderr.readline()
        process.stdin.write(b"one\n")
        pipe = process.stdin.fileno()
        eventually("the line is read", lambda: not any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))))
        process.send_signal(signal.SIGINT)
        assert b"Ctrl-C again ends" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read() == b"produced 0 records to waits\n"


@pytest.mark.parametrize("arguments", [("consume", "empty"), ("consume", "empty", "--json")])
def test_consume(broker: Broker, arguments: tuple[str, ...]) -> None:
    subprocess.run(command("topic", "create", "empty", broker=broker), check=True)
    with piped(*arguments, "--from-beginning", broker=broker) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        subprocess.run(command("produce", "empty", broker=broker), input=b"one\n", check=True)
        assert b"one" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("arguments", "measured"),
    [
        (("produce", "--num-records", "1000000", "--throughput", "100"), " sent in "),
        (("consume", "--messages", "1000000", "--idle-ms", "600000"), "3 records received in "),
        (("latency", "--num-records", "1000000"), "end to end, "),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_bench_shows_what_it_measured(broker: Broker, arguments: tuple[str, ...], measured: str) -> None:
    subprocess.run(command("produce", "measured", broker=broker), input=b"one\ntwo\nthree\n", check=True)
    with terminal("bench", *arguments, "--topic", "measured", broker=broker) as shown:
        shown.until(" records, ")  # the line of what was done until now
        shown.process.send_signal(signal.SIGINT)
        assert shown.ended() == 130, shown.shown
    assert measured in shown.shown
    assert " ms avg, " in shown.shown
    assert not [word for word in QUIET if word in shown.shown], shown.shown


def test_a_question_that_is_answered_no_says_so(broker: Broker) -> None:
    subprocess.run(command("topic", "create", "kept", broker=broker), check=True)
    with terminal("topic", "delete", "kept", broker=broker) as shown:
        shown.until("[y/N]: ")
        shown.type("n\n")
        assert shown.ended() == 1
    assert "nothing was deleted" in shown.shown
    with terminal("topic", "delete", "kept", broker=broker) as shown:
        shown.until("[y/N]: ")
        # A signal between Python's last look for one and the read is lost: a race of Python's input().
        status = Path(f"/proc/{shown.process.pid}/stat")
        eventually("it waits for the answer", lambda: status.read_text().rpartition(")")[2].split()[0] == "S")
        shown.process.send_signal(signal.SIGINT)
        assert shown.ended() == 130
    assert "nothing was deleted" in shown.shown
    with terminal("topic", "delete", "kept", broker=broker) as shown:
        shown.until("[y/N]: ")
        shown.type("y\n")
        assert shown.ended() == 0
    assert "deleted topic kept" in shown.shown


def test_while_the_command_is_loaded(tmp_path: Path) -> None:
    """The interrupt comes in the middle of an import, where a KeyboardInterrupt would show Python's own files."""
    script = Path(sys.executable).with_name("ottla")
    if not script.exists():
        pytest.skip("the command is not installed beside this Python")
    # The command's first import of another package.
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [script, "topic", "list"], capture_output=True, text=True, env=environment, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
    # A program that takes the package for its own ends has its own ideas of Ctrl-C.
    code = "import signal, ottla.cli; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], check=True)
