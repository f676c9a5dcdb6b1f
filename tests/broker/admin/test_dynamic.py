"""Settings of the broker that take effect while it runs, for one broker and for all, and log levels."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from ottla.broker.broker import Broker as InProcess
from ottla.config import BrokerConfig
from ottla.config.dynamic import changed, usable
from ottla.replication.following import Following
from ottla.wire.k03_metadata import METADATA, MetadataRequest
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k33_alter_configs import ALTER_CONFIGS, AlterableConfig, AlterConfigsRequest
from ottla.wire.k33_alter_configs import AlterConfigsResource as AlterResource
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.support.client import Client, batch, connect
from tests.support.directories import produced
from tests.support.settings import APPEND, BROKER, BROKER_LOGGER, DELETE, SET, alter
from tests.support.waiting import PATIENCE_S, eventually

INVALID_REQUEST = 42


@pytest.fixture
def shared_broker(brokers: Brokers) -> Iterator[Broker]:
    """Of its own: a test leaves settings behind."""
    return brokers()


def describe(client: Client, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (row,) = client.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[resource])).results
    assert row.error_code == 0, row.error_message
    return {config.name: (config.value, config.config_source) for config in row.configs}


def large(client: Client, topic: str) -> int:
    ((row,),) = [row.partitions for row in client.produce(topic, batch(b"x" * 5000)).responses]
    return row.error_code


def test_defaults_of_topics_reach_their_logs_and_partitions(client: Client, shared_broker: Broker) -> None:
    client.create("plain")
    client.create("own", max_message_bytes="9000")
    assert alter(client, "message.max.bytes", "2000") == (0, None)
    eventually("the limit", lambda: large(client, "plain") == 10)
    assert large(client, "own") == 0
    # This broker's own setting is stronger than that of all.
    assert alter(client, "message.max.bytes", "8000", broker=str(shared_broker.id)) == (0, None)
    eventually("the other limit", lambda: large(client, "plain") == 0)
    assert alter(client, "message.max.bytes", None, broker=str(shared_broker.id)) == (0, None)
    eventually("the first limit", lambda: large(client, "plain") == 10)
    assert alter(client, "message.max.bytes", None) == (0, None)
    eventually("none", lambda: large(client, "plain") == 0)

    assert alter(client, "min.insync.replicas", "2") == (0, None)
    eventually("too few replicas", lambda: produced(client, "plain", 0) == 19)


@pytest.mark.trio
async def test_the_number_of_fetchers_reaches_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetchers' part is in tests/replication/test_following.py."""
    told = trio.Event()
    monkeypatch.setattr(Following, "fetchers_changed", lambda self: told.set())

    def change(port: int) -> None:
        with Client.connect("127.0.0.1", port, "test") as client:
            assert alter(client, "num.replica.fetchers", "2") == (0, None)

    config = BrokerConfig({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
    async with InProcess.start(config) as broker:
        await trio.to_thread.run_sync(change, broker.addresses.listening[0].port)
        with trio.fail_after(PATIENCE_S):
            await told.wait()


def test_limits_of_connections(client: Client, shared_broker: Broker) -> None:
    def is_refused() -> bool:
        with socket.create_connection(("127.0.0.1", shared_broker.port), timeout=PATIENCE_S) as other:
            other.settimeout(0.2)
            try:
                return other.recv(1) == b""
            except TimeoutError:
                return False

    assert not is_refused()
    assert alter(client, "max.connections.per.ip", "1") == (0, None)
    eventually("the limit", is_refused)
    assert alter(client, "max.connections.per.ip.overrides", "127.0.0.1:100") == (0, None)
    eventually("the exception", lambda: not is_refused())


def test_what_a_running_broker_does_not_take(client: Client, shared_broker: Broker) -> None:
    own = str(shared_broker.id)
    for name, value, broker, words in (
        ("num.io.threads", "17", "", "halved or doubled"),
        ("num.io.threads", "3", own, "halved or doubled"),
        ("log.cleaner.threads", "0", "", "at least 1"),
        ("num.partitions", "3", "", "restart"),
        ("advertised.listeners", "PLAINTEXT://x:1", "", "name the broker"),
        ("listeners", "PLAINTEXT://127.0.0.1:1", own, "keeps its address"),
        ("listeners", "OTHER://127.0.0.1:1", own, "listener.security.protocol.map"),
        ("listener.name.x.ssl.keystore.password", "secret", own, "password.encoder.secret"),
        ("log.retention.ms", "soon", "", "log.retention.ms"),
    ):
        code, message = alter(client, name, value, broker=broker)
        assert (code, words in (message or "")) == (INVALID_REQUEST, True), (name, code, message)
    for threads in ("16", "8", "4"):
        assert alter(client, "num.io.threads", threads) == (0, None)
        eventually("it", lambda threads=threads: describe(client, BROKER, own)["num.io.threads"] == (threads, 3))  # type: ignore[misc]


def test_advertised_addresses_change_for_clients_and_in_the_tree(client: Client, shared_broker: Broker) -> None:
    own = str(shared_broker.id)
    assert alter(client, "advertised.listeners", "PLAINTEXT://elsewhere.example:1234", broker=own) == (0, None)
    seen = lambda: {(row.host, row.port) for row in client.call(METADATA, MetadataRequest(topics=[])).brokers}  # noqa: E731
    eventually("the new address", lambda: seen() == {("elsewhere.example", 1234)})
    # The controller reaches this broker no more, but what it knew stays.
    assert alter(client, "advertised.listeners", None, broker=own) == (0, None)
    eventually("the old address", lambda: seen() == {("127.0.0.1", shared_broker.port)})
    client.create("after")


def test_listeners_open_and_close_while_the_broker_runs(brokers: Brokers) -> None:
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,THIRD:PLAINTEXT"}
    broker = brokers(settings=protocols)
    own, port, taken = str(broker.id), free_port(), free_port()
    with socket.create_server(("127.0.0.1", taken)), connect(broker) as client:
        listeners = f"PLAINTEXT://127.0.0.1:{broker.port},SECOND://127.0.0.1:{port},THIRD://127.0.0.1:{taken}"
        assert alter(client, "listeners", listeners, broker=own) == (0, None)
        eventually("the new listener", lambda: is_open(port))
        assert alter(client, "listener.name.second.max.connections", "1", broker=own) == (0, None)
        with Client.connect("127.0.0.1", port, "new") as second:
            told = second.call(METADATA, MetadataRequest(topics=[])).brokers
            assert [(row.host, row.port) for row in told] == [("127.0.0.1", port)]
            # What is closed lets its clients go when they are answered: this one closes what it came through.
            assert alter(second, "listeners", None, broker=own) == (0, None)
            eventually("its end", lambda: not is_answered(second))
        eventually("the end of it", lambda: not is_open(port))
        assert [row.port for row in client.call(METADATA, MetadataRequest(topics=[])).brokers] == [broker.port]
        with connect(broker) as another:
            another.create("after")
    # Its port was taken, which harmed nobody else.
    eventually("a line about the third", lambda: "listener THIRD" in broker.output(), facts=broker.output)


def is_answered(client: Client) -> bool:
    try:
        client.call(METADATA, MetadataRequest(topics=[]))
    except (OSError, EOFError):
        return False
    return True


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_log_levels(client: Client, shared_broker: Broker) -> None:
    own, logger = str(shared_broker.id), "ottla.requests"
    before = describe(client, BROKER_LOGGER, own)
    assert before["root"] == before[logger] == ("INFO", 6)
    assert alter(client, logger, "DEBUG", kind=BROKER_LOGGER, broker=own) == (0, None)
    assert alter(client, "root", "WARN", kind=BROKER_LOGGER, broker=own) == (0, None)
    after = describe(client, BROKER_LOGGER, own)
    assert (after["root"][0], after[logger][0], after["ottla.broker"][0]) == ("WARN", "DEBUG", "WARN")
    assert alter(client, logger, None, kind=BROKER_LOGGER, broker=own) == (0, None)
    assert describe(client, BROKER_LOGGER, own)[logger][0] == "WARN"
    for name, value, operation in (
        ("nobody", "INFO", SET),
        (logger, "LOUD", SET),
        (logger, "INFO", APPEND),
        ("root", None, DELETE),
    ):
        code, message = alter(client, name, value, kind=BROKER_LOGGER, broker=own, operation=operation)
        assert (code, bool(message)) == (INVALID_REQUEST, True), name
    resource = AlterResource(resource_type=BROKER_LOGGER, resource_name=own, configs=[])
    (row,) = client.call(ALTER_CONFIGS, AlterConfigsRequest(resources=[resource])).responses
    assert row.error_code == INVALID_REQUEST


def test_they_hold_after_a_restart(brokers: Brokers, shared_broker: Broker) -> None:
    with connect(shared_broker) as client:
        client.create("t")
        assert alter(client, "message.max.bytes", "2000") == (0, None)
    shared_broker.stop()
    with connect(brokers.restart(shared_broker)) as client:
        assert large(client, "t") == 10


@pytest.mark.parametrize("is_one", [True, False], ids=["one", "all"])
def test_a_name_that_is_no_setting_is_kept_and_has_no_effect(
    client: Client, brokers: Brokers, shared_broker: Broker, is_one: bool
) -> None:
    """As in Kafka, for plugins and tools: only what a setting of Kafka's needs a restart for is refused. Its value may
    be a secret, and is not told.
    """
    own = str(shared_broker.id)
    broker, source = (own, 2) if is_one else ("", 3)

    def shown(name: str = "my.own.thing") -> tuple[str | None, int] | None:
        return describe(client, BROKER, broker).get(name)

    assert alter(client, "my.own.thing", "5", broker=broker) == (0, None)
    eventually("it is there", lambda: shown() == (None, source))
    assert alter(client, "log.retention.ms", "123", broker=broker) == (0, None)
    eventually("both are there", lambda: shown("log.retention.ms") == ("123", source))
    assert shown() == (None, source)
    row = AlterResource(
        resource_type=BROKER, resource_name=broker, configs=[AlterableConfig(name="its.own", value="6")]
    )
    assert client.call(ALTER_CONFIGS, AlterConfigsRequest(resources=[row])).responses[0].error_code == 0
    eventually("in its place", lambda: (shown(), shown("its.own")) == (None, (None, source)))
    assert alter(client, "its.own", None, broker=broker) == (0, None)
    eventually("it is gone", lambda: shown("its.own") is None)
    assert alter(client, "broker.id", "5", broker=broker)[0] == INVALID_REQUEST
    # Kafka encodes what is called like a password, and has no secret here.
    assert alter(client, "my.ssl.key.password", "5", broker=broker)[0] == INVALID_REQUEST
    of_listener = alter(client, "listener.name.plaintext.my.own", "5", broker=broker)[0]
    assert of_listener == (0 if is_one else INVALID_REQUEST)


def test_one_stored_setting_that_is_wrong_does_not_keep_the_others_away() -> None:
    stored = {"log.retention.ms": "1000", "message.max.bytes": "much", "num.partitions": "3", "no.such": "x"}
    kept, problems = usable(stored, for_one_broker=False)
    assert kept == {"log.retention.ms": "1000", "no.such": "x"}
    assert [problem.name for problem in problems] == ["message.max.bytes", "num.partitions"]
    old = BrokerConfig({"log.retention.ms": "1000"})
    assert changed(old, old.with_dynamic({}, kept)) == set()
    assert changed(old, old.with_dynamic({"log.retention.ms": "5"}, kept)) == {"log.retention.ms"}
