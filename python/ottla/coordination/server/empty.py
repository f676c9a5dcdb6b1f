"""Which nodes have data that are empty and not null.

The file has no null: it has empty data for both. Brokers write null where they have nothing to say, and Kafka takes
empty data for damaged JSON; kazoo's recipes write empty data, and fail on null. Therefore empty data are null unless
they are noted here. The notes are in memory: after a restart they are null.
"""

from __future__ import annotations

from ottla.coordination.tree import Node


class EmptyNodes:
    """One note for each such node, by the transaction that wrote its data last."""

    def __init__(self) -> None:
        self._written: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._written)

    def wrote(self, path: str, zxid: int, *, is_empty: bool) -> None:
        """A node's data were written; `is_empty` says that they are empty and not null."""
        if is_empty:
            self._written[path] = zxid
        else:
            self._written.pop(path, None)

    def deleted(self, path: str) -> None:
        self._written.pop(path, None)

    def data(self, path: str, node: Node) -> bytes | None:
        """A node's data; None for null."""
        return node.data if node.data or self._written.get(path) == node.stat.mzxid else None
