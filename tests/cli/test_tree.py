"""`ottla tree`: looking at a tree and moving it to ZooKeeper and back, with everything that outlives a broker."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.controller import NewTopic, ProducerIds, Registration, create_topics, get_or_create_cluster_id, prepare
from ottla.coordination import znodes
from ottla.coordination.embedded import TREE_FILE, EmbeddedTree
from ottla.coordination.transfer import walk
from ottla.coordination.tree import Node, Tree, Unavailable
from ottla.coordination.znodes import BrokerRegistration, Endpoint, PartitionState
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.cli.conftest import Ottla


async def fill(tree: Tree) -> None:
    """A cluster with topics, states, settings, an old consumer's offset, a block of ids, and a running broker."""
    await prepare(tree)
    await get_or_create_cluster_id(tree)
    await Registration(tree, 1, lambda: BrokerRegistration((Endpoint("PLAINTEXT", "h", 1),))).register()
    await create_topics(tree, [NewTopic("a", 3, 1, config={"retention.ms": "5"}), NewTopic("b", 1, 1)])
    for topic, partitions in (("a", 3), ("b", 1)):
        for number in range(partitions):
            await tree.ensure(znodes.partition_path(topic, number))
            await tree.create(znodes.state_path(topic, number), PartitionState(1, number, (1,), 1).encode())
    await tree.create(znodes.CONTROLLER_EPOCH, b"17")
    await tree.create(znodes.CONTROLLER, znodes.encode_controller(1, 0), ephemeral=True)
    await ProducerIds(tree, 1).next()
    await tree.ensure("/consumers/g/offsets/a")
    await tree.create("/consumers/g/offsets/a/0", b"42")
    await tree.create("/unknown", b"kept")
    await tree.create(znodes.CONFIG_CHANGE_PREFIX, znodes.encode_config_change("topics/a"), sequential=True)
    for _ in range(3):
        await tree.set(znodes.BROKER_SEQUENCE, b"")


