"""A broker's place in the tree, over sessions that end in every way; and the controller when answers are lost."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from pytest_trio import trio_fixture

from ottla.controller import (
    AlreadyRegistered,
    Controller,
    NewTopic,
    ProducerIds,
    Registration,
    create_partitions,
    create_topic,
    delete_topics,
    get_or_create_cluster_id,
    prepare,
    set_config,
)
from ottla.coordination import znodes
from ottla.coordination.embedded import EmbeddedStore, EmbeddedTree
from ottla.coordination.tree import Stat, Watch
from ottla.coordination.znodes import BrokerRegistration, Endpoint
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.controller.fakes import FakeBroker
from tests.coordination.conftest import end_session
from tests.coordination.proxy import LossyProxy
from tests.support.waiting import PATIENCE_S, comes_true

HERE = BrokerRegistration((Endpoint("PLAINTEXT", "h", 1),))
THERE = BrokerRegistration((Endpoint("PLAINTEXT", "h", 2),))


@trio_fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStore]:
    opened = await EmbeddedStore.open(str(tmp_path / "tree"))
    tree = await opened.session()
    await prepare(tree)
    yield opened
    await opened.aclose()


def registration(tree: EmbeddedTree | ZooKeeperTree, broker_id: int = 1) -> Registration:
    return Registration(tree, broker_id, lambda: HERE)


@pytest.mark.trio
async def test_the_epoch_is_the_czxid(store: EmbeddedStore) -> None:
    tree = await store.session()
    epochs: list[int] = []
    registered = Registration(tree, 1, lambda: HERE, on_epoch=epochs.append)
    assert registered.epoch == -1
    epoch = await registered.register()
    node = await tree.get(znodes.broker_path(1))
    assert node.stat.czxid == epoch == registered.epoch
    assert epochs == [epoch]
    assert node.stat.ephemeral_owner == tree.session_id
    assert json.loads(node.data)["endpoints"] == ["PLAINTEXT://h:1"]


@pytest.mark.trio
async def test_a_second_process_with_the_same_id_is_refused(store: EmbeddedStore) -> None:
    """It is told which node is in the way and whose it is; the first one notices nothing."""
    one, two = await store.session(), await store.session()
    await registration(one).register()
    before = await one.get(znodes.broker_path(1))
    with pytest.raises(AlreadyRegistered) as refused:
        await registration(two).register(wait_ms=50)
    told = f"/brokers/ids/1: another process is broker 1: PLAINTEXT://h:1 in session 0x{one.session_id:x}. Stop it"
    assert str(refused.value).startswith(told)
    assert await one.get(znodes.broker_path(1)) == before
    await Registration(two, 2, lambda: THERE).register()


@pytest.mark.trio
async def test_who_is_in_the_way_may_say_nothing_of_itself(store: EmbeddedStore) -> None:
    one, two = await store.session(), await store.session()
    await one.create(znodes.broker_path(1), b"no json")
    with pytest.raises(AlreadyRegistered, match="another process is broker 1: session 0x0"):
        await registration(two).register(wait_ms=50)


@pytest.mark.trio
async def test_a_killed_brokers_old_session_is_waited_for(store: EmbeddedStore) -> None:
    one, two = await store.session(), await store.session()
    first = await registration(one).register()
    async with trio.open_nursery() as nursery:
        again = registration(two)
        nursery.start_soon(again.register)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert again.epoch == -1
        await one.aclose()
    assert again.epoch > first


@pytest.mark.trio
@pytest.mark.parametrize("host", ["h", "H"])
async def test_a_second_broker_at_the_same_address_is_refused(store: EmbeddedStore, host: str) -> None:
    """Whichever of their listeners has it; and it leaves no registration."""
    one, two = await store.session(), await store.session()
    await registration(one).register()
    await one.create(znodes.broker_path(3), b"no json")
    here = BrokerRegistration((Endpoint("INTERNAL", "h", 7), Endpoint("OUTSIDE", host, 1)))
    second = Registration(two, 2, lambda: here)
    with trio.fail_after(PATIENCE_S), pytest.raises(AlreadyRegistered) as refused:
        await second.register(wait_ms=50)
    told = f"/brokers/ids/1: broker 1 advertises PLAINTEXT://h:1, in session 0x{one.session_id:x}, as broker 2 does."
    assert str(refused.value).startswith(told)
    assert "advertised.listeners" in str(refused.value)
    assert await two.exists(znodes.broker_path(2)) is None


@pytest.mark.trio
@pytest.mark.parametrize("how", ["ends", "moves"])
async def test_who_had_the_address_is_waited_for(store: EmbeddedStore, how: str) -> None:
    """A machine that comes back with another id finds its own former session."""
    one, two = await store.session(), await store.session()
    await registration(one).register()
    second = registration(two, 2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(second.register)
        # A write that changes nothing is no reason to go on.
        await trio.testing.wait_all_tasks_blocked(0.02)
        await one.set(znodes.broker_path(1), HERE.encode())
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert second.epoch == -1
        if how == "ends":
            await one.aclose()
        else:
            await one.set(znodes.broker_path(1), THERE.encode())
    assert second.epoch > 0


@pytest.mark.trio
async def test_who_was_registered_keeps_its_address(store: EmbeddedStore) -> None:
    """In a new session it asks nobody: another that has come meanwhile must not end a broker that serves."""
    one, two = await store.session(), await store.session()
    first = registration(one)
    epoch = await first.register()
    await two.create(znodes.broker_path(2), HERE.encode(), ephemeral=True)
    await one.expire()
    assert await first.register(wait_ms=0) > epoch


@pytest.mark.trio
async def test_a_new_session_registers_again(store: EmbeddedStore) -> None:
    tree, other = await store.session(), await store.session()
    changed = trio.Event()
    registered = Registration(tree, 1, lambda: HERE, on_epoch=lambda _: changed.set())
    first = await registered.register()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Controller(tree, 1, registration=registered).run)
        changed = trio.Event()
        await tree.expire()
        with trio.fail_after(PATIENCE_S):
            await changed.wait()
        nursery.cancel_scope.cancel()
    assert registered.epoch > first
    assert (await other.get(znodes.broker_path(1))).stat.czxid == registered.epoch


@pytest.mark.trio
async def test_a_session_that_ends_during_the_election_registers_again(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two calls of an election no call is there to fail: the later ones are made in the new session."""
    tree, other = await store.session(), await store.session()
    changed = trio.Event()
    registered = Registration(tree, 1, lambda: HERE, on_epoch=lambda _: changed.set())
    first = await registered.register()
    changed = trio.Event()
    exists, ended = tree.exists, False

    async def exists_and_expire(path: str, watch: Watch | None = None) -> Stat | None:
        nonlocal ended
        stat = await exists(path, watch)
        if path == znodes.CONTROLLER and not ended:
            ended = True
            await tree.expire()
        return stat

    monkeypatch.setattr(tree, "exists", exists_and_expire)
    controller = Controller(tree, 1, registration=registered)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        with trio.fail_after(PATIENCE_S):
            await changed.wait()
        assert not controller.is_active
        nursery.cancel_scope.cancel()
    assert registered.epoch > first
    assert (await other.get(znodes.broker_path(1))).stat.czxid == registered.epoch


