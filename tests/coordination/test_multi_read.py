"""Many nodes by one request: the bytes, what a server refuses, and servers that do not know it."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.exceptions import MarshallingError, NoNodeError
from kazoo.security import make_digest_acl
from pytest_trio import trio_fixture

from ottla.coordination.multi_read import NODES_MAX, MultiRead, in_pieces
from ottla.coordination.tree import Create, Node, SessionState, Stat, TreeError, Unavailable
from ottla.coordination.zookeeper import WINDOW, ZooKeeperTree, _MultiReads
from tests.coordination.proxy import LossyProxy
from tests.support.waiting import PATIENCE_S, comes_true

real = pytest.mark.zookeeper
trio_test = pytest.mark.trio

STAT = struct.pack(">qqqqiiiqiiq", 1, 2, 4, 5, 6, 7, 99, 8, 9, 10, 3)
ANSWER = (
    struct.pack(">iBi", 4, 0, 0)
    + struct.pack(">i", 2)
    + b"ab"
    + STAT
    + struct.pack(">iBii", -1, 0, -101, -101)
    + struct.pack(">iBi", 4, 0, 0)
    + struct.pack(">i", -1)
    + STAT
    + struct.pack(">iBi", -1, 1, -1)
)


def test_an_answer_is_read() -> None:
    found, missing, null = MultiRead(["/a", "/b", "/c"]).deserialize(b"head" + ANSWER, 4)
    stat = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    assert (found, null) == (Node(b"ab", stat), Node(b"", stat))
    assert isinstance(missing, NoNodeError)


@pytest.mark.parametrize("length", range(len(ANSWER)))
def test_half_an_answer_is_an_error(length: int) -> None:
    with pytest.raises(MarshallingError):
        MultiRead(["/a", "/b", "/c"]).deserialize(ANSWER[:length], 0)


@pytest.mark.parametrize("paths", [["/a", "/b"], ["/a", "/b", "/c", "/d"]])
def test_an_answer_to_other_paths_is_an_error(paths: list[str]) -> None:
    with pytest.raises(MarshallingError):
        MultiRead(paths).deserialize(ANSWER, 0)


def test_pieces_fit_a_request() -> None:
    short = [f"/{number}" for number in range(2 * NODES_MAX + 1)]
    assert [len(piece) for piece in in_pieces(short)] == [NODES_MAX, NODES_MAX, 1]
    long = [f"/{number}" + "x" * 200_000 for number in range(7)]
    pieces = list(in_pieces(long))
    assert [path for piece in pieces for path in piece] == long
    assert max(len(MultiRead(piece).serialize()) for piece in pieces) < 2**20
    assert list(in_pieces([])) == []


@trio_fixture
async def tree(zookeeper: str, proxy: LossyProxy) -> AsyncIterator[ZooKeeperTree]:
    connected = await ZooKeeperTree.connect(f"127.0.0.1:{proxy.port}/{zookeeper.partition('/')[2]}")
    yield connected
    await connected.aclose()


@real
@trio_test
@pytest.mark.parametrize("server", ["zookeeper", "old_zookeeper"])
async def test_a_node_that_may_not_be_read_is_named(server: str, request: pytest.FixtureRequest) -> None:
    servers = request.getfixturevalue(server)
    async with await ZooKeeperTree.connect(servers) as tree:
        await tree.multi([Create(f"/{number}", b"x") for number in range(2 * NODES_MAX)])

        def lock() -> None:
            client = KazooClient(hosts=servers)
            client.start()
            try:
                client.set_acls("/40", [make_digest_acl("somebody", "else", all=True)])
            finally:
                client.stop()
                client.close()

        await trio.to_thread.run_sync(lock)
        with pytest.raises(Unavailable) as caught:
            await tree.get_many([f"/{number}" for number in range(2 * NODES_MAX)])
        assert caught.value.path == "/40"


@real
@trio_test
async def test_a_lost_connection_loses_no_node(tree: ZooKeeperTree, proxy: LossyProxy) -> None:
    count = 20 * NODES_MAX
    await tree.multi([Create(f"/{number}", b"%d" % number) for number in range(count)])
    paths = [f"/{number}" for number in range(-1, count)]
    for answers in range(1, 8, 2):
        before = proxy.times_lost
        proxy.lose_after([answers, 10**9])
        with trio.fail_after(PATIENCE_S):
            nodes = await tree.get_many(paths)
        proxy.stop_losing()
        assert proxy.times_lost > before
        assert [node and node.data for node in nodes] == [None, *(b"%d" % number for number in range(count))]


@real
@trio_test
async def test_to_ask_an_old_server_costs_no_request(old_zookeeper: str) -> None:
    """It ends the connection on which it is asked, after an answer that overtakes those before it."""
    async with await ZooKeeperTree.connect(old_zookeeper) as tree:
        await tree.create("/moved")
        states: list[SessionState] = []
        tree.listen(states.append)
        tree._multi_reads = _MultiReads.UNKNOWN  # as if the session had just come here from a newer server
        lost: list[TreeError] = []

        async def create(number: int) -> None:
            try:
                await tree.create(f"/moved/{number}", b"x")
            except TreeError as error:
                lost.append(error)

        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                for number in range(WINDOW - 1):
                    nursery.start_soon(create, number)
                await comes_true("a read under way", lambda: tree._in_flight)
                for number in range(WINDOW - 1, 200):
                    nursery.start_soon(create, number)
                    nursery.start_soon(tree.get_many, ["/", "/none"])
                await tree.get_many(["/", "/none"])  # before those just started: that many writes are under way now
            assert lost == []
            nodes = await tree.get_many([f"/moved/{number}" for number in range(201)])
        assert [node and node.data for node in nodes] == [b"x"] * 200 + [None]
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
