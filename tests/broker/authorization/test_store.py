"""Rules in a tree that brokers share: who hears of them, and what happens to changes at the same time."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from pytest_trio import trio_fixture

from ottla.broker.authorization import store as of_store
from ottla.broker.authorization.nodes import encode_entries, path_of
from ottla.broker.authorization.snapshot import Snapshot, Standing
from ottla.broker.authorization.store import AclStore
from ottla.coordination.embedded import EmbeddedStore, EmbeddedTree
from ottla.coordination.tree import ConnectionLoss, NoNode, Operation
from ottla.errors import UnknownServerError
from ottla.wire import needs
from ottla.wire.acls import Entry, Pattern, PatternType, Permission
from ottla.wire.needs import Resource
from tests.support.waiting import comes_true

pytestmark = pytest.mark.trio

ORDERS = Pattern(Resource.TOPIC, "orders")
BILLING = Pattern(Resource.GROUP, "billing", PatternType.PREFIXED)
EVERY = Pattern(Resource.TOPIC, "*")


def entry(who: str, permission: Permission = Permission.ALLOW) -> Entry:
    return Entry(f"User:{who}", "*", needs.Operation.READ, permission)


ALICE, BOB = entry("alice"), entry("bob")


class Together:
    """Brokers with one tree."""

    def __init__(self, trees: EmbeddedStore) -> None:
        self.trees = trees
        self.sessions: list[EmbeddedTree] = []
        self.changes = 0

    async def store(self, standing: Standing | None = None) -> AclStore:
        tree = await self.trees.session()
        self.sessions.append(tree)
        return AclStore(tree, Snapshot(standing or Standing()), self._changed)

    def _changed(self, _pattern: Pattern | None) -> None:
        self.changes += 1


@trio_fixture
async def together(tmp_path: Path) -> AsyncIterator[Together]:
    trees = await EmbeddedStore.open(str(tmp_path / "tree"))
    found = Together(trees)
    yield found
    for session in found.sessions:
        await session.aclose()
    await trees.aclose()


def add(*entries: Entry) -> of_store.Alter:
    return lambda before: before | set(entries)


def take(*entries: Entry) -> of_store.Alter:
    return lambda before: before - set(entries)


def held(store: AclStore) -> dict[Pattern, set[Entry]]:
    return {pattern: set(store.snapshot.entries(pattern)) for pattern in store.snapshot.patterns()}


async def test_rules_are_there_after_a_start_and_heard_of(together: Together) -> None:
    first, second = await together.store(), await together.store()
    await first.load()
    await first.alter(ORDERS, add(ALICE))
    await first.alter(BILLING, add(BOB))
    await second.load()
    assert held(second) == held(first) == {ORDERS: {ALICE}, BILLING: {BOB}}
    async with trio.open_nursery() as nursery:
        await nursery.start(second.watch)
        await first.alter(EVERY, add(BOB))
        await first.alter(ORDERS, add(BOB))
        await first.alter(BILLING, take(BOB))
        wanted = {EVERY: {BOB}, ORDERS: {ALICE, BOB}}
        await comes_true("the other has heard", lambda: held(second) == wanted)
        assert held(first) == wanted
        nursery.cancel_scope.cancel()


async def test_own_changes_are_no_news(together: Together) -> None:
    """A broker hears of them as well, and nobody has to look again."""
    store = await together.store()
    await store.load()
    (tree,) = together.sessions
    async with trio.open_nursery() as nursery:
        await nursery.start(store.watch)
        await store.alter(ORDERS, add(ALICE))
        assert together.changes == 1
        await tree.create(path_of(EVERY), encode_entries({BOB}))
        await tree.create("/kafka-acl-changes/acl_changes_", b"TOPIC:*", sequential=True)
        await comes_true("what came later was heard", lambda: EVERY in held(store))
        assert together.changes == 2
        nursery.cancel_scope.cancel()


async def test_the_nodes_are_kafkas(together: Together) -> None:
    store = await together.store()
    await store.load()
    (tree,) = together.sessions
    await store.alter(ORDERS, add(ALICE))
    await store.alter(ORDERS, add(ALICE))
    await store.alter(BILLING, add(BOB))
    node = await tree.get("/kafka-acl/Topic/orders")
    assert node.data == encode_entries({ALICE})
    # What changes nothing is not written, and nobody is told.
    assert node.stat.version == 0
    assert await tree.children("/kafka-acl-changes") == ["acl_changes_0000000000"]
    assert (await tree.get("/kafka-acl-changes/acl_changes_0000000000")).data == b"TOPIC:orders"
    (extended,) = await tree.children("/kafka-acl-extended-changes")
    told = (await tree.get(f"/kafka-acl-extended-changes/{extended}")).data
    assert told == b'{"version":1,"resourceType":"GROUP","name":"billing","patternType":"PREFIXED"}'
    await store.alter(ORDERS, take(ALICE, BOB))
    with pytest.raises(NoNode):
        await tree.get("/kafka-acl/Topic/orders")
    assert len(await tree.children("/kafka-acl-changes")) == 2
    # Nothing was there, and nothing is to be there.
    await store.alter(ORDERS, take(ALICE))
    assert len(await tree.children("/kafka-acl-changes")) == 2


async def test_a_change_by_hand_is_heard_with_its_word(together: Together) -> None:
    store = await together.store()
    await store.load()
    (tree,) = together.sessions
    async with trio.open_nursery() as nursery:
        await nursery.start(store.watch)
        await tree.create("/kafka-acl/Topic/orders", encode_entries({BOB}))
        for nonsense in (b"nonsense", b"TABLE:orders", b""):
            await tree.create("/kafka-acl-changes/acl_changes_", nonsense, sequential=True)
        await tree.create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", sequential=True)
        await comes_true("it was heard", lambda: held(store) == {ORDERS: {BOB}})
        nursery.cancel_scope.cancel()


async def test_damaged_nodes_deny(together: Together, caplog: pytest.LogCaptureFixture) -> None:
    store = await together.store(Standing(allows_without_rules=True))
    await store.load()
    (tree,) = together.sessions
    await store.alter(ORDERS, add(ALICE))
    await tree.create("/kafka-acl/Topic/damaged", b"no JSON")
    await tree.create("/kafka-acl/User")
    with caplog.at_level(logging.WARNING):
        await store.load()
    assert "the topic damaged: /kafka-acl/Topic/damaged: not JSON" in caplog.text
    assert "unknown kind have no effect: /kafka-acl/User" in caplog.text

    def may_read(name: str) -> bool:
        return store.snapshot.decide("alice", "h", needs.Operation.READ, Resource.TOPIC, name).is_allowed

    assert may_read("orders")
    assert may_read("others")
    assert not may_read("damaged")
    async with trio.open_nursery() as nursery:
        await nursery.start(store.watch)
        await tree.set(path_of(ORDERS), b'{"version":9}')
        await tree.create("/kafka-acl-changes/acl_changes_", b"TOPIC:orders", sequential=True)
        await comes_true("the damage was heard of", lambda: not may_read("orders"))
        nursery.cancel_scope.cancel()
    with pytest.raises(UnknownServerError, match="/kafka-acl/Topic/damaged"):
        await store.alter(Pattern(Resource.TOPIC, "damaged"), add(ALICE))


async def test_changes_at_the_same_time_are_all_made(together: Together, autojump_clock: object) -> None:
    """testDistributedConcurrentModificationOfResourceAcls"""
    stores = [await together.store() for _ in range(4)]
    for store in stores:
        await store.load()
    wanted = {entry(f"user-{number}") for number in range(12)}
    async with trio.open_nursery() as nursery:
        for number, one in enumerate(wanted):
            nursery.start_soon(stores[number % 4].alter, ORDERS, add(one))
    await stores[0].load()
    assert held(stores[0]) == {ORDERS: wanted}


class Lossy:
    """A tree that does what it is asked, and says that the connection was lost; or that somebody was first."""

    def __init__(self, tree: EmbeddedTree) -> None:
        self._tree = tree
        self.losses: list[bool] = []
        self.rivals: list[Operation] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    async def multi(self, operations: Sequence[Operation]) -> Any:
        if self.rivals:
            await self._tree.multi([self.rivals.pop(0)])
        if self.losses:
            if self.losses.pop(0):
                await self._tree.multi(operations)
            raise ConnectionLoss("/")
        return await self._tree.multi(operations)


@pytest.mark.parametrize("losses", [[True], [False], [False, True]])
async def test_a_lost_answer(together: Together, losses: list[bool]) -> None:
    """The change is made once, and told once."""
    await (await together.store()).load()
    (tree,) = together.sessions
    lossy = Lossy(tree)
    store = AclStore(lossy, Snapshot(Standing()), lambda pattern: None)  # type: ignore[arg-type]
    await store.load()
    lossy.losses = losses
    await store.alter(ORDERS, add(ALICE))
    assert held(store) == {ORDERS: {ALICE}}
    assert len(await tree.children("/kafka-acl-changes")) == 1


async def test_a_node_that_others_change_all_the_time(
    together: Together, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await together.store()).load()
    (tree,) = together.sessions
    lossy = Lossy(tree)
    store = AclStore(lossy, Snapshot(Standing()), lambda pattern: None)  # type: ignore[arg-type]
    await store.load()
    await store.alter(ORDERS, add(BOB))

    def rivals(count: int) -> list[Operation]:
        return [of_store.Set(path_of(ORDERS), encode_entries({entry(f"rival-{n}")})) for n in range(count)]

    lossy.rivals = rivals(of_store.RETRIES_MAX)
    await store.alter(ORDERS, add(ALICE))
    assert held(store) == {ORDERS: {ALICE, entry(f"rival-{of_store.RETRIES_MAX - 1}")}}
    lossy.rivals = rivals(of_store.RETRIES_MAX + 1)
    with pytest.raises(UnknownServerError, match="maximum of 10"):
        await store.alter(ORDERS, add(entry("carol")))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "a\x1f", "\uf8ff"])
async def test_names_without_a_place(together: Together, name: str) -> None:
    store = await together.store()
    await store.load()
    with pytest.raises(UnknownServerError, match="no place"):
        await store.alter(Pattern(Resource.GROUP, name), add(ALICE))


async def test_more_rules_than_a_node_takes(together: Together) -> None:
    store = await together.store()
    await store.load()
    many = [entry(f"{number:04}" + "x" * 1000) for number in range(1000)]
    with pytest.raises(UnknownServerError, match="1000 rules are more"):
        await store.alter(ORDERS, add(*many))
    assert held(store) == {}


async def test_everything_is_read_in_a_new_session(together: Together) -> None:
    store = await together.store()
    await store.load()
    (tree,) = together.sessions
    async with trio.open_nursery() as nursery:
        await nursery.start(store.watch)
        # Without a word: the node that told of it was removed meanwhile.
        await tree.create("/kafka-acl/Topic/orders", encode_entries({BOB}))
        await tree.expire()
        await comes_true("all was read", lambda: held(store) == {ORDERS: {BOB}})
        nursery.cancel_scope.cancel()
