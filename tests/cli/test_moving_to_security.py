"""The page that moves a running cluster to TLS, users and rules, followed step by step while clients write and read."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.config import properties
from tests.cli.conftest import Ottla
from tests.metrics.scraped import scrape
from tests.peers.apache import Apache
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.processes import Server, ask
from tests.support import shown
from tests.support.load import Load
from tests.support.readme import block
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper, pytest.mark.clients]

NUMBERS, PARTITIONS = (1, 2, 3), 3
#: The broker that is one of Kafka, where one is.
OF_KAFKA = 3
ORDERS: dict[str, Any] = {"topic": "orders", "group": "billing", "partitions": PARTITIONS}
#: Of every broker, whatever the step.
OF_ALL: dict[str, object] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": False,
}


class Moving:
    """Three brokers, and the reader of the page, who has its files in one folder. With `apache`, the third broker is
    one of Kafka 2.7.2.
    """

    def __init__(
        self, brokers: Brokers, zookeeper: str, folder: Path, ottla: Ottla, apache: Apache | None = None
    ) -> None:
        self.folder, self._brokers, self._zookeeper, self._ottla = folder, brokers, zookeeper, ottla
        self._apache = apache
        self.places = {"127.0.0.1:2181": zookeeper}
        self.metrics = {number: free_port() for number in NUMBERS if apache is None or number != OF_KAFKA}
        for number in NUMBERS:
            for shown_port in (9091 + number, 9191 + number):
                self.places[f"127.0.0.1:{shown_port}"] = f"127.0.0.1:{free_port()}"
        self._lines: dict[str, object] = {}
        self.running: dict[int, Server] = {}
        for user in ("broker", "admin", "shop"):
            self.put(f"{user}.password", f"{user}'s password\n")
        commands = block("sh", "openssl req -x509", "docs/tls.md")
        subprocess.run(["sh", "-ec", commands], cwd=folder, check=True, capture_output=True, timeout=PATIENCE_S)

    def start(self, content: str) -> None:
        """Starts all brokers with the lines of a block."""
        self._lines = self._read(content)
        self.running = {number: self._start(number) for number in NUMBERS}
        if self._apache is not None:
            eventually("all brokers are there", self.are_in_sync)

    def let_in_first(self) -> None:
        """Adds the users and the rules of the page, before a broker runs."""
        for user in ("broker", "admin", "shop"):
            file = str(self.folder / f"{user}.password")
            self._ottla("user", "add", user, "--password-file", file, "--zookeeper", self._zookeeper)
        self.type(block("sh", "--idempotent --topic orders", "docs/moving-to-security.md"))

    def create_by_admin(self) -> tuple[str, ...]:
        """Creates the topic at a broker that lets in users alone. Returns the options that name it and the user."""
        file = str(self.put("admin.properties", block("properties", 'username="admin"', "docs/moving-to-security.md")))
        by_admin = ("--command-config", file, "-b", self.here("127.0.0.1:9192"))
        self._ottla("topic", "create", "orders", "--partitions", str(PARTITIONS), "--replicas", "3", *by_admin)
        return by_admin

    def here(self, text: str) -> str:
        """A text of the page, with the ports and the folder of this test."""
        for name in ("broker.pem", "broker.p12", "authority.pem"):
            text = text.replace(f"={name}", f"={self.folder}/{name}")
        for before, after in self.places.items():
            text = text.replace(before, after)
        return text

    def put(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.write_text(self.here(content))
        return path

    def settings(self, content: str) -> dict[str, Any]:
        return {entry.key: entry.value for entry in properties.read(self.put("read.properties", content))}

    def type(self, commands: str) -> list[str]:
        """Runs them, and returns what each has printed."""
        files = {path.name: str(path) for path in self.folder.iterdir() if path.is_file()}
        return [
            self._ottla(*(files.get(argument, self.here(argument)) for argument in command)).out
            for command in shown.typed(commands)
        ]

    def round(self, content: str, *, is_whole: bool = False) -> None:
        """Restarts one broker after the other with the lines of a block, or with nothing else."""
        self._lines = {**({} if is_whole else self._lines), **self._read(content)}
        for number in NUMBERS:
            former = self.running[number]
            former.stop()
            self.running[number] = self._start(number, former.data if isinstance(former, Broker) else None)
            eventually("all replicas are in sync", self.are_in_sync, facts=lambda: self.under_replicated())

    def _read(self, content: str) -> dict[str, object]:
        """The lines of a block as they stand there, which are of the first broker."""
        path = self.folder / "of-the-page.properties"
        path.write_text(content)
        return {entry.key: entry.value for entry in properties.read(path)}

    def _start(self, number: int, data: Path | None = None) -> Server:
        is_kafka = number not in self.metrics
        lines = {**self._lines}
        if is_kafka and "ssl.keystore.type" in lines:
            lines |= self._read(block("properties", "ssl.keystore.type=PKCS12", "docs/moving-to-security.md"))
        given: dict[str, object] = {}
        for name, value in lines.items():
            text = str(value).replace(":9092", f":{9091 + number}").replace(":9192", f":{9191 + number}")
            given[name] = self.here(f"={text}")[1:]
        port = int(str(given["listeners"]).split(",")[0].rpartition(":")[2])
        settings = {**OF_ALL, **given}
        if is_kafka:
            assert self._apache is not None
            broker_id = {"broker_id": number, "port": port, "zookeeper": self._zookeeper}
            return self._apache.broker("2.7.2", settings=settings, wait=False, **broker_id)  # type: ignore[arg-type]
        settings = {"metrics.listener": f"127.0.0.1:{self.metrics[number]}", **settings}
        return self._brokers(broker_id=number, data=data, port=port, zookeeper=self._zookeeper, settings=settings)

    def under_replicated(self) -> list[tuple[float | None, float | None]]:
        """Of each broker, and how many partitions it has."""
        pages = [scrape(port) for port in self.metrics.values()]
        kind = "kafka_server_replicamanager_"
        return [(page(f"{kind}underreplicatedpartitions"), page(f"{kind}partitioncount")) for page in pages]

    def are_in_sync(self) -> bool:
        if self._apache is not None:
            return self._are_in_sync_by_clients()
        found = self.under_replicated()
        return all(row == (0, found[0][1]) and row[1] for row in found)

    def _are_in_sync_by_clients(self) -> bool:
        """Kafka's broker has no page of metrics, so a client asks, as `ottla cluster status` does."""
        is_ruled = "authorizer.class.name" in self._lines
        ports = (9192, 9193, 9194) if is_ruled else (9092, 9093, 9094)
        given: dict[str, Any] = {}
        if is_ruled:
            given = self.settings(block("properties", "sasl.username=shop", "docs/moving-to-security.md"))
            given |= {"sasl.username": "admin", "sasl.password": "admin's password"}
        given["bootstrap.servers"] = ",".join(self.here(f"127.0.0.1:{port}") for port in ports)
        found = AdminClient({**given, "log_level": 0}).list_topics(timeout=PATIENCE_S)
        partitions = [one for topic in found.topics.values() for one in topic.partitions.values()]
        return len(found.brokers) == len(NUMBERS) and all(len(one.isrs) == len(NUMBERS) for one in partitions)

    def on_plaintext(self) -> float:
        return sum(scrape(port)("ottla_connections", listener="PLAINTEXT") or 0 for port in self.metrics.values())

    def said(self, line: str) -> int:
        """How many of the brokers that run have such a line in their logs."""
        return sum(line in broker.log.read_text() for broker in self.running.values())

    def logs(self) -> str:
        """Those of Ottla's brokers."""
        return "".join(path.read_text() for path in self._brokers.directory.glob("ottla-*.log"))


