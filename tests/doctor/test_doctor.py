"""`ottla doctor` against what it is for: brokers that are well, that lie, that are set up badly; and what is none."""

import http.server
import json
import os
import pty
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.coordination import znodes
from ottla.coordination.embedded import TREE_FILE, EmbeddedTree
from ottla.doctor import brokers as doctor_brokers
from ottla.doctor.brokers import Cluster
from ottla.doctor.examine import Options, examine
from ottla.doctor.findings import Finding, Level, Report
from ottla.doctor.partitions import check_absent, check_leaders, check_replicas
from ottla.doctor.settings import protocol
from ottla.wire.k03_metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.k45_alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.peers.apache import Apache
from tests.peers.disks import small_tmpfs
from tests.peers.ottla import Broker, Brokers
from tests.peers.ports import free_port
from tests.peers.processes import Server
from tests.support.client import Client, batch, connect
from tests.support.waiting import PATIENCE_S, eventually

#: How long Kafka keeps records. Brokers of other tests keep all, of which the doctor warns.
USUAL = {"log.retention.hours": 168}
PATIENT = Options(timeout_s=PATIENCE_S)


def look(port: int, options: Options = PATIENT, host: str = "127.0.0.1") -> Report:
    return trio.run(examine, host, port, options)


def of(report: Report, check: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.check == check]


def only(report: Report, check: str, level: Level) -> Finding:
    """The one finding of a check that is not ok."""
    (found,) = [finding for finding in of(report, check) if finding.level is not Level.OK]
    assert found.level is level, found
    assert found.todo
    return found


def trouble(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.level in (Level.WARNING, Level.PROBLEM)]


# --- brokers that are well ---


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Brokers(tmp_path_factory.mktemp("well"), settings=USUAL) as brokers:
        yield brokers()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, settings=USUAL) as factory:
        yield factory


CHECKS = [
    "port",
    "protocol",
    "versions",
    "controller",
    "disk",
    "partitions",
    "served",
    "brokers",
    "leaders",
    "internal topics",
    "settings",
    "topics",
    "throttles",
    "transactions",
    "groups",
    "clock",
]


