"""Apache Kafka's tools about transactions: TransactionalMessageCopier of its system tests, and kafka-transactions."""

import json
from collections.abc import Iterator

import pytest

from tests.compat.matrix import KAFKAS
from tests.peers.apache import tool
from tests.peers.ottla import Broker, Brokers
from tests.support.confluent import SETTINGS, create, producer, read, read_until, send
from tests.support.lanes import judged_by
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.clients]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("tools")) as brokers:
        broker = brokers(settings=SETTINGS)
        yield broker
        assert "Traceback" not in broker.output()


@pytest.mark.parametrize("version", judged_by(KAFKAS, KAFKAS[-1:]))
def test_the_message_copier_copies_each_message_once(shared: Broker, version: str) -> None:
    """It consumes, produces and commits offsets in one transaction, and aborts some at random, which it then repeats:
    what it has copied is the input, in its order.
    """
    source, target = create(shared), create(shared)
    sender = producer(shared, source)
    wanted = [f"{number:04}" for number in range(1, 3001, 3)]
    for start in range(0, 1000, 250):
        sender.begin_transaction()
        send(sender, source, *(value for first in wanted[start : start + 250] for value in ("-", first, "-")))
        sender.commit_transaction(PATIENCE_S)
    printed = tool(
        version,
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", shared.bootstrap, "--transactional-id", f"copier-{version}"),
        *("--input-topic", source, "--input-partition", "1", "--output-topic", target),
        *("--consumer-group", f"copiers-{version}", "--max-messages", "1000", "--transaction-size", "60"),
        *("--enable-random-aborts", "--use-group-metadata"),
    )
    last = json.loads(printed.splitlines()[-1])
    assert (last["consumed"], last["remaining"]) == (1000, 0), printed[-2000:]
    read_until(shared, target, wanted)
    assert set(read(shared, target, committed=False)) == set(wanted)


@pytest.mark.parametrize("version", judged_by(KAFKAS[1:], KAFKAS[-1:]))
def test_kafka_transactions(shared: Broker, version: str) -> None:
    topic, name = create(shared), f"watched-{version}"
    held = producer(shared, name)
    held.begin_transaction()
    send(held, topic, "a", "b")
    transactions = (version, "transactions", "--bootstrap-server", shared.bootstrap)

    listed = [line.split() for line in tool(*transactions, "list").splitlines()]
    assert listed[0] == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    (row,) = [line for line in listed if line[0] == name]
    assert (row[1], row[3]) == (str(shared.id), "Ongoing")

    header, line = (each.split() for each in tool(*transactions, "describe", "--transactional-id", name).splitlines())
    described = dict(zip(header, line, strict=True))
    assert described["ProducerId"] == row[2]
    assert described["TransactionState"] == "Ongoing"
    assert described["TransactionTimeoutMs"] == "60000"
    assert sorted(described["TopicPartitions"].split(",")) == [f"{topic}-0", f"{topic}-1"]

    where = ("--topic", topic, "--partition", "0")
    header, line = (each.split("\t") for each in tool(*transactions, "describe-producers", *where).splitlines())
    seen = dict(zip(map(str.strip, header), map(str.strip, line), strict=False))
    assert (seen["ProducerId"], seen["CurrentTransactionStartOffset"]) == (row[2], "0")
    hanging = tool(*transactions, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    assert len(hanging.splitlines()) == 1, hanging

    for partition in ("0", "1"):
        tool(*transactions, "abort", "--topic", topic, "--partition", partition, "--start-offset", "0")
    held.commit_transaction(PATIENCE_S)
    read_until(shared, topic, [])
    assert read(shared, topic, committed=False) == ["a", "b"]