def test_a_running_cluster_is_moved(brokers: Brokers, zookeeper: str, tmp_path: Path, ottla: Ottla) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    is_moved(Moving(brokers, zookeeper, folder, ottla))


@pytest.mark.judge
def test_a_cluster_with_a_broker_of_kafka_is_moved(brokers: Brokers, tmp_path: Path, ottla: Ottla) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    with Apache(tmp_path / "kafka") as apache:
        moving = Moving(brokers, apache.zookeeper(), folder, ottla, apache)
        commands = block("sh", "openssl pkcs12 -export", "docs/moving-to-security.md")
        subprocess.run(["sh", "-ec", commands], cwd=folder, check=True, capture_output=True, timeout=PATIENCE_S)
        is_moved(moving)
        assert "is Denied" not in moving.running[OF_KAFKA].log.read_text()


def is_moved(moving: Moving) -> None:
    """Follows the page while records are written and read."""
    moving.start("listeners=PLAINTEXT://127.0.0.1:9092\n")
    plain = moving.here("127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094")
    admin = AdminClient({"bootstrap.servers": plain})
    admin.create_topics([NewTopic("orders", PARTITIONS, 3)])["orders"].result(PATIENCE_S)
    del admin
    load = Load({"bootstrap.servers": plain}, **ORDERS)
    load.goes_on()

    *_, listed = moving.type(block("sh", "ottla user add broker", "docs/moving-to-security.md"))
    assert [line.split()[0] for line in listed.splitlines()[1:]] == ["admin", "broker", "shop"]

    moving.round(block("properties", "listeners=PLAINTEXT://", "docs/moving-to-security.md"))
    load.goes_on()
    (status,) = moving.type(block("sh", "ottla cluster status -b", "docs/moving-to-security.md"))
    moving.put("admin.properties", block("properties", 'username="admin"', "docs/moving-to-security.md"))
    for said in (
        status,
        *moving.type(block("sh", "ottla cluster status --command-config", "docs/moving-to-security.md")),
    ):
        assert " 0 under-replicated" in said

    moving.round(block("properties", "names=PLAINTEXT,SASL_SSL\nsecurity.inter.broker", "docs/moving-to-security.md"))
    load.goes_on()

    load.move(moving.settings(block("properties", "sasl.username=shop", "docs/moving-to-security.md")))
    load.goes_on()
    eventually("nobody is left on PLAINTEXT", lambda: moving.on_plaintext() == 0, facts=moving.on_plaintext)

    moving.type(block("sh", "--idempotent --topic orders", "docs/moving-to-security.md"))
    moving.round(block("properties", "allow.everyone.if.no.acl.found=true", "docs/moving-to-security.md"))
    load.goes_on()
    _, *answers = moving.type(block("sh", "ottla acl why", "docs/moving-to-security.md"))
    assert [answer.split(":")[0] for answer in answers] == ["allowed", "allowed"]

    moving.round(block("properties", "listeners=SASL_SSL://", "docs/moving-to-security.md"), is_whole=True)
    load.goes_on()
    load.end()
    load.is_whole()
    for shown_port in (9092, 9093, 9094):
        assert ask(int(moving.here(f"127.0.0.1:{shown_port}").rpartition(":")[2]), b"") == b""
    assert "is for brokers, and taken on" not in moving.logs()
    assert "denied:" not in moving.logs()