def test_a_broker_that_is_well(well: Broker) -> None:
    report = look(well.port, Options(may_write=True))
    assert trouble(report) == []
    assert report.exit_code == 0
    assert sorted({*CHECKS, f"broker {well.id}"}) == sorted({finding.check for finding in report.findings})
    assert all(finding.level is Level.OK for finding in report.findings), report.findings
    listed = subprocess.run(
        [sys.executable, "-m", "ottla", "topic", "list", "-b", well.bootstrap],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (listed.returncode, "doctor" in listed.stdout) == (0, False)


def test_it_writes_nothing_unless_it_may(well: Broker) -> None:
    before = sorted(path.name for path in well.data.iterdir() if path.is_dir())
    report = look(well.port)
    assert [finding.level for finding in of(report, "clock")] == [Level.SKIPPED]
    assert sorted(path.name for path in well.data.iterdir() if path.is_dir()) == before


def test_the_command(well: Broker) -> None:
    command = [sys.executable, "-m", "ottla", "doctor", well.bootstrap]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "✓ controller" in plain.stdout
    told = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=PATIENCE_S)
    report = json.loads(told.stdout)
    assert (told.returncode, report["level"], report["target"]) == (0, "ok", well.bootstrap)
    assert {finding["check"] for finding in report["findings"]} >= set(CHECKS)
    bad = subprocess.run(
        [*command[:-1], f"127.0.0.1:{free_port()}"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (bad.returncode, "✗ port" in bad.stdout, "→" in bad.stdout) == (2, True, True)
    usage = subprocess.run([*command[:-1], "nonsense:x"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (usage.returncode, "HOST:PORT" in usage.stderr) == (2, True)


# --- what is no broker ---


def doctor(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "ottla", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, **environment},
    )


def test_the_addresses_are_given_as_to_all_commands(well: Broker, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"bootstrap.servers={well.bootstrap}\n")
    for done in (
        doctor("-b", well.bootstrap),
        doctor(OTTLA_BOOTSTRAP=well.bootstrap),
        doctor(well.bootstrap, OTTLA_BOOTSTRAP="127.0.0.1:1"),
        doctor("--command-config", str(config)),
    ):
        assert (done.returncode, done.stderr) == (0, "")
        assert "a Kafka broker answers" in done.stdout
    both = doctor("-b", f"127.0.0.1:{free_port()},{well.bootstrap}")
    assert both.returncode == 2
    assert "nobody listens" in both.stdout
    assert "✓ controller" in both.stdout
    assert "contradict" in doctor("a:1", "-b", "b:2").stderr


def test_security_that_the_port_does_not_have(well: Broker, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    done = doctor("-b", well.bootstrap, "--command-config", str(config))
    assert done.returncode == 2
    assert "without TLS" in done.stdout
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=a password=b;\n"
    )
    done = doctor("-b", well.bootstrap, "--command-config", str(config))
    assert done.returncode == 2
    assert "the broker does not take us" in done.stdout


def test_colours_only_where_they_are_wanted(well: Broker) -> None:
    def shown(**environment: str) -> bytes:
        end, other = pty.openpty()
        command = [sys.executable, "-m", "ottla", "doctor", well.bootstrap]
        with subprocess.Popen(command, stdout=other, stderr=other, env={**os.environ, **environment}) as process:
            os.close(other)
            output = b""
            with suppress(OSError):  # the end of a terminal
                while more := os.read(end, 65536):
                    output += more
            process.wait(PATIENCE_S)
        os.close(end)
        return output

    assert b"\x1b[" in shown(NO_COLOR="")
    assert b"\x1b[" not in shown(NO_COLOR="1")


def test_a_name_that_nobody_knows() -> None:
    report = look(9092, host="no-such-host.invalid")
    assert only(report, "name", Level.PROBLEM)
    assert report.exit_code == 2


def test_a_port_that_nobody_has() -> None:
    assert "Connection refused" in only(look(free_port()), "port", Level.PROBLEM).found


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where every connection is handled so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(PATIENCE_S)
                    with suppress(OSError):
                        answer(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE_S)


def test_a_web_server() -> None:
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    try:
        assert "web server" in only(look(web.server_address[1]), "protocol", Level.PROBLEM).found
    finally:
        web.shutdown()
        web.server_close()
        thread.join()


def test_a_port_that_speaks_tls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("server.pem"))

    def handshake(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.recv(1)

    with server(handshake) as port:
        found = only(look(port), "protocol", Level.PROBLEM)
    assert "TLS" in found.found
    assert "security.protocol=SSL" in found.todo


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda connection: None, "nothing answers"),
        (lambda connection: connection.recv(100) and None, "nothing answers"),
        (lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "a web server answers"),
        (lambda connection: connection.sendall(b"220 mail.example.org ESMTP\r\n"), "not Kafka's protocol"),
    ],
    ids=["closes", "hears and closes", "web", "mail"],
)
def test_what_is_neither(answer: Callable[[socket.socket], None], words: str) -> None:
    with server(answer) as port:
        assert words in only(look(port), "protocol", Level.PROBLEM).found


def test_who_never_answers_is_not_waited_for_long() -> None:
    with server(lambda connection: connection.recv(1 << 16) and connection.recv(1 << 16) and None) as port:
        found = only(look(port, Options(timeout_s=0.3)), "protocol", Level.PROBLEM)
    assert "nothing answers" in found.found


# --- brokers that lie about where they are ---


def test_advertised_addresses_that_lead_nowhere(well: Broker) -> None:
    for advertised, words in (
        # Its first address is ::1 on many machines.
        ("localhost:1", "cannot be reached from here: Connection refused"),
        ("broker-of-a-container:9092", "only its container"),
        ("no-such-host.example.invalid:9092", "unknown here"),
    ):
        advertise(well, advertised)
        report = look(well.port)
        found = only(report, f"broker {well.id}", Level.PROBLEM)
        assert words in found.found
        assert "advertised.listeners" in found.todo
        assert report.exit_code == 2
    advertise(well, well.bootstrap)
    assert trouble(look(well.port)) == []


