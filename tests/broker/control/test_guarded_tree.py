"""A ZooKeeper tree with access rules, as `zookeeper.set.acl=true` of Kafka's brokers makes them, is refused before
anything is written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_acl

from ottla.broker.broker import Broker
from ottla.config import BrokerConfig
from ottla.coordination import znodes
from ottla.coordination.tree import NotAllowed
from ottla.coordination.zookeeper import ZooKeeperTree

pytestmark = pytest.mark.zookeeper
#: As Kafka's brokers set them: they may do everything, and everybody else may read.
OWNED = [*CREATOR_ALL_ACL, make_acl("world", "anyone", read=True)]
SECRET = [*CREATOR_ALL_ACL]


@contextmanager
def owner(zookeeper: str) -> Iterator[KazooClient]:
    """A client that has logged in, at the top of the tree."""
    client = KazooClient(zookeeper.partition("/")[0], auth_data=[("digest", "kafka:secret")])
    client.start()
    yield client
    client.stop()
    client.close()


def made(zookeeper: str, path: str, rules: list[ACL]) -> None:
    with owner(zookeeper) as client:
        root = "/" + zookeeper.partition("/")[2]
        client.ensure_path(root + path, acl=OPEN_ACL_UNSAFE)
        client.set_acls(root + path, rules)


async def start(path: Path, zookeeper: str) -> None:
    settings = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", "zookeeper.connect": zookeeper}
    async with Broker.start(BrokerConfig(settings)):
        pass


@pytest.mark.parametrize("path", [znodes.BROKER_IDS, znodes.CONTROLLER_EPOCH, "/config/users", ""])
@pytest.mark.parametrize("rules", [OWNED, SECRET])
def test_a_tree_with_rules_is_refused(tmp_path: Path, zookeeper: str, path: str, rules: list[ACL]) -> None:
    made(zookeeper, path, rules)
    if not path:
        zookeeper += "/below"
    with pytest.raises(NotAllowed) as refused:
        trio.run(start, tmp_path, zookeeper)
    message = str(refused.value)
    assert message.startswith(f"the tree in ZooKeeper at {zookeeper} has access rules (")
    assert "zookeeper-security-migration.sh" in message
    if path and rules is OWNED:
        assert f"({path}: only digest:kafka:" in message
    with owner(zookeeper) as client:
        assert client.exists("/" + zookeeper.partition("/")[2] + znodes.CLUSTER_ID) is None


@pytest.mark.trio
async def test_a_tree_without_rules_has_no_guards(zookeeper: str) -> None:
    async with await ZooKeeperTree.connect(zookeeper) as tree:
        await tree.ensure(znodes.BROKER_IDS, znodes.TOPICS)
        assert await tree.guarded([znodes.BROKER_IDS, znodes.TOPICS, "/not-there"]) == {}
