"""A data directory on a file system that really has no space left."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log import Log
from ottla.wire.k19_create_topics import CREATE_TOPICS, CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests.peers.disks import small_tmpfs
from tests.peers.ottla import Brokers
from tests.support.client import Client, batch, connect, values
from tests.support.directories import REQUEST_TIMED_OUT, STORAGE_ERROR, created, described, fill, metadata
from tests.support.waiting import eventually


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Four megabytes."""
    with small_tmpfs(tmp_path / "small", 4) as path:
        yield path


def produced(client: Client, topic: str, partition: int, acks: int = 1) -> int:
    answer = client.produce(topic, batch(b"x" * 10_000), partition=partition, acks=acks)
    ((row,),) = [row.partitions for row in answer.responses]
    return row.error_code


def test_alone_it_waits_for_space(small_disk: Path, brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers(arguments=("--data-dir", f"{tmp_path / 'a'},{small_disk / 'b'}"))
    with connect(broker) as client:
        client.create("t", 2)
        (full,) = [index for index in range(2) if (small_disk / "b" / f"t-{index}").is_dir()]
        assert produced(client, "t", full, -1) == 0
        filler = fill(small_disk)
        eventually("a full disk", lambda: produced(client, "t", full) == STORAGE_ERROR)
        assert produced(client, "t", 1 - full, -1) == 0
        assert values(client.fetch("t", partition=full))[0] == b"x" * 10_000
        assert [row.error_code for row in described(client).values()] == [0, 0]
        filler.unlink()
        assert produced(client, "t", full, -1) == 0


def test_topics_are_made_and_deleted_on_a_disk_that_was_full(tmp_path: Path, brokers: Brokers) -> None:
    """The tree is on it, too."""
    with small_tmpfs(tmp_path / "small", 12) as disk:
        broker = brokers(arguments=("--data-dir", str(disk / "d")))
        with connect(broker) as client:
            client.create("before")
            assert produced(client, "before", 0, -1) == 0
            fill(disk)
            # Its log cannot be made yet.
            assert created(client, "made", timeout_ms=1) in (0, REQUEST_TIMED_OUT)
            eventually("no leader", lambda: metadata(client, "made") == {0: (-1, [broker.id])})
            # It is tried again and again, and not as often as others are answered.
            for _ in range(500):
                metadata(client, "before")
            failures = (tmp_path / "ottla-1.log").read_text().count("cannot use the log of made-0")
            assert failures < 10
            client.delete_topic("before")
            assert not (disk / "d" / "before-0").exists()
            (disk / "filler").unlink()
            eventually("a leader", lambda: metadata(client, "made") == {0: (broker.id, [])})
            assert produced(client, "made", 0, -1) == 0
            assert created(client, "after") == 0
        broker.stop()


@pytest.mark.zookeeper
def test_in_a_cluster_another_broker_leads_and_nothing_is_torn(
    small_disk: Path, brokers: Brokers, zookeeper: str, tmp_path: Path
) -> None:
    arguments = ("--data-dir", f"{tmp_path / 'a'},{small_disk / 'b'}")
    first = brokers(broker_id=1, zookeeper=zookeeper, arguments=arguments)
    second = brokers(broker_id=2, zookeeper=zookeeper)
    with connect(first) as client:
        rows = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1, 2]) for index in range(2)]
        topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=rows)
        answer = client.call(CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        assert [row.error_code for row in answer.topics] == [0]
        folders = {index: small_disk / "b" / f"t-{index}" for index in range(2)}
        (full,) = [index for index, folder in folders.items() if folder.is_dir()]
        filler, taken, code = fill(small_disk), 0, 0
        while code == 0:
            code = produced(client, "t", full)
            taken += code == 0
        assert code == STORAGE_ERROR
        with connect(second) as other:
            # It hears of the topic when the controller has told it.
            eventually("the move", lambda: metadata(other, "t").get(full) == (2, [1]))
        assert produced(client, "t", 1 - full) == 0
    first.stop()
    filler.unlink()
    first = brokers.restart(first, broker_id=1, zookeeper=zookeeper, arguments=arguments)
    with connect(first) as client:
        assert [row.error_code for row in described(client).values()] == [0, 0]
    first.stop()
    with Log.open(folders[full]) as log:
        assert [record.value for record in log] == [b"x" * 10_000] * taken
