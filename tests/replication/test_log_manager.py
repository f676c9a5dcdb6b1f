"""The data directory of a broker: its identity, its logs, and what is done with them from time to time."""

from functools import partial
from pathlib import Path

import pytest
import trio

from ottla.config import BrokerConfig, ConfigError
from ottla.errors import KafkaError
from ottla.replication import upkeep
from ottla.replication.data_directory import DataDirectory
from ottla.replication.log_manager import LogManager
from tests.support.log_manager import Settings, append


def config(path: Path, **settings: str) -> BrokerConfig:
    return BrokerConfig.load(None, {"log.dirs": str(path), **settings})


@pytest.mark.trio
async def test_a_directory_belongs_to_one_broker_of_one_cluster(tmp_path: Path) -> None:
    async with LogManager.open(config(tmp_path)) as logs:
        assert logs.directories.identity() == {}
        logs.directories.claim(7, "cluster-a")
        logs.directories.claim(7, "cluster-a")
    async with LogManager.open(config(tmp_path)) as logs:
        assert logs.directories.identity() == {"version": "0", "broker.id": "7", "cluster.id": "cluster-a"}
        with pytest.raises(ConfigError, match="cluster-b"):
            logs.directories.claim(7, "cluster-b")
        with pytest.raises(ConfigError, match=r"broker\.id"):
            logs.directories.claim(8, "cluster-a")


@pytest.mark.trio
async def test_what_kafka_wrote_into_meta_properties_stays(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("#\n#Sat Nov 21 10:00:00 UTC\nversion=0\nbroker.id=1\nsomething.new=x\n")
    async with LogManager.open(config(tmp_path)) as logs:
        logs.directories.claim(1, "c")
        assert logs.directories.identity() == {
            "version": "0",
            "broker.id": "1",
            "something.new": "x",
            "cluster.id": "c",
        }


IDENTITY = "version = 0\nbroker.id : 7\ncluster.id   c\n"


def test_meta_properties_are_a_properties_file(tmp_path: Path) -> None:
    """In every form that Java reads. What is not known stays when the file is written."""
    (tmp_path / "meta.properties").write_text("! a comment\nversion = 0\nbroker.id : \\\n  7\nnew.\\u0061\\:b = 1 \n")
    directory = DataDirectory(tmp_path)
    assert directory.identity() == {"version": "0", "broker.id": "7", "new.a:b": "1"}
    with pytest.raises(ConfigError, match=r"broker\.id=7, but this broker has 8"):
        directory.claim(8, "c")
    directory.claim(7, "c")
    assert directory.identity() == {"version": "0", "broker.id": "7", "cluster.id": "c", "new.a:b": "1"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no version and no broker.id"),
        ("# Sat Nov 21 10:00:00 UTC\n", "it has no version and no broker.id"),
        (IDENTITY[: IDENTITY.index("broker")], "it has no broker.id"),
        ("version=0\nbroker.id=\ncluster.id=c\n", "it has no broker.id"),
        ("broker.id=7\ncluster.id=c\n", "it has no version"),
        ("version=2\nbroker.id=7\n", "version=2, and 0 is the only one there is"),
        ("version=0\nbroker.id=7\n\\u00", "line 3: four hexadecimal digits must follow"),
        ("version=1\nnode.id=7\ncluster.id=c\n", "KRaft"),
    ],
)
def test_meta_properties_that_say_too_little(tmp_path: Path, text: str, why: str) -> None:
    """It is no new directory: nobody takes it, and nothing is written into it."""
    path = tmp_path / "meta.properties"
    path.write_text(text)
    directory = DataDirectory(tmp_path)
    for look in (directory.identity, partial(directory.claim, 7, "c")):
        with pytest.raises(ConfigError) as refused:
            look()
        assert str(path) in str(refused.value)
        assert why in str(refused.value)
    assert path.read_text() == text


@pytest.mark.trio
async def test_a_directory_is_held_by_one(tmp_path: Path) -> None:
    async with LogManager.open(config(tmp_path)):
        with pytest.raises(KafkaError, match="lock"):
            async with LogManager.open(config(tmp_path)):
                raise AssertionError("two hold it")


@pytest.mark.trio
async def test_logs_are_made_once_and_found_again_after_a_clean_stop_and_a_crash(tmp_path: Path) -> None:
    settings = Settings(config(tmp_path))
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        made = (await logs.open_or_create("t", [0, 1])).logs
        assert (await logs.open_or_create("t", [1])).logs[1] is made[1]
        append(made[1], b"a")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        assert {key: log.end_offset for key, log in logs.logs.items()} == {("t", 0): 0, ("t", 1): 1}
        await logs.delete("t", 1)
        assert (await logs.open_or_create("t", [1])).logs[1].end_offset == 0


@pytest.mark.trio
async def test_retention_and_changed_settings_reach_the_logs(tmp_path: Path) -> None:
    settings = Settings(config(tmp_path))
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        log = (await logs.open_or_create("t", [0])).logs[0]
        for value in (b"a", b"b", b"c"):
            append(log, value)
            log.roll()
        log.high_watermark = log.end_offset
        upkeep.delete_old_segments(logs.directories)
        # Records of 1970 are older than the default of seven days.
        assert log.start_offset == 3
        append(log, b"d")
        log.roll()
        log.high_watermark = log.end_offset
        settings.topics["t"] = {"retention.ms": "-1"}
        logs.topic_config_changed("t")
        upkeep.delete_old_segments(logs.directories)
        assert log.start_offset == 3


@pytest.mark.trio
async def test_settings_that_cannot_be_taken_do_not_stop_the_topic(tmp_path: Path) -> None:
    settings = Settings(config(tmp_path))
    settings.topics["t"] = {"retention.ms": "for ever"}
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        assert logs.topic_config("t").get_int("retention.ms") == 604_800_000
        await logs.open_or_create("t", [0])
    await trio.lowlevel.checkpoint()
