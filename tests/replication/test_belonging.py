"""Old folders and topics made anew: what becomes of a log that is not the topic's whose name it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from ottla.controller import get_or_create_cluster_id, prepare
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedTree
from ottla.coordination.tree import ConnectionLoss, Tree
from ottla.coordination.znodes import PartitionState, TopicAssignment
from ottla.errors import MayHaveLost, StorageError
from ottla.kafka import PartitionKey
from ottla.replication import aside, belonging, log_notes
from ottla.replication.belonging import Belonging, Taken
from ottla.replication.log_manager import LogManager
from tests.replication.internal import opened
from tests.replication.unclean import Stand, state
from tests.support.client import batch
from tests.support.log_manager import Settings, append, config, folders

pytestmark = pytest.mark.trio
ME, OTHER, THIRD = 1, 2, 3
T: PartitionKey = ("t", 0)


class Place:
    """A tree, and a directory with logs."""

    def __init__(self, tmp_path: Path, tree: Tree) -> None:
        self.data = tmp_path / "data"
        self.tree = tree

    @asynccontextmanager
    async def runs(self) -> AsyncIterator[tuple[LogManager, Belonging]]:
        """A broker that has just started."""
        settings = Settings(config(self.data))
        async with LogManager.open(settings.config) as logs:
            await logs.load(settings)
            belongs = Belonging(ME, self.tree, logs)
            await belongs.look()
            yield logs, belongs

    async def topic(self, name: str, *partitions: tuple[int, ...], isr: tuple[int, ...] | None = None) -> None:
        """Makes a topic."""
        assignment = TopicAssignment(dict(enumerate(partitions)))
        await self.tree.create(znodes.topic_path(name), assignment.encode())
        for number, replicas in enumerate(partitions):
            await self.tree.ensure(znodes.partition_path(name, number))
            state = PartitionState(replicas[0], 0, replicas if isr is None else isr, 1)
            await self.tree.create(znodes.state_path(name, number), state.encode())

    async def gone(self, name: str) -> None:
        """Takes a topic out of the tree."""
        found = [znodes.topic_path(name)]
        for path in found:
            found += [f"{path}/{child}" for child in await self.tree.children(path)]
        for path in reversed(found):
            await self.tree.delete(path)

    async def has_log(self, *values: bytes, key: PartitionKey = T) -> None:
        """A broker makes a log, fills it, and ends."""
        async with self.runs() as (logs, belongs):
            taken = await belongs.before_roles([key])
            places = await logs.open_or_create(key[0], [key[1]], note=taken.notes.get(key[0]))
            for value in values:
                append(places.logs[key[1]], value)

    def asides(self) -> Iterator[tuple[str, int]]:
        for _, each in aside.found(self.data):
            yield each.folder_name, each.end_offset


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:
        await prepare(tree)
        await get_or_create_cluster_id(tree)
        yield Place(tmp_path, tree)


async def test_a_log_of_a_topic_that_was_made_anew_is_put_aside(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    await place.topic("t", (ME, OTHER))
    await place.has_log(b"old", b"old")
    async with place.runs() as (logs, _):
        assert logs.logs[T].end_offset == 2
    await place.gone("t")
    await place.topic("t", (ME, OTHER))
    async with place.runs() as (logs, belongs):
        assert T not in logs.logs
        assert logs.without_log == {T}
        assert [*place.asides()] == [("t-0", 2)]
        taken = await belongs.before_roles([T])
        assert not taken.put_aside
        assert not taken.errors
        places = await logs.open_or_create("t", [0], note=taken.notes["t"])
        assert places.logs[0].end_offset == 0
        assert log_notes.read(place.data / "t-0") == taken.notes["t"]
        ((identity, _),) = aside.found(place.data)
        assert f"`ottla log take-back {place.data} {identity}`" in caplog.text
        assert "offsets 0 to 2" in caplog.text
    # Now it is this topic's.
    async with place.runs() as (logs, _):
        assert T in logs.logs


async def test_a_topic_that_is_made_anew_while_a_broker_without_a_role_runs(place: Place) -> None:
    await place.topic("t", (OTHER, ME))
    await place.has_log(b"old")
    await place.gone("t")
    async with place.runs() as (logs, belongs):
        # Nobody is served a log whose topic is not there.
        assert T in logs.logs
        assert (await belongs.before_roles([T])).notes == {}
        await place.topic("t", (ME, OTHER))
        taken = await belongs.before_roles([T, ("t", 1)])
        assert taken.put_aside == {T}
        assert T not in logs.logs
        assert [*place.asides()] == [("t-0", 1)]


@pytest.mark.parametrize("kept", [None, "another tree"])
async def test_a_log_without_a_note_of_this_tree_is_kept_and_noted(
    place: Place, tmp_path: Path, kept: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await place.topic("t", (ME, OTHER))
    await place.has_log(b"old")
    if kept is None:
        log_notes.remove(place.data / "t-0")
    else:
        # ZooKeeper was made anew, and has the same cluster's id.
        cluster_id = await get_or_create_cluster_id(place.tree)
        await place.gone("t")
        await place.tree.delete(znodes.CLUSTER_ID)
        await place.tree.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))
        await place.topic("t", (ME, OTHER))
    for _ in range(2):
        async with place.runs() as (logs, _belongs):
            assert logs.logs[T].end_offset == 1
    assert caplog.text.count("1 log had no note of this coordination tree") == 1
    # The note is this tree's now.
    await place.gone("t")
    await place.topic("t", (ME, OTHER))
    async with place.runs() as (logs, _):
        assert T not in logs.logs


async def test_a_replica_that_moved_is_deleted_on_proof_alone(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("moved", "leaving", "unclear", "in-sync", "held", "unknown", "anew"):
        await place.topic(name, (ME, OTHER))
        await place.has_log(b"old", key=(name, 0))
    away = TopicAssignment({0: (OTHER, THIRD)}).encode()
    others = PartitionState(OTHER, 3, (OTHER, THIRD), 1).encode()
    for name in ("moved", "leaving", "unclear", "anew"):
        await place.tree.set(znodes.topic_path(name), away)
        await place.tree.set(znodes.state_path(name, 0), others)
    await place.tree.set(znodes.topic_path("in-sync"), away)
    await place.tree.create(znodes.delete_topic_path("leaving"), b"")
    await place.tree.set(znodes.topic_path("unclear"), b"?")
    await place.gone("unknown")
    log_notes.remove(place.data / "anew-0")
    async with place.runs() as (logs, _):
        left = {"leaving", "unclear", "in-sync", "held", "unknown", "anew"}
        assert {topic for topic, _ in logs.logs} == left
        assert {name.split("-0")[0] for name in folders(place.data) if not name.endswith("-delete")} == left
        assert not [*place.asides()]
    assert "1 replica moved to other brokers while this one was away, and is deleted here: moved-0" in caplog.text
    # What had no note has one now.
    async with place.runs() as (logs, _):
        assert ("anew", 0) not in logs.logs


async def test_without_an_answer_no_role_is_taken_for_which_there_is_a_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.topic("t", (ME, OTHER), (ME, OTHER))
    await place.has_log(b"old")

    async def is_lost() -> None:
        raise ConnectionLoss("/")

    async def is_silent() -> None:
        await trio.sleep_forever()

    async with place.runs() as (logs, belongs):
        for sync in (is_lost, is_silent):
            with monkeypatch.context() as patched:
                patched.setattr(belonging, "TREE_S", 0.01)
                patched.setattr(place.tree, "sync", sync)
                taken = await belongs.before_roles([T, ("t", 1)])
                assert {key: type(error) for key, error in taken.errors.items()} == {T: StorageError}
        assert (await belongs.before_roles([T, ("t", 1)])).errors == {}
        assert logs.logs[T].end_offset == 1


async def test_a_log_that_cannot_be_put_aside_is_used_by_nobody(place: Place) -> None:
    await place.topic("t", (ME, OTHER))
    await place.has_log(b"old")
    await place.gone("t")
    async with place.runs() as (logs, belongs):
        (place.data / "t-0" / "mine").mkdir()
        await place.topic("t", (ME, OTHER))
        taken = await belongs.before_roles([T])
        assert "move it away" in str(taken.errors[T])
        assert T in logs.failures
        assert T not in logs.logs
    (place.data / "t-0" / "mine").rmdir()
    async with place.runs() as (logs, _):
        assert T not in logs.logs
    assert [*place.asides()] == [("t-0", 1)]


async def test_a_tree_without_a_cluster_decides_nothing(place: Place) -> None:
    await place.topic("t", (ME, OTHER))
    await place.has_log(b"old")
    await place.gone("t")
    await place.topic("t", (ME, OTHER))
    await place.tree.delete(znodes.CLUSTER_ID)
    async with place.runs() as (logs, belongs):
        taken = await belongs.before_roles([T])
        assert (taken.put_aside, taken.errors) == (set(), {})
        assert T in logs.logs


async def test_a_log_on_its_way_into_another_directory_takes_its_note_along(place: Place) -> None:
    await place.topic("t", (ME, OTHER))
    await place.has_log(b"old")
    second = place.data.with_name("second")
    settings = Settings(config(place.data, second))
    async with LogManager.open(settings.config) as logs:
        await logs.load(settings)
        note = (await logs.notes([T]))[T]
        await logs.create_future("t", 0, logs.directories.at(str(second)))
        assert note is not None
        assert log_notes.read(Path(logs.futures[T].directory)) == note


async def test_a_role_is_taken_with_the_topics_own_log_alone(place: Place) -> None:
    """Told that it is in sync, without being new, a replica whose log was put aside has lost it."""
    names = ("new", "in-sync", "out", "held")
    unclean_start = Stand(wait_s=30).start
    unclean_start.suspects.clear()
    async with opened(place.data, unclean_start=unclean_start, tree=place.tree) as here:
        replicas, logs = here.replicas, here.replicas._logs
        for name in names:
            await place.topic(name, (ME, OTHER))
            assert await replicas.apply(name, {0: state(OTHER, OTHER)}, new=[0]) == {}
            logs.logs[name, 0].append_bytes(batch(b"old"), 5)
            await replicas.stop(name, 0, delete=False)
            if name != "held":
                await place.gone(name)
                await place.topic(name, (ME, OTHER))
        told = {"new": state(ME, ME, OTHER), "in-sync": state(ME, ME, OTHER), "out": state(OTHER, OTHER)}
        errors = {
            name: await replicas.apply(name, {0: told.get(name, state(ME, ME))}, new=[0] if name == "new" else [])
            for name in names
        }
        assert {name: [*map(type, each.values())] for name, each in errors.items()} == {
            "new": [],
            "in-sync": [MayHaveLost],
            "out": [],
            "held": [],
        }
        ends = {name: log.end_offset for (name, _), log in logs.logs.items()}
        assert ends == {"new": 0, "out": 0, "held": 1}
        assert sorted(place.asides()) == [("in-sync-0", 1), ("new-0", 1), ("out-0", 1)]
        # Of a role that this process has had the tree is not asked again.
        asked: list[Collection[PartitionKey]] = []

        async def before_roles(keys: Collection[PartitionKey]) -> Taken:
            asked.append(keys)
            return Taken({}, set(), {})

        assert replicas._belonging is not None
        replicas._belonging.before_roles = before_roles  # type: ignore[method-assign]
        assert await replicas.apply("held", {0: state(ME, ME, epoch=6)}) == {}
        assert asked == [[]]
