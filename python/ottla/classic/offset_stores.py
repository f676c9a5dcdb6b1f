"""Where a group keeps its offsets: in ZooKeeper, in Kafka, or on the way from one to the other in both.

With `offsets.storage=kafka` and `dual.commit.enabled`, offsets are written to both and the greater one is read: members
with the old setting and with the new one may run side by side, and go back by the same steps.

Source: kafka/consumer/ZookeeperConsumerConnector.scala (fetchOffsets, commitOffsets).
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Mapping

from ottla.classic.registry import offset_path
from ottla.client.groups import Committed, Groups
from ottla.coordination.tree import NodeExists, NoNode, Tree, parent_of
from ottla.kafka import EARLIEST, TopicPartition

logger = logging.getLogger(__name__)

OFFSET = re.compile(rb"\s*[+-]?[0-9]{1,19}\s*")
OFFSET_MAX = 2**63 - 1
SHOWN_BYTES_MAX = 60
"""How much is shown of a node that makes no sense."""

Offsets = Mapping[TopicPartition, int]


class OffsetStore:
    """One of the three, as the settings say."""

    def __init__(self, group: str, tree: Tree, groups: Groups | None, *, dual: bool) -> None:
        """`groups` is None for a group that keeps its offsets in ZooKeeper alone."""
        self._group = group
        self._tree = tree
        self._groups = groups
        self._in_tree = groups is None or dual
        self._known: dict[TopicPartition, int] = {}

    async def read(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset of each partition that has one; EARLIEST if it has a node with something else, which may
        have been any offset. Raises TreeError, KafkaError, OSError.
        """
        stores: list[dict[TopicPartition, int]] = []
        if self._in_tree:
            stores.append(await self._read_tree(list(places)))
        if self._groups is not None:
            committed = await self._groups.committed(self._group, places)
            stores.append({place: each.offset for place, each in committed.items()})
        found: dict[TopicPartition, int] = {}
        for place in {place for store in stores for place in store}:
            at = {store.get(place) for store in stores}
            found[place] = max(offset for offset in at if offset is not None)
            if len(at) == 1 and found[place] != EARLIEST:
                self._known[place] = found[place]
            else:  # the next write brings it to the store that does not have it
                self._known.pop(place, None)
        return found

    async def write(self, offsets: Offsets) -> None:
        """Keeps those that changed since they were last read or written here, or that one of two stores does not have.
        Raises as `read`.
        """
        changed = {place: offset for place, offset in offsets.items() if self._known.get(place) != offset}
        if not changed:
            return
        if self._groups is not None:
            kept = {place: Committed(offset) for place, offset in changed.items()}
            await self._groups.commit(self._group, kept)
        if self._in_tree:
            for place, offset in changed.items():
                await self._write_tree(offset_path(self._group, place), str(offset).encode())
        self._known |= changed

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Others write them from now on."""
        for place in places:
            self._known.pop(place, None)

    async def _read_tree(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        found = {}
        nodes = await self._tree.get_many([offset_path(self._group, place) for place in places])
        for place, node in zip(places, nodes, strict=True):
            if node is None:
                continue
            if OFFSET.fullmatch(node.data) and int(node.data) <= OFFSET_MAX:
                found[place] = int(node.data)
                continue
            found[place] = EARLIEST
            logger.warning(
                "%s is no offset but %r: group '%s' reads %s from its beginning, to leave nothing out. `ottla group "
                "reset` sets another offset while the group is stopped",
                *(offset_path(self._group, place), node.data[:SHOWN_BYTES_MAX], self._group, place),
            )
        return found

    async def _write_tree(self, path: str, data: bytes) -> None:
        try:
            await self._tree.set(path, data)
        except NoNode:
            await self._tree.ensure(parent_of(path))
            with contextlib.suppress(NodeExists):
                await self._tree.create(path, data)
                return
            await self._tree.set(path, data)