@pytest.mark.soak
def test_every_round_is_taken_back(brokers: Brokers, zookeeper: str, tmp_path: Path, ottla: Ottla) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    moving = Moving(brokers, zookeeper, folder, ottla)
    moving.let_in_first()
    moving.start(block("properties", "listeners=SASL_SSL://", "docs/moving-to-security.md"))
    moving.create_by_admin()
    load = Load(moving.settings(block("properties", "sasl.username=shop", "docs/moving-to-security.md")), **ORDERS)
    load.goes_on()
    first = block("properties", "listeners=PLAINTEXT://", "docs/moving-to-security.md")
    second = first + block(
        "properties", "names=PLAINTEXT,SASL_SSL\nsecurity.inter.broker", "docs/moving-to-security.md"
    )
    third = second + block("properties", "allow.everyone.if.no.acl.found=true", "docs/moving-to-security.md")
    for content in (third, second):
        moving.round(content, is_whole=True)
        load.goes_on()
    load.move({"bootstrap.servers": moving.here("127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094")})
    load.goes_on()
    for content in (first, "listeners=PLAINTEXT://127.0.0.1:9092\n"):
        moving.round(content, is_whole=True)
        load.goes_on()
    load.end()
    load.is_whole()
    assert "is for brokers, and taken on" not in moving.logs()


def test_keys_and_passwords_are_renewed(brokers: Brokers, zookeeper: str, tmp_path: Path, ottla: Ottla) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    moving = Moving(brokers, zookeeper, folder, ottla)
    moving.let_in_first()
    moving.start(block("properties", "listeners=SASL_SSL://", "docs/moving-to-security.md"))
    by_admin = moving.create_by_admin()
    given = block("properties", "sasl.username=shop", "docs/moving-to-security.md")
    load = Load(moving.settings(given), **ORDERS)
    load.goes_on()

    # Another authority: all trust both, have new certificates, and trust the new one alone.
    (next_folder := folder / "next").mkdir()
    commands = block("sh", "openssl req -x509", "docs/tls.md")
    subprocess.run(["sh", "-ec", commands], cwd=next_folder, check=True, capture_output=True, timeout=PATIENCE_S)
    former, following = ((each / "authority.pem").read_text() for each in (folder, next_folder))
    replace(folder / "authority.pem", former + following)
    trusted = "new connections to other brokers are secured as the settings and their files say now"
    eventually("brokers trust both", lambda: moving.said(trusted) == 3, facts=moving.logs)
    load.move(moving.settings(given))
    replace(folder / "broker.pem", (next_folder / "broker.pem").read_text())
    eventually("brokers have the new one", lambda: moving.said(": new connections get what ") == 3, facts=moving.logs)
    replace(folder / "authority.pem", following)
    load.move(moving.settings(given))
    load.goes_on()

    # Another password of the application.
    moving.put("shop.next", "shop's next password\n")
    moving.type(block("sh", "shop --mechanism scram-sha-256", "docs/moving-to-security.md"))
    load.goes_on()
    given = given.replace("SCRAM-SHA-512", "SCRAM-SHA-256").replace("shop's password", "shop's next password")
    load.move(moving.settings(given))
    moving.type(block("sh", "shop --mechanism scram-sha-512", "docs/moving-to-security.md"))
    load.goes_on()

    # Another password of the brokers.
    next_password = moving.put("broker.next", "broker's next password\n")
    of_broker = ("user", "add", "broker", "--password-file", str(next_password), *by_admin)
    ottla(*of_broker, "--mechanism", "scram-sha-256")
    moving.round(block("properties", "broker's next password", "docs/moving-to-security.md"))
    ottla(*of_broker, "--mechanism", "scram-sha-512")
    load.goes_on()
    load.end()
    load.is_whole()
    failed = "ottla_failed_authentication_total"
    assert [scrape(port)(failed, listener="SASL_SSL") for port in moving.metrics.values()] == [0, 0, 0]


def replace(path: Path, content: str) -> None:
    """Puts a new file in the place of the old one, which is never half there."""
    other = path.with_suffix(".new")
    other.write_text(content)
    other.rename(path)
