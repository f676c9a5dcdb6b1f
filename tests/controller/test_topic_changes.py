"""Nodes that brokers write into the tree for their clients, and requests that they refuse in Kafka's words."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from pytest_trio import trio_fixture

from ottla.controller import (
    NewTopic,
    broker_racks,
    create_partitions,
    create_topic,
    create_topics,
    delete_topics,
    get_config,
    prepare,
    set_config,
    set_topic_config,
    topic_changes,
    watch_config_changes,
)
from ottla.controller.store import FencedTree
from ottla.controller.topic_changes import Creation
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedTree
from ottla.coordination.tree import ConnectionLoss, Operation, SessionExpired, Tree
from ottla.coordination.znodes import BrokerRegistration, Endpoint, TopicAssignment
from ottla.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
    KafkaError,
    PolicyViolation,
    ReassignmentInProgress,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio


@trio_fixture
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as opened:
        await prepare(opened)
        for broker in (1, 2, 10):
            registration = BrokerRegistration((Endpoint("PLAINTEXT", "h", broker),), rack=f"r{broker}")
            await opened.create(znodes.broker_path(broker), registration.encode(), ephemeral=True)
        yield opened


async def assignment_of(tree: Tree, topic: str) -> dict[int, tuple[int, ...]]:
    path = znodes.topic_path(topic)
    return TopicAssignment.decode(path, (await tree.get(path)).data).partitions


async def test_topics_are_created_each_on_its_own(tree: Tree) -> None:
    results = await create_topics(
        tree,
        [
            NewTopic("a", 4, 2, config={"retention.ms": "1"}),
            NewTopic("b c", 1, 1),
            NewTopic("b", 1, 4),
            NewTopic("d", assignment={0: (10, 1), 1: (1, 2)}),
        ],
    )
    assert isinstance(results["b c"], InvalidTopic)
    assert isinstance(results["b"], InvalidReplicationFactor)
    assert results["d"] == {0: (10, 1), 1: (1, 2)} == await assignment_of(tree, "d")
    assert results["a"] == await assignment_of(tree, "a")
    assert len(await assignment_of(tree, "a")) == 4
    assert await tree.children(znodes.TOPICS) == ["a", "d"]
    assert await get_config(tree, "topics", "a") == {"retention.ms": "1"}
    assert await get_config(tree, "topics", "d") == {}
    assert await broker_racks(tree) == {1: "r1", 2: "r2", 10: "r10"}


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (NewTopic("taken"), TopicAlreadyExists, "Topic 'taken' already exists."),
        (NewTopic("tak.en"), InvalidTopic, "collides with existing topics: tak_en"),
        (NewTopic("", 1, 1), InvalidTopic, "it can't be empty"),
        (NewTopic("n", 0, 1), InvalidPartitions, "Number of partitions must be larger than 0."),
        (NewTopic("n", 1, 0), InvalidReplicationFactor, "Replication factor must be larger than 0."),
        (NewTopic("n", 1, 4), InvalidReplicationFactor, "Replication factor: 4 larger than available brokers: 3."),
        (NewTopic("n", assignment={0: (1,), 2: (1,)}), InvalidReplicaAssignment, "consecutive 0-based"),
        (NewTopic("n", assignment={0: (1,), 1: (1, 2)}), InvalidReplicaAssignment, "same number of replicas"),
        (NewTopic("n", assignment={0: (1, 1)}), InvalidReplicaAssignment, "Duplicate replica assignment"),
        (NewTopic("n", assignment={0: ()}), InvalidReplicaAssignment, ""),
        (NewTopic("n", assignment={}), InvalidReplicaAssignment, ""),
        (NewTopic("n", config={"retention.ms": "soon"}), InvalidConfig, "retention.ms"),
        (NewTopic("n", config={"no.such.setting": "1"}), InvalidConfig, "no.such.setting"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_what_is_refused(
    tree: Tree, topic: NewTopic, error: type[KafkaError], message: str, validate_only: bool
) -> None:
    await create_topics(tree, [NewTopic("taken"), NewTopic("tak_en")])
    with pytest.raises(error) as refused:
        await (Creation(tree).check if validate_only else Creation(tree).create)(topic)
    assert type(refused.value) is error
    assert message in str(refused.value)
    assert await tree.children(znodes.TOPICS) == ["tak_en", "taken"]


async def test_a_check_writes_nothing(tree: Tree) -> None:
    assert len(await Creation(tree).check(NewTopic("a", 2, 3))) == 2
    assert await tree.children(znodes.TOPICS) == []
    assert await tree.children(znodes.CONFIG_TOPICS) == []


async def test_a_request_for_many_topics_reads_what_is_there_once(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own topics are among those that a later one collides with."""
    read: list[str] = []
    children = tree.children

    async def noted(path: str, *arguments: Any) -> list[str]:
        read.append(path)
        return await children(path, *arguments)

    monkeypatch.setattr(tree, "children", noted)
    results = await create_topics(tree, [NewTopic("a_b"), *(NewTopic(f"n.{i}") for i in range(20)), NewTopic("a.b")])
    refused = results.pop("a.b")
    assert isinstance(refused, InvalidTopic)
    assert "collides with existing topics: a_b" in str(refused)
    assert all(isinstance(result, dict) for result in results.values())
    assert sorted(read) == [znodes.BROKER_IDS, znodes.TOPICS]


