"""The particulars of ZooKeeper: lost answers, lost connections, chroots, and that null is not empty."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from kazoo.client import KazooClient
from pytest_trio import trio_fixture

from ottla.coordination.tree import (
    ConnectionLoss,
    Create,
    EventKind,
    NodeExists,
    NoNode,
    SessionState,
    Unavailable,
    WatchEvent,
    ensure_one,
)
from ottla.coordination.zookeeper import WINDOW, ZooKeeperTree
from tests.coordination.proxy import LossyProxy
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.trio, pytest.mark.zookeeper]


@trio_fixture
async def direct(zookeeper: str) -> AsyncIterator[ZooKeeperTree]:
    tree = await ZooKeeperTree.connect(zookeeper)
    yield tree
    await tree.aclose()


@trio_fixture
async def tree(zookeeper: str, proxy: LossyProxy, direct: ZooKeeperTree) -> AsyncIterator[ZooKeeperTree]:
    """Through the proxy, to the same chroot as `direct`."""
    chroot = zookeeper.partition("/")[2]
    connected = await ZooKeeperTree.connect(f"127.0.0.1:{proxy.port}/{chroot}", session_timeout_ms=10_000)
    yield connected
    await connected.aclose()


async def lose_answer_of(tree: ZooKeeperTree, proxy: LossyProxy, direct: ZooKeeperTree, path: str) -> None:
    """Let the server apply the write of `path` that is about to be started; then lose the answer and the connection."""
    with trio.fail_after(PATIENCE_S):
        while await direct.exists(path) is None:
            pass
        await trio.to_thread.run_sync(proxy.lost.wait, PATIENCE_S)
    proxy.cut()


async def test_a_lost_answer_is_an_unknown_outcome_and_the_session_goes_on(
    tree: ZooKeeperTree, proxy: LossyProxy, direct: ZooKeeperTree
) -> None:
    states: list[SessionState] = []
    tree.listen(states.append)
    session = tree.session_id
    proxy.deaf = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose_answer_of, tree, proxy, direct, "/written")
        with pytest.raises(ConnectionLoss):
            await tree.multi([Create("/written", b"x", ephemeral=True)])
    await tree.wait_connected()
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert tree.session_id == session
    # It was applied, by this very session: that is how one's own write is known again.
    node = await tree.get("/written")
    assert (node.data, node.stat.ephemeral_owner) == (b"x", session)
    with pytest.raises(NodeExists):
        await tree.create("/written")


async def test_ensure_does_not_mind_a_lost_answer(
    tree: ZooKeeperTree, proxy: LossyProxy, direct: ZooKeeperTree
) -> None:
    proxy.deaf = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose_answer_of, tree, proxy, direct, "/made")
        assert await ensure_one(tree, "/made", b"x") is False
    assert (await tree.get("/made")).data == b"x"


async def test_reads_are_repeated_over_lost_connections(tree: ZooKeeperTree, proxy: LossyProxy) -> None:
    await tree.create("/a", b"x")
    for _ in range(3):
        proxy.lost.clear()
        proxy.deaf = True

        async def lose() -> None:
            await trio.to_thread.run_sync(proxy.lost.wait, PATIENCE_S)
            proxy.cut()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose)
            with trio.fail_after(PATIENCE_S):
                assert (await tree.get("/a")).data == b"x"


async def test_a_watch_is_told_that_the_connection_was_lost(
    tree: ZooKeeperTree, proxy: LossyProxy, direct: ZooKeeperTree
) -> None:
    await tree.create("/a", b"0")
    send, receive = trio.open_memory_channel[WatchEvent](10)
    await tree.get("/a", send.send_nowait)
    await tree.children("/", send.send_nowait)
    proxy.refuse = True
    proxy.cut()
    with trio.fail_after(PATIENCE_S):
        events = {await receive.receive(), await receive.receive()}
    assert events == {WatchEvent(EventKind.LOST, "/a"), WatchEvent(EventKind.LOST, "/")}
    # A change while nobody looks; the read that arms again waits for the connection and sees it.
    await direct.set("/a", b"1")
    proxy.refuse = False
    with trio.fail_after(PATIENCE_S):
        assert (await tree.get("/a", send.send_nowait)).data == b"1"
        await direct.set("/a", b"2")
        assert await receive.receive() == WatchEvent(EventKind.CHANGED, "/a")


async def test_what_is_started_while_suspended_is_done_once_connected(tree: ZooKeeperTree, proxy: LossyProxy) -> None:
    """More than kazoo's wake-up socket would take without blocking the loop; no outcome is unknown, none was sent."""
    await tree.create("/a")
    proxy.refuse = True
    proxy.cut()
    changed = trio.Event()
    tree.listen(lambda _: changed.set())
    with trio.fail_after(PATIENCE_S):
        await changed.wait()
    assert tree.state is SessionState.SUSPENDED
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for number in range(WINDOW * 10):
                nursery.start_soon(tree.create, f"/a/{number}")
            await trio.lowlevel.checkpoint()
            proxy.refuse = False
    assert len(await tree.children("/a")) == WINDOW * 10


