"""The costs of questions to a coordination tree, counted: nodes, and bytes of their paths, names and data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from ottla.coordination.embedded import EmbeddedTree
from ottla.coordination.tree import Node, Operation, Watch, bytes_of


class TreeCosts:
    def __init__(self) -> None:
        self.nodes = 0
        self.bytes = 0
        self._under_way = 0
        self._answered = trio.Event()

    def add(self, size: int) -> None:
        """A node was read or written."""
        self.nodes += 1
        self.bytes += size

    @contextmanager
    def call(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._answered.set()

    async def answered(self) -> None:
        """Returns when every call is answered."""
        while self._under_way:
            self._answered = trio.Event()
            await self._answered.wait()


@contextmanager
def counted_tree() -> Iterator[TreeCosts]:
    """Counts what every embedded tree of this process is asked for in the block."""
    costs = TreeCosts()
    get, get_many, exists = EmbeddedTree.get, EmbeddedTree.get_many, EmbeddedTree.exists
    children, multi = EmbeddedTree.children, EmbeddedTree.multi

    async def counted_get(tree: EmbeddedTree, path: str, watch: Watch | None = None) -> Node:
        with costs.call():
            node = await get(tree, path, watch)
        costs.add(len(path) + len(node.data))
        return node

    async def counted_get_many(
        tree: EmbeddedTree, paths: Sequence[str], watches: Sequence[Watch] | None = None
    ) -> list[Node | None]:
        with costs.call():
            nodes = await get_many(tree, paths, watches)
        for path, node in zip(paths, nodes, strict=True):
            costs.add(len(path) + (0 if node is None else len(node.data)))
        return nodes

    async def counted_exists(tree: EmbeddedTree, path: str, watch: Watch | None = None) -> Any:
        with costs.call():
            stat = await exists(tree, path, watch)
        costs.add(len(path))
        return stat

    async def counted_children(tree: EmbeddedTree, path: str, watch: Watch | None = None) -> list[str]:
        with costs.call():
            names = await children(tree, path, watch)
        costs.add(len(path) + sum(map(len, names)))
        return names

    async def counted_multi(tree: EmbeddedTree, operations: Sequence[Operation]) -> list[Any]:
        for operation in operations:
            costs.add(bytes_of(operation))
        with costs.call():
            return await multi(tree, operations)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedTree, "get", counted_get)
        patch.setattr(EmbeddedTree, "get_many", counted_get_many)
        patch.setattr(EmbeddedTree, "exists", counted_exists)
        patch.setattr(EmbeddedTree, "children", counted_children)
        patch.setattr(EmbeddedTree, "multi", counted_multi)
        yield costs
