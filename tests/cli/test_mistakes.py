"""Mistakes on the command line: options that contradict each other, names that do not exist, half of which is done."""

import json
import socket
import threading
from pathlib import Path

import click
import pytest
import trio

from ottla.cli._errors import explained
from tests.peers.ottla import Broker, Brokers
from tests.support.waiting import PATIENCE_S

from .conftest import Ottla


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("group", "reset", "g", "--to-earliest", "--to-latest"), "--to-earliest and --to-latest contradict"),
        (("group", "reset", "g", "--to-latest", "--to-offset", "3"), "--to-latest and --to-offset contradict"),
        (("group", "reset", "g", "--to-time", "soon"), "is no time such as"),
        (("topic", "alter", "t", "-s", "retention.ms=5", "-u", "retention.ms"), "--set and --unset of retention.ms"),
        (("topic", "alter", "t", "-s", "retention.ms=5", "-s", "retention.ms=6"), "is given twice: 5 and 6"),
        (("topic", "create", "t", "-s", "a=5", "-s", "a=6"), "a is given twice"),
        (("serve", "--set", "num.partitions=1", "--set", "num.partitions=2"), "num.partitions is given twice"),
        (("consume", "t", "--from-beginning", "-o", "3"), "--from-beginning and --offset contradict"),
        (("consume", "t", "-o", "3", "-t", "3"), "--offset and --timestamp contradict"),
        (("consume", "t", "--json", "--keys"), "--json and --keys contradict"),
        (("consume", "t", "--json", "--null-marker", "-"), "--json and --null-marker contradict"),
        (("consume", "t", "-k", ","), "--key-separator needs --keys or --headers"),
        (("consume", "t", "-K", "-k", "\\q"), "\\q means nothing"),
        (("produce", "t", "--ignore-partitions"), "only lines of JSON"),
        (("produce", "t", "--json", "-p", "1", "--ignore-partitions"), "--partition and --ignore-partitions"),
        (("transaction", "abort", "t", "0", "--start-offset", "1", "--producer-epoch", "2"), "--start-offset"),
        (("tree", "dump", "--data-dir", "d", "--zookeeper", "h:1"), "--data-dir and --zookeeper contradict"),
        (("bench", "produce", "--topic", "t", "--num-records", "1", "--record-size", "5", "--payload-file", __file__),
         "--record-size and --payload-file contradict"),
        (("log", "import", "--format", "0.7", __file__, "--topic", "t", "--data-dir", "/", "-b", "h:1"),
         "--data-dir and --bootstrap contradict"),
        (("generate", "-f", "x", "--partitions", "5"), "--file and --partitions contradict"),
        (("generate", "-f", "x", "-z", "lz4"), "--file and --compression contradict"),
        (("generate", "-f", "x", "-b", "h:1"), "--file and --bootstrap contradict"),
        (("generate", "-f", "x", "--answers", "./x"), "--file and --answers are both x"),
    ],
)  # fmt: skip
def test_contradictions(ottla: Ottla, arguments: tuple[str, ...], said: str) -> None:
    assert said in ottla(*arguments, code=2).err


def test_what_our_own_errors_quote_keeps_its_lines() -> None:
    with pytest.raises(click.ClickException) as raised, explained("cannot start", ValueError):
        raise ValueError("its log ends with:\n    one\x1b[31m")
    assert raised.value.message == "cannot start: its log ends with:\n    one\\x1b[31m"


def test_an_alteration_is_whole_or_refused(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "orders", "-p", "3", "-s", "flush.ms=7", *at)

    def refused(*arguments: str) -> str:
        error = ottla("topic", "alter", "orders", *arguments, *at, code=1).err
        (topic,) = ottla("topic", "describe", "orders", "--json", *at).json
        assert isinstance(topic, dict)
        assert (topic["settings"], len(topic["partitions"])) == ({"flush.ms": "7"}, 3)
        return error

    assert "(INVALID_PARTITIONS)" in refused("--partitions", "2", "--set", "retention.ms=5")
    assert "retention.ms=-7" in refused("--partitions", "4", "--set", "retention.ms=-7")
    assert "the nearest is 'flush.ms'" in refused("--partitions", "4", "--unset", "flush.mss")
    assert "the nearest is 'retention.ms'" in refused("--unset", "flush.ms", "--set", "retentin.ms=5")


