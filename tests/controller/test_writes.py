"""Rows of a request that share transactions of the tree: how many there are, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from pytest_trio import trio_fixture

from ottla.controller import NewTopic, create_topic, prepare
from ottla.controller.assignment import Assignment
from ottla.controller.configs import Entity, Wanted, get_configs, set_configs
from ottla.controller.topic_changes import Creation, Growth, MorePartitions, delete_topics
from ottla.controller.writes import ROWS_AT_ONCE
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedTree
from ottla.coordination.tree import BATCH_BYTES_MAX, ConnectionLoss, Operation, Tree, bytes_of
from ottla.coordination.znodes import BrokerRegistration, Endpoint, TopicAssignment
from ottla.errors import InvalidPartitions, KafkaError, TopicAlreadyExists, UnknownTopicOrPartition

pytestmark = pytest.mark.trio


@trio_fixture
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    async with await EmbeddedTree.open(str(tmp_path / "tree")) as tree:
        await prepare(tree)
        await tree.create(znodes.broker_path(1), BrokerRegistration((Endpoint("PLAINTEXT", "h", 1),)).encode())
        yield tree


class Noted:
    """A tree whose transactions are noted; with `is_lost` the answer of the first is lost."""

    def __init__(self, tree: Tree, *, is_lost: bool = False) -> None:
        self._tree = tree
        self._is_lost = is_lost
        self.transactions: list[Sequence[Operation]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        self.transactions.append(operations)
        answer = await self._tree.multi(operations)
        if self._is_lost:
            self._is_lost = False
            raise ConnectionLoss("/")
        return answer

    async def wait_connected(self) -> None:
        await trio.lowlevel.checkpoint()


def noted(tree: Tree, *, is_lost: bool = False) -> tuple[Tree, Noted]:
    one = Noted(tree, is_lost=is_lost)
    return cast("Tree", one), one


async def checked(creation: Creation, *names: str) -> list[tuple[NewTopic, Assignment]]:
    topics = [NewTopic(name) for name in names]
    return [(topic, await creation.check(topic)) for topic in topics]


def kinds(errors: Sequence[KafkaError | None]) -> list[type]:
    return [type(error) for error in errors]


async def test_topics_share_a_transaction(tree: Tree) -> None:
    asked, seen = noted(tree)
    creation = Creation(asked)
    assert await creation.write(await checked(creation, "a", "b", "c")) == [None] * 3
    assert len(seen.transactions) == 1
    assert await delete_topics(asked, ["a", "x", "c"]) | {"x": None} == dict.fromkeys("axc")
    assert len(seen.transactions) == 2
    assert await tree.children(znodes.DELETE_TOPICS) == ["a", "c"]


async def test_each_topic_has_its_own_error(tree: Tree) -> None:
    creation = Creation(tree)
    topics = await checked(creation, "a", "b", "c")
    await create_topic(tree, NewTopic("b"))
    assert kinds(await creation.write(topics)) == [type(None), TopicAlreadyExists, type(None)]
    assert await tree.children(znodes.TOPICS) == ["a", "b", "c"]


async def test_topics_of_a_lost_answer_are_made(tree: Tree) -> None:
    asked, _ = noted(tree, is_lost=True)
    creation = Creation(asked)
    assert await creation.write(await checked(creation, "a", "b")) == [None, None]
    assert await tree.children(znodes.TOPICS) == ["a", "b"]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_partitions_that_somebody_else_added(tree: Tree, is_lost: bool) -> None:
    for name in "abc":
        await create_topic(tree, NewTopic(name))
    asked, _ = noted(tree, is_lost=is_lost)
    growth = Growth(asked)
    wanted = await growth.check([MorePartitions(name, 2) for name in "abcx"])
    assert isinstance(wanted.pop(), UnknownTopicOrPartition)
    grown = [each for each in wanted if not isinstance(each, KafkaError)]
    if not is_lost:
        others = Growth(tree)
        (other,) = await others.check([MorePartitions("b", 3)])
        assert not isinstance(other, KafkaError)
        assert await others.write([other]) == [None]
    expected = type(None) if is_lost else InvalidPartitions
    assert kinds(await growth.write(grown)) == [type(None), expected, type(None)]
    paths = [znodes.topic_path(name) for name in "ac"]
    for path, node in zip(paths, await tree.get_many(paths), strict=True):
        assert node is not None
        assert len(TopicAssignment.decode(path, node.data).partitions) == 2


async def test_settings_share_transactions_of_so_many_rows_and_bytes(tree: Tree) -> None:
    asked, seen = noted(tree)
    wanted = [Wanted(Entity("clients", f"c{number}"), {"x": "y"}) for number in range(ROWS_AT_ONCE + 1)]
    assert await set_configs(asked, wanted) == [None] * len(wanted)
    large = [Wanted(Entity("users", f"u{number}"), {"x": "y" * 100_000}) for number in range(20)]
    seen.transactions.clear()
    assert await set_configs(asked, large) == [None] * 20
    assert max(sum(map(bytes_of, operations)) for operations in seen.transactions) <= BATCH_BYTES_MAX
    # Five rows in each.
    assert len(seen.transactions) == 4
    assert (await get_configs(tree, [Entity("users", "u7"), Entity("users", "u"), Entity("clients", "c500")])) == [
        {"x": "y" * 100_000},
        {},
        {"x": "y"},
    ]
    assert len(await tree.children(znodes.CONFIG_CHANGES)) == len(wanted) + len(large)


async def test_settings_of_a_topic_that_is_gone(tree: Tree) -> None:
    await create_topic(tree, NewTopic("a"))
    wanted = [Wanted(Entity("topics", name), {"retention.ms": "1"}) for name in ("a", "gone")]
    assert kinds(await set_configs(tree, wanted)) == [type(None), UnknownTopicOrPartition]
    assert await get_configs(tree, [Entity("topics", "a")]) == [{"retention.ms": "1"}]