def lasting(nodes: list[tuple[str, Node]]) -> dict[str, bytes]:
    return {
        path: node.data
        for path, node in nodes
        if not node.stat.ephemeral_owner and not path.startswith(znodes.CONFIG_CHANGE_PREFIX)
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()

    async def make() -> None:
        async with await EmbeddedTree.open(str(folder / TREE_FILE)) as tree:
            await fill(tree)

    trio.run(make)
    return folder


def content(data: Path) -> list[tuple[str, Node]]:
    async def read() -> list[tuple[str, Node]]:
        async with await EmbeddedTree.open(str(data / TREE_FILE)) as tree:
            return await walk(tree)

    return trio.run(read)


@pytest.mark.zookeeper
def test_there_and_back(ottla: Ottla, data: Path, zookeeper: str, tmp_path: Path) -> None:
    before = content(data)
    where = ("--data-dir", str(data), "--zookeeper", zookeeper)
    shown = ottla("tree", "export", *where, "--dry-run").out
    assert shown.startswith(f"to copy to {zookeeper}: cluster ")
    assert shown.endswith(" with 2 topics, 4 partitions\n")
    assert not (data / MARK).exists()
    said = ottla("tree", "export", *where).out
    assert "2 topics, 4 partitions" in said

    async def look() -> list[tuple[str, Node]]:
        async with await ZooKeeperTree.connect(zookeeper, create_chroot=False) as tree:
            return await walk(tree)

    there = trio.run(look)
    assert lasting(there) == lasting(before)
    assert not any(node.stat.ephemeral_owner for _, node in there)
    assert dict(there)[znodes.BROKER_SEQUENCE].stat.version == 3
    assert dict(there)["/consumers/g/offsets/a/0"].data == b"42"

    back = tmp_path / "back"
    ottla("tree", "import", "--data-dir", str(back), "--zookeeper", zookeeper)
    assert lasting(content(back)) == lasting(before)
    assert dict(content(back))[znodes.BROKER_SEQUENCE].stat.version == 3

    # Neither way over a cluster that is there, unless that is said.
    for direction in ("export", "import"):
        refused = ottla("tree", direction, "--data-dir", str(back), "--zookeeper", zookeeper, code=1)
        assert "a cluster is there already" in refused.err
        where = ("--data-dir", str(back), "--zookeeper", zookeeper)
        asked = ottla("tree", direction, *where, "--replace", code=2)
        to = zookeeper if direction == "export" else str(back / TREE_FILE)
        held = f"{asked.out.split(': ')[1].splitlines()[0]}"
        assert held.endswith(" with 2 topics, 4 partitions")
        assert asked.out == f"to copy to {to}: {held}\nto remove there before: {held}\n"
        assert f"{held} at {to} would be removed, and nobody can be asked here" in asked.err
        assert ottla("tree", direction, *where, "--replace", "--dry-run").out == asked.out
        ottla("tree", direction, "--data-dir", str(back), "--zookeeper", zookeeper, "--replace", "--yes")
    assert lasting(trio.run(look)) == lasting(before)


@pytest.mark.zookeeper
def test_nothing_is_moved_under_running_brokers(ottla: Ottla, data: Path, zookeeper: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with await ZooKeeperTree.connect(zookeeper) as tree, await EmbeddedTree.open(str(data / TREE_FILE)):
            await prepare(tree)
            await Registration(tree, 7, lambda: BrokerRegistration((Endpoint("PLAINTEXT", "h", 1),))).register()
            refused = await trio.to_thread.run_sync(lambda: export(code=1))
            assert "in use by another process" in refused
        async with await ZooKeeperTree.connect(zookeeper) as tree:
            await Registration(tree, 7, lambda: BrokerRegistration((Endpoint("PLAINTEXT", "h", 1),))).register()
            assert "brokers are running there: 7" in await trio.to_thread.run_sync(lambda: export(code=1))
            assert "brokers are running there: 7" in await trio.to_thread.run_sync(
                lambda: export("--replace", "--yes", code=1)
            )
            assert "brokers are running: 7" in await trio.to_thread.run_sync(import_back)

    def export(*more: str, code: int) -> str:
        return ottla("tree", "export", "--data-dir", str(data), "--zookeeper", zookeeper, *more, code=code).err

    def import_back() -> str:
        return ottla("tree", "import", "--data-dir", str(tmp_path / "b"), "--zookeeper", zookeeper, code=1).err

    trio.run(run)


MARK = f"{TREE_FILE}.moved"


@pytest.mark.zookeeper
def test_a_tree_that_moved_is_not_moved_again_over_its_cluster(ottla: Ottla, data: Path, zookeeper: str) -> None:
    """The cluster in the tree may be newer, and `--replace` is easily said. Where there is no cluster, it may go once
    more.
    """
    export = ("tree", "export", "--data-dir", str(data), "--zookeeper")
    ottla(*export, zookeeper)
    mark = (data / MARK).read_text()
    assert zookeeper in mark.replace("\\", "")
    refused = ottla(*export, zookeeper, "--replace", "--yes", code=1).err
    assert str(data / MARK) in refused
    assert zookeeper in refused
    ottla(*export, f"{zookeeper}-another")
    ottla("tree", "import", "--data-dir", str(data), "--zookeeper", zookeeper, "--replace", "--yes")
    assert not (data / MARK).exists()
    ottla(*export, zookeeper, "--replace", "--yes")
    assert (data / MARK).exists()


@pytest.mark.zookeeper
def test_what_is_refused_marks_nothing(ottla: Ottla, data: Path, zookeeper: str, tmp_path: Path) -> None:
    another = tmp_path / "another"
    another.mkdir()
    (another / TREE_FILE).write_bytes((data / TREE_FILE).read_bytes())
    ottla("tree", "export", "--data-dir", str(another), "--zookeeper", zookeeper)
    ottla("tree", "export", "--data-dir", str(data), "--zookeeper", zookeeper, code=1)
    ottla("tree", "import", "--data-dir", str(data), "--zookeeper", zookeeper, code=1)
    ottla("tree", "import", "--data-dir", str(data), "--zookeeper", f"{zookeeper}-none", "--replace", "--yes", code=1)
    assert not (data / MARK).exists()


class Dying:
    """Ends what writes into one kind of tree at a write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Tree], writes: int) -> None:
        self.left = writes
        for name in {"multi", "delete"} & vars(kind).keys():
            monkeypatch.setattr(kind, name, self._counted(getattr(kind, name)))

    def _counted(self, write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted(*arguments: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Unavailable("/", "the process died")
            return await write(*arguments)

        return counted


#: Writes before a process dies: all of a copy into nothing; of the removal before it, which is long, some.
WRITES = (*range(6), *range(6, 200, 7))


def there(zookeeper: str) -> list[tuple[str, Node]]:
    async def look() -> list[tuple[str, Node]]:
        async with await ZooKeeperTree.connect(zookeeper) as tree:
            return await walk(tree)

    return trio.run(look)


@pytest.mark.zookeeper
@pytest.mark.parametrize("over", ["nothing", "an old cluster"])
def test_an_export_that_dies_leaves_one_tree_to_start_with_at_most(
    ottla: Ottla, data: Path, zookeeper: str, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lasting(content(data))
    for writes in WRITES:
        place = f"{zookeeper}-{writes}"
        replace = []
        if over != "nothing":
            ottla("tree", "export", "--data-dir", str(data), "--zookeeper", place)
            replace = ["--replace", "--yes"]
        (data / MARK).unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            dying = Dying(patch, ZooKeeperTree, writes)
            try:
                ottla("tree", "export", "--data-dir", str(data), "--zookeeper", place, *replace)
            except AssertionError:
                assert dying.left < 0
        if dying.left >= 0:
            break
        left = there(place)
        # The first write makes the chroot, or takes the old cluster's id away.
        assert znodes.CLUSTER_ID not in dict(left) or writes == 0
        assert (data / MARK).exists() == (writes > 0)
        if (data / MARK).exists():
            half = ottla(
                "tree", "import", "--data-dir", str(data), "--zookeeper", place, "--replace", "--yes", code=1
            ).err
            assert "Repeat ottla tree export" in half
        if writes < 8:
            ottla("tree", "export", "--data-dir", str(data), "--zookeeper", place, "--replace", "--yes")
            assert lasting(there(place)) == before
    assert writes > 2
    assert lasting(there(place)) == before
    assert (data / MARK).exists()


@pytest.mark.zookeeper
@pytest.mark.parametrize("was", ["new", "marked", "in use"])
def test_an_import_that_dies_leaves_no_tree_to_start_with(
    ottla: Ottla, data: Path, zookeeper: str, was: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ottla("tree", "export", "--data-dir", str(data), "--zookeeper", zookeeper)
    before = lasting(content(data))
    for writes in WRITES:
        back = tmp_path / f"back-{writes}"
        arguments = ("tree", "import", "--data-dir", str(back), "--zookeeper", zookeeper)
        if was != "new":
            ottla(*arguments)
            arguments = (*arguments, "--replace", "--yes")
        if was == "marked":
            (back / MARK).touch()
        with monkeypatch.context() as patch:
            dying = Dying(patch, EmbeddedTree, writes)
            try:
                ottla(*arguments)
            except AssertionError:
                assert dying.left < 0
        if dying.left >= 0:
            break
        # Before the first write it is what it was.
        assert (back / MARK).exists() == (writes > 0 or was != "in use")
        if writes < 8:
            ottla(*arguments[:6], "--replace", "--yes")
            assert lasting(content(back)) == before
            assert not (back / MARK).exists()
    assert writes > 2
    assert lasting(content(back)) == before
    assert not (back / MARK).exists()


def test_dump_beside_a_running_broker(ottla: Ottla, data: Path) -> None:
    async def run() -> str:
        async with await EmbeddedTree.open(str(data / TREE_FILE)) as tree:
            await tree.create("/live", b"x", ephemeral=True)
            return await trio.to_thread.run_sync(lambda: ottla("tree", "dump", "--data-dir", str(data)).out)

    lines = trio.run(run).splitlines()
    assert "/controller_epoch  17" in lines
    assert "/consumers/g/offsets/a/0  42" in lines
    assert any(line.startswith("/live  [session 0x") for line in lines)
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)


def test_dump_as_json_from_a_path_down(ottla: Ottla, data: Path) -> None:
    nodes = ottla("tree", "dump", "/brokers/topics/a", "--data-dir", str(data), "--json").out.splitlines()
    paths = [json.loads(line)["path"] for line in nodes]
    assert paths[0] == "/brokers/topics/a"
    assert len(paths) == 2 + 3 * 2
    assert json.loads(json.loads(nodes[-1])["data"])["leader_epoch"] == 2


@pytest.mark.zookeeper
def test_dump_of_zookeeper_is_the_same(ottla: Ottla, data: Path, zookeeper: str) -> None:
    ottla("tree", "export", "--data-dir", str(data), "--zookeeper", zookeeper)
    there = ottla("tree", "dump", "/brokers", "--zookeeper", zookeeper).out
    assert there == ottla("tree", "dump", "/brokers", "--data-dir", str(data)).out


def test_mistakes_are_explained(ottla: Ottla, data: Path, tmp_path: Path) -> None:
    assert "no node /nothing" in ottla("tree", "dump", "/nothing", "--data-dir", str(data), code=1).err
    assert "not a path" in ottla("tree", "dump", "nothing", "--data-dir", str(data), code=2).err
    assert "there is no tree" in ottla("tree", "dump", "--data-dir", str(tmp_path / "none"), code=1).err
    missing = ottla("tree", "export", "--data-dir", str(tmp_path / "none"), "--zookeeper", "127.0.0.1:1", code=1)
    assert "there is no tree" in missing.err
    assert not (tmp_path / "none").exists()
    (empty := tmp_path / "empty").touch()
    refused = ottla("tree", "dump", "--data-dir", str(empty), code=1).err
    assert refused.strip() == f"Error: cannot read {empty}: {empty} is not a coordination tree"
    assert not empty.stat().st_size