async def test_all_topics_of_a_request_together_have_no_more_partitions_than_a_cluster(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_changes, "REQUEST_PARTITIONS_MAX", 7)
    results = await create_topics(tree, [NewTopic("a", 4), NewTopic("b", 4), NewTopic("c", 3), NewTopic("d")])
    assert [name for name, result in results.items() if isinstance(result, PolicyViolation)] == ["b", "d"]
    assert "number of partitions per request: 8, not at most 7." in str(results["b"])


async def test_settings_left_behind_by_an_older_topic_are_replaced(tree: Tree) -> None:
    await set_config(tree, "topics", "a", {"retention.ms": "1"})
    await create_topic(tree, NewTopic("a", config={"segment.ms": "100"}))
    assert await get_config(tree, "topics", "a") == {"segment.ms": "100"}


async def test_two_brokers_create_the_same_topic(tree: Tree) -> None:
    outcomes: list[object] = []

    async def create() -> None:
        try:
            outcomes.append(await create_topic(tree, NewTopic("a", 3, 2)))
        except TopicAlreadyExists as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(create)
    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
    assert [outcome for outcome in outcomes if isinstance(outcome, dict)] == [await assignment_of(tree, "a")]


async def test_deletion_is_marked_once_or_twice(tree: Tree) -> None:
    await create_topic(tree, NewTopic("a"))
    for _ in range(2):
        results = await delete_topics(tree, ["a", "b", "../x", ""])
        assert results.pop("a") is None
        assert {type(error) for error in results.values()} == {UnknownTopicOrPartition}
    assert await tree.children(znodes.DELETE_TOPICS) == ["a"]


