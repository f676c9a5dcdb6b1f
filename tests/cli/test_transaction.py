"""`ottla transaction` against our broker: Apache's releases of ZooKeeper mode up to 2.7 have none of this."""

import shutil
from collections.abc import Iterator

import confluent_kafka as ck
import pytest

from tests.peers.ottla import Broker, Brokers
from tests.support.waiting import PATIENCE_S

from .conftest import Ottla

SETTINGS = {"transaction.state.log.num.partitions": 1}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("transactions")) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def server(ours: Brokers) -> Broker:
    return ours(settings=SETTINGS)


def begin(server: Broker, name: str, topic: str) -> ck.Producer:
    """A transaction with one record in `topic`, left open."""
    producer = ck.Producer({"bootstrap.servers": server.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def test_list_and_describe(ottla: Ottla, server: Broker) -> None:
    at = ("-b", server.bootstrap)
    ottla("topic", "create", "orders", *at)
    producer = begin(server, "first", "orders")
    begin(server, "second", "orders").commit_transaction(PATIENCE_S)

    listed = {row["transactional_id"]: row for row in ottla("transaction", "list", "--json", *at).json}  # type: ignore[index]
    assert listed["first"]["state"] == "Ongoing"
    assert listed["second"]["state"] in ("PrepareCommit", "CompleteCommit")
    (only,) = ottla("transaction", "list", "--state", "Ongoing", "--json", *at).json
    assert only == listed["first"]
    (only,) = ottla("transaction", "list", "--producer-id", str(only["producer_id"]), "--json", *at).json  # type: ignore[index]
    assert only == listed["first"]
    assert ottla("transaction", "list", "--longer-than-ms", "600000", *at).out == ""
    header, *lines = ottla("transaction", "list", *at).out.splitlines()
    assert header.split() == ["transactional", "id", "state", "producer", "coordinator"]
    assert [line.split()[0] for line in lines] == ["first", "second"]

    (found,) = ottla("transaction", "describe", "first", "--json", *at).json
    assert found["partitions"] == [["orders", 0]]  # type: ignore[index]
    assert (found["state"], found["timeout_ms"]) == ("Ongoing", 60_000)  # type: ignore[index]
    text = ottla("transaction", "describe", "first", *at).out
    assert text.startswith("first\n  state        Ongoing\n")
    assert "  partitions   orders-0\n" in text
    producer.abort_transaction(PATIENCE_S)

    missing = ottla("transaction", "describe", "nobody", *at, code=1)
    assert missing.err == (
        "Error: cannot describe transactional id 'nobody': there is no transactional id 'nobody' "
        "(TRANSACTIONAL_ID_NOT_FOUND)\n"
    )


def test_one_that_hangs_is_found_and_aborted(ottla: Ottla, ours: Brokers, server: Broker) -> None:
    at = ("-b", server.bootstrap)
    ottla("topic", "create", "held", *at)
    begin(server, "lost", "held")
    nothing = ottla("transaction", "find-hanging", "--max-timeout-ms", "0", *at)
    assert nothing.out == "", "its coordinator knows of it"

    server.stop()
    for folder in server.data.glob("__transaction_state-*"):
        shutil.rmtree(folder)
    server = ours.restart(server, settings=SETTINGS)
    (before,) = ottla("transaction", "producers", "held", "--json", *at).json
    assert before["start_offset"] == 0  # type: ignore[index]
    assert ottla("transaction", "find-hanging", *at).out == "", "it may be alive yet"
    (found,) = ottla("transaction", "find-hanging", "--max-timeout-ms", "0", "--topic", "held", "--json", *at).json
    assert found == before
    assert "held-0" in ottla("transaction", "find-hanging", "--max-timeout-ms", "0", *at).out

    asked = ottla("transaction", "abort", "held", "0", "--start-offset", "0", *at, code=2)
    assert asked.out.splitlines()[1].split()[:2] == ["held-0", str(found["producer_id"])]  # type: ignore[index]
    assert "in held-0 would be aborted, and nobody can be asked here" in asked.err
    assert ottla("transaction", "abort", "held", "0", "--start-offset", "0", "-n", *at).out == asked.out
    at = ("--yes", *at)
    wrong = ottla("transaction", "abort", "held", "0", "--start-offset", "7", *at, code=1)
    assert wrong.err == "Error: no transaction of held-0 begins at offset 7\n"
    stale = ("--producer-id", str(found["producer_id"]), "--producer-epoch", "-1")  # type: ignore[index]
    assert "INVALID_PRODUCER_EPOCH" in ottla("transaction", "abort", "held", "0", *stale, *at, code=1).err
    assert ottla("transaction", "abort", "held", "0", "--start-offset", "0", *at).out == "aborted in held-0\n"
    at = at[1:]
    assert ottla("transaction", "find-hanging", "--max-timeout-ms", "0", *at).out == ""
    (after,) = ottla("transaction", "producers", "held", "--json", *at).json
    assert after["start_offset"] is None  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("abort", "t", "0"), "either --start-offset, or --producer-id with --producer-epoch"),
        (("abort", "t", "0", "--producer-id", "7"), "--producer-id needs --producer-epoch"),
        (("find-hanging", "-p", "0"), "--partition needs --topic"),
    ],
)
def test_bad_input_says_what_is_missing(ottla: Ottla, arguments: tuple[str, ...], message: str) -> None:
    assert message in ottla("transaction", *arguments, code=2).err
