"""A secured broker in one command."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path
from typing import Any

import click
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from ottla.cli._dev_security import DevSecurity
from ottla.config import BrokerConfig, properties
from tests.cli.conftest import Ottla
from tests.peers.apache import tool
from tests.peers.ottla import Broker, Brokers
from tests.support import shown
from tests.support.readme import block
from tests.support.tls import shown as certificate_of
from tests.support.waiting import PATIENCE_S, eventually


def started(brokers: Brokers, data: Path, **others: Any) -> Broker:
    return brokers(data=data, arguments=("--dev-security",), **others)


def read(file: Path) -> dict[str, Any]:
    return {entry.key: entry.value for entry in properties.read(file)}


def _is_refused(client: AdminClient, errors: list[confluent_kafka.KafkaError]) -> bool:
    client.poll(0.1)
    return bool(errors)


@pytest.mark.clients
def test_clients_with_the_file_come_in_and_others_do_not(brokers: Brokers, ottla: Ottla, tmp_path: Path) -> None:
    broker = started(brokers, tmp_path / "data")
    folder = tmp_path / "data-security"
    given = read(folder / "librdkafka.conf")
    assert given["bootstrap.servers"] == broker.bootstrap
    failed: list[object] = []
    producer = confluent_kafka.Producer(given)
    producer.produce("orders", b"value", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []
    consumer = confluent_kafka.Consumer({**given, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = eventually("the record comes", lambda: consumer.poll(0.2))
    assert message is not None
    assert message.value() == b"value"
    consumer.close()
    with_file = ("--command-config", str(folder / "client.properties"), "-b", broker.bootstrap)
    assert "orders" in ottla("topic", "list", *with_file).out
    for wrong in ({"bootstrap.servers": broker.bootstrap}, {**given, "sasl.password": "another"}):
        errors: list[confluent_kafka.KafkaError] = []
        settings: dict[str, Any] = {**wrong, "error_cb": errors.append}
        stranger = AdminClient(settings)
        eventually("it is refused", partial(_is_refused, stranger, errors))
        with pytest.raises(confluent_kafka.KafkaException):
            stranger.list_topics(timeout=1)


def test_the_page(brokers: Brokers, ottla: Ottla, tmp_path: Path) -> None:
    (serve,) = shown.typed(block("sh", "ottla serve --dev-security\n", "docs/security.md"))
    broker = brokers(data=tmp_path / "data", arguments=tuple(serve[1:]))
    (create,) = shown.typed(block("sh", "ottla topic create orders", "docs/security.md"))
    file = create.index("--command-config") + 1
    create[file] = str(tmp_path / create[file])
    create[create.index("-b") + 1] = broker.bootstrap
    assert "orders" in ottla(*create).out


@pytest.mark.java
def test_kafkas_own_tools_take_the_file(brokers: Brokers, tmp_path: Path) -> None:
    broker = started(brokers, tmp_path / "data")
    given = ("--bootstrap-server", broker.bootstrap, "--topic", "orders")
    file = str(tmp_path / "data-security" / "client.properties")
    tool("2.7.2", "topics", *given, "--create", "--command-config", file)
    tool("2.7.2", "console-producer", *given, "--producer.config", file, stdin="value\n")
    read = ("--consumer.config", file, "--from-beginning", "--max-messages", "1")
    assert tool("2.7.2", "console-consumer", *given, *read) == "value\n"


def test_secrets_are_for_their_owner_alone(brokers: Brokers, tmp_path: Path) -> None:
    broker = started(brokers, tmp_path / "data")
    folder = tmp_path / "data-security"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    secret = {"admin.password", "authority.key", "broker.pem", "client.properties", "librdkafka.conf"}
    assert {name for name, mode in modes.items() if mode == 0o600} >= secret
    assert modes.keys() == {*secret, "authority.pem"}
    assert (folder / "admin.password").read_text().strip() not in broker.log.read_text()


def test_other_users_have_no_rights(brokers: Brokers, ottla: Ottla, tmp_path: Path) -> None:
    broker = started(brokers, tmp_path / "data")
    own = tmp_path / "data-security" / "client.properties"
    (tmp_path / "bob.password").write_text("bob's password\n")
    given = ("--command-config", str(own), "-b", broker.bootstrap)
    ottla("user", "add", "bob", "--password-file", str(tmp_path / "bob.password"), *given)
    password = read(tmp_path / "data-security" / "librdkafka.conf")["sasl.password"]
    bobs = tmp_path / "bob.properties"
    bobs.write_text(own.read_text().replace('"admin"', '"bob"').replace(f'"{password}"', '"bob\'s password"'))
    ottla("topic", "create", "orders", *given)
    said = ottla("topic", "create", "bills", "--command-config", str(bobs), "-b", broker.bootstrap, code=1).err
    assert "authoriz" in said


def test_a_second_start_uses_the_same(brokers: Brokers, tmp_path: Path) -> None:
    broker = started(brokers, tmp_path / "data")
    folder = tmp_path / "data-security"
    names = ("authority.pem", "authority.key", "admin.password", "broker.pem", "client.properties")
    before = {name: (folder / name).read_bytes() for name in names}
    certificate = certificate_of(broker.port)
    broker.stop()
    again = brokers.restart(broker, arguments=("--dev-security",))
    assert {name: (folder / name).read_bytes() for name in names} == before
    assert certificate_of(again.port) == certificate


def test_another_host_gets_a_certificate_of_the_same_authority(brokers: Brokers, tmp_path: Path, ottla: Ottla) -> None:
    broker = started(brokers, tmp_path / "data")
    folder = tmp_path / "data-security"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    broker.stop()
    other = started(brokers, tmp_path / "data", host="127.0.0.2")
    assert (folder / "broker.pem").read_bytes() != before["broker.pem"]
    assert (folder / "authority.pem").read_bytes() == before["authority.pem"]
    ottla("topic", "list", "--command-config", str(folder / "client.properties"), "-b", other.bootstrap)


def test_a_directory_that_has_lost_its_tree_gets_no_new_one(tmp_path: Path) -> None:
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    with pytest.raises(click.UsageError, match="has folders of topics and no tree"):
        DevSecurity(BrokerConfig.load(None, {"log.dirs": str(tmp_path / "data")}))
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "orders-0"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--zookeeper", "127.0.0.1:1"), "is for a broker without ZooKeeper"),
        (("--listen", "0.0.0.0:0"), "name one with --listen HOST:PORT"),
        (("--set", "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"), "makes the one listener"),
        (("--set", "sasl.enabled.mechanisms=PLAIN"), "sets sasl.enabled.mechanisms itself"),
    ],
)
def test_settings_that_it_cannot_add_to(ottla: Ottla, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    map_ = ("--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT")
    data = tmp_path / "data"
    assert said in ottla("serve", "--data-dir", str(data), "--dev-security", *map_, *arguments, code=2).err
    assert list(tmp_path.iterdir()) == []