def advertise(broker: Broker, address: str) -> None:
    """The answer to the change comes before the broker has heard of it."""
    with connect(broker) as client:
        client.alter_broker(str(broker.id), {"advertised.listeners": f"PLAINTEXT://{address}"})
    broker.wait_until(lambda: any(address in each.found for each in of(look(broker.port), f"broker {broker.id}")))


def test_a_broker_that_does_not_find_itself(brokers: Brokers) -> None:
    broker = brokers(settings={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}, wait=False)
    broker.wait_until(lambda: not of(look(broker.port), "port") or bool(of(look(broker.port), "brokers")))
    assert "advertised.listeners" in only(look(broker.port), "brokers", Level.PROBLEM).todo
    broker.kill()


def test_an_advertised_loopback_is_every_clients_own_machine(well: Broker) -> None:
    report = Report("")
    broker = MetadataResponseBroker(node_id=1, host="localhost", port=well.port)

    async def ask(is_local: bool) -> None:
        connection = await doctor_brokers._broker(report, broker, MetadataResponse(), is_local, 5.0)
        assert connection is None

    trio.run(ask, False)
    assert "its own machine" in only(report, "broker 1", Level.PROBLEM).found
    report.findings.clear()
    trio.run(ask, True)
    assert "another cluster" in only(report, "broker 1", Level.PROBLEM).found


