"""Logs whose coordination tree is lost: no broker starts beside them, unless it is told to make topics from them."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.broker import adoption
from ottla.cli.serve import command
from ottla.client import Cluster, Consumer, Producer
from ottla.config import BrokerConfig, ConfigError
from ottla.controller.configs import notify_config_change
from ottla.controller.registration import prepare
from ottla.coordination import znodes
from ottla.coordination.embedded import TREE_FILE, EmbeddedTree
from ottla.coordination.znodes import TopicAssignment
from ottla.kafka import TopicPartition
from ottla.replication import upkeep
from ottla.replication.log_manager import LogManager
from tests.support.client import batch, values
from tests.support.transactions import add, begun, end, init
from tests.support.waiting import comes_true
from tests.support.written_tree import started, told

pytestmark = pytest.mark.trio
ORDERS_0 = TopicPartition("orders", 0)
TOPICS = {"orders": 3, "compacted": 1, "data": 1}


def lose(path: Path) -> None:
    for file in path.glob(f"{TREE_FILE}*"):
        file.unlink()


def seen(path: Path) -> dict[str, bytes | None]:
    return {str(entry.relative_to(path)): entry.read_bytes() if entry.is_file() else None for entry in path.rglob("*")}


async def made(path: Path) -> int:
    """Topics with a record of 2023 in each partition, a group that has read one, and a transaction. Returns the newest
    id of a producer.
    """
    async with started(path) as broker:
        for topic, count in TOPICS.items():
            keeps: dict[str, str | None] = {"retention.ms": "-1"}
            await broker.admin.create_topic(topic, partitions=count, overrides=keeps)
            await broker.metadata.wait_until(lambda topic=topic: topic in broker.metadata.topics)  # type: ignore[misc]
            for index in range(count):
                sent = batch(b"%d" % index)
                await told(broker, lambda client, t=topic, i=index, sent=sent: client.produce(t, sent, partition=i))
        async with Cluster(broker.address) as cluster, Consumer(cluster, group="g") as group:
            await group.assign([ORDERS_0])
            await group.commit({ORDERS_0: 1})
        producer = await told(broker, lambda client: begun(client, "mover", 0))
        assert await told(broker, lambda client: end(client, "mover", producer)) == 0
        return int(producer.producer_id)


async def test_a_start_beside_logs_without_their_tree_is_refused(tmp_path: Path) -> None:
    await made(tmp_path)
    lose(tmp_path)
    before = seen(tmp_path)
    with pytest.raises(ConfigError) as refused:
        async with started(tmp_path):
            raise AssertionError("it has started")
    for part in (str(tmp_path), TREE_FILE, "--zookeeper", "ottla tree import", "--adopt"):
        assert part in str(refused.value)
    assert seen(tmp_path) == before


async def test_folders_that_zookeeper_does_not_know_are_named_and_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await made(tmp_path / "data")
    before = seen(tmp_path / "data")
    config = BrokerConfig({"log.dirs": str(tmp_path / "data")})
    tree = await EmbeddedTree.open(str(tmp_path / "another"))
    async with LogManager.open(config) as logs, tree:
        await prepare(tree)
        await adoption.tell_unknown(tree, logs.directories)
        assert "does not know 105 partitions whose folders are here" in caplog.text
        assert "and 102 more. They stay" in caplog.text
        caplog.clear()
        for topic, count in {"__consumer_offsets": 50, "__transaction_state": 50, **TOPICS}.items():
            assignment = TopicAssignment(dict.fromkeys(range(count), (1,)))
            await tree.ensure(znodes.topic_path(topic))
            await tree.set(znodes.topic_path(topic), assignment.encode())
        await adoption.tell_unknown(tree, logs.directories)
        assert not caplog.records
    assert seen(tmp_path / "data").keys() == before.keys()


async def test_what_is_adopted(tmp_path: Path) -> None:
    newest = await made(tmp_path)
    lose(tmp_path)
    async with started(tmp_path, adopt=True) as broker:
        topics = broker.metadata.topics
        assert {topic: len(topics[topic]) for topic in topics if not topic.startswith("__")} == TOPICS
        assert {len(topics[topic]) for topic in topics if topic.startswith("__")} == {50}
        # Nothing is deleted, although all is older than the default of seven days.
        upkeep.delete_old_segments(broker.logs.directories)
        for index in range(3):
            fetched = await told(broker, lambda client, i=index: client.fetch("orders", 0, partition=i))
            assert values(fetched) == [b"%d" % index]
            log = broker.replicas.partitions["orders", index].log
            assert log.leader_epochs[-1] == (1, 1)
        # The group goes on where it was, and ids of producers are not given twice.
        async with (
            Cluster(broker.address) as cluster,
            Consumer(cluster, group="g") as group,
            Producer(cluster) as producer,
        ):
            assert (await group.committed([ORDERS_0]))[ORDERS_0].offset == 1
            assert (await producer.send_and_wait("orders", b"new", partition=0)).offset == 1
        again = await told(broker, lambda client: init(client, None))
        assert again.producer_id > newest + 1_000_000
        # The transactional id is known, with its next epoch.
        mover = await told(broker, lambda client: init(client, "mover"))
        assert (mover.producer_id, mover.producer_epoch) == (newest, 1)
        assert await told(broker, lambda client: add(client, "mover", mover, 0)) == [0]
        assert await told(broker, lambda client: end(client, "mover", mover)) == 0
        # Settings are given again.
        await broker.tree.set(znodes.config_path("topics", "compacted"), znodes.encode_config({"retention.ms": "1"}))
        await notify_config_change(broker.tree, "topics", "compacted")
        log = broker.replicas.partitions["compacted", 0].log
        await comes_true("retention", lambda: log.start_offset == 1)
    async with started(tmp_path) as broker:
        assert broker.metadata.topics.keys() >= TOPICS.keys()
    with pytest.raises(ConfigError, match="there already"):
        async with started(tmp_path, adopt=True):
            raise AssertionError("it has started")


async def test_partitions_that_are_not_here_are_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await made(tmp_path)
    lose(tmp_path)
    (tmp_path / "orders-1").rename(tmp_path / "away")
    # What an interrupted try has left.
    (tmp_path / f"{TREE_FILE}.adopting").write_text("half")
    async with started(tmp_path, adopt=True) as broker:
        assert len(broker.metadata.topics["orders"]) == 3
        assert broker.replicas.partitions["orders", 1].log.end_offset == 0
        assert broker.replicas.partitions["orders", 2].log.end_offset == 1
    assert "topic orders: 1 of 3 partitions have no folder here, among them 1" in caplog.text


@pytest.mark.parametrize("why", ["a copy", "another broker", "nothing"])
async def test_what_is_not_adopted(tmp_path: Path, why: str) -> None:
    await made(tmp_path)
    lose(tmp_path)
    path, told_of = tmp_path, "orders-20240101"
    if why == "a copy":
        (tmp_path / "orders-20240101").mkdir()
        (tmp_path / "orders-20240101" / f"{0:020}.log").touch()
    elif why == "another broker":
        (tmp_path / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=c\n")
        told_of = "broker.id=7"
    else:
        path, told_of = tmp_path / "empty", "no partition is in"
        path.mkdir()
    with pytest.raises(ConfigError, match=told_of):
        async with started(path, adopt=True):
            raise AssertionError("it has started")
    assert not (path / TREE_FILE).exists()


async def test_folders_that_are_no_partitions_do_not_matter(tmp_path: Path) -> None:
    """A new broker starts beside them, as before."""
    for name in ("lost+found", "python-3", "x-0.0123456789abcdef0123456789abcdef-delete"):
        (tmp_path / name).mkdir()
    async with started(tmp_path) as broker:
        assert broker.metadata.topics.keys() == set()


async def test_what_cannot_be_removed_is_told_and_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await made(tmp_path)
    unique = "0123456789abcdef0123456789abcdef"
    removable, stuck = (tmp_path / f"gone-{index}.{unique}-delete" for index in range(2))
    for folder in (removable, stuck):
        (folder / "of" / "somebody").mkdir(parents=True)
        (folder / "of" / "somebody" / "file").touch()
    # A name that is no text is nobody's of ours, and stays.
    os.close(os.open(os.fsencode(stuck) + b"/\xff", os.O_CREAT))
    # A folder where a file that was on its way out would be.
    deleted = tmp_path / "orders-0" / f"{0:020}.index.deleted"
    deleted.mkdir()
    async with started(tmp_path) as broker:
        assert broker.replicas.partitions["orders", 0].log.end_offset == 1
    assert not removable.exists()
    assert stuck.exists()
    warnings = [record.getMessage() for record in caplog.records if "cannot be removed" in record.getMessage()]
    assert sorted(message.split(" was deleted")[0] for message in warnings) == sorted([str(stuck), str(deleted)])


async def test_a_tree_in_zookeeper_is_not_made_anew() -> None:
    """`--adopt` is for the tree that a broker keeps itself."""
    done = CliRunner().invoke(command, ["--adopt", "--zookeeper", "127.0.0.1:2181"])
    assert done.exit_code == 2
    assert "--adopt" in done.output
