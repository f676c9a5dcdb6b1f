"""The nodes that clients of ZooKeeper see: those of the file, with what only they ask for.

The file has no null: it has empty data for both. Brokers write null where they have nothing to say, and Kafka takes
empty data for damaged JSON; kazoo's recipes write empty data, and fail on null. Therefore empty data are null unless
they are noted, in a table of the file beside the nodes. A note names the transaction that wrote the data last: one that
is older says nothing, so the brokers of an embedded tree need not know of notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.coordination.database import TreeDatabase
from ottla.coordination.tree import Create, Node, Operation, Stat, WatchEvent

_TABLE = "CREATE TABLE IF NOT EXISTS empty (path TEXT PRIMARY KEY, zxid INTEGER NOT NULL) WITHOUT ROWID"
#: Ephemeral nodes of former lives went without a note, and brokers may have written to an embedded tree meanwhile.
_PURGE = """
DELETE FROM empty WHERE path NOT IN (
    SELECT CASE parent WHEN '' THEN '/' WHEN '/' THEN '/' || name ELSE parent || '/' || name END
    FROM node WHERE length(data) = 0)
"""


class ServedNodes(TreeDatabase):
    """The file, which tells empty data from null, and what a node was like when it was made.

    created: The nodes that the last transaction made, as they were then, in the order of its operations.
    """

    def __init__(self, path: str) -> None:
        """Raises Unavailable as TreeDatabase does."""
        #: What is to be noted with the next commit: the transaction of the data by the path, None for no note.
        self._notes: dict[str, int | None] = {}
        self.created: list[Stat] = []
        super().__init__(path)
        self._sql.execute(_TABLE)
        self._sql.execute(_PURGE)

    def wrote(self, path: str, *, is_empty: bool) -> None:
        """The last transaction has written the data of a node; `is_empty` says that they are empty and not null."""
        if is_empty:
            self._notes[path] = self.zxid
        else:
            self._notes.pop(path, None)

    def data(self, path: str, node: Node) -> bytes | None:
        """A node's data; None for null."""
        return node.data if node.data or self._noted(path) == node.stat.mzxid else None

    def notes(self) -> int:
        """How many nodes are noted."""
        self._write_pending()
        count: int = self._sql.execute("SELECT count(*) FROM empty").fetchone()[0]
        return count

    def deleted(self, path: str) -> None:
        """A node is gone."""
        self._notes[path] = None

    def _noted(self, path: str) -> int | None:
        if path in self._notes:
            return self._notes[path]
        found = self._sql.execute("SELECT zxid FROM empty WHERE path = ?", (path,)).fetchone()
        return None if found is None else int(found[0])

    # --- as the file does, with notes ---

    def multi(self, operations: Sequence[Operation], session_id: int) -> tuple[list[Any], list[WatchEvent]]:
        self.created.clear()
        return super().multi(operations, session_id)

    def _create(self, overlay: Any, create: Create, *given: Any) -> str:
        path = super()._create(overlay, create, *given)
        self.created.append(overlay[path].stat())
        return path

    def _write_pending(self) -> None:
        super()._write_pending()
        if not self._notes:
            return
        if not self._sql.in_transaction:
            self._sql.execute("BEGIN IMMEDIATE")
        gone = [(path,) for path, zxid in self._notes.items() if zxid is None]
        new = [(path, zxid) for path, zxid in self._notes.items() if zxid is not None]
        self._sql.executemany("DELETE FROM empty WHERE path = ?", gone)
        self._sql.executemany("INSERT OR REPLACE INTO empty VALUES (?, ?)", new)
        self._notes.clear()

    def rollback(self) -> None:
        self._notes.clear()
        super().rollback()
