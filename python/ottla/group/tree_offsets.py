"""Offsets in the coordination tree, where groups kept them before Kafka 0.9: numbers as text, at
`/consumers/GROUP/offsets/TOPIC/PARTITION`. OffsetCommit and OffsetFetch of version 0 still mean these.
"""

from __future__ import annotations

from ottla.coordination.tree import Node, NodeExists, NoNode, Tree, check_path, get_or_none, parent_of
from ottla.errors import InvalidGroupId


def path(group_id: str, topic: str, partition: int) -> str:
    """Raises InvalidGroupId for a group whose name cannot be one of the tree."""
    found = f"/consumers/{group_id}/offsets/{topic}/{partition}"
    try:
        if "/" in group_id:
            raise ValueError
        check_path(found)
    except ValueError:
        raise InvalidGroupId(
            f"The group {group_id!r} cannot keep offsets in the coordination tree: it must be a name without '/'."
        ) from None
    return found


async def put(tree: Tree, group_id: str, topic: str, partition: int, offset: int) -> None:
    """Writes an offset, whoever wrote one before."""
    where, data = path(group_id, topic, partition), b"%d" % offset
    try:
        await tree.set(where, data)
    except NoNode:
        await tree.ensure(parent_of(where))
        try:
            await tree.create(where, data)
        except NodeExists:
            await tree.set(where, data)


async def get(tree: Tree, group_id: str, topic: str, partition: int) -> int | None:
    """The offset; None if there is none, or nothing that is one."""
    node: Node | None = await get_or_none(tree, path(group_id, topic, partition))
    try:
        return int(node.data) if node is not None else None
    except ValueError:
        return None
