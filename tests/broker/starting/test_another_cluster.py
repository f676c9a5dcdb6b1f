"""A broker with the directory of another cluster, or of another broker, is refused before that directory, a new one
beside it, or the tree becomes anybody else's.
"""

from pathlib import Path

import pytest
import trio
from kazoo.client import KazooClient

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig, ConfigError

pytestmark = pytest.mark.zookeeper


async def start(zookeeper: str, broker_id: int, *directories: Path) -> str:
    settings = {
        "log.dirs": ",".join(map(str, directories)),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": zookeeper,
        "broker.id": str(broker_id),
    }
    async with Broker.start(BrokerConfig(settings)) as broker:
        return broker.cluster_id


def files(directory: Path) -> dict[Path, bytes]:
    """The lock is taken to look at a directory."""
    found = [path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"]
    return {path: path.read_bytes() for path in found}


def nodes(zookeeper: str) -> dict[str, tuple[bytes, int]]:
    """All of the tree, with the transaction that changed each node last."""
    client = KazooClient(zookeeper)
    client.start()
    found, paths = {}, ["/"]
    while paths:
        path = paths.pop()
        data, stat = client.get(path)
        found[path] = data, stat.mzxid
        paths += [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
    client.stop()
    client.close()
    return found


@pytest.mark.parametrize("another", ["cluster", "broker"])
def test_a_wrong_directory_is_refused(tmp_path: Path, zookeeper: str, another: str) -> None:
    """Nor is the new directory beside it claimed: at the right place both would be refused then."""
    ours, theirs = f"{zookeeper}/ours", f"{zookeeper}/theirs"
    new, old, other = tmp_path / "a-new", tmp_path / "b-old", tmp_path / "other"
    our_id = trio.run(start, ours, 1, old)
    their_id = trio.run(start, theirs, 1, other)
    before, tree = files(old), nodes(theirs)
    where, broker_id = (theirs, 1) if another == "cluster" else (ours, 2)
    with pytest.raises(ConfigError) as refused:
        trio.run(start, where, broker_id, new, old)
    name, has, wanted = ("cluster.id", our_id, their_id) if another == "cluster" else ("broker.id", "1", "2")
    assert f"{old}/meta.properties has {name}={has}, but this broker has {wanted}" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert files(old) == before
    assert not (new / "meta.properties").exists()
    assert nodes(theirs) == tree
    assert trio.run(start, ours, 1, new, old) == our_id


@pytest.mark.parametrize("chroot", ["missing", "empty"])
def test_a_place_without_a_cluster_is_refused(tmp_path: Path, zookeeper: str, chroot: str) -> None:
    """A mistyped chroot, or a ZooKeeper that lost its data: a second cluster with the same id would take writes."""
    right, wrong, directory = f"{zookeeper}/right", f"{zookeeper}/wrong", tmp_path / "data"
    our_id = trio.run(start, right, 1, directory)
    if chroot == "empty":
        client = KazooClient(zookeeper)
        client.start()
        client.create("/wrong")
        client.stop()
        client.close()
    before, tree = files(directory), nodes(zookeeper)
    with pytest.raises(ConfigError) as refused:
        trio.run(start, wrong, 1, directory)
    line = str(refused.value)
    words = ("zookeeper.connect", wrong, our_id, "tree export", "cluster.id", "restore")
    assert [word for word in words if word not in line] == []
    assert "\n" not in line
    assert files(directory) == before
    assert nodes(zookeeper) == tree
    assert trio.run(start, right, 1, directory) == our_id


def test_a_directory_without_the_line_begins_a_new_cluster(tmp_path: Path, zookeeper: str) -> None:
    """On purpose, as with Kafka."""
    directory = tmp_path / "data"
    our_id = trio.run(start, f"{zookeeper}/right", 1, directory)
    properties = directory / "meta.properties"
    lines = properties.read_text().splitlines()
    properties.write_text("\n".join(line for line in lines if not line.startswith("cluster.id")) + "\n")
    assert trio.run(start, f"{zookeeper}/new", 1, directory) != our_id
