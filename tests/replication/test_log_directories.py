"""Several data directories: which log goes where, whose they are, and what a broken one costs."""

from pathlib import Path

import pytest

from ottla._core import LogDirectory
from ottla.config import ConfigError
from ottla.errors import KafkaError, StorageError
from ottla.replication import log_manager
from ottla.replication.log_manager import LogManager
from ottla.replication.upkeep import checkpoint_recovery_points
from tests.support.client import batch
from tests.support.log_manager import Settings, append, config, folders, paths

pytestmark = pytest.mark.trio


async def test_new_logs_go_where_the_fewest_are_and_are_found_again(tmp_path: Path) -> None:
    a, b = paths(tmp_path)
    alone = Settings(config(a))
    async with LogManager.open(alone.config) as logs:
        await logs.load(alone)
        await logs.open_or_create("t", [0, 1])
    settings = Settings(config(a, b))
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        logs.directories.claim(1, "c")
        made = (await logs.open_or_create("u", [0, 1, 2, 3])).logs
        assert (folders(a), folders(b)) == (["t-0", "t-1", "u-2"], ["u-0", "u-1", "u-3"])
        append(made[1], b"x")
        await logs.delete("u", 3)
    for path in (a, b):
        assert (path / ".kafka_cleanshutdown").exists()
        assert "u 3" not in (path / "recovery-point-offset-checkpoint").read_text()
        assert "broker.id=1" in (path / "meta.properties").read_text()
    assert "u 1 1" in (b / "recovery-point-offset-checkpoint").read_text()
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        assert {key: log.end_offset for key, log in logs.logs.items() if key[0] == "u"} == {
            ("u", 0): 0,
            ("u", 1): 1,
            ("u", 2): 0,
        }


async def test_directories_of_different_brokers_are_refused_by_file(tmp_path: Path) -> None:
    a, b = paths(tmp_path)
    for path, broker, cluster in ((a, 1, "x"), (b, 2, "x")):
        async with LogManager.open(config(path)) as logs:
            logs.directories.claim(broker, cluster)
    async with LogManager.open(config(a, b)) as logs:
        with pytest.raises(ConfigError, match=r"a/meta\.properties has 1, \S+b/meta\.properties has 2"):
            logs.directories.identity()


async def test_the_same_directory_twice_is_refused_and_all_are_given_back(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="twice"):
        async with LogManager.open(config(tmp_path / "a", tmp_path / "b" / ".." / "a")):
            raise AssertionError("opened")
    async with LogManager.open(config(tmp_path / "a")):
        # One that somebody holds is no broken one: another broker may be using it.
        with pytest.raises(KafkaError, match="lock"):
            async with LogManager.open(config(tmp_path / "b", tmp_path / "a")):
                raise AssertionError("opened")
        async with LogManager.open(config(tmp_path / "b")):
            pass


async def test_a_directory_that_cannot_be_opened_is_left_out(tmp_path: Path) -> None:
    a, b = paths(tmp_path)
    settings = Settings(config(a, b))
    a.write_text("no directory")
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        assert [directory.path for directory in logs.directories.offline] == [a]
        # What may be in the other directory is not made anew; what is new is.
        places = await logs.open_or_create("t", [0, 1], new=[1])
        assert (list(places.logs), list(places.errors)) == ([1], [0])
        with pytest.raises(KafkaError, match="out of use"):
            await logs.delete("t", 0)
    assert folders(b) == ["t-1"]
    with pytest.raises(OSError, match="exists"):
        async with LogManager.open(config(a)):
            raise AssertionError("opened")


async def test_places_of_partitions_that_never_come_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are kept: a partition that comes is made where it was wanted last."""
    monkeypatch.setattr(log_manager, "PREFERRED_MAX", 3)
    a, b = paths(tmp_path)
    settings = Settings(config(a, b))
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        logs.directories.claim(1, "c")
        for number in range(10):
            logs.prefer("never", number, logs.directories.at(str(a)))
        for index in (0, 1, 0):
            logs.prefer("t", index, logs.directories.at(str(b)))
        assert len(logs._preferred) == 3
        await logs.open_or_create("t", [0, 1])
        assert (folders(a), folders(b)) == ([], ["t-0", "t-1"])


async def test_the_tree_stays_in_its_directory(tmp_path: Path) -> None:
    a, b = paths(tmp_path)
    async with LogManager.open(config(a, b)) as logs:
        assert logs.directories.directory_with("tree.db") == a
        (b / "tree.db").touch()
        assert logs.directories.directory_with("tree.db") == b
        (a / "tree.db").touch()
        with pytest.raises(ConfigError, match="several"):
            logs.directories.directory_with("tree.db")
        (a / "tree.db").unlink()
    b.rename(tmp_path / "away")
    b.write_text("no directory")
    async with LogManager.open(config(a, b)) as logs:
        # Starting anew with an empty tree would be another cluster.
        with pytest.raises(ConfigError, match=r"tree\.db is in no directory"):
            logs.directories.directory_with("tree.db")


async def test_a_partition_in_two_directories_is_not_served(tmp_path: Path) -> None:
    a, b = paths(tmp_path)
    for epoch, path in enumerate((a, b)):
        settings = Settings(config(path))
        async with LogManager.open(settings.config) as logs:
            await logs.load(settings)
            log = (await logs.open_or_create("t", [0])).logs[0]
            await logs.begin_epochs({("t", 0): epoch})
            log.append_bytes(batch(b"x"), epoch)
    settings = Settings(config(a, b))
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        assert str(a) in str(logs.failures["t", 0])
        assert str(b) in str(logs.failures["t", 0])
    assert (folders(a), folders(b)) == (["t-0"], ["t-0"])


async def test_upkeep_says_nothing_of_a_directory_that_fails_meanwhile(tmp_path: Path) -> None:
    """Its failure is reported by itself; the others are kept up."""
    a, b = paths(tmp_path)
    settings = Settings(config(a, b))
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        made = (await logs.open_or_create("t", [0, 1])).logs
        for log in made.values():
            append(log, b"x")
        a.rename(tmp_path / "away")
        checkpoint_recovery_points(logs.directories)
        assert [each.path for each in logs.directories.online if each.open_native.failure is not None] == [a]
        assert (b / "recovery-point-offset-checkpoint").exists()

        def fails(native: LogDirectory) -> None:
            raise StorageError("something else")

        with pytest.raises(StorageError, match="something else"):
            logs.directories.in_each(fails)
