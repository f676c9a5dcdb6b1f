"""Three brokers of an earlier build become this one, one by one, on their data: R36 of the list of reliability tests.

Meanwhile two idempotent producers write with acks=all, a copier copies in transactions and static members of a group
read. The older logs have no notes of their topics beside them: they are taken up without a warning.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import _core
from ottla.replication.log_notes import FILE
from tests.cluster import asking
from tests.cluster.former import former
from tests.cluster.replicas import logs_equal, partitions
from tests.cluster.rounds import Round
from tests.cluster.stand import OTTLA, Cluster, OttlaMember
from tests.cluster.static_member import StaticMember, read_twice
from tests.faults.broker import settings
from tests.faults.broker.load import PARTITIONS
from tests.peers.skips import module
from tests.support.waiting import eventually

module("clients", "confluent_kafka")
pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.zookeeper, pytest.mark.soak]
INTERNAL = ("__consumer_offsets", "__transaction_state")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    build = former(tmp_path / "former")
    with Cluster(tmp_path, (OTTLA,) * 3, build=build) as made:
        yield made


def test_brokers_are_upgraded_one_by_one(cluster: Cluster) -> None:
    with Round(cluster, settings.seed(), copies=True, led_by=1) as load:
        with cluster.clients.inside():
            members = [StaticMember(f"static-{n}", load, f"{load.prefix}static") for n in range(PARTITIONS)]
            for member in members:
                member.start()
        load.flows(500)
        topics = (*load.topics, *INTERNAL)
        assert len(folders(cluster, *topics)) == len(cluster.brokers) * PARTITIONS * len(topics)
        assert not any((folder / FILE).exists() for folder in folders(cluster, *topics))
        with cluster.observer.follow(*topics) as chronicle:
            for broker in cluster.brokers:
                assert isinstance(broker, OttlaMember)
                assert broker.build is not None
                assert str(broker.build) in module_of(broker)
                broker.stop()
                load.writes()
                broker.build = None
                broker.start()
                assert module_of(broker) == str(Path(_core.__file__))
                cluster.all_in_sync(*topics)
                load.flows()
                print(f"{broker.name} is of this build")
        load.finish()
        written = sum(load.ends(load.plain).values())
        eventually(
            "the static members have read everything",
            lambda: sum(len(member.places) for member in members) >= written,
            facts=lambda: (written, [len(member.places) for member in members]),
        )
        for member in members:
            member.end()
    assert read_twice(members) == []
    assert chronicle.moved() >= len(cluster.brokers)
    assert chronicle.unclean() == []
    chronicle.check()
    assert asking.open_transactions(cluster, *topics) == []
    load.judge(at_least=1000)
    logs_equal(cluster.directories, *topics)
    assert load.misplaced() == []
    taken_up_in_silence(cluster, *topics)


def module_of(broker: OttlaMember) -> str:
    """The native module that the broker's process has loaded."""
    lines = Path(f"/proc/{broker.server.pid}/maps").read_text().splitlines()
    (found,) = {line.split()[-1] for line in lines if "/ottla/_core." in line}
    return found


def folders(cluster: Cluster, *topics: str) -> set[Path]:
    found = [partitions(cluster.directories, topic) for topic in topics]
    return {folder for each in found for copies in each.values() for folder in copies}


def taken_up_in_silence(cluster: Cluster, *topics: str) -> None:
    """Each log has a note, and its broker has said so at its first start, and warned of nothing."""
    for broker in cluster.brokers:
        said = broker.server.output()
        assert "Traceback" not in said, said[-3000:]
        lines = [line for line in said.splitlines() if " ottla.replication.belonging: " in line]
        assert [line.split()[1] for line in lines] == ["INFO"], lines
    assert all((folder / FILE).exists() for folder in folders(cluster, *topics))
