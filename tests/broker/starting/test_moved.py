"""A directory whose topics went to ZooKeeper keeps the file of its tree. Nobody starts with it, or with another tree
that does not know the partitions beside it: topics that are made there would get other topics' records.
"""

from pathlib import Path

import pytest
import trio
from click.testing import CliRunner

from ottla.broker.broker import Broker
from ottla.cli.tree import command
from ottla.config import BrokerConfig, ConfigError
from ottla.coordination import znodes
from ottla.coordination.database import read_nodes
from ottla.coordination.embedded import TREE_FILE
from ottla.replication import log_manager
from tests.support.client import batch, values
from tests.support.waiting import comes_true
from tests.support.written_tree import overwrite, told

MARK = f"{TREE_FILE}.moved"
UNIQUE = "0123456789abcdef0123456789abcdef"


def config(path: Path, zookeeper: str | None = None) -> BrokerConfig:
    settings = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": "1"}
    return BrokerConfig(settings | ({"zookeeper.connect": zookeeper} if zookeeper else {}))


def written(path: Path, topic: str, value: bytes, zookeeper: str | None = None) -> None:
    """A record at the end of a topic, by a broker that starts and stops."""

    async def run() -> None:
        async with Broker.start(config(path, zookeeper)) as broker:
            if topic not in broker.metadata.topics:
                await broker.admin.create_topic(topic, partitions=1, overrides={})
                await broker.metadata.wait_until(lambda: topic in broker.metadata.topics)
            await told(broker, lambda client: client.produce(topic, batch(value)))

    trio.run(run)


def read(path: Path, topic: str) -> list[bytes]:
    async def run() -> list[bytes]:
        async with Broker.start(config(path)) as broker:
            found: list[bytes] = values(await told(broker, lambda client: client.fetch(topic, 0)))
            return found

    return trio.run(run)


def refused(path: Path) -> str:
    """The line of a start alone, which changed nothing."""
    before = seen(path)

    async def run() -> None:
        async with Broker.start(config(path)):
            raise AssertionError("it has started")

    with pytest.raises(ConfigError) as error:
        trio.run(run)
    assert seen(path) == before
    line = str(error.value)
    assert "\n" not in line
    words = ("--zookeeper", "zookeeper.connect", "ottla tree import", "away", str(path / TREE_FILE))
    assert [word for word in words if word not in line] == []
    return line


def seen(path: Path) -> dict[str, bytes | None]:
    """The contents of a directory by path, and of the tree's nodes. SQLite's own files change whenever the tree is
    opened.
    """
    own = (TREE_FILE, f"{TREE_FILE}-wal", f"{TREE_FILE}-shm", ".lock", f"{TREE_FILE}.lock")
    found = {str(entry.relative_to(path)): entry for entry in path.rglob("*") if entry.name not in own}
    nodes = {TREE_FILE: repr(read_nodes(str(path / TREE_FILE))).encode()}
    return nodes | {name: entry.read_bytes() if entry.is_file() else None for name, entry in found.items()}


