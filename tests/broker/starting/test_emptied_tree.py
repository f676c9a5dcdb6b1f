"""A ZooKeeper that was emptied under a broker, and gets its data back."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.peers.ottla import Brokers
from tests.support.by_hand import exists, produced, shell
from tests.support.client import connect
from tests.support.waiting import eventually, still

pytestmark = pytest.mark.zookeeper


def nodes(tree: KazooClient) -> dict[str, bytes]:
    """All but those of sessions, parents first."""
    found, paths = {}, ["/"]
    while paths:
        path = paths.pop()
        data, stat = tree.get(path)
        if not stat.ephemeralOwner:
            found[path] = data
            paths += [f"{path.rstrip('/')}/{name}" for name in tree.get_children(path)]
    return dict(sorted(found.items()))


def test_a_tree_that_is_emptied_removes_nothing(brokers: Brokers, zookeeper: str) -> None:
    """The topic goes first. The broker serves on, for longer than a topic that is missing is known on; and it takes its
    place when the tree is back.
    """
    broker = brokers(broker_id=1, zookeeper=zookeeper)
    with shell(zookeeper) as tree, connect(broker) as client:
        client.create("t")
        eventually("the leader", lambda: produced(client, "t", b"a") == 0)
        before = nodes(tree)
        tree.delete("/brokers/topics/t", recursive=True)
        tree.delete("/", recursive=True)
        eventually("it is waited for", lambda: "serves on without the tree" in broker.log.read_text())
        still("it is served on", lambda: (produced(client, "t", b"b"), exists(client, "t")), for_s=4.0)
        assert produced(client, "t", b"c") == 0
        restored = tree.transaction()
        for path, content in before.items():
            restored.create(path, content or b"")
        assert not any(isinstance(result, Exception) for result in restored.commit())
        eventually("it is the controller", lambda: tree.exists("/controller"))
        eventually("it is registered", lambda: tree.exists("/brokers/ids/1"))
        eventually("the leader", lambda: produced(client, "t", b"d") == 0)
        client.alter_topic("t", {"max.message.bytes": "100"})
        eventually("the setting", lambda: produced(client, "t", b"x" * 1000) != 0)
        assert "was removed from the tree" not in broker.log.read_text()
