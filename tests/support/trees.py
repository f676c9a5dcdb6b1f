"""The states of partitions in a coordination tree."""

from __future__ import annotations

from ottla.coordination import znodes
from ottla.coordination.tree import Tree
from ottla.coordination.znodes import PartitionState


async def state_of(tree: Tree, topic: str, partition: int = 0) -> PartitionState:
    path = znodes.state_path(topic, partition)
    return PartitionState.decode(path, (await tree.get(path)).data)
