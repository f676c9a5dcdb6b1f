"""Kafka's own tools, of both releases, against a cluster of Ottla and of both Kafkas: whichever broker is asked, they
say the same and do the same.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import confluent_kafka as ck
import pytest
from confluent_kafka import admin

from tests.cluster.stand import OTTLA, VERSIONS, Cluster, Member
from tests.faults.broker.load import CLIENT
from tests.peers.apache import tool
from tests.peers.skips import module
from tests.support.waiting import PATIENCE_S, eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper, pytest.mark.soak]
RELEASES = tuple(VERSIONS.values())
TOPIC, GROUP = "looked-at", "lookers"
RECORDS = 50
#: The order of replicas that each partition has at first.
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With a topic whose partitions are led by one broker each, and a group that has read half of it."""
    with Cluster(tmp_path_factory.mktemp("tools"), (OTTLA, *VERSIONS)) as made:
        with made.clients.inside():
            client = admin.AdminClient({"bootstrap.servers": made.bootstrap, **CLIENT})
            client.create_topics([admin.NewTopic(TOPIC, 3, replica_assignment=REPLICAS)])[TOPIC].result(PATIENCE_S)
            made.all_in_sync(TOPIC)
            producer = ck.Producer({"bootstrap.servers": made.bootstrap, **CLIENT})
            for number in range(RECORDS * len(REPLICAS)):
                producer.produce(TOPIC, b"x" * 100, partition=number % len(REPLICAS))
            assert producer.flush(PATIENCE_S) == 0
            consumer = ck.Consumer({"bootstrap.servers": made.bootstrap, **CLIENT, "group.id": GROUP})
            half = [ck.TopicPartition(TOPIC, index, RECORDS // 2) for index in range(len(REPLICAS))]
            eventually("offsets are committed", lambda: consumer.commit(offsets=half, asynchronous=False))
            consumer.close()
        yield made


def run(cluster: Cluster, release: str, name: str, *arguments: str) -> str:
    with cluster.clients.inside():
        return tool(release, name, *arguments)


def lines(text: str) -> list[str]:
    """In an order of their own, without what only tells of time or of spaces."""
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


def directories(text: str) -> object:
    """The replicas of each directory, as log-dirs says."""
    told = json.loads(text[text.index("{") :])
    return {
        (row["broker"], place["logDir"]): sorted(
            (one["partition"], one["size"], one["offsetLag"], one["isFuture"]) for one in place["partitions"]
        )
        for row in told["brokers"]
        for place in row["logDirs"]
    }


QUESTIONS = {
    "list": ("topics", ["--list"]),
    "describe": ("topics", ["--describe", "--topic", TOPIC]),
    "behind": ("topics", ["--describe", "--under-replicated-partitions"]),
    "groups": ("consumer-groups", ["--list"]),
    "group": ("consumer-groups", ["--describe", "--group", GROUP]),
    "state": ("consumer-groups", ["--describe", "--group", GROUP, "--state"]),
    "configs": ("configs", ["--describe", "--entity-type", "topics", "--entity-name", TOPIC]),
    "broker configs": ("configs", ["--describe", "--entity-type", "brokers", "--entity-name", "1"]),
    "directories": ("log-dirs", ["--describe", "--topic-list", TOPIC]),
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_all_brokers_say_the_same(cluster: Cluster, release: str, question: str) -> None:
    name, arguments = QUESTIONS[question]
    read = directories if question == "directories" else lines
    told = [
        read(run(cluster, release, name, "--bootstrap-server", member.address, *arguments))
        for member in cluster.brokers
    ]
    # The coordinator of a group is told with its address, which is the same whoever is asked.
    assert told[0] == told[1] == told[2]
    assert told[0] or question == "behind"


@pytest.mark.parametrize("release", RELEASES)
def test_the_ends_of_partitions(cluster: Cluster, release: str) -> None:
    option = "--broker-list" if release.startswith("2.") else "--bootstrap-server"
    for member in cluster.brokers:
        told = run(cluster, release, "get-offsets", option, member.address, "--topic", TOPIC, "--time", "-1")
        assert lines(told) == [f"{TOPIC}:{index}:{RECORDS}" for index in range(len(REPLICAS))]


def test_replicas_are_compared(cluster: Cluster) -> None:
    """The tool compares for ever; what it says of the first seconds is enough. That of 3.9 fails where topics have no
    ids, as with any protocol before 2.8.
    """
    arguments = ["--broker-list", cluster.bootstrap, "--report-interval-ms", "1000", "--time", "-2"]
    arguments += ["--topic-white-list", TOPIC]
    with cluster.clients.inside(), pytest.raises(subprocess.TimeoutExpired) as ended:
        tool("2.7.2", "replica-verification", *arguments, timeout_s=20)
    told = (ended.value.stdout or b"").decode()
    lags = [int(lag) for lag in re.findall(r"max lag is (\d+)", told)]
    assert lags, told
    assert lags[-1] == 0


def led(cluster: Cluster) -> list[int]:
    return [state.leader if state else -1 for _, state in sorted(cluster.observer.states(TOPIC).items())]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_preferred_leaders_are_elected(cluster: Cluster, release: str, number: int, tmp_path: Path) -> None:
    """After the partitions were given to one broker, and the order of their replicas put back."""
    asked = cluster.broker(number)
    first = [[number, *(other for other in (1, 2, 3) if other != number)]] * len(REPLICAS)
    reassigned(cluster, release, asked, first, tmp_path)
    elected(cluster, release, asked)
    assert led(cluster) == [number] * len(REPLICAS)
    reassigned(cluster, release, asked, REPLICAS, tmp_path)
    elected(cluster, release, asked)
    assert led(cluster) == [replicas[0] for replicas in REPLICAS]


def plan(replicas: Sequence[Sequence[int]], folder: Path) -> str:
    rows = [{"topic": TOPIC, "partition": index, "replicas": [*each]} for index, each in enumerate(replicas)]
    file = folder / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(file)


def reassigned(
    cluster: Cluster, release: str, asked: Member, replicas: Sequence[Sequence[int]], folder: Path, *more: str
) -> None:
    """By the tool, which is asked whether it is done until it is."""
    where = ["--bootstrap-server", asked.address, "--reassignment-json-file", plan(replicas, folder)]
    run(cluster, release, "reassign-partitions", *where, "--execute", *more)
    wanted = {index: [*each] for index, each in enumerate(replicas)}
    eventually(
        "the replicas are moved",
        lambda: cluster.observer.assignment(TOPIC) == wanted and cluster.observer.in_sync(TOPIC),
        facts=lambda: (cluster.observer.assignment(TOPIC), cluster.observer.states(TOPIC)),
    )
    told = run(cluster, release, "reassign-partitions", *where, "--verify")
    assert len(re.findall(r"completed?(?: successfully)?\.|is complete", told)) >= len(replicas), told


def elected(cluster: Cluster, release: str, asked: Member) -> None:
    for index in range(len(REPLICAS)):
        arguments = ["--bootstrap-server", asked.address, "--election-type", "preferred", "--topic", TOPIC]
        told = run(cluster, release, "leader-election", *arguments, "--partition", str(index))
        assert "completed" in told or "Valid replica already elected" in told, told


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_replicas_come_and_go(cluster: Cluster, release: str, number: int, tmp_path: Path) -> None:
    asked = cluster.broker(number)
    reassigned(cluster, release, asked, [[number]] * len(REPLICAS), tmp_path)
    reassigned(cluster, release, asked, REPLICAS, tmp_path, "--throttle", "10000000")
    elected(cluster, release, asked)
    for member in cluster.brokers:
        told = run(
            cluster, release, "configs", "--bootstrap-server", asked.address,
            "--describe", "--entity-type", "brokers", "--entity-name", str(member.id),
        )  # fmt: skip
        assert "replication.throttled" not in told


def test_replicas_move_through_zookeeper(cluster: Cluster, tmp_path: Path) -> None:
    """As tools before 2.4 do it: the controller finds the node in the tree."""
    for replicas in ([[3, 2]] * len(REPLICAS), REPLICAS):
        where = ["--zookeeper", cluster.zookeeper, "--reassignment-json-file", plan(replicas, tmp_path)]
        run(cluster, "2.7.2", "reassign-partitions", *where, "--execute")
        wanted = {index: [*each] for index, each in enumerate(replicas)}
        eventually(
            "the replicas are moved",
            lambda: cluster.observer.assignment(TOPIC) == wanted and cluster.observer.in_sync(TOPIC),  # noqa: B023
        )


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_topics_are_made_changed_and_deleted(cluster: Cluster, release: str, number: int) -> None:
    name = f"made-{release}-{number}"
    where = ["--bootstrap-server", cluster.broker(number).address]
    run(
        cluster,
        release,
        "topics",
        *where,
        "--create",
        "--topic",
        name,
        "--partitions",
        "2",
        "--replication-factor",
        "3",
    )
    run(cluster, release, "topics", *where, "--alter", "--topic", name, "--partitions", "4")
    entity = ["--entity-type", "topics", "--entity-name", name]
    run(cluster, release, "configs", *where, *entity, "--alter", "--add-config", "retention.ms=100000")
    cluster.all_in_sync(name)
    for member in cluster.brokers:
        eventually(
            "all know of its partitions and its settings",
            lambda: "PartitionCount: 4" in " ".join(
                run(cluster, release, "topics", "--bootstrap-server", member.address, "--describe", "--topic", name).split()  # noqa: B023,E501
            ),
        )  # fmt: skip
        told = run(cluster, release, "configs", "--bootstrap-server", member.address, *entity, "--describe")
        assert "retention.ms=100000" in told
    run(cluster, release, "topics", *where, "--delete", "--topic", name)
    eventually("it is gone", lambda: name not in cluster.observer.tree.get_children("/brokers/topics"))


def test_the_id_of_the_cluster(cluster: Cluster) -> None:
    told = {
        run(cluster, "3.9.2", "cluster", "cluster-id", "--bootstrap-server", member.address)
        for member in cluster.brokers
    }
    assert len(told) == 1


def ottla(cluster: Cluster, *arguments: str) -> str:
    with cluster.clients.inside():
        command = [sys.executable, "-m", "ottla", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def spread(replicas: Sequence[Sequence[int]]) -> list[str]:
    """Options of `ottla topic reassign`."""
    return [f"--assign={index}={','.join(map(str, each))}" for index, each in enumerate(replicas)]


def test_our_commands_say_the_same_of_all_brokers(cluster: Cluster) -> None:
    status, brokers, doctor = [], [], []
    for member in cluster.brokers:
        status.append(json.loads(ottla(cluster, "cluster", "status", "--json", "-b", member.address)))
        brokers.append(ottla(cluster, "broker", "list", "--json", "-b", member.address))
        doctor.append(lines(ottla(cluster, "topic", "describe", TOPIC, "-b", member.address)))
    assert status[0] == status[1] == status[2]
    assert brokers[0] == brokers[1] == brokers[2]
    assert doctor[0] == doctor[1] == doctor[2]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_our_commands_move_replicas_and_leaders(cluster: Cluster, number: int) -> None:
    where = ["--yes", "-b", cluster.broker(number).address]
    two = [[2, 3], [3, 1], [1, 2]]
    for replicas in (two, REPLICAS):
        ottla(cluster, "topic", "reassign", TOPIC, *spread(replicas), "--throttle", "10000000", *where)
        assert cluster.observer.assignment(TOPIC) == dict(enumerate(replicas))
        eventually("all are in sync", lambda: cluster.observer.in_sync(TOPIC))
        ottla(cluster, "topic", "elect", TOPIC, *where)
        assert led(cluster) == [each[0] for each in replicas]
    ottla(cluster, "broker", "drain", str(number), *where)
    assert number not in led(cluster)
    ottla(cluster, "topic", "reassign", TOPIC, *spread(REPLICAS), *where)
    ottla(cluster, "topic", "elect", TOPIC, *where)
    assert led(cluster) == [each[0] for each in REPLICAS]
