"""`ottla cluster status --watch`: what is shown has an age."""

import os
import pty
import signal
import subprocess
import sys

import pytest
import trio
from trio.testing import MockClock

from ottla.cli import _watch
from ottla.cli._status import Status
from tests.peers.ottla import Broker
from tests.peers.processes import is_readable
from tests.support.waiting import PATIENCE_S, eventually


def test_what_is_shown_on_a_terminal_grows_older(broker: Broker) -> None:
    terminal, other = pty.openpty()
    command = [sys.executable, "-m", "ottla", "cluster", "status", "--watch", "--interval", "0.1"]
    process = subprocess.Popen([*command, "-b", broker.bootstrap], stdout=other, stdin=subprocess.DEVNULL)
    os.close(other)
    said = b""

    def hears(text: bytes) -> bool:
        nonlocal said
        while is_readable(terminal):
            said += os.read(terminal, 65536)
        return text in said

    try:
        eventually("it is shown", lambda: hears(b", seen 0 s ago"), facts=lambda: said)
        broker.process.send_signal(signal.SIGSTOP)
        eventually("it is old", lambda: hears(b"seen 3 s ago: no broker has answered since"), facts=lambda: said)
        assert b"0 offline" in said
        broker.process.send_signal(signal.SIGCONT)
        said = b""
        eventually("it is new", lambda: hears(b", seen 0 s ago"), facts=lambda: said)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    finally:
        broker.process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        os.close(terminal)


def test_it_ends_when_nobody_reads_any_more(broker: Broker) -> None:
    command = [sys.executable, "-m", "ottla", "cluster", "status", "--watch", "--interval", "0.1"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "-b", broker.bootstrap], stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(b"cluster ")
            process.stdout.close()
            assert process.wait(PATIENCE_S) == 1
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_lines_are_followed_by_their_age(capsys: pytest.CaptureFixture[str]) -> None:
    looks = 0

    async def look() -> Status:
        nonlocal looks
        looks += 1
        if looks == 3:
            await trio.sleep_forever()
        return Status("c", 1, 0, 0, [])

    async def run() -> None:
        with trio.move_on_after(2 * 1.0 + 12):
            await _watch.watch(look, 1.0, as_json=False)

    trio.run(run, clock=MockClock(autojump_threshold=0))
    out, err = capsys.readouterr()
    assert out.count("cluster c") == 2
    assert err == "no broker has answered; what was shown last is 9 s old\n"
