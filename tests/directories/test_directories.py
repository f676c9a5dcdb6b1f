"""The promise of compatibility: a broker opens the directory of every release before it, and clients see all that they
saw then.
"""

import json
import tarfile
import tomllib
from pathlib import Path

import pytest

from ottla.client.sync import Admin, Cluster, Producer, TransactionalProducer
from ottla.kafka import LATEST, TopicPartition
from ottla.log import Log
from tests.cluster import clocks
from tests.directories import contents
from tests.directories.make import DATA, FOLDER, SEEN, make
from tests.peers.ottla import Brokers

ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))
YEARS_S = 3 * 366 * 24 * 3600


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder


def after(directory: Path, brokers: Brokers, ahead_s: int = 0) -> None:
    """Opens a directory, compares, goes on with it, and opens it again."""
    environment = clocks.environment(ahead_s) if ahead_s else None
    seen = json.loads((directory / SEEN).read_text())
    broker = brokers(data=directory / DATA, settings=contents.SETTINGS, environment=environment)
    assert contents.seen(broker.bootstrap) == seen

    first, open_ = TopicPartition("codecs", 0), TopicPartition("payments", 1)
    with Cluster(broker.bootstrap) as cluster, Producer(cluster) as producer:
        written = producer.send_and_wait(first.topic, b"later", partition=first.partition)
        assert written.offset == len(seen["records"][str(first)])
        with TransactionalProducer(cluster, contents.OPEN) as again, again.transaction():
            again.send(open_.topic, b"known", partition=open_.partition)
    broker.stop()

    broker = brokers.restart(broker, settings=contents.SETTINGS, environment=environment)
    now = contents.seen(broker.bootstrap)
    values = [value for _, _, _, value, _ in now["committed records"][str(open_)]]
    before = [value for _, _, _, value, _ in seen["committed records"][str(open_)]]
    assert values == [*before, "behind it", "known"]
    assert now["transactions"][contents.OPEN][1] == "CompleteCommit"
    for part in ("topics", "settings", "latest", "groups", "offsets", "users", "quotas"):
        assert now[part] == seen[part], part
    with Cluster(broker.bootstrap) as cluster:
        end = Admin(cluster).list_offsets({first: LATEST})[first].offset
        assert end == len(seen["records"][str(first)]) + 1
    broker.stop()


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_directory_of_each_release_is_opened(archive: Path, tmp_path: Path) -> None:
    with Brokers(tmp_path) as brokers:
        after(unpacked(archive, tmp_path), brokers)


@pytest.mark.judge
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_years_later_too(archive: Path, tmp_path: Path) -> None:
    """So an archive is opened by releases that are years away."""
    clocks.need_clocks()
    with Brokers(tmp_path) as brokers:
        after(unpacked(archive, tmp_path), brokers, YEARS_S)


def test_the_log_is_read_without_a_broker(tmp_path: Path) -> None:
    for number, archive in enumerate(ARCHIVES):
        directory = unpacked(archive, tmp_path / str(number))
        seen = json.loads((directory / SEEN).read_text())["records"]["codecs-0"]
        with Log.open(directory / DATA / "codecs-0", mode="r") as log:
            assert [record.offset for record in log] == [offset for offset, *_ in seen]


def test_archives_are_small_and_this_release_has_one() -> None:
    project = tomllib.loads((FOLDER.parents[1] / "Cargo.toml").read_text())["package"]
    assert f"{project['version']}.tar.xz" in [path.name for path in ARCHIVES], "python -m tests.directories.make"
    assert max(path.stat().st_size for path in ARCHIVES) < 50_000


@pytest.mark.judge
def test_a_directory_of_this_build_is_packed_and_opened(tmp_path: Path) -> None:
    archive = tmp_path / "now.tar.xz"
    make(archive)
    with Brokers(tmp_path) as brokers:
        after(unpacked(archive, tmp_path), brokers)