async def test_many_requests_at_once(direct: ZooKeeperTree) -> None:
    await direct.create("/a", b"x")
    nodes = await direct.get_many(["/a"] * (WINDOW * 20))
    assert len(nodes) == WINDOW * 20
    assert all(node is not None and node.data == b"x" for node in nodes)


async def test_servers_are_read_as_zookeepers_client_does(zookeeper_server: str, zookeeper: str) -> None:
    """With blanks and commas that name nobody."""
    chroot = "/" + zookeeper.partition("/")[2]
    async with await ZooKeeperTree.connect(f" {zookeeper_server} ,, {zookeeper_server}, {chroot}") as tree:
        await tree.create("/a", b"x")
    async with await ZooKeeperTree.connect(zookeeper, create_chroot=False) as tree:
        assert (await tree.get("/a")).data == b"x"
    with pytest.raises(ValueError, match="chroot that is no path"):
        await ZooKeeperTree.connect(f"{zookeeper_server}/{chroot}")


async def test_the_chroot_is_made_only_if_wanted(zookeeper_server: str, zookeeper: str) -> None:
    with pytest.raises(NoNode):
        await ZooKeeperTree.connect(zookeeper + "/deep/er", create_chroot=False)
    async with await ZooKeeperTree.connect(zookeeper + "/deep/er") as tree:
        await tree.create("/a", b"x")
        assert await tree.multi([Create("/b"), Create("/b/n_", sequential=True)]) == ["/b", "/b/n_0000000000"]
        assert await tree.children("/") == ["a", "b"]
    async with await ZooKeeperTree.connect(zookeeper_server) as root:
        chroot = "/" + zookeeper.partition("/")[2]
        assert (await root.get(chroot + "/deep/er/a")).data == b"x"


async def test_no_server_is_said_in_time() -> None:
    with trio.fail_after(PATIENCE_S), pytest.raises(Unavailable, match="no ZooKeeper server"):
        await ZooKeeperTree.connect("127.0.0.1:1", connect_timeout_ms=300)


async def test_no_data_is_null_as_kafka_makes_it(direct: ZooKeeperTree, zookeeper: str) -> None:
    """Kafka takes an empty string at /latest_producer_id_block for a broken block, and null for none."""
    await direct.create("/one")
    await direct.multi([Create("/two"), Create("/three", b"")])
    assert (await direct.get("/one")).data == b""

    def sizes() -> list[object]:
        client = KazooClient(hosts=zookeeper)
        client.start()
        try:
            return [client.get(path)[0] for path in ("/one", "/two", "/three")]
        finally:
            client.stop()
            client.close()

    # kazoo gives b"" for an empty string and None for null.
    assert await trio.to_thread.run_sync(sizes) == [None, None, None]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_connection_that_ends_for_good_is_said(
    tree: ZooKeeperTree, proxy: LossyProxy, direct: ZooKeeperTree
) -> None:
    """An answer out of order is an error from which kazoo does not recover: nobody may wait for it for ever."""
    await direct.create("/a", b"x")
    states: list[SessionState] = []
    tree.listen(states.append)
    proxy.deaf = True
    async with trio.open_nursery() as nursery:

        async def lose_only_one() -> None:
            await trio.to_thread.run_sync(proxy.lost.wait, PATIENCE_S)
            proxy.deaf = False
            nursery.start_soon(expect_the_end)

        async def expect_the_end() -> None:
            with pytest.raises(Unavailable):
                await tree.get("/a")

        nursery.start_soon(lose_only_one)
        nursery.start_soon(expect_the_end)
    assert states[-1] is SessionState.CLOSED
    assert SessionState.EXPIRED not in states
    with pytest.raises(Unavailable):
        await tree.wait_connected()
