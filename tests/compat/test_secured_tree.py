"""Trees with `zookeeper.set.acl=true`: what is open and what is not is the same in Kafka's and in ours, and either
broker serves what the other has made.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from ottla.coordination.digest_md5 import User
from ottla.coordination.login import Login
from tests.peers.apache import Apache, Kafka
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.secured_zookeeper import PASSWORD, USER, SecuredZooKeeper, client
from tests.support.node_rules import Rules, rules
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.clients]
VERSION = "2.7.2"
SETTINGS = {
    "zookeeper.set.acl": "true",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
#: Kafka 2.8's and later, which a broker of ours has ready.
OURS_ALONE = {"/config/ips"}


class Cluster(NamedTuple):
    """A chroot, and the directory and port of the broker that is in it: Kafka's, ours, or one after the other."""

    apache: Apache
    brokers: Brokers
    secured: SecuredZooKeeper
    name: str
    port: int

    @property
    def place(self) -> str:
        return f"{self.secured.place}/{self.name}"

    @property
    def folder(self) -> Path:
        return self.secured.folder / self.name

    def theirs(self, broker_id: int = 1) -> Kafka:
        """One with the same id has the same port and logs."""
        folder = self.folder if broker_id == 1 else self.folder / str(broker_id)
        settings = {**SETTINGS, "log.dirs": folder / "logs"}
        return self.apache.broker(
            VERSION,
            zookeeper=self.place,
            directory=folder,
            broker_id=broker_id,
            port=self.port if broker_id == 1 else None,
            settings=settings,
            java_options=self.secured.java_options,
        )

    def ours(self, **changes: object) -> Broker:
        return self.brokers(
            data=self.folder / "logs",
            broker_id=1,
            zookeeper=self.place,
            port=self.port,
            settings={**SETTINGS, **changes},
            environment={"KAFKA_OPTS": self.secured.java_options},
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cluster]]:
    folder = tmp_path_factory.mktemp("secured-tree")
    with Apache(folder) as apache, Brokers(folder) as brokers:
        secured = SecuredZooKeeper(apache, folder)
        yield lambda name: Cluster(apache, brokers, secured, name, free_port())


def converse(port: int, name: str) -> None:
    """Has everything written into the tree that clients have brokers write."""
    bootstrap = {"bootstrap.servers": f"127.0.0.1:{port}"}
    admin = AdminClient(bootstrap)
    for answer in admin.create_topics([NewTopic(name, 2, 1), NewTopic(f"{name}-gone", 1, 1)]).values():
        answer.result(PATIENCE_S)
    for resource in (
        ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[changed("retention.ms", "-1")]),
        ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[changed("log.cleaner.threads", "2")]),
    ):
        admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion(name, scram, b"secret")
    admin.alter_user_scram_credentials([user])[name].result(PATIENCE_S)
    for pattern in ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED:
        rule = AclBinding(
            *(ResourceType.TOPIC, name, pattern, f"User:{name}", "*", AclOperation.READ, AclPermissionType.ALLOW)
        )
        admin.create_acls([rule])[rule].result(PATIENCE_S)
    producer = Producer({**bootstrap, "enable.idempotence": True})
    producer.produce(name, b"record", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**bootstrap, "group.id": f"group-{name}"})
    consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    consumer.close()
    admin.delete_topics([f"{name}-gone"])[f"{name}-gone"].result(PATIENCE_S)
    eventually("the topic is gone", lambda: f"{name}-gone" not in admin.list_topics(timeout=PATIENCE_S).topics)