class LostAnswer:
    """A tree of which the answer to the first `multi` that deletes or marks a topic is lost, and what happens before
    the connection is there again.
    """

    def __init__(self, tree: Tree, path: str, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._tree = tree
        self._path = path
        self._meanwhile = meanwhile
        self._is_lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        answer = await self._tree.multi(operations)
        if not self._is_lost and any(operation.path == self._path for operation in operations):
            self._is_lost = True
            raise ConnectionLoss(self._path)
        return answer

    async def wait_connected(self) -> None:
        await self._meanwhile()


async def born(tree: Tree, topic: str) -> int:
    return (await tree.get(znodes.topic_path(topic))).stat.czxid


async def test_a_lost_answer_deletes_no_later_topic_of_the_name(tree: Tree) -> None:
    await create_topic(tree, NewTopic("a"))
    await tree.create(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(1))

    async def deleted_and_made_anew() -> None:
        await FencedTree(tree, 1, 0).delete_topic("a", await born(tree, "a"))
        await create_topic(tree, NewTopic("a"))

    flaky = cast("Tree", LostAnswer(tree, znodes.delete_topic_path("a"), deleted_and_made_anew))
    assert await delete_topics(flaky, ["a"]) == {"a": None}
    assert await tree.children(znodes.DELETE_TOPICS) == []
    assert await assignment_of(tree, "a")


async def test_a_lost_answer_to_the_controller_deletes_no_later_topic_of_the_name(tree: Tree) -> None:
    await create_topic(tree, NewTopic("a"))
    await delete_topics(tree, ["a"])
    flaky = LostAnswer(tree, znodes.topic_path("a"), lambda: create_topic(tree, NewTopic("a")))
    await tree.create(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(1))
    await FencedTree(cast("Tree", flaky), 1, 0).delete_topic("a", await born(tree, "a"))
    assert await assignment_of(tree, "a")
    assert await tree.children(znodes.DELETE_TOPICS) == []


async def test_the_controller_deletes_no_topic_that_took_the_place_of_the_one_it_knows(tree: Tree) -> None:
    await create_topic(tree, NewTopic("a"))
    await delete_topics(tree, ["a"])
    await tree.create(znodes.CONTROLLER_EPOCH, znodes.encode_epoch(1))
    known = await born(tree, "a")
    await tree.delete(znodes.topic_path("a"))
    await create_topic(tree, NewTopic("a"))
    await FencedTree(tree, 1, 0).delete_topic("a", known)
    assert await assignment_of(tree, "a")
    assert await tree.children(znodes.DELETE_TOPICS) == [], "that was for the former"
    await delete_topics(tree, ["a"])
    await FencedTree(tree, 1, 0).delete_topic("a", known)
    assert await tree.children(znodes.DELETE_TOPICS) == ["a"]


async def test_a_mark_whose_answer_is_lost_is_made_once(tree: Tree) -> None:
    await create_topic(tree, NewTopic("a"))
    flaky = cast("Tree", LostAnswer(tree, znodes.delete_topic_path("a"), trio.lowlevel.checkpoint))
    assert await delete_topics(flaky, ["a"]) == {"a": None}
    assert await tree.children(znodes.DELETE_TOPICS) == ["a"]


async def test_partitions_are_added_where_kafka_would_add_them(tree: Tree) -> None:
    await create_topic(tree, NewTopic("a", assignment={0: (2, 1)}))
    assert (await create_partitions(tree, "a", 3, validate_only=True)).keys() == {1, 2}
    assert len(await assignment_of(tree, "a")) == 1
    added = await create_partitions(tree, "a", 3)
    assert await assignment_of(tree, "a") == {0: (2, 1)} | added
    assert all(len(replicas) == 2 for replicas in added.values())
    assert await create_partitions(tree, "a", 4, assignments=[(1, 10)]) == {3: (1, 10)}


@pytest.mark.parametrize(
    ("total", "assignments", "error", "message"),
    [
        (2, None, InvalidPartitions, "Topic already has 2 partitions."),
        (1, None, InvalidPartitions, "Topic currently has 2 partitions, which is higher than the requested 1."),
        (3, [(1, 3)], InvalidReplicaAssignment, "Unknown broker(s) in replica assignment: 3."),
        (4, [(1, 2)], InvalidReplicaAssignment, "Increasing the number of partitions by 2 but 1 assignments provided."),
        (3, [(1,)], InvalidReplicaAssignment, "2 replicas"),
        (3, [(1, 1)], InvalidReplicaAssignment, "2 replicas"),
        (3, [(*range(100_000),)], InvalidReplicaAssignment, "2 replicas, not 100000."),
    ],
)
async def test_what_is_refused_when_adding(
    tree: Tree, total: int, assignments: list[tuple[int, ...]] | None, error: type[KafkaError], message: str
) -> None:
    await create_topic(tree, NewTopic("a", assignment={0: (2, 1), 1: (1, 2)}))
    with pytest.raises(error) as refused:
        await create_partitions(tree, "a", total, assignments=assignments)
    assert message in str(refused.value)
    with pytest.raises(UnknownTopicOrPartition):
        await create_partitions(tree, "b", 2)


async def test_nothing_is_added_during_a_reassignment_and_a_topic_id_is_kept(tree: Tree) -> None:
    path = znodes.topic_path("a")
    data = b'{"version":3,"topic_id":"x","partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"removing_replicas":{}}'
    await tree.create(path, data)
    with pytest.raises(ReassignmentInProgress):
        await create_partitions(tree, "a", 2)
    await tree.set(path, data.replace(b'"0":[2]', b""))
    await create_partitions(tree, "a", 2)
    kept = TopicAssignment.decode(path, (await tree.get(path)).data)
    assert (kept.version, kept.extra, len(kept.partitions)) == (3, {"topic_id": "x"}, 2)


async def test_every_broker_hears_of_settings_in_order(tree: Tree) -> None:
    heard: list[tuple[str, str]] = []
    changed = trio.Event()

    async def on_change(entity_type: str, entity_name: str) -> None:
        nonlocal changed
        heard.append((entity_type, entity_name))
        changed.set()
        changed = trio.Event()

    await create_topic(tree, NewTopic("a"))
    await set_topic_config(tree, "a", {"retention.ms": "1"})
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_config_changes, tree, on_change, trio.lowlevel.checkpoint)
        assert heard == [("topics", "a")]
        await set_config(tree, "brokers", "<default>", {"x": "y"})
        await set_config(tree, "brokers", "1", {"x": "z"})
        await set_config(tree, "users", "u/clients/c", {"x": "z"})
        await tree.create(znodes.CONFIG_CHANGE_PREFIX, b"nonsense", sequential=True)
        await set_topic_config(tree, "a", {"retention.ms": "2"})
        with trio.fail_after(PATIENCE_S):
            while len(heard) < 5:
                await changed.wait()
        nursery.cancel_scope.cancel()
    assert heard[1:] == [
        ("brokers", "<default>"),
        ("brokers", "1"),
        ("users", "u/clients/c"),
        ("topics", "a"),
    ]
    assert await get_config(tree, "topics", "a") == {"retention.ms": "2"}
    assert await get_config(tree, "users", "u/clients/c") == {"x": "z"}


