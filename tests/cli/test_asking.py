"""Commands that delete, overwrite or move something: what is asked, on a terminal too, and what asking leaves alone."""

import os
import pty
import subprocess
import sys

import pytest

from tests.peers.ottla import Broker
from tests.support.waiting import PATIENCE_S

from .conftest import Ottla


def test_who_only_asks_makes_no_topic(ottla: Ottla, broker: Broker) -> None:
    """Brokers make the internal topics for those who ask for them by name, or for a coordinator."""
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "orders", *at)
    for arguments in (
        ("topic", "describe", "__consumer_offsets"),
        ("topic", "elect", "__transaction_state", "--dry-run"),
        ("topic", "reassign", "__consumer_offsets", "--replicas", "1", "--dry-run"),
        ("topic", "delete", "__consumer_offsets", "--internal", "--dry-run"),
        ("group", "describe", "readers"),
        ("group", "delete", "readers", "--dry-run"),
        ("group", "reset", "readers", "--to-latest", "--dry-run"),
        ("transaction", "describe", "payments"),
    ):
        assert "there is no " in ottla(*arguments, *at, code=1).err, arguments
    nothing = ottla("group", "migrate", "readers", "--dry-run", *at, code=1).err
    assert "it has no offsets in the coordination tree" in nothing
    shown = ottla("group", "reset", "readers", "-t", "orders", "--to-latest", "--dry-run", *at)
    assert shown.out.splitlines()[1].split() == ["orders", "0", "-", "0"]
    assert ottla("topic", "list", "--internal", *at).out == "orders\n"


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, "orders\n"), (b"y\n", 0, "")], ids=["no", "yes"])
def test_a_terminal_is_asked(ottla: Ottla, broker: Broker, answer: bytes, code: int, left: str) -> None:
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "orders", *at)
    terminal, other = pty.openpty()
    os.write(terminal, answer)
    command = [sys.executable, "-m", "ottla", "topic", "delete", "orders", *at]
    done = subprocess.run(command, stdin=other, capture_output=True, text=True, timeout=PATIENCE_S)
    os.close(other)
    os.close(terminal)
    assert done.returncode == code, done.stderr
    plan, row = done.stdout.splitlines()[:2]
    assert (plan.split(), row.split()) == (["topic", "partitions", "records"], ["orders", "1", "0"])
    assert done.stderr.startswith("Delete orders and all records in it? [y/N]: ")
    assert ("nothing was deleted" in done.stderr) == (code == 1)
    assert ottla("topic", "list", *at).out == left
