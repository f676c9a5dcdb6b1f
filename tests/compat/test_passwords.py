"""Passwords in the coordination tree, encoded by whoever wrote them: Kafka's tool, us, and Kafka's broker."""

import json

import pytest
from kazoo.client import KazooClient

from ottla.config.passwords import PasswordEncoder
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.k44_incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.peers.apache import Apache
from tests.peers.ottla import Brokers
from tests.support.client import Client, connect
from tests.support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]

PREFIX = "listener.name.external."
KEYSTORE, TRUSTSTORE, KEY = (PREFIX + f"ssl.{name}.password" for name in ("keystore", "truststore", "key"))
JAAS = PREFIX + "plain.sasl.jaas.config"
ENCODER = "password.encoder."
SECRET, OLD_SECRET = ENCODER + "secret", ENCODER + "old.secret"
FIRST, SECOND, THIRD = ({SECRET: f"the {name} secret"} for name in ("first", "second", "third"))
BROKER, DYNAMIC_BROKER = 4, 2


class Stored:
    """`/config/brokers/1`."""

    def __init__(self, zookeeper: str) -> None:
        self._zookeeper = zookeeper

    def __call__(self) -> dict[str, str]:
        client = KazooClient(self._zookeeper)
        client.start()
        try:
            return json.loads(client.get("/config/brokers/1")[0])["config"]
        finally:
            client.stop()
            client.close()

    def decoded(self, secret: dict[str, str]) -> dict[str, str]:
        return {name: PasswordEncoder(secret[SECRET]).decode(name, text) for name, text in self().items()}


def described(client: Client) -> dict[str, tuple[str | None, bool]]:
    """The settings that this broker was given while it ran: name to value and whether it is a secret."""
    asked = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    (row,) = client.call(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[asked])).results
    assert row.error_code == 0, row.error_message
    return {each.name: (each.value, each.is_sensitive) for each in row.configs if each.config_source == DYNAMIC_BROKER}


def alter(client: Client, **changes: str | None) -> int:
    configs = [
        AlterableConfig(name=PREFIX + name.replace("_", "."), config_operation=int(value is None), value=value)
        for name, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
    (row,) = client.call(INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest(resources=[resource])).responses
    return row.error_code


@pytest.mark.judge
def test_passwords_that_kafka_stored(kafka: Apache, zookeeper: str, brokers: Brokers) -> None:
    kafka_configs = ("2.7.2", "configs", "--zookeeper", zookeeper, "--entity-type", "brokers", "--entity-name", "1")
    tree = Stored(zookeeper)
    with_none = brokers(zookeeper=zookeeper, broker_id=1, settings=FIRST)  # makes the tree that the tool wants
    with_none.stop()
    kafka.tool(*kafka_configs, "--alter", "--add-config", f"{KEYSTORE}=of-keys,{SECRET}={FIRST[SECRET]}")
    other = (
        "password.encoder.cipher.algorithm=AES/GCM/NoPadding,password.encoder.keyfactory.algorithm=PBKDF2WithHmacSHA1"
    )
    kafka.tool(*kafka_configs, "--alter", "--add-config", f"{TRUSTSTORE}=of-trust,{SECRET}={FIRST[SECRET]},{other}")
    assert "GCM" in tree()[TRUSTSTORE]
    assert tree.decoded(FIRST) == {KEYSTORE: "of-keys", TRUSTSTORE: "of-trust"}

    without = brokers.restart(with_none, zookeeper=zookeeper)
    with connect(without) as client:
        assert described(client) == {}
        assert alter(client, ssl_key_password="x") == 42
        # What it cannot decode stays where it is.
        assert alter(client, max_connections="77") == 0
        eventually("the setting", lambda: described(client) == {PREFIX + "max.connections": ("77", False)})
        assert alter(client, max_connections=None) == 0
    without.stop()
    assert without.output_tail(1000).count("there is no password.encoder.secret to decode it with") >= 2
    assert tree.decoded(FIRST) == {KEYSTORE: "of-keys", TRUSTSTORE: "of-trust"}

    with_first = brokers.restart(with_none, zookeeper=zookeeper, settings=FIRST)
    with connect(with_first) as client:
        assert described(client) == {KEYSTORE: (None, True), TRUSTSTORE: (None, True)}
        jaas = {"plain_sasl_jaas_config": "org.example.Login required password=hush;"}
        assert alter(client, ssl_key_password="of-key", ssl_truststore_password=None, **jaas) == 0
        eventually("the passwords", lambda: described(client) == dict.fromkeys((KEYSTORE, KEY, JAAS), (None, True)))
    with_first.stop()
    passwords = {KEYSTORE: "of-keys", KEY: "of-key", JAAS: jaas["plain_sasl_jaas_config"]}
    assert tree.decoded(FIRST) == passwords

    # Another secret: what the old one decodes is encoded with the new one, by us and then by Kafka.
    changed = {**SECOND, OLD_SECRET: FIRST[SECRET]}
    with_second = brokers.restart(with_none, zookeeper=zookeeper, settings=changed)
    with connect(with_second) as client:
        assert described(client) == dict.fromkeys(passwords, (None, True))
    with_second.stop()
    assert tree.decoded(SECOND) == passwords
    for word in (*passwords.values(), "hush"):
        assert word not in with_first.output_tail(1000) + with_second.output_tail(1000)

    theirs = kafka.broker("2.7.2", zookeeper=zookeeper, settings={**THIRD, OLD_SECRET: SECOND[SECRET]})
    with connect(theirs) as client:
        assert described(client) == dict.fromkeys(passwords, (None, True))
    theirs.stop()
    assert tree.decoded(THIRD) == passwords