@pytest.mark.trio
@pytest.mark.parametrize("how", ["removed", "renewed", "expired"])
async def test_one_that_stops_does_not_register_again(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Whatever becomes of its registration; it resigns, since others may be elected."""
    tree, other = await store.session(), await store.session()
    epochs: list[int] = []
    registered = Registration(tree, 1, lambda: HERE, on_epoch=epochs.append)
    epoch, resigned = await registered.register(), trio.Event()

    async def resign() -> None:
        resigned.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(registered.watch, resign)
        nursery.start_soon(Controller(tree, 1, registration=registered).run)
        await trio.testing.wait_all_tasks_blocked(0.02)
        registered.stop()
        if how == "removed":
            await other.delete(znodes.broker_path(1))
            with trio.fail_after(PATIENCE_S):
                await resigned.wait()
            assert "it stops anyway" in caplog.text
        elif how == "renewed":
            registered.renew(-1, 1)
        else:
            await tree.expire()
        await comes_true("it is about to", registered._registering.locked)
        # What it would do takes a few calls of the tree.
        for _ in range(10):
            await other.sync()
            await trio.testing.wait_all_tasks_blocked(0.01)
        stat = await other.exists(znodes.broker_path(1))
        assert (None if stat is None else stat.czxid) == (epoch if how == "renewed" else None)
        assert epochs == [epoch]
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_what_the_dead_session_of_this_process_left_is_replaced(store: EmbeddedStore) -> None:
    """ZooKeeper may remove it late (ZOOKEEPER-2985): two sessions of one process stand for the two."""
    late, tree = await store.session(), await store.session()
    first = await registration(late).register()
    again = registration(tree)
    again._own_sessions.add(late.session_id)
    assert await again.register(wait_ms=0) > first


@pytest.mark.trio
async def test_the_cluster_id_is_made_once(store: EmbeddedStore) -> None:
    trees = [await store.session() for _ in range(5)]
    ids: set[str] = set()

    async def get(tree: EmbeddedTree) -> None:
        ids.add(await get_or_create_cluster_id(tree))

    async with trio.open_nursery() as nursery:
        for tree in trees:
            nursery.start_soon(get, tree)
    assert len(ids) == 1
    (cluster_id,) = ids
    assert len(cluster_id) == 22
    assert json.loads((await trees[0].get(znodes.CLUSTER_ID)).data) == {"version": "1", "id": cluster_id}


@pytest.mark.trio
@pytest.mark.parametrize("instead", [None, b"no json", znodes.encode_cluster_id("another")])
@pytest.mark.parametrize("ends", [True, False])
async def test_a_tree_that_was_emptied_is_waited_for(
    store: EmbeddedStore, caplog: pytest.LogCaptureFixture, instead: bytes | None, ends: bool
) -> None:
    """The broker does not resign, register or stand for election there, whether its session ends or not."""
    tree, other = await store.session(), await store.session()
    cluster_id = await get_or_create_cluster_id(tree)
    registered = Registration(tree, 1, lambda: HERE, cluster_id=cluster_id)
    first, resigned = await registered.register(), 0

    async def resign() -> None:
        nonlocal resigned
        resigned += 1

    controller = Controller(tree, 1, registration=registered)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(registered.watch, resign)
        nursery.start_soon(controller.run)
        await comes_true("a controller", lambda: controller.is_active)
        await other.delete(znodes.CLUSTER_ID)
        if instead is not None:
            await other.create(znodes.CLUSTER_ID, instead)
        if ends:
            await tree.expire()
        else:
            await other.delete(znodes.broker_path(1))
            await other.delete(znodes.CONTROLLER)
        await comes_true("a line", lambda: "belongs to cluster" in caplog.text)
        await comes_true("its term ends", lambda: not controller.is_active)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert (resigned, registered.epoch) == (0, first)
        assert await other.exists(znodes.broker_path(1)) is None
        assert await other.exists(znodes.CONTROLLER) is None
        if instead is not None:
            await other.delete(znodes.CLUSTER_ID)
        await other.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))
        await comes_true("it is back", lambda: registered.epoch > first and controller.is_active)
        assert resigned == (0 if ends else 1)
        nursery.cancel_scope.cancel()


@pytest.fixture
def proxy(zookeeper: str) -> Iterator[LossyProxy]:
    host, _, port = zookeeper.partition("/")[0].partition(":")
    with LossyProxy((host, int(port))) as relay:
        yield relay


@pytest.mark.trio
@pytest.mark.zookeeper
async def test_every_step_survives_lost_answers(zookeeper: str, proxy: LossyProxy) -> None:
    """Registration, election, creation, growth, settings, ids and deletion while answers are lost all along."""
    chroot = zookeeper.partition("/")[2]
    async with (
        await ZooKeeperTree.connect(zookeeper) as direct,
        await ZooKeeperTree.connect(f"127.0.0.1:{proxy.port}/{chroot}", session_timeout_ms=10_000) as tree,
        trio.open_nursery() as nursery,
    ):
        broker = FakeBroker(1)
        await nursery.start(broker.serve)
        proxy.lose_after(itertools.cycle([2, 3, 4, 5, 7, 11]))
        with trio.fail_after(PATIENCE_S):
            await prepare(tree)
            await get_or_create_cluster_id(tree)
            epoch = await broker.register(tree)
            assert (await direct.get(znodes.broker_path(1))).stat.czxid == epoch
            controller = Controller(tree, 1)
            nursery.start_soon(controller.run)
            await create_topic(tree, NewTopic("t", 5, 1))
            await broker.until(lambda: len(broker.metadata("t")) == 5)
            await create_partitions(tree, "t", 9)
            await broker.until(lambda: len(broker.metadata("t")) == 9)
            await set_config(tree, "topics", "t", {"retention.ms": "1"})
            ids = [await ProducerIds(tree, 1).next() for _ in range(5)]
            assert len(set(ids)) == 5
            gone = trio.Event()
            await direct.exists(znodes.topic_path("t"), lambda _: gone.set())
            assert await delete_topics(tree, ["t"]) == {"t": None}
            await gone.wait()
        assert proxy.times_lost > 10
        proxy.stop_losing()
        nursery.cancel_scope.cancel()


@pytest.mark.trio
@pytest.mark.zookeeper
async def test_a_session_that_the_server_ended(zookeeper: str) -> None:
    """The controller resigns, the broker registers again with a larger epoch, and everything goes on."""
    async with await ZooKeeperTree.connect(zookeeper) as tree, trio.open_nursery() as nursery:
        await prepare(tree)
        broker = FakeBroker(1)
        await nursery.start(broker.serve)
        first = await broker.register(tree)
        assert broker.registration is not None
        controller = Controller(tree, 1, registration=broker.registration)
        nursery.start_soon(controller.run)
        await create_topic(tree, NewTopic("t", 2, 1))
        await broker.until(lambda: len(broker.metadata("t")) == 2)
        broker.received.clear()
        await trio.to_thread.run_sync(end_session, zookeeper, tree._client.client_id)
        await broker.until(lambda: len(broker.metadata("t")) == 2 and broker.metadata("t")[0].leader == 1)
        assert controller.epoch == 2
        assert broker.registration.epoch > first
        await create_topic(tree, NewTopic("u", 1, 1))
        await broker.until(lambda: len(broker.metadata("u")) == 1)
        nursery.cancel_scope.cancel()