def test_names_that_do_not_exist(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "orders", *at)
    nearest = "there is no topic 'ordes'; the nearest is 'orders'"
    for arguments in (
        ("topic", "describe", "ordes"),
        ("topic", "alter", "ordes", "-p", "2"),
        ("topic", "delete", "--yes", "ordes"),
        ("consume", "ordes"),
        ("group", "reset", "g", "-t", "ordes", "--to-latest"),
        ("transaction", "producers", "ordes"),
        ("transaction", "find-hanging", "-t", "ordes"),
        ("transaction", "abort", "ordes", "0", "--start-offset", "1"),
        ("bench", "consume", "--topic", "ordes", "--messages", "1"),
    ):
        assert nearest in ottla(*arguments, *at, code=1).err, arguments
    ottla("group", "reset", "readers", "-t", "orders", "--to-latest", "--yes", *at)
    nearest = "there is no group 'reader'; the nearest is 'readers'"
    for arguments in (
        ("group", "describe", "reader"),
        ("group", "delete", "--yes", "reader"),
        ("group", "delete", "--yes", "reader", "-t", "orders"),
        ("group", "reset", "reader", "--to-latest"),
        ("group", "reset", "reader", "-t", "orders", "--shift-by", "2"),
    ):
        assert nearest in ottla(*arguments, *at, code=1).err, arguments


def test_transactional_ids_that_do_not_exist(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    error = ottla("transaction", "describe", "payments", *at, code=1).err
    assert "there is no transactional id 'payments', nor any other transactional id" in error
    confluent_kafka = pytest.importorskip("confluent_kafka")
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "payments-1"})
    producer.init_transactions(PATIENCE_S)
    error = ottla("transaction", "describe", "payments", *at, code=1).err
    assert "there is no transactional id 'payments'; the nearest is 'payments-1'" in error