@pytest.mark.parametrize(
    ("loopback", "ending"), [(True, "clients to come, from this machine only"), (False, "clients to come")]
)
def test_an_advertised_loopback_is_reached_from_this_machine_only(
    loopback: bool, ending: str, well: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever address doctor was given: what counts is the address that clients are told."""
    monkeypatch.setattr(doctor_brokers.reach, "is_loopback", lambda known: loopback)
    (found,) = of(look(well.port), f"broker {well.id}")
    assert found.level is Level.OK
    assert found.found.endswith(ending)


@pytest.mark.zookeeper
def test_a_second_broker_that_lies(zookeeper: str, brokers: Brokers) -> None:
    alone = {"offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1}
    first = brokers(zookeeper=zookeeper, broker_id=1, settings=alone)
    assert trouble(look(first.port)) == []
    lie = f"127.0.0.1:{free_port()}"
    # Not waited for: the controller does not reach it either.
    settings = {**alone, "advertised.listeners": f"PLAINTEXT://{lie}"}
    second = brokers(zookeeper=zookeeper, broker_id=2, settings=settings, wait=False)
    first.wait_until(lambda: bool(of(look(first.port), "broker 2")))
    report = look(first.port)
    assert lie in only(report, "broker 2", Level.PROBLEM).found
    assert trouble(report) == of(report, "broker 2")
    second.kill()


def test_partitions_that_are_behind_or_lost() -> None:
    partitions = [
        MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2]),
        MetadataResponsePartition(partition_index=1, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1]),
        MetadataResponsePartition(partition_index=2, leader_id=-1, error_code=5, replica_nodes=[2], isr_nodes=[2]),
    ]
    metadata = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])
    report = Report("")
    trio.run(check_replicas, report, Cluster(metadata, {}, 1.0))
    lost, behind = report.findings
    assert (lost.level, lost.found) == (Level.PROBLEM, "1 of 3 partitions have no leader: t-2")
    assert (behind.level, behind.found.endswith(": t-1")) == (Level.WARNING, True)


# --- a cluster that is out of balance, or lacks a broker ---


def partition(leader: int, *replicas: int) -> MetadataResponsePartition:
    """In sync are all."""
    return MetadataResponsePartition(leader_id=leader, replica_nodes=list(replicas), isr_nodes=list(replicas))


def with_brokers(brokers: int, partitions: list[MetadataResponsePartition]) -> Cluster:
    for index, each in enumerate(partitions):
        each.partition_index = index
    rows = [MetadataResponseBroker(node_id=broker) for broker in range(1, brokers + 1)]
    topic = MetadataResponseTopic(name="t", partitions=partitions)
    return Cluster(MetadataResponse(brokers=rows, topics=[topic]), {}, 1.0)


def led_by(*leaders: int, first: int | None = None) -> list[MetadataResponsePartition]:
    """One partition for each of these leaders, of three replicas; `first` is named first for all."""
    return [partition(leader, first or leader, *({1, 2, 3} - {first or leader})) for leader in leaders]


@pytest.mark.parametrize(
    ("brokers", "partitions", "found", "todo"),
    [
        (3, led_by(*[1] * 9, first=2), "leads all 9 partitions", "`ottla broker balance` gives them back"),
        (3, led_by(*[1] * 9), "leads all 9 partitions", "`ottla broker balance --leaders`"),
        (3, led_by(*[2] * 7, 1, 3), "broker 2 leads 7 of 9 partitions", "`ottla broker balance --leaders`"),
        (2, [partition(1, 1) for _ in range(6)], "leads all 6 partitions", "`ottla broker balance --replicas`"),
        # After a restart of the others: half of what it leads is its own.
        (
            3,
            led_by(*[2] * 6) + led_by(*[2] * 3, first=1) + led_by(*[2] * 3, first=3) + led_by(1, 1, 1, 3, 3, 3),
            "broker 2 leads 12 of 18 partitions",
            "6 of them are to be led by others, who were away: `ottla broker balance` gives them back",
        ),
    ],
)
def test_a_broker_that_leads_nearly_everything(
    brokers: int, partitions: list[MetadataResponsePartition], found: str, todo: str
) -> None:
    report = Report("")
    trio.run(check_leaders, report, with_brokers(brokers, partitions))
    warned = only(report, "leaders", Level.WARNING)
    assert found in warned.found
    assert todo in warned.todo


@pytest.mark.parametrize(
    ("brokers", "partitions"),
    [
        (3, led_by(1, 1, 1, 1, 1, 2, 2, 3, 3)),
        # Of few it is chance.
        (3, led_by(*[1] * 8)),
        (1, [partition(1, 1) for _ in range(60)]),
        # Nobody leads them, which is another matter.
        (3, led_by(*[-1] * 60)),
        (2, []),
    ],
)
def test_leaders_that_are_spread(brokers: int, partitions: list[MetadataResponsePartition]) -> None:
    report = Report("")
    trio.run(check_leaders, report, with_brokers(brokers, partitions))
    assert [finding.level for finding in report.findings] == [Level.OK]


def test_brokers_that_are_gone() -> None:
    report = Report("")
    trio.run(check_absent, report, with_brokers(2, [*led_by(1, 2), partition(2, 2, 7)]))
    gone = only(report, "brokers", Level.WARNING)
    assert "3 (2 partitions), 7 (1 partition)" in gone.found
    assert "`ottla broker drain ID --replicas`" in gone.todo


@pytest.mark.parametrize(
    ("told", "release"), [("2.7-IV2", "2.7"), ("2.7", "2.7"), ("0.10.2-IV0", "0.10"), (None, ""), ("3.9-IV0", "3.9")]
)
def test_versions_of_the_protocol_between_brokers(told: str | None, release: str) -> None:
    assert protocol({"inter.broker.protocol.version": told}) == release


@pytest.mark.zookeeper
def test_a_cluster_of_two(zookeeper: str, brokers: Brokers) -> None:
    older = {**OF_TWO, "inter.broker.protocol.version": "2.6"}
    first = brokers(zookeeper=zookeeper, broker_id=1, settings=OF_TWO)
    second = brokers(zookeeper=zookeeper, broker_id=2, settings=older)
    two_are_examined(first.port, second, "1 has 2.7, 2 has 2.6")


OF_TWO = {**USUAL, "offsets.topic.replication.factor": 2, "transaction.state.log.replication.factor": 2}


def two_are_examined(port: int, second: Server, protocols: str | None) -> None:
    """The first broker, with this port, leads all, a throttle is left, no replica may be missed, and the protocols
    differ as it says; then the second is gone.
    """

    def trouble_with(check: str) -> list[Finding]:
        return [finding for finding in trouble(look(port, options)) if finding.check == check]

    options = Options(timeout_s=PATIENCE_S)
    eventually("they are a cluster", lambda: len(of(look(port, options), "broker 2")) == 1)
    with Client.connect("127.0.0.1", port, "test") as client:
        client.create_on("lopsided", {index: [1, 2] for index in range(6)})
        client.alter_topic("lopsided", {"min.insync.replicas": "2"})
        client.alter_topic("lopsided", {"leader.replication.throttled.replicas": "0:1,1:1"})
        client.alter_broker("1", {"leader.replication.throttled.rate": "1000"})
    # Brokers hear of a change after its answer.
    eventually("both are known", lambda: trouble_with("throttles") and trouble_with("leaders"))
    report = look(port, options)
    assert "broker 1 leads all 6 partitions" in only(report, "leaders", Level.WARNING).found
    throttled = only(report, "throttles", Level.WARNING)
    assert "no partition is moving" in throttled.found
    assert "`ottla topic reassign --resume` takes back" in throttled.todo
    assert "topics lopsided; brokers 1 (leader.replication.throttled.rate=1000)" in throttled.found
    assert "min.insync.replicas is the number of replicas: lopsided (2)" in only(report, "topics", Level.WARNING).found
    if protocols is None:
        assert trouble_with("settings") == []
    else:
        assert protocols in only(report, "settings", Level.WARNING).found
    second.kill()
    eventually("it is missed", lambda: trouble_with("brokers"))
    assert "2 (6 partitions)" in only(look(port, options), "brokers", Level.WARNING).found
    # Now something is to move, and cannot.
    eventually("the first is the controller", lambda: not trouble_with("controller"))
    move = ReassignableTopic(name="lopsided", partitions=[ReassignablePartition(partition_index=0, replicas=[2])])
    with Client.connect("127.0.0.1", port, "test") as client:
        answer = client.call(ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest(topics=[move]))
        assert answer.error_code == 0
    eventually(
        "the move is told of", lambda: "moving under a throttle" in of(look(port, options), "throttles")[0].found
    )


# --- brokers that are set up badly ---


def test_settings_that_people_stumble_over(brokers: Brokers) -> None:
    broker = brokers(
        settings={
            "offsets.topic.replication.factor": 3,
            "default.replication.factor": 3,
            "unclean.leader.election.enable": "true",
            "log.retention.hours": -1,
        }
    )
    with connect(broker) as client:
        client.create("strict", min_insync_replicas="2")
    report = look(broker.port)
    internal = only(report, "internal topics", Level.PROBLEM)
    assert "offsets.topic.replication.factor=3, and there is 1 broker" in internal.found
    words = " ".join(finding.found for finding in of(report, "settings"))
    for name in ("unclean.leader.election.enable", "default.replication.factor=3", "for ever"):
        assert name in words
    assert all(finding.level is Level.WARNING for finding in of(report, "settings"))
    impossible, unclean = of(report, "topics")
    assert (impossible.level, "strict (2 of 1)" in impossible.found) == (Level.PROBLEM, True)
    assert (unclean.level, "strict" in unclean.found) == (Level.WARNING, True)
    assert report.exit_code == 2


def test_settings_of_topics_that_are_not_understood(brokers: Brokers, tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = brokers(data=data)
    with connect(broker) as client:
        for topic in ("odd", "later", "malformed"):
            client.create(topic)
    broker.stop()

    async def write() -> None:
        async with await EmbeddedTree.open(str(data / TREE_FILE)) as tree:
            for topic, node in {
                "odd": znodes.encode_config({"retention.ms": "for ever", "min.insync.replicas": "most"}),
                "later": znodes.encode_config({"local.retention.ms": "-2"}),
                "malformed": b"no json",
            }.items():
                await tree.ensure(znodes.config_path("topics", topic))
                await tree.set(znodes.config_path("topics", topic), node)

    trio.run(write)
    finding = only(look(brokers(data=data).port), "topics", Level.PROBLEM)
    for word in ("odd (retention.ms", "odd (min.insync.replicas", "malformed (/config/topics/malformed"):
        assert word in finding.found
    assert "later" not in finding.found


def test_a_log_directory_that_is_out_of_use(brokers: Brokers, tmp_path: Path) -> None:
    # The tree is in the first; where it is must be known before one may be missing.
    brokers(data=tmp_path / "good").stop()
    (tmp_path / "file").write_text("no directory")
    broker = brokers(data=Path(f"{tmp_path / 'good'},{tmp_path / 'file'}"))
    found = only(look(broker.port), "disk", Level.PROBLEM)
    assert f"{tmp_path / 'file'} (KAFKA_STORAGE_ERROR)" in found.found


def test_a_disk_that_is_full(brokers: Brokers, tmp_path: Path) -> None:
    with small_tmpfs(tmp_path / "small", 64) as path:
        broker = brokers(data=path / "data")
        assert trouble(look(broker.port)) == []
        for left_mb, level in ((2, Level.WARNING), (0, Level.PROBLEM)):
            disk = os.statvfs(path)
            with (path / f"filler-{left_mb}").open("wb") as filler:
                os.posix_fallocate(filler.fileno(), 0, disk.f_bavail * disk.f_frsize - left_mb * 1_000_000 - 300_000)
            found = only(look(broker.port), "disk", level)
            assert f"the disk of {path / 'data'} has {left_mb} MB left of 67 MB" in found.found
        broker.stop()


def test_what_is_said_of_a_broker_that_is_well(well: Broker) -> None:
    report = look(well.port, host="localhost")
    assert [finding.found for finding in of(report, "versions")] == [
        "the broker speaks like Kafka 2.7, with clients of any age"
    ]
    assert "localhost is " in of(report, "name")[0].found
    assert of(look(well.port), "name") == []  # that an address is itself helps nobody
    assert of(report, "brokers")[0].found == "1 is there, and all that have replicas"


def test_groups_that_are_late_or_lost(well: Broker) -> None:
    with connect(well) as client:
        client.create("late")
        client.produce("late", batch(*[b"x"] * 50))
    consumer = Consumer({"bootstrap.servers": well.bootstrap, "group.id": "sleepers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("late", 0, 10)], asynchronous=False)
    assert trouble(look(well.port, Options(lag_max=40))) == []
    found = only(look(well.port, Options(lag_max=39)), "groups", Level.WARNING)
    assert "sleepers (40, nobody reads)" in found.found
    consumer.commit(offsets=[TopicPartition("late", 0, 70)], asynchronous=False)
    lost = only(look(well.port), "groups", Level.WARNING)
    assert "sleepers in late-0 (at 70, of 0 to 50)" in lost.found
    consumer.commit(offsets=[TopicPartition("late", 0, 50)], asynchronous=False)
    consumer.close()


def test_transactions_that_are_open_and_that_hang(well: Broker) -> None:
    with connect(well) as client:
        client.create("open")
    producer = Producer({"bootstrap.servers": well.bootstrap, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("open", b"now")
    producer.flush(PATIENCE_S)
    (found,) = of(look(well.port), "transactions")
    assert (found.level, "1 partition has open ones" in found.found) == (Level.OK, True)
    producer.commit_transaction(PATIENCE_S)

    producer.begin_transaction()
    producer.produce("open", b"an hour ago", timestamp=int((time.time() - 3600) * 1000))
    producer.flush(PATIENCE_S)
    assert "open-0 (producer" in only(look(well.port), "transactions", Level.PROBLEM).found
    producer.abort_transaction(PATIENCE_S)


# --- Apache Kafka ---

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";'


@pytest.mark.java
@pytest.mark.zookeeper
def test_apache_kafka_and_its_listener_with_logins(kafka: Apache, zookeeper: str) -> None:
    port, sasl = free_port(), free_port()
    kafka.broker(
        "2.7.2",
        zookeeper=zookeeper,
        port=port,
        settings={
            "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
            "log.retention.hours": 24,
        },
    )
    report = look(port, Options(timeout_s=PATIENCE_S, may_write=True))
    assert trouble(report) == []
    assert {finding.check for finding in report.findings} == {*CHECKS, "broker 1"}
    login = only(look(sasl, Options(timeout_s=PATIENCE_S)), "protocol", Level.PROBLEM)
    assert "by PLAIN" in login.found
    assert "sasl.mechanism" in login.todo


@pytest.mark.java
@pytest.mark.zookeeper
@pytest.mark.judge
def test_apache_kafka_in_a_cluster_of_two(kafka: Apache, zookeeper: str, brokers: Brokers) -> None:
    port = free_port()
    kafka.broker("2.7.2", zookeeper=zookeeper, port=port, broker_id=1, settings=OF_TWO)
    second = brokers(zookeeper=zookeeper, broker_id=2, settings=OF_TWO)
    two_are_examined(port, second, None)
