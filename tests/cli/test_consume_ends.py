"""`ottla consume` of what is damaged, or gone meanwhile: it ends, and says where."""

import subprocess
import sys

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
    assert "`ottla log verify`" in result.err
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
