"""An ensemble of three survives one, and the ways of a broker to it can be slow and lose answers."""

import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, OperationTimeoutError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from tests.cluster.network import need_namespaces
from tests.cluster.stand import Cluster
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.java, pytest.mark.zookeeper]
GONE = (ConnectionLoss, OperationTimeoutError, SessionExpiredError, KazooTimeoutError)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Without brokers."""
    with Cluster(tmp_path_factory.mktemp("ensemble"), (), zookeepers=3) as made:
        yield made


@pytest.fixture
def tree(cluster: Cluster) -> Iterator[KazooClient]:
    with cluster.clients.inside():
        client = KazooClient(cluster.zookeeper, timeout=4)
        client.start(PATIENCE_S)
    yield client
    client.stop()
    client.close()


def settled(cluster: Cluster, count: int) -> dict[str, str]:
    """The modes of those that serve, once there are so many of them and one leads."""

    def modes() -> dict[str, str]:
        return {one.name: mode for one in cluster.zookeepers if one.running and (mode := one.mode())}

    eventually(
        f"{count} ZooKeepers and a leader",
        lambda: sorted(modes().values()) == ["follower"] * (count - 1) + ["leader"],
        facts=modes,
    )
    return modes()


def wrote(tree: KazooClient, path: str) -> bool:
    try:
        tree.ensure_path(path)
    except GONE:
        return False
    return True


def test_any_one_may_die(cluster: Cluster, tree: KazooClient) -> None:
    modes = settled(cluster, 3)
    leader = next(one for one in cluster.zookeepers if modes[one.name] == "leader")
    tree.create("/before", b"kept")
    leader.kill()
    assert leader.name not in settled(cluster, 2)
    eventually("a write with two of three", lambda: wrote(tree, "/with-two"))
    assert tree.retry(tree.get, "/before")[0] == b"kept"
    leader.start()
    settled(cluster, 3)


def test_without_a_quorum_nobody_serves(cluster: Cluster) -> None:
    settled(cluster, 3)
    first, second = cluster.zookeepers[:2]
    for one in (first, second):
        one.kill()
    eventually("the last one serves nobody", lambda: cluster.zookeepers[2].mode() == "")
    for one in (first, second):
        one.start(wait=False)
    settled(cluster, 3)


def test_one_that_is_cut_off_serves_nobody(cluster: Cluster) -> None:
    need_namespaces()
    modes = settled(cluster, 3)
    leader = next(one for one in cluster.zookeepers if modes[one.name] == "leader")
    with cluster.network.isolate(leader.name):
        others = [one for one in cluster.zookeepers if one is not leader]
        eventually("another leads", lambda: "leader" in [one.mode() for one in others])
        eventually("the old leader has noticed", lambda: leader.mode() == "")
    settled(cluster, 3)


def test_one_that_stands_still(cluster: Cluster, tree: KazooClient) -> None:
    modes = settled(cluster, 3)
    leader = next(one for one in cluster.zookeepers if modes[one.name] == "leader")
    with leader.paused():
        eventually("a write without it", lambda: wrote(tree, f"/without-{leader.name}"))
    settled(cluster, 3)
    assert tree.retry(tree.exists, f"/without-{leader.name}") is not None


def test_a_slow_way(cluster: Cluster) -> None:
    """Through a proxy, as brokers go in a cluster that is `proxied`."""
    from tests.coordination.proxy import LossyProxy

    first = cluster.zookeepers[0]
    with cluster.clients.inside(), LossyProxy((first.node.address, first.port)) as way:
        client = KazooClient(f"127.0.0.1:{way.port}", timeout=10)
        client.start(PATIENCE_S)
        way.delay_ms = 150
        start = time.monotonic()
        client.exists("/")
        assert time.monotonic() - start >= 0.3
        way.delay_ms = 0
        client.stop()
        client.close()
