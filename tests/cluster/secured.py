"""A cluster of Kafka's brokers and Ottla's that lets in users alone, by TLS and with a password, and has rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.cimpl import KafkaException

from ottla.client import BlockingConnection, Security
from tests.broker.authorization.ruled import AUTHORIZER, PLAIN, Ruled
from tests.cluster.stand import LAG_MS, OTTLA, SESSION_MS, VERSIONS
from tests.peers.apache import Apache, tool
from tests.peers.certificates import certified
from tests.peers.ottla import Brokers
from tests.peers.ports import free_port
from tests.peers.processes import Server
from tests.support.tls import store
from tests.support.waiting import PATIENCE_S, eventually

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
#: The brokers and the administrator may do everything.
SUPER = ("broker", "admin")


@dataclass
class Member(Ruled):
    """A broker, as its users reach it. Its connections have TLS."""

    id: int
    kind: str
    trusted: Path
    mechanism: str
    server: Server | None = None

    @property
    def running(self) -> Server:
        assert self.server is not None
        return self.server

    def java(self, user: str) -> dict[str, str]:
        """The settings of a Java client."""
        module = PLAIN if self.mechanism == "PLAIN" else SCRAM
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{user} secret";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }

    def enter(self, user: str | None = None) -> BlockingConnection:
        security = Security.of(self.java(user or "admin"))
        return BlockingConnection.connect("127.0.0.1", self.sasl, security=security)


class SecuredCluster:
    """Brokers 1, 2, ... of these kinds. Each topic has one replica at each."""

    def __init__(
        self,
        apache: Apache,
        brokers: Brokers,
        folder: Path,
        kinds: Sequence[str],
        users: Sequence[str],
        mechanism: str = "PLAIN",
    ) -> None:
        self.folder, self.users, self.mechanism = folder, (*SUPER, *users), mechanism
        self._apache, self._brokers = apache, brokers
        self.authority = certified("authority")
        self.trusted = folder / "trusted.pem"
        self.trusted.write_text(self.authority.certificate_pem)
        self.zookeeper = apache.zookeeper()
        if mechanism != "PLAIN":
            for user in self.users:
                change = f"{mechanism}=[iterations=4096,password={user} secret]"
                names = ("--entity-type", "users", "--entity-name", user)
                tool("2.7.2", "configs", "--zookeeper", self.zookeeper, "--alter", "--add-config", change, *names)
        self.members = [
            Member(0, free_port(), number, kind, self.trusted, mechanism) for number, kind in enumerate(kinds, 1)
        ]

    def start(self, member: Member) -> None:
        """Starts a broker, and waits until all that run know it."""
        kind, server = member.kind, member.server
        given = self._settings(member, len(self.members))
        common: dict[str, Any] = {"broker_id": member.id, "port": member.sasl, "zookeeper": self.zookeeper}
        if kind == OTTLA:
            data = None if server is None else server.data  # type: ignore[attr-defined]
            member.server = self._brokers(data=data, settings=given, **common)
        else:
            member.server = self._apache.broker(VERSIONS[kind], settings=given, wait=False, **common)
        member.running.wait_until(lambda: _is_open(member))
        running = {one.id for one in self.members if one.server is not None and one.server.running}
        for one in self.members:
            if one.id in running:
                client = self.admin(one)
                eventually("all are known", lambda: known(client) >= running)  # noqa: B023

    def stop(self, member: Member) -> None:
        """SIGTERM: it hands on what it leads before it ends."""
        member.running.stop()

    def _settings(self, member: Member, count: int) -> dict[str, object]:
        module = PLAIN if self.mechanism == "PLAIN" else SCRAM
        all_users = " ".join(f'user_{user}="{user} secret"' for user in self.users) if module == PLAIN else ""
        newer = {} if member.kind in (OTTLA, "kafka") else {"inter.broker.protocol.version": "2.7"}
        return {
            "listeners": f"SASL_SSL://127.0.0.1:{member.sasl}",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": self.mechanism,
            "sasl.mechanism.inter.broker.protocol": self.mechanism,
            f"listener.name.sasl_ssl.{self.mechanism.lower()}.sasl.jaas.config": (
                f'{module} required username="broker" password="broker secret" {all_users};'
            ),
            **self._keys(member),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join(f"User:{user}" for user in SUPER),
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            "min.insync.replicas": max(1, count - 1),
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": count,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": count,
            "transaction.state.log.min.isr": 1,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "replica.lag.time.max.ms": LAG_MS,
            **newer,
        }

    def _keys(self, member: Member) -> dict[str, object]:
        """A key store. Kafka 2.7 takes no PEM whose key is not encrypted."""
        own = certified("broker", self.authority, ["127.0.0.1", "localhost"])
        path = self.folder / f"broker-{member.id}"
        if member.kind == OTTLA:
            return {"ssl.keystore.type": "PEM", "ssl.keystore.location": store(path, own)}
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": own.pkcs12(path, "store secret"),
            "ssl.keystore.password": "store secret",
            "ssl.key.password": "store secret",
        }

    def rdkafka(self, user: str, *members: Member) -> dict[str, Any]:
        """The settings of librdkafka, which comes to these brokers, or to all."""
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{one.sasl}" for one in members or self.members),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.trusted),
            "sasl.mechanism": self.mechanism,
            "sasl.username": user,
            "sasl.password": f"{user} secret",
        }

    def admin(self, *members: Member) -> AdminClient:
        return AdminClient({**self.rdkafka("admin", *members), "log_level": 0})

    def create(self, topic: str) -> None:
        """A partition for each broker to lead."""
        ids = [one.id for one in self.members]
        assignment = [ids[number:] + ids[:number] for number in range(len(ids))]
        made = NewTopic(topic, len(ids), replica_assignment=assignment)
        client = self.admin()
        client.create_topics([made])[topic].result(PATIENCE_S)

    def leaders(self, topic: str) -> list[int]:
        partitions = self.admin().list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return [partitions[number].leader for number in sorted(partitions)]

    def in_sync(self, *topics: str) -> bool:
        found = self.admin().list_topics(timeout=PATIENCE_S).topics
        partitions = [one for topic in topics for one in found[topic].partitions.values()]
        return all(len(one.isrs) == len(self.members) for one in partitions)

    def elect(self, topic: str) -> None:
        """Has the first replica of each partition lead again."""
        from confluent_kafka import ElectionType

        client = self.admin()
        wanted = [one.id for one in self.members]
        partitions = [TopicPartition(topic, number) for number in range(len(wanted))]

        def elected() -> bool:
            try:
                client.elect_leaders(ElectionType.PREFERRED, partitions).result(PATIENCE_S)
            except KafkaException:
                return False
            return self.leaders(topic) == wanted

        eventually("the first of each lead", elected, facts=lambda: self.leaders(topic))

    def controller(self) -> Member:
        number = self.admin().list_topics(timeout=PATIENCE_S).controller_id
        return next(one for one in self.members if one.id == number)


def known(client: AdminClient) -> set[int]:
    try:
        return set(client.list_topics(timeout=5).brokers)
    except KafkaException:
        return set()


def _is_open(member: Member) -> bool:
    try:
        member.enter("admin").close()
    except OSError:
        return False
    return True
