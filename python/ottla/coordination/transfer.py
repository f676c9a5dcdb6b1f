"""Moving a cluster's tree: all that outlives its brokers, from one tree to another.

A data directory that was served with the embedded tree can so move to a ZooKeeper cluster, or to Apache Kafka, and
back. What is copied is every node except those that belong to the living: ephemerals (registrations, the controller)
and notifications that nobody is left to read. Unknown nodes are copied too. Versions begin anew, which nobody remembers
who is not running; the one exception is `/brokers/seqid`, whose version *is* its content: ids that were generated must
not be generated again.

The cluster's id is what makes a tree one that brokers start with: it is removed before anything else is, and written
after everything else. Who dies between leaves a copy that is no cluster's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.coordination import znodes
from ottla.coordination.tree import (
    Create,
    Node,
    Operation,
    Set,
    Tree,
    TreeError,
    children_or_none,
    get_or_none,
    in_batches,
    join,
)

NOTIFICATIONS = (znodes.ISR_CHANGES, znodes.CONFIG_CHANGES, znodes.LOG_DIR_EVENTS)


class NotMovable(TreeError):
    """The tree is in use, or the other one is not free: copying would lose or mix something."""


class Moved(NamedTuple):
    """The numbers of nodes, topics and partitions that were copied, and the id of the cluster if it has one."""

    nodes: int
    topics: int
    partitions: int
    cluster_id: str | None


async def walk(tree: Tree, root: str = "/") -> list[tuple[str, Node]]:
    """Every node from `root` down, parents before their children, siblings in order; without ZooKeeper's own."""
    found: list[tuple[str, Node]] = []
    level = [root]
    while level:
        nodes = [(path, node) for path, node in zip(level, await tree.get_many(level), strict=True) if node is not None]
        found += nodes
        level = []
        for path, node in nodes:
            if node.stat.children_count:
                names = await children_or_none(tree, path) or []
                level += [join(path, name) for name in names if (path, name) != ("/", "zookeeper")]
    return found


async def snapshot(tree: Tree) -> dict[str, Node]:
    """The nodes to be copied, by path. Raises NotMovable while brokers are registered: they would go on writing."""
    registered = await children_or_none(tree, znodes.BROKER_IDS)
    if registered:
        raise NotMovable(znodes.BROKER_IDS, f"brokers are running: {', '.join(registered)}; stop them first")
    return {
        path: node
        for path, node in await walk(tree)
        if path != "/" and not node.stat.ephemeral_owner and not path.startswith(tuple(f"{p}/" for p in NOTIFICATIONS))
    }


async def check_free(tree: Tree) -> None:
    """Raises NotMovable if the tree belongs to a cluster already."""
    registered = await children_or_none(tree, znodes.BROKER_IDS)
    if registered:
        raise NotMovable(znodes.BROKER_IDS, f"brokers are running there: {', '.join(registered)}; stop them first")
    if await get_or_none(tree, znodes.CLUSTER_ID) is not None or await children_or_none(tree, znodes.TOPICS):
        raise NotMovable("/", "a cluster is there already; give --replace to remove it first")


async def clear(tree: Tree, begun: Callable[[], None] = lambda: None) -> None:
    """Remove all of a cluster's nodes. `begun` is called when it is a cluster's tree no more, before the others go."""
    registered = await children_or_none(tree, znodes.BROKER_IDS)
    if registered:
        raise NotMovable(znodes.BROKER_IDS, f"brokers are running there: {', '.join(registered)}; stop them first")
    await tree.delete_all(znodes.CLUSTER_ID)
    begun()
    for name in await tree.children("/"):
        if name != "zookeeper":
            await tree.delete_all(join("/", name))


async def copy(source: Tree, target: Tree, *, replace: bool = False, begun: Callable[[], None] = lambda: None) -> Moved:
    """Copy everything that outlives brokers. Raises NotMovable; then nothing was written.

    Not one transaction: if it is interrupted, do it again with `replace`. `begun` is called when the target has no
    cluster's id any more, and before anything is written into it.
    """
    nodes = await snapshot(source)
    if replace:
        await clear(target, begun)
    else:
        await check_free(target)
        begun()
    paths = list(nodes)
    there = dict(zip(paths, await target.get_many(paths), strict=True))
    operations: list[Operation] = []
    last: list[Operation] = []
    for path, node in nodes.items():
        written = last if path == znodes.CLUSTER_ID else operations
        present = there[path]
        if present is None:
            written.append(Create(path, node.data))
        elif present.data != node.data:
            written.append(Set(path, node.data))
    for batch in in_batches(operations):
        await target.multi(batch)
    await _copy_sequence(nodes, target)
    if last:
        await target.multi(last)
    cluster = nodes.get(znodes.CLUSTER_ID)
    return Moved(
        nodes=len(nodes),
        topics=sum(path.count("/") == 3 and path.startswith(znodes.TOPICS + "/") for path in nodes),
        partitions=sum(path.endswith("/state") and path.startswith(znodes.TOPICS + "/") for path in nodes),
        cluster_id=None if cluster is None else znodes.decode_cluster_id(cluster.data),
    )


async def _copy_sequence(nodes: dict[str, Node], target: Tree) -> None:
    sequence = nodes.get(znodes.BROKER_SEQUENCE)
    there = await get_or_none(target, znodes.BROKER_SEQUENCE)
    if sequence is not None and there is not None:
        writes = [Set(znodes.BROKER_SEQUENCE, sequence.data)] * (sequence.stat.version - there.stat.version)
        for batch in in_batches(writes):
            await target.multi(batch)