def changed(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def seen(place: str) -> dict[str, Rules]:
    """The rules of each node, as its owner sees them."""
    owner = KazooClient(place)
    Login(User(USER, PASSWORD, "here")).attach(owner)
    owner.start(PATIENCE_S)
    try:
        return rules(owner, USER)
    finally:
        owner.stop()
        owner.close()


def test_rules_are_as_kafka_makes_them(cluster: Callable[[str], Cluster]) -> None:
    theirs, ours = cluster("theirs"), cluster("ours")
    kafka, broker = theirs.theirs(), ours.ours()
    for port in theirs.port, ours.port:
        converse(port, "t")
    made = {path: rule for path, rule in seen(ours.place).items() if path not in OURS_ALONE}
    assert made == seen(theirs.place)
    for path in "/config/users/t", "/config/brokers/1", "/kafka-acl-extended/prefixed/Topic/t", "/brokers/ids/1":
        assert path in made
    assert broker.stop() == 0
    kafka.stop()


def test_either_broker_serves_the_others_tree(cluster: Callable[[str], Cluster]) -> None:
    place = cluster("both")
    kafka = place.theirs()
    converse(place.port, "kafka")
    kafka.stop()
    broker = place.ours()
    converse(place.port, "ottla")
    assert broker.stop() == 0
    kafka = place.theirs()
    converse(place.port, "again")
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{place.port}"})
    assert {"kafka", "ottla", "again"} <= set(admin.list_topics(timeout=PATIENCE_S).topics)
    assert set(admin.describe_user_scram_credentials().result(PATIENCE_S)) == {"kafka", "ottla", "again"}
    kafka.stop()


def test_brokers_of_both_kinds_are_one_cluster(cluster: Callable[[str], Cluster], tmp_path: Path) -> None:
    """A partition is moved from ours to Kafka's, by a tool that writes into the tree itself."""
    place = cluster("mixed")
    broker, kafka = place.ours(), place.theirs(2)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{place.port}"})
    admin.create_topics([NewTopic("moved", replica_assignment=[[1, 2]], num_partitions=1)])["moved"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{kafka.port}", "acks": "all"})
    producer.produce("moved", b"record")
    assert producer.flush(PATIENCE_S) == 0
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [2]}]}')
    arguments = ("--zookeeper", place.place, "--reassignment-json-file", str(plan), "--execute")
    place.apache.tool(VERSION, "reassign-partitions", *arguments, java_options=place.secured.java_options)

    def replicas() -> list[int]:
        partition = admin.list_topics("moved", PATIENCE_S).topics["moved"].partitions[0]
        return list(partition.replicas) if partition.leader == 2 else []

    eventually("the partition is Kafka's", lambda: replicas() == [2])
    made = seen(place.place)
    assert {path for path, rule in made.items() if ("world", 31) in rule} == {"/consumers"}
    assert made["/brokers/ids/1"] == made["/brokers/ids/2"]
    kafka.stop()
    assert broker.stop() == 0


def test_kafkas_tool_closes_and_opens_our_tree(cluster: Callable[[str], Cluster]) -> None:
    """`zookeeper-security-migration`, while our broker runs."""
    place = cluster("migrated")
    broker = place.ours(**{"zookeeper.set.acl": "false"})
    converse(place.port, "open")
    everybody = frozenset({("world", 31)})
    assert set(seen(place.place).values()) == {everybody}
    for way in "secure", "unsecure":
        tool = "kafka.admin.ZkSecurityMigrator"
        arguments = ("--zookeeper.acl", way, "--zookeeper.connect", place.place)
        place.apache.tool(VERSION, tool, *arguments, java_options=place.secured.java_options)
        closed = {path for path, rule in seen(place.place).items() if rule != everybody}
        left = {path for path in seen(place.place) if path not in closed}
        assert not closed if way == "unsecure" else left == {"/consumers", "/feature"}
        converse(place.port, way)
        if way == "secure":
            assert broker.stop() == 0
            broker = place.ours()
            converse(place.port, "restarted")
    assert broker.stop() == 0


def test_nobody_reads_secrets_and_everybody_reads_topics(cluster: Callable[[str], Cluster]) -> None:
    place = cluster("read")
    broker = place.ours()
    nobody = client(place.place)
    try:
        assert nobody.get_children("/brokers/topics") == []
        for path in "/config/users", "/config/brokers":
            with pytest.raises(NoAuthError):
                nobody.get_children(path)
        for path in "/brokers/topics", "/config/users", "/controller", "/kafka-acl/Topic":
            with pytest.raises(NoAuthError):
                nobody.create(f"{path}/mine")
    finally:
        nobody.stop()
        nobody.close()
    assert broker.stop() == 0
