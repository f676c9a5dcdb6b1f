"""`ottla consume` of what is damaged, or gone meanwhile: it ends, and says where."""

import subprocess
import sys

import pytest

from ottla.cli._errors import words
from ottla.errors import LeaderNotAvailable, UnknownTopicOrPartition
from tests.peers.ottla import Broker, Brokers
from tests.support.waiting import PATIENCE_S

from .conftest import Ottla


def test_a_damaged_batch_is_named(ottla: Ottla, brokers: Brokers) -> None:
    broker = brokers()
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "orders", "-p", "2", *at)
    for number in range(3):
        ottla("produce", "orders", "-p", "1", *at, stdin=b"value %d\n" % number)
    broker.stop()
    file = broker.data / "orders-1" / f"{0:020}.log"
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"value 1", b"Value 1"))
    broker = brokers.restart(broker)
    result = ottla("consume", "orders", "--from-beginning", "-e", *at, code=1)
    assert result.out == "value 0\n"  # what is whole comes first
    assert "orders-1: the batch at offset 1 is damaged: crc" in result.err
    assert "`ottla log verify FOLDER`" in result.err
    assert "(CORRUPT_MESSAGE)" in result.err
    assert ottla("consume", "orders", "-p", "1", "-o", "2", "-e", *at).out == "value 2\n"


def test_a_topic_that_is_deleted_meanwhile_ends_it(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("produce", "gone", *at, stdin=b"one\n")
    command = [sys.executable, "-m", "ottla", "consume", "gone", "--from-beginning", *at]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"one\n"
            ottla("topic", "delete", "--yes", "gone", *at)
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 1
    assert b"cannot consume 'gone': it does not exist" in err


def test_an_obstacle_has_a_name() -> None:
    assert (
        words(UnknownTopicOrPartition("topic 'gone'")) == "topic 'gone': it does not exist (UNKNOWN_TOPIC_OR_PARTITION)"
    )
    assert words(LeaderNotAvailable("orders-0")) == "orders-0 (LEADER_NOT_AVAILABLE)"
    assert words(OSError("h:1 closed the connection")) == "h:1 closed the connection"


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_it_ends_when_nobody_reads_any_more(ottla: Ottla, broker: Broker, arguments: tuple[str, ...]) -> None:
    """As `| head -1` does, and no further record comes."""
    at = ("-b", broker.bootstrap)
    ottla("produce", "read", *at, stdin=b"one\ntwo\n")
    command = [sys.executable, "-m", "ottla", "consume", "read", "--from-beginning", *arguments, *at]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert b"one" in process.stdout.readline()
            process.stdout.close()
            assert process.wait(PATIENCE_S) == 1
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_brokers_that_are_gone_and_back_are_told(ottla: Ottla, brokers: Brokers) -> None:
    broker = brokers()
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "away", *at)
    ottla("produce", "away", *at, stdin=b"one\n")
    command = [sys.executable, "-m", "ottla", "consume", "away", "--from-beginning", *at]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "--timeout-ms", str(int(PATIENCE_S * 1000))], stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"one\n"
            broker.kill()
            told = process.stderr.readline().decode()
            assert broker.bootstrap in told  # its connection has ended, or no other can be made
            assert told.endswith(f"; trying again for {PATIENCE_S:g} s\n")
            broker = brokers.restart(broker)
            assert process.stderr.readline() == b"the brokers are back\n"
            ottla("produce", "away", *at, stdin=b"two\n")
            assert process.stdout.readline() == b"two\n"
        finally:
            process.kill()
    with subprocess.Popen([*command, "--timeout-ms", "1000"], stdout=pipe, stderr=pipe) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"one\n"
            assert process.stdout.readline() == b"two\n"
            broker.kill()
            _, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 1
    gone, error = err.decode().splitlines()
    assert gone.endswith("; trying again for 1 s")
    assert error.startswith("Error: cannot consume 'away': ")
    assert broker.bootstrap in error
    assert error.endswith(
        "and for 1 s nothing has answered; 2 records were printed, `ottla consume away -p 0 -o 2` goes on"
    )
