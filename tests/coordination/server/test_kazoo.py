"""kazoo's client as it is: sessions, watches, transactions, recipes, and what it sees of lost connections."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.recipe.watchers import ChildrenWatch
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from ottla.coordination.digest_md5 import User
from ottla.coordination.tree import LoginRefused
from ottla.coordination.zookeeper import ZooKeeperTree
from tests.coordination.proxy import LossyProxy
from tests.coordination.served import ServedTree
from tests.support.waiting import PATIENCE_S, eventually

Clients = Callable[..., KazooClient]


def test_nodes_and_their_numbers(served: ServedTree, clients: Clients) -> None:
    client = clients(served.address)
    path, made = client.create("/a", b"one", include_data=True)
    assert (path, made.version, made.dataLength) == ("/a", 0, 3)
    assert client.create("/a/n-", sequence=True) == "/a/n-0000000000"
    assert client.create("/a/n-", sequence=True, ephemeral=True) == "/a/n-0000000001"
    names, stat = client.get_children("/a", include_data=True)
    assert (sorted(names), stat.numChildren, stat.cversion) == (["n-0000000000", "n-0000000001"], 2, 2)
    assert client.get("/a/n-0000000001")[1].ephemeralOwner == client.client_id[0]
    assert client.set("/a", b"", version=0).version == 1
    assert client.get("/a")[0] == b""
    assert client.get_acls("/a")[0] == OPEN_ACL_UNSAFE
    assert client.set_acls("/a", OPEN_ACL_UNSAFE).version == 1
    assert client.sync("/a") == "/a"
    with pytest.raises(exceptions.NotEmptyError):
        client.delete("/a")
    with pytest.raises(exceptions.NoChildrenForEphemeralsError):
        client.create("/a/n-0000000001/child")
    client.delete("/a", recursive=True)
    assert client.exists("/a") is None
    assert client.last_zxid == served.listener.service.database.zxid


def test_rules_that_would_not_be_kept_are_refused(served: ServedTree, clients: Clients) -> None:
    client = clients(served.address)
    with pytest.raises(exceptions.InvalidACLError):
        client.create("/a", acl=[make_digest_acl("user", "secret", all=True)])
    with pytest.raises(exceptions.AuthFailedError):
        client.add_auth("digest", "user:secret")


@pytest.mark.trio
async def test_a_broker_that_is_somebody_hears_that_nobody_is_known(served: ServedTree) -> None:
    with pytest.raises(LoginRefused, match="knows no users"):
        await ZooKeeperTree.connect(served.address, user=User("kafka", "secret", "here"))


def test_transactions(served: ServedTree, clients: Clients) -> None:
    client = clients(served.address)
    first = client.transaction()
    first.create("/a", b"x")
    first.check("/a", 0)
    first.set_data("/a", b"y")
    first.create("/a/b", ephemeral=True)
    first.delete("/a/b")
    path, checked, stat, *others = first.commit()
    assert (path, checked, stat.version, others) == ("/a", True, 1, ["/a/b", True])
    second = client.transaction()
    second.delete("/a")
    second.create("/missing/child")
    second.create("/c")
    results = second.commit()
    assert [type(each) for each in results] == [
        exceptions.RolledBackError,
        exceptions.NoNodeError,
        exceptions.RuntimeInconsistency,
    ]
    assert client.get("/a")[0] == b"y"


def test_a_lock_goes_to_the_next_when_its_holder_dies(served: ServedTree, clients: Clients) -> None:
    holder, waiting = clients(served.address), clients(served.address)
    holder.Lock("/lock", "holder").acquire()
    got = threading.Event()

    def wait() -> None:
        waiting.Lock("/lock", "waiting").acquire()
        got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    eventually("two want the lock", lambda: len(holder.Lock("/lock").contenders()) == 2)
    assert not got.is_set()
    holder.stop()
    assert got.wait(PATIENCE_S)
    thread.join()


def test_a_watch_of_children_sees_all_that_come(served: ServedTree, clients: Clients) -> None:
    watching, making = clients(served.address), clients(served.address)
    watching.ensure_path("/a")
    seen: list[list[str]] = []
    ChildrenWatch(watching, "/a", lambda names: seen.append(sorted(names)))
    for number in range(20):
        making.create(f"/a/{number:02}")
    eventually("all are seen", lambda: seen[-1] == [f"{number:02}" for number in range(20)])


@pytest.fixture
def states() -> list[str]:
    return []


def listened(client: KazooClient, states: list[str]) -> KazooClient:
    client.add_listener(states.append)
    return client


def test_a_lost_connection_keeps_its_session(served: ServedTree, clients: Clients, states: list[str]) -> None:
    with LossyProxy(("127.0.0.1", served.port)) as proxy:
        client = listened(clients(f"127.0.0.1:{proxy.port}"), states)
        client.create("/mine", ephemeral=True)
        session = client.client_id
        for turn in (1, 2, 3):
            proxy.cut()
            eventually("it is back", lambda: states[-1:] == [KazooState.CONNECTED] and len(states) == 2 * turn)  # noqa: B023
        assert client.client_id == session
        assert client.exists("/mine").ephemeralOwner == session[0]
        assert states == [KazooState.SUSPENDED, KazooState.CONNECTED] * 3


def test_a_session_that_another_has_closed_is_over(served: ServedTree, clients: Clients, states: list[str]) -> None:
    with LossyProxy(("127.0.0.1", served.port)) as proxy:
        client = listened(clients(f"127.0.0.1:{proxy.port}"), states)
        client.create("/mine", ephemeral=True)
        former = client.client_id
        proxy.refuse = True
        thief = clients(served.address, client_id=former)
        thief.stop()
        proxy.refuse = False
        eventually("it has a new one", lambda: KazooState.LOST in states and states[-1] == KazooState.CONNECTED)
        assert client.client_id[0] > former[0]
        assert client.exists("/mine") is None


def test_a_restart_keeps_nodes_and_ends_sessions(tmp_path: Path, clients: Clients, states: list[str]) -> None:
    with ServedTree(tmp_path / "tree") as server:
        client = listened(clients(server.address), states)
        client.create("/mine", ephemeral=True)
        made = client.create("/kept", b"x", include_data=True)[1]
        client.create("/empty", b"")
        former = client.client_id
        port = server.port
    with ServedTree(tmp_path / "tree", port):
        eventually("it has a new one", lambda: KazooState.LOST in states and states[-1] == KazooState.CONNECTED)
        assert client.client_id[0] > former[0]
        assert client.exists("/mine") is None
        assert client.get("/kept") == (b"x", made)
        assert client.get("/empty")[0] == b""
        assert client.create("/new", include_data=True)[1].czxid > made.czxid
        client.stop()


def test_many_clients_at_once(served: ServedTree, clients: Clients) -> None:
    """Their writes share commits, and none is lost."""
    many = [clients(served.address) for _ in range(8)]
    many[0].create("/a")
    asked: list[Any] = [client.create_async("/a/n-", sequence=True) for _ in range(50) for client in many]
    paths = {each.get(timeout=PATIENCE_S) for each in asked}
    assert paths == {f"/a/n-{number:010}" for number in range(400)}