def tree(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.zookeeper
def test_after_a_start_under_zookeeper(tmp_path: Path, zookeeper: str) -> None:
    """However the tree came there: here it is copied by hand, as by an Ottla that sets no mark."""
    path = tmp_path / "data"
    written(path, "orders", b"1")
    tree("export", "--data-dir", str(path), "--zookeeper", zookeeper)
    (path / MARK).unlink(missing_ok=True)
    written(path, "orders", b"2", zookeeper)
    line = refused(path)
    assert zookeeper in line
    assert str(path / "orders-0") in line
    written(path, "later", b"3", zookeeper)
    tree("import", "--data-dir", str(path), "--zookeeper", zookeeper, "--replace", "--yes")
    assert read(path, "orders") == [b"1", b"2"]
    assert read(path, "later") == [b"3"]


@pytest.mark.zookeeper
def test_after_an_export(tmp_path: Path, zookeeper: str) -> None:
    path = tmp_path / "data"
    written(path, "orders", b"1")
    tree("export", "--data-dir", str(path), "--zookeeper", zookeeper)
    assert zookeeper in refused(path)
    # A mark that says nothing any more is one still.
    (path / MARK).write_bytes(b"\xff\\u\0")
    assert str(path / "orders-0") in refused(path)
    tree("import", "--data-dir", str(path), "--zookeeper", zookeeper, "--replace", "--yes")
    written(path, "orders", b"2")
    assert read(path, "orders") == [b"1", b"2"]
    assert not (path / MARK).exists()


@pytest.mark.zookeeper
@pytest.mark.parametrize("wrong", ["another cluster", "no cluster"])
def test_a_start_that_is_refused_marks_nothing(tmp_path: Path, zookeeper: str, wrong: str) -> None:
    path = tmp_path / "data"
    written(path, "orders", b"1")
    if wrong == "another cluster":
        written(tmp_path / "other", "orders", b"x", zookeeper)

    async def run() -> None:
        async with Broker.start(config(path, zookeeper)):
            raise AssertionError("it has started")

    with pytest.raises(ConfigError):
        trio.run(run)
    assert read(path, "orders") == [b"1"]


def folder(path: Path, name: str) -> None:
    (path / name).mkdir()
    (path / name / f"{0:020}.log").touch()


@pytest.mark.parametrize("name", ["gone-0", "orders-1"])
def test_a_folder_that_the_tree_does_not_know(tmp_path: Path, name: str) -> None:
    written(tmp_path, "orders", b"1")
    folder(tmp_path, name)
    line = refused(tmp_path)
    assert "1 partition " in line
    assert "--adopt" in line
    assert str(tmp_path / name) in line
    assert str(tmp_path / "orders-0") not in line
    (tmp_path / name).rename(tmp_path / "away")
    assert read(tmp_path, "orders") == [b"1"]


def test_many_folders_are_one_line(tmp_path: Path) -> None:
    written(tmp_path, "orders", b"1")
    for number in range(100):
        folder(tmp_path, f"gone-{number}")
    line = refused(tmp_path)
    assert "100 partitions " in line
    assert "97 more" in line


def test_a_tree_that_was_not_made_to_the_end(tmp_path: Path) -> None:
    """Its file was just created when the process died."""
    folder(tmp_path, "orders-0")
    (tmp_path / TREE_FILE).touch()

    async def run() -> None:
        async with Broker.start(config(tmp_path)):
            raise AssertionError("it has started")

    with pytest.raises(ConfigError, match="orders-0"):
        trio.run(run)


def test_folders_that_do_not_matter(tmp_path: Path) -> None:
    """Those of a topic that is being deleted, or whose node nobody understands, and what no topic can be called."""
    written(tmp_path, "orders", b"1")
    written(tmp_path, "leaving", b"1")
    names = (f"gone-0.{UNIQUE}-delete", f"gone-1.{UNIQUE}-future", "odd-0", "..-0")
    for name in names:
        folder(tmp_path, name)
    trio.run(overwrite, tmp_path, {znodes.topic_path("odd"): b"{}", znodes.delete_topic_path("leaving"): b""})
    assert read(tmp_path, "orders") == [b"1"]


def test_a_mark_without_its_tree(tmp_path: Path) -> None:
    """A new cluster in a directory that was emptied by half."""
    (tmp_path / MARK).write_text("zookeeper.connect=z:1\n")
    written(tmp_path, "orders", b"1")
    assert read(tmp_path, "orders") == [b"1"]


def test_a_tree_that_is_adopted_is_not_out_of_date(tmp_path: Path) -> None:
    written(tmp_path, "orders", b"1")
    for file in tmp_path.glob(f"{TREE_FILE}*"):
        file.unlink()
    (tmp_path / MARK).write_text("zookeeper.connect=z:1\n")

    async def run() -> None:
        async with Broker.start(config(tmp_path), adopt=True):
            pass

    trio.run(run)
    assert read(tmp_path, "orders") == [b"1"]


def test_a_topic_leaves_the_tree_when_no_power_cut_brings_its_folders_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next start would find folders that its tree does not know."""
    synced: list[tuple[bool, bool]] = []
    sync = log_manager.sync_folder

    def is_known() -> bool:
        return znodes.topic_path("orders") in dict(read_nodes(str(tmp_path / TREE_FILE)))

    def noted(folder: Path) -> None:
        synced.append((is_known(), (tmp_path / "orders-0").exists()))
        sync(folder)

    async def run() -> None:
        async with Broker.start(config(tmp_path)) as broker:
            monkeypatch.setattr(log_manager, "sync_folder", noted)
            assert await broker.admin.delete_topics(["orders"]) == {"orders": None}
            await comes_true("the deletion", lambda: not is_known())

    written(tmp_path, "orders", b"1")
    trio.run(run)
    assert synced == [(True, False)]
