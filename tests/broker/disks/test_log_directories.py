"""Brokers with several data directories, one of which breaks: what clients see, and what is there after a restart."""

from pathlib import Path

import pytest

from ottla._core import LogDirectory
from ottla.wire.k19_create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.wire.k35_describe_log_dirs import (
    DescribableLogDirTopic,
)
from tests.peers.ottla import Brokers
from tests.support.client import connect, values
from tests.support.directories import STORAGE_ERROR, described, metadata, produced, produced_acks_1
from tests.support.waiting import PATIENCE_S, eventually


def test_a_failing_directory_takes_its_partitions_and_nothing_else(brokers: Brokers, tmp_path: Path) -> None:
    a, b, away = tmp_path / "a", tmp_path / "b", tmp_path / "away"
    arguments = ("--data-dir", f"{a},{b}")
    broker = brokers(arguments=arguments)
    with connect(broker) as client:
        client.create("t", 4)
        for partition in range(4):
            assert produced(client, "t", partition) == 0
        lost = [partition for partition in range(4) if (b / f"t-{partition}").is_dir()]
        kept = [partition for partition in range(4) if partition not in lost]
        assert len(lost) == 2
        rows = described(client)
        assert sorted(part.partition_index for part in rows[str(b)].topics[0].partitions) == lost
        assert all(part.partition_size > 60 for part in rows[str(b)].topics[0].partitions)
        only = described(client, DescribableLogDirTopic(topic="t", partition_index=[kept[0]]))
        assert [part.partition_index for part in only[str(a)].topics[0].partitions] == [kept[0]]
        assert only[str(b)].topics[0].partitions == []

        b.rename(away)
        eventually("the failure", lambda: produced(client, "t", lost[0]) == STORAGE_ERROR)
        assert produced(client, "t", lost[1]) == STORAGE_ERROR
        assert client.fetch("t", partition=lost[0]).responses[0].partition_responses[0].error_code == STORAGE_ERROR
        assert [produced(client, "t", partition) for partition in kept] == [0, 0]
        assert [row.error_code for row in described(client).values()] == [0, STORAGE_ERROR]
        eventually("its lock to be given back", lambda: not LogDirectory.is_locked(away))
        # The controller heard of it, and asked.
        eventually("news of the offline replicas", lambda: metadata(client, "t")[lost[0]][0] == -1)
        offline = {partition: row[1] for partition, row in metadata(client, "t").items()}
        assert offline == {partition: [broker.id] if partition in lost else [] for partition in range(4)}
        client.create("u", 3)
        assert sorted(path.name for path in a.glob("u-*")) == ["u-0", "u-1", "u-2"]
    broker.stop()

    # It is not there at the start either: what may be in it is not made anew.
    b.write_text("no directory")
    broker = brokers.restart(broker, arguments=arguments)
    with connect(broker) as client:
        assert [produced(client, "t", partition) for partition in kept] == [0, 0]
        assert produced(client, "t", lost[0]) == STORAGE_ERROR
        assert [row.error_code for row in described(client).values()] == [0, STORAGE_ERROR]
        assert not list(a.glob(f"t-{lost[0]}"))
    broker.stop()

    b.unlink()
    away.rename(b)
    broker = brokers.restart(broker, arguments=arguments)
    with connect(broker) as client:
        for partition in range(4):
            assert values(client.fetch("t", partition=partition))[0] == b"more"
            assert produced(client, "t", partition) == 0
        assert [row.error_code for row in described(client).values()] == [0, 0]


def test_a_broker_without_a_directory_that_works_ends_and_says_why(brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers()
    with connect(broker) as client:
        client.create("t")
        broker.data.rename(tmp_path / "away")
        with pytest.raises((OSError, AssertionError)):
            eventually("the end", lambda: produced(client, "t", 0) < 0)
    assert broker.process.wait(PATIENCE_S) not in (0, None)
    assert "no log directory can be used any more" in broker.output_tail()


@pytest.mark.zookeeper
def test_leadership_moves_to_a_broker_whose_disk_works(brokers: Brokers, zookeeper: str, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    # When it stops nobody can take over what it leads: the other's directory for it is gone.
    settings = {"controlled.shutdown.retry.backoff.ms": 20}
    first = brokers(broker_id=1, zookeeper=zookeeper, arguments=("--data-dir", f"{a},{b}"), settings=settings)
    second = brokers(broker_id=2, zookeeper=zookeeper, settings=settings)
    with connect(first) as client:
        rows = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1, 2]) for index in range(2)]
        topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=rows)
        answer = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        assert [row.error_code for row in answer.topics] == [0]
        (lost,) = [index for index in range(2) if (b / f"t-{index}").is_dir()]
        b.rename(tmp_path / "away")
        eventually("the failure", lambda: produced_acks_1(client, lost) == STORAGE_ERROR)
        with connect(second) as other:
            eventually("the move", lambda: metadata(other, "t") == {lost: (2, [1]), 1 - lost: (1, [])})
            assert produced_acks_1(other, lost) == 0