async def test_a_change_is_not_lost_with_the_session(tree: Tree) -> None:
    heard: list[str] = []
    twice = trio.Event()

    async def on_change(_: str, entity_name: str) -> None:
        heard.append(entity_name)
        if len(heard) == 1:
            assert isinstance(tree, EmbeddedTree)
            await tree.expire()
            raise SessionExpired("/", "while its settings were read")
        twice.set()

    await set_config(tree, "brokers", "1", {"x": "z"})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_config_changes, tree, on_change, trio.lowlevel.checkpoint)
        with trio.fail_after(PATIENCE_S):
            await twice.wait()
        nursery.cancel_scope.cancel()
    assert heard == ["1", "1"]


async def test_a_new_session_reads_everything_before_it_goes_on(tree: Tree) -> None:
    """Changes that were told while nobody listened may be removed already. All is read once for each session, until it
    was.
    """
    assert isinstance(tree, EmbeddedTree)
    heard: list[str] = []

    async def on_change(_: str, entity_name: str) -> None:
        heard.append(entity_name)

    async def read_all() -> None:
        heard.append("all")
        if heard.count("all") == 1:
            await tree.expire()
            raise SessionExpired("/", "while everything was read")

    async with trio.open_nursery() as nursery:
        await nursery.start(watch_config_changes, tree, on_change, read_all)
        await set_config(tree, "brokers", "1", {"x": "y"})
        await comes_true("the first change", lambda: heard == ["1"])
        await tree.expire()
        await comes_true("everything", lambda: heard == ["1", "all", "all"])
        await tree.wait_connected()
        await set_config(tree, "brokers", "2", {"x": "z"})
        await comes_true("the next change", lambda: heard == ["1", "all", "all", "2"])
        nursery.cancel_scope.cancel()


HOUR_NS = 3600 * 10**9


async def test_old_changes_are_removed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is a newer one. It is the tree's clock that counts, not the one of the broker that looks."""
    now_ns = time.time_ns()

    async def look() -> list[str]:
        async def ignore(_: str, __: str) -> None:
            pass

        async with trio.open_nursery() as nursery:
            await nursery.start(watch_config_changes, tree, ignore, trio.lowlevel.checkpoint)
            nursery.cancel_scope.cancel()
        return sorted(await tree.children(znodes.CONFIG_CHANGES))

    for entity in "12":
        await set_config(tree, "brokers", entity, {"x": "z"})
    monkeypatch.setattr(time, "time_ns", lambda: now_ns + HOUR_NS)
    assert len(await look()) == 2
    await set_config(tree, "brokers", "3", {"x": "z"})
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    (left,) = await look()
    change = await tree.get(f"{znodes.CONFIG_CHANGES}/{left}")
    assert znodes.decode_config_change("", change.data) == "brokers/3"


async def test_a_change_among_many_costs_few_looks(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before it are not read again, though they are kept for a while."""
    for number in range(100):
        await set_config(tree, "clients", f"client-{number}", {"x": "z"})
    looks: list[str] = []
    get, get_many, exists = EmbeddedTree.get, EmbeddedTree.get_many, EmbeddedTree.exists
    heard = {name: trio.Event() for name in ("one", "another")}

    async def counted_get(tree: EmbeddedTree, path: str, *rest: Any) -> Any:
        looks.append(path)
        return await get(tree, path, *rest)

    async def counted_get_many(tree: EmbeddedTree, paths: Sequence[str]) -> Any:
        looks.extend(paths)
        return await get_many(tree, paths)

    async def counted_exists(tree: EmbeddedTree, path: str, *rest: Any) -> Any:
        looks.append(path)
        return await exists(tree, path, *rest)

    async def on_change(_: str, name: str) -> None:
        if name in heard:
            heard[name].set()

    async with trio.open_nursery() as nursery:
        await nursery.start(watch_config_changes, tree, on_change, trio.lowlevel.checkpoint)
        monkeypatch.setattr(EmbeddedTree, "get", counted_get)
        monkeypatch.setattr(EmbeddedTree, "exists", counted_exists)
        monkeypatch.setattr(EmbeddedTree, "get_many", counted_get_many)
        for name, event in heard.items():
            await set_config(tree, "clients", name, {"x": "z"})
            with trio.fail_after(PATIENCE_S):
                await event.wait()
        nursery.cancel_scope.cancel()
    # Each of them, and whether the oldest is old.
    seen = {path for path in looks if path.startswith(znodes.CONFIG_CHANGES)}
    assert seen == {f"{znodes.CONFIG_CHANGE_PREFIX}{number:010}" for number in (0, 100, 101)}


async def test_settings_of_topics_that_are_not_there(tree: Tree) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        await set_topic_config(tree, "a", {})
    await create_topic(tree, NewTopic("a"))
    with pytest.raises(InvalidConfig):
        await set_topic_config(tree, "a", {"retention.ms": "soon"})
    assert await tree.children(znodes.CONFIG_CHANGES) == []