def test_of_several_those_that_exist_are_deleted(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    for name in ("one", "two"):
        ottla("topic", "create", name, *at)
        ottla("group", "reset", f"group-{name}", "-t", name, "--to-latest", "--yes", *at)
    groups = ottla("group", "delete", "--yes", "group-one", "nosuch", "group-two", *at, code=1)
    assert groups.out == "deleted group group-one\ndeleted group group-two\n"
    assert "cannot delete group 'nosuch': there is no group 'nosuch'" in groups.err
    topics = ottla("topic", "delete", "--yes", "nosuch", "one", "two", *at, code=1)
    assert topics.out == "deleted topic one\ndeleted topic two\n"
    assert "cannot delete topic 'nosuch': there is no topic 'nosuch'" in topics.err
    assert "one" not in topics.err
    assert ".;" not in topics.err + groups.err


def test_resets_say_what_is_missing(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "orders", *at)
    absent = ottla("group", "reset", "new", "--to-latest", *at, code=1).err
    assert "there is no group 'new', nor any other group; with --topic it is made" in absent
    shifted = ottla("group", "reset", "new", "-t", "orders", "--shift-by", "2", *at, code=1).err
    assert "--topic" not in shifted
    ottla("group", "reset", "new", "-t", "orders", "--to-latest", "--yes", *at)
    ottla("topic", "create", "other", *at)
    shifted = ottla("group", "reset", "new", "-t", "other", "--shift-by", "2", *at, code=1).err
    assert "group 'new' has no offsets in other to shift from" in shifted


def test_offsets_that_a_group_does_not_have_are_not_deleted(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "orders", *at)
    ottla("group", "reset", "readers", "-t", "orders", "--to-latest", "--yes", *at)
    error = ottla("group", "delete", "--yes", "readers", "-t", "ordes", *at, code=1).err
    assert "cannot delete offsets of group 'readers': it has none in 'ordes'; did you mean orders?" in error
    assert "deleted 1 offset of group readers" in ottla("group", "delete", "--yes", "readers", "-t", "orders", *at).out


def test_a_state_that_no_transaction_has_is_an_error(ottla: Ottla, broker: Broker) -> None:
    error = ottla("transaction", "list", "--state", "Onging", "-b", broker.bootstrap, code=2).err
    assert "'Onging' is not one of 'Empty', 'Ongoing'" in error
    assert ottla("transaction", "list", "--state", "Ongoing", "-b", broker.bootstrap).out == ""


def test_internal_topics_of_ours_are_not_among_users_topics(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("topic", "create", "__ottla_sink", *at)
    ottla("topic", "create", "users", *at)
    assert ottla("topic", "list", *at).out == "users\n"
    assert ottla("topic", "list", "--internal", *at).out == "__ottla_sink\nusers\n"


@pytest.fixture
def three(ottla: Ottla, broker: Broker) -> list[str]:
    """Lines of JSON of a topic with three partitions."""
    ottla("topic", "create", "three", "-p", "3", "-b", broker.bootstrap)
    lines = [json.dumps({"partition": n % 3, "key": str(n), "value": "v", "timestamp": 1000 + n}) for n in range(30)]
    ottla("produce", "three", "--json", "-b", broker.bootstrap, stdin="\n".join(lines).encode())
    out = ottla("consume", "three", "--from-beginning", "-e", "--json", "-b", broker.bootstrap).out
    return out.splitlines()


def test_a_copy_is_not_half_done(ottla: Ottla, broker: Broker, three: list[str], tmp_path: Path) -> None:
    at = ("-b", broker.bootstrap)
    content = "\n".join(sorted(three, key=lambda line: json.loads(line)["partition"]))
    # A topic that is not there cannot have the partitions that the lines name.
    error = ottla("produce", "copy", "--json", *at, stdin=content.encode(), code=1).err
    assert "stdin, line 1: it names a partition, and there is no topic 'copy' yet" in error
    assert ottla("topic", "list", *at).out == "three\n"
    # A file is read before.
    ottla("topic", "create", "copy", *at)
    file = tmp_path / "lines.json"
    file.write_text(content)
    error = ottla("produce", "copy", str(file), "--json", *at, code=1).err
    assert "line 11: topic 'copy' has no partition 1; its last is 0" in error
    assert "(nothing was produced)" in error
    assert ottla("consume", "copy", "--from-beginning", "-e", *at).out == ""
    # The ways that the help names.
    assert "produced 30 records" in ottla("produce", "copy", str(file), "--json", "--ignore-partitions", *at).err
    ottla("topic", "create", "same", "-p", "3", *at)
    ottla("produce", "same", "--json", *at, stdin=content.encode())
    same = ottla("consume", "same", "--from-beginning", "-e", "--json", *at).out
    assert sorted(same.replace('"same"', '"three"').splitlines()) == sorted(three)
    ottla("produce", "now", "-", "--json", "--ignore-partitions", "--ignore-timestamps", *at, stdin=content.encode())
    now = ottla("consume", "now", "--from-beginning", "-e", "--json", *at).json
    assert len(now) == 30
    assert min(line["timestamp"] for line in now) > 1_600_000_000_000  # type: ignore[index]


def test_a_tab_may_be_written(ottla: Ottla, broker: Broker) -> None:
    at = ("-b", broker.bootstrap)
    ottla("produce", "tabs", "-k", "\\t", *at, stdin=b"key\tvalue\n")
    all_of_it = ("consume", "tabs", "--from-beginning", "-e", "-K")
    assert ottla(*all_of_it, *at).out == "key\tvalue\n"
    assert ottla(*all_of_it, "-k", "\\\\", *at).out == "key\\value\n"


def test_the_last_answer_is_told_when_the_time_is_over(ottla: Ottla, brokers: Brokers) -> None:
    at = ("-b", brokers(settings={"min.insync.replicas": 2}).bootstrap, "--timeout-ms", "1000")
    error = ottla("produce", "few", *at, stdin=b"x\n", code=1).err
    assert "not delivered within 1,000 ms; the last answer was NOT_ENOUGH_REPLICAS" in error


def test_the_command_config_names_the_cluster(
    ottla: Ottla, broker: Broker, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"bootstrap.servers={broker.bootstrap}\nacks=all\n")
    ottla("topic", "create", "there", "--command-config", str(config))
    assert ottla("topic", "list", "--command-config", str(config)).out == "there\n"
    assert ottla("topic", "list", "-b", f"127.0.0.1:{free_port}", "--command-config", str(config), code=1).err
    monkeypatch.setenv("OTTLA_COMMAND_CONFIG", str(config))
    assert ottla("topic", "list").out == "there\n"


def test_addresses_have_the_schemes_of_listeners(
    ottla: Ottla, broker: Broker, tmp_path: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = f"SASL_SSL://[::1]:{free_port},PLAINTEXT://{broker.bootstrap}"
    ottla("topic", "create", "there", "-b", servers)
    config = tmp_path / "client.properties"
    config.write_text(f"bootstrap.servers={servers}\n")
    assert ottla("topic", "list", "--command-config", str(config)).out == "there\n"
    assert "✓ protocol" in ottla("doctor", f"PLAINTEXT://{broker.bootstrap}", code=1).out  # records are kept for ever
    props = ("--producer-props", f"bootstrap.servers={servers}")
    assert "sent" in ottla("bench", "produce", "--topic", "there", "--num-records", "1", *props).out
    monkeypatch.setenv("OTTLA_BOOTSTRAP", servers)
    assert ottla("topic", "list").out == "there\n"


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("security.protocl=SSL", "security.protocol"),
        ("securty.protocol=SSL", "security.protocol"),
        ("ssl.trustore.location=/x", "ssl.truststore.location"),
        ("sasl.jaas.confg=x", "sasl.jaas.config"),
        ("bootstrap.server=h:1", "bootstrap.servers"),
    ],
)
def test_misspelt_names_in_the_command_config(ottla: Ottla, tmp_path: Path, line: str, known: str) -> None:
    config = tmp_path / "client.properties"
    config.write_text(line)
    assert f"did you mean '{known}'?" in ottla("topic", "list", "--command-config", str(config), code=2).err


def test_what_is_no_broker_is_told(ottla: Ottla) -> None:
    assert "leave http:// out" in ottla("topic", "list", "-b", "http://127.0.0.1:9092", code=2).err
    with socket.create_server(("127.0.0.1", 0)) as web:
        address = f"127.0.0.1:{web.getsockname()[1]}"
        assert f"`ottla doctor {address}`" in ottla("topic", "list", "-b", address, "--timeout-ms", "300", code=1).err


def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python refuses to start one, alone and inside a group of trio's."""

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "_start_new_thread", refuse)

    async def in_a_nursery() -> None:
        async with trio.open_nursery():
            threading.Thread(target=print).start()

    with pytest.raises(click.ClickException) as alone, explained("cannot start the broker"):
        threading.Thread(target=print).start()
    with pytest.raises(click.ClickException) as grouped, explained("cannot start the broker"):
        trio.run(in_a_nursery)
    assert alone.value.message == grouped.value.message
    assert alone.value.message.startswith("cannot start the broker: the system gives no more threads: ")
    # Another mistake of ours keeps its traceback.
    with pytest.raises(RuntimeError, match="another"), explained("cannot start the broker"):
        raise RuntimeError("another")
