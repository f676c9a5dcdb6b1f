"""One of two log directories of a broker goes away, or is full. What the broker led there others lead, what it followed
there goes on without it, and what is in its other directory nobody notices. After a repair and a restart it is back.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.cluster import asking
from tests.cluster.observer import Chronicle, Partition
from tests.cluster.replicas import logs_equal
from tests.cluster.rounds import Round
from tests.cluster.stand import OTTLA, Cluster, Member
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.disks import small_tmpfs
from tests.peers.skips import module
from tests.support.client import batch
from tests.support.directories import fill, metadata
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper]
SIZE_MB = 64


@contextmanager
def gone(disk: Path, logs: Path) -> Iterator[None]:
    """The log directory is not there, as when a disk drops out."""
    logs.rename(disk / "away")
    yield
    (disk / "away").rename(logs)


@contextmanager
def full(disk: Path, logs: Path) -> Iterator[None]:
    """Nothing more can be written to the disk of the log directory."""
    filler = fill(disk)
    yield
    filler.unlink()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_tmpfs(tmp_path_factory.mktemp("disks") / "disk", SIZE_MB) as path:
        yield path


@pytest.fixture
def member(disk: Path, cluster: Cluster) -> Member:
    """A broker with a second log directory, on that disk."""
    chosen = cluster.broker(1)
    if chosen.kind != OTTLA:
        pytest.skip("the stand gives a second directory to Ottla's brokers")
    if chosen.more_data is None:
        chosen.more_data = disk / "logs"
        chosen.restart()
    return chosen


@pytest.mark.parametrize("fault", [pytest.param(gone, marks=pytest.mark.judge), full])
def test_a_directory_fails(
    cluster: Cluster, member: Member, disk: Path, fault: Callable[[Path, Path], AbstractContextManager[None]]
) -> None:
    other = cluster.broker(2)
    logs = disk / "logs"
    with (
        Round(cluster, settings.seed(), copies=False, led_by=member.id) as led,
        Round(cluster, settings.seed(), copies=False, led_by=other.id) as followed,
        cluster.observer.follow(*led.topics, *followed.topics) as chronicle,
    ):
        lost = {each for each in chronicle.partitions if is_in(logs, each)}
        kept = {each for each in chronicle.partitions if is_in(member.data, each)}
        assert lost | kept == {*chronicle.partitions}
        for load in (led, followed):
            assert {(load.plain, index) for index in range(PARTITIONS)} & lost
            assert {(load.plain, index) for index in range(PARTITIONS)} & kept
        with fault(disk, logs):
            eventually(
                "the lost replicas leave the ISRs",
                lambda: all(member.id not in chronicle.states[each][-1].state.isr for each in lost),
                facts=lambda: {each: chronicle.states[each] for each in lost},
            )
            for load in (led, followed):
                load.writes()
            nobody_is_told_otherwise(cluster, member, other, lost)
            undisturbed(chronicle, kept)
            member.stop()
        member.start()
        cluster.all_in_sync(*led.topics, *followed.topics)
        for load in (led, followed):
            load.writes()
            load.finish()
    assert chronicle.moved() >= len([each for each in lost if each[0] in led.topics])
    assert chronicle.unclean() == []
    chronicle.check()
    for load in (led, followed):
        load.judge(at_least=300)
        logs_equal(cluster.directories, *load.topics, replicas=len(cluster.brokers))


def is_in(directory: Path, partition: Partition) -> bool:
    return (directory / "{}-{}".format(*partition)).is_dir()


def nobody_is_told_otherwise(cluster: Cluster, member: Member, other: Member, lost: set[Partition]) -> None:
    """Clients of the broker hear of the failure, and clients of another that its replicas are offline. The broker has
    said so in one line.
    """
    with asking.client(cluster, member) as client:
        for topic, index in lost:
            assert asking.produced(client.produce(topic, batch(b"1"), partition=index))[0] == "KAFKA_STORAGE_ERROR"
    with asking.client(cluster, other) as client:
        for topic, index in lost:
            leader, offline = metadata(client, topic)[index]
            assert leader not in (-1, member.id)
            assert offline == [member.id]
    said = [line for line in member.server.log.read_text().splitlines() if "offline until a restart" in line]
    assert len(said) == 1
    assert f"the log directory {member.more_data} failed, with it " in said[0]


def undisturbed(chronicle: Chronicle, kept: set[Partition]) -> None:
    """Neither leaders nor ISRs of the other partitions have changed."""
    for each in kept:
        assert len({(at.state.leader, at.state.isr) for at in chronicle.states[each]}) == 1, chronicle.states[each]
