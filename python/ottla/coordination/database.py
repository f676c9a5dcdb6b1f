"""The embedded tree's nodes in SQLite: transactions and nothing else. No threads, no loop, no watches.

One table holds the nodes, clustered by (parent, name), so that a node is one lookup and a listing is one range. A
transaction works on an overlay, a dictionary of the rows it touched; `commit` writes the overlay with one `executemany`
and one fsync. Therefore a failed `multi` is undone by dropping its overlay, many callers' transactions share one fsync
(group commit), and creating the 10,000 nodes of a topic with 5,000 partitions costs SQLite one statement.

Numbers are ZooKeeper's: every transaction has its own zxid, kept in the file, so that a czxid is never given twice even
across restarts; a sequential node's number is the count of creations below its parent; the `cversion` shown is
creations * 2 - children, which counts deletions too (ZooKeeper's DataNode.copyStat).

WAL with synchronous=FULL: a commit is on the disk before anyone is told of it.

SQLite does not notice a bit that a disk turned over, unless its own structure breaks. Therefore each row carries a
checksum, and opening reads the whole file: a replica or a name that is not what was written must not become true.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ottla._core import create_file, keep_space
from ottla.coordination.tree import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    EventKind,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    Stat,
    Unavailable,
    WatchEvent,
    join,
    parent_of,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL,
    czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, pzxid INTEGER NOT NULL, ctime_ms INTEGER NOT NULL, mtime_ms INTEGER
    NOT NULL,
    version INTEGER NOT NULL, creations INTEGER NOT NULL, children INTEGER NOT NULL, owner INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (parent, name)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ephemeral ON node (owner) WHERE owner != 0;
CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counter VALUES ('zxid', 0), ('session', 0);
"""
_BROKEN = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises for a file that is not what it should be; the second where its message quotes that."""
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
PAGE_BYTES = 4096
_SPACE = {"-wal": 4 << 20, "": 1 << 20}
"""Bytes behind the end of each file that are kept for it. The write-ahead log begins anew after 1000 pages, within its
space; the other is for some 5,000 new nodes."""
APPLICATION_ID = 0x0771A7EE
"""In the file's header, so that no other SQLite file is taken for a tree."""
LAYOUT = 2
"""1 had no checksums; such a file gets them when it is opened."""
LAYOUTS = (1, LAYOUT)


class _Row:
    """One node while a transaction works on it."""

    __slots__ = (
        "children", "creations", "ctime_ms", "czxid", "data", "is_new",
        "mtime_ms", "mzxid", "owner", "pzxid", "version",
    )  # fmt: skip

    def __init__(self, values: Sequence[Any], *, is_new: bool = False) -> None:
        self.is_new = is_new
        """Not in the file yet, nor is anything below it: what the overlays do not have does not exist."""
        (
            self.data, self.czxid, self.mzxid, self.pzxid, self.ctime_ms, self.mtime_ms,
            self.version, self.creations, self.children, self.owner,
        ) = values  # fmt: skip

    def values(self) -> tuple[Any, ...]:
        return (
            self.data, self.czxid, self.mzxid, self.pzxid, self.ctime_ms, self.mtime_ms,
            self.version, self.creations, self.children, self.owner,
        )  # fmt: skip

    def copy(self) -> _Row:
        return _Row(self.values(), is_new=self.is_new)

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            pzxid=self.pzxid,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            version=self.version,
            cversion=self.creations * 2 - self.children,
            ephemeral_owner=self.owner,
            data_length=len(self.data),
            children_count=self.children,
        )


_Overlay = dict[str, _Row | None]
"""By path; None is a node that was deleted."""
_COLUMNS = "data, czxid, mzxid, pzxid, ctime_ms, mtime_ms, version, creations, children, owner"


def _checksum(parent: str, name: str, values: Sequence[Any]) -> int:
    """Of a node with its place; `values` are the _COLUMNS."""
    return zlib.crc32(values[0], zlib.crc32(f"{parent}\0{name}\0{[*values[1:]]}".encode()))


_ZXIDS, _CHILDREN = slice(1, 4), 8
_INSERT = f"INSERT OR REPLACE INTO node (parent, name, {_COLUMNS}, checksum) VALUES ({', '.join('?' * 13)})"


def _with_checksum(key: tuple[str, str], values: Sequence[Any]) -> tuple[Any, ...]:
    return (*key, *values, _checksum(*key, values))


def _key(path: str) -> tuple[str, str]:
    return ("", "/") if path == "/" else (parent_of(path), path.rpartition("/")[2])


class TreeDatabase:
    """The file. One thread owns it; `close` gives it back. Paths are taken as they are: whoever calls has checked them.

    Changes are made by `multi` and are visible to reads at once; they are durable, and may be told to anyone, only
    after
    `commit`. `rollback` forgets everything since the last commit.
    """

    def __init__(self, path: str) -> None:
        """Open or create. Raises Unavailable if another process has it, or if it is not such a file."""
        # SQLite would leave its mode to the umask. Those beside it (-wal, -shm) get the same mode from SQLite.
        create_file(path)
        create_file(path + ".lock")
        self._lock = os.open(path + ".lock", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise Unavailable("/", f"{path} is in use by another process") from error
        try:
            if os.path.getsize(path) == 0:
                self._sql = connect(path)
                self._prepare(path)
                self._sql.close()
            # Before SQLite has the files: closing another descriptor of them would end its locks.
            _keep_space(path)
            self._sql = connect(path)
            self._prepare(path)
        except _BROKEN as error:
            os.close(self._lock)
            raise Unavailable("/", f"{path}: {error}") from error
        except Unavailable:
            self._sql.close()
            os.close(self._lock)
            raise
        self._pending: _Overlay = {}
        #: The number of the last transaction, committed or not.
        self.zxid = self._committed_zxid = self._counter("zxid")
        self._remove_ephemerals("owner != 0", ())
        self.commit()

    def _prepare(self, path: str) -> None:
        application_id = self._sql.execute("PRAGMA application_id").fetchone()[0]
        fresh = self._sql.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if fresh and application_id == APPLICATION_ID:
            raise damaged(path, "its tables are gone")
        layout = LAYOUT if fresh else check_layout(self._sql, path)
        if layout == LAYOUT and not fresh:
            verify(self._sql, path)
        self._sql.execute("PRAGMA journal_mode=WAL")
        self._sql.execute("PRAGMA synchronous=FULL")
        if layout == 1:
            self._add_checksums()
        if fresh:
            self._sql.executescript(f"BEGIN IMMEDIATE; {SCHEMA}")
            self._sql.execute(_INSERT, _with_checksum(("", "/"), (b"", *[0] * 9)))
            self._sql.execute(f"PRAGMA application_id={APPLICATION_ID}")
            self._sql.execute(f"PRAGMA user_version={LAYOUT}")
            self._sql.execute("COMMIT")

    def _add_checksums(self) -> None:
        self._sql.execute("BEGIN IMMEDIATE")
        self._sql.execute("ALTER TABLE node ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
        rows = self._sql.execute(f"SELECT parent, name, {_COLUMNS} FROM node").fetchall()
        self._sql.executemany(_INSERT, (_with_checksum((parent, name), values) for parent, name, *values in rows))
        self._sql.execute(f"PRAGMA user_version={LAYOUT}")
        self._sql.execute("COMMIT")

    def _counter(self, name: str) -> int:
        value: int = self._sql.execute("SELECT value FROM counter WHERE name = ?", (name,)).fetchone()[0]
        return value

    def new_session(self) -> int:
        """An id that was never given before. Durable at once."""
        self._sql.execute("UPDATE counter SET value = value + 1 WHERE name = 'session'")
        return self._counter("session")

    # Reads see what was committed and what is pending.

    def get(self, path: str) -> Node:
        row = self._row({}, path)
        if row is None:
            raise NoNode(path, "no such node")
        return Node(row.data, row.stat())

    def get_or_none(self, path: str) -> Node | None:
        row = self._row({}, path)
        return None if row is None else Node(row.data, row.stat())

    def children(self, path: str) -> list[str]:
        if self._row({}, path) is None:
            raise NoNode(path, "no such node")
        self._write_pending()
        # BINARY collation over UTF-8 and Python's order over code points are the same order.
        return [name for (name,) in self._sql.execute("SELECT name FROM node WHERE parent = ? ORDER BY name", (path,))]

    def _row(self, overlay: _Overlay, path: str) -> _Row | None:
        if path in overlay:
            return overlay[path]
        if path in self._pending:
            return self._pending[path]
        found = self._sql.execute(f"SELECT {_COLUMNS} FROM node WHERE parent = ? AND name = ?", _key(path)).fetchone()
        return None if found is None else _Row(found)

    def _for_change(self, overlay: _Overlay, path: str) -> _Row | None:
        row = overlay.get(path)
        if row is None and path not in overlay:
            row = self._row(overlay, path)
            if row is not None:
                row = overlay[path] = row.copy()
        return row

    def _exists(self, overlay: _Overlay, path: str, parent: _Row) -> bool:
        if parent.is_new or parent.children == 0:
            return overlay.get(path) is not None or (path not in overlay and self._pending.get(path) is not None)
        return self._row(overlay, path) is not None

    # Changes.

    def multi(self, operations: Sequence[Operation], session_id: int) -> tuple[list[Any], list[WatchEvent]]:
        """Apply all or, raising a TreeError with `index`, none. Returns the results and what a watch would see."""
        overlay: _Overlay = {}
        events: list[WatchEvent] = []
        now_ms = time.time_ns() // 1_000_000
        zxid = self.zxid + 1
        results = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._apply(overlay, operation, session_id, zxid, now_ms, events))
            except (BadVersion, EphemeralParent, NodeExists, NoNode, NotEmpty) as error:
                error.index = index
                raise
        if overlay:
            self._pending.update(overlay)
            self.zxid = zxid
        return results, events

    def _apply(
        self, overlay: _Overlay, operation: Operation, session_id: int, zxid: int, now_ms: int, events: list[WatchEvent]
    ) -> Any:
        if isinstance(operation, Create):
            return self._create(overlay, operation, session_id, zxid, now_ms, events)
        path = operation.path
        if isinstance(operation, Check):
            _check_version(path, self._row(overlay, path), operation.version)
            return None
        row = self._for_change(overlay, path)
        _check_version(path, row, operation.version)
        assert row is not None
        if isinstance(operation, Set):
            row.data, row.mzxid, row.mtime_ms, row.version = operation.data, zxid, now_ms, row.version + 1
            events.append(WatchEvent(EventKind.CHANGED, path))
            return row.stat()
        if row.children:
            raise NotEmpty(path, f"has {row.children} children")
        self._delete(overlay, path, zxid, events)
        return None

    def _create(
        self, overlay: _Overlay, create: Create, session_id: int, zxid: int, now_ms: int, events: list[WatchEvent]
    ) -> str:
        path = create.path
        parent_path = parent_of(path)
        parent = self._for_change(overlay, parent_path)
        if parent is None:
            raise NoNode(parent_path, "no such node")
        if parent.owner:
            raise EphemeralParent(parent_path, "an ephemeral node cannot have children")
        if create.sequential:
            path = f"{path}{parent.creations:010d}"
        if path == "/" or self._exists(overlay, path, parent):
            raise NodeExists(path, "is there already")
        owner = session_id if create.ephemeral else 0
        overlay[path] = _Row((create.data, zxid, zxid, zxid, now_ms, now_ms, 0, 0, 0, owner), is_new=True)
        parent.creations += 1
        parent.children += 1
        parent.pzxid = zxid
        events.append(WatchEvent(EventKind.CREATED, path))
        events.append(WatchEvent(EventKind.CHILDREN, parent_path))
        return path

    def _delete(self, overlay: _Overlay, path: str, zxid: int, events: list[WatchEvent]) -> None:
        if path == "/":
            raise NotEmpty(path, "the root stays")
        parent_path = parent_of(path)
        parent = self._for_change(overlay, parent_path)
        assert parent is not None, f"{path} has no parent"
        parent.children -= 1
        parent.pzxid = zxid
        overlay[path] = None
        events.append(WatchEvent(EventKind.DELETED, path))
        events.append(WatchEvent(EventKind.CHILDREN, parent_path))

    def end_session(self, session_id: int) -> list[WatchEvent]:
        """Delete the session's ephemerals. Pending until `commit`, as every change."""
        return self._remove_ephemerals("owner = ? AND owner != 0", (session_id,))

    def _remove_ephemerals(self, condition: str, parameters: tuple[int, ...]) -> list[WatchEvent]:
        self._write_pending()
        found = self._sql.execute(f"SELECT parent, name FROM node WHERE {condition}", parameters).fetchall()
        # Deepest first is not needed: an ephemeral node has no children.
        return self.multi([Delete(join(parent, name)) for parent, name in found], 0)[1] if found else []

    def _write_pending(self) -> None:
        if not self._pending:
            return
        if not self._sql.in_transaction:
            self._sql.execute("BEGIN IMMEDIATE")
        gone = [_key(path) for path, row in self._pending.items() if row is None]
        if gone:
            self._sql.executemany("DELETE FROM node WHERE parent = ? AND name = ?", gone)
        self._sql.executemany(
            _INSERT,
            [_with_checksum(_key(path), row.values()) for path, row in self._pending.items() if row is not None],
        )
        self._pending.clear()

    def commit(self) -> None:
        """Make everything since the last commit durable. On an error nothing of it was, and nothing may be told."""
        self._write_pending()
        if self._sql.in_transaction:
            self._sql.execute("UPDATE counter SET value = ? WHERE name = 'zxid'", (self.zxid,))
            self._sql.execute("COMMIT")
        self._committed_zxid = self.zxid

    @property
    def is_changed(self) -> bool:
        """True if there is something to commit."""
        return bool(self._pending) or self._sql.in_transaction

    def has_room(self) -> bool:
        """True if the disk takes a small transaction. Nothing may be waiting for a commit."""
        try:
            self._sql.execute("UPDATE counter SET value = value WHERE name = 'session'")
        except sqlite3.Error as error:
            if is_full(error):
                return False
            raise
        return True

    def rollback(self) -> None:
        self._pending.clear()
        if self._sql.in_transaction:
            self._sql.execute("ROLLBACK")
        self.zxid = self._committed_zxid

    def close(self) -> None:
        self._sql.close()
        os.close(self._lock)


def is_full(error: BaseException) -> bool:
    """True if SQLite says that the disk has no room. Nothing of the transaction is in the file then."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) in _NO_ROOM


def _keep_space(path: str) -> None:
    """Takes the space that the next changes need from the disk, so that they can be made when it is full."""
    create_file(path + "-wal")
    for suffix, bytes_ahead in _SPACE.items():
        # As much as a disk has that is nearly full.
        while bytes_ahead >= PAGE_BYTES:
            try:
                keep_space(path + suffix, bytes_ahead)
            except OSError:
                bytes_ahead //= 2
            else:
                break


def connect(path: str, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection with explicit transactions. Read only works beside the process that owns the file."""
    mode = "ro" if read_only else "rwc"
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(f"file:{quoted}?mode={mode}", uri=True, isolation_level=None, timeout=5)


def read_nodes(path: str, root: str = "/") -> list[tuple[str, Node]]:
    """Every node from `root` down in the order of their paths, as of the last commit; also while a broker owns the
    file.

    Raises Unavailable or sqlite3.Error if the file is not there or is no tree.
    """
    with contextlib.ExitStack() as stack:
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            path = _copied(path, stack.enter_context(tempfile.TemporaryDirectory()))
        return _read_nodes(path, root)


def _copied(path: str, folder: str) -> str:
    """A copy of a tree that nothing can write to: SQLite reads a file with a write-ahead log only where it may make
    its index.
    """
    copy = os.path.join(folder, os.path.basename(path))
    for suffix in ("", "-wal"):
        if os.path.exists(path + suffix):
            shutil.copyfile(path + suffix, copy + suffix)
    return copy


def _read_nodes(path: str, root: str) -> list[tuple[str, Node]]:
    sql = connect(path, read_only=True)
    try:
        rows = _without_checksums(sql) if check_layout(sql, path) == 1 else _checked(sql, path)
        below = root.rstrip("/") + "/"
        nodes = []
        for parent, name, values in rows:
            where = "/" if parent == "" else join(parent, name)
            if where == root or where.startswith(below):
                row = _Row(values)
                nodes.append((where, Node(row.data, row.stat())))
    finally:
        sql.close()
    return sorted(nodes, key=lambda pair: pair[0])


_Rows = Iterable[tuple[str, str, list[Any]]]


def _without_checksums(sql: sqlite3.Connection) -> _Rows:
    return (
        (parent, name, values) for parent, name, *values in sql.execute(f"SELECT parent, name, {_COLUMNS} FROM node")
    )


def _checked(sql: sqlite3.Connection, path: str) -> Iterator[tuple[str, str, list[Any]]]:
    """All nodes; Unavailable for one that is not what was written."""
    try:
        for parent, name, *values, checksum in sql.execute(f"SELECT parent, name, {_COLUMNS}, checksum FROM node"):
            if not isinstance(values[0], bytes) or _checksum(parent, name, values) != checksum:
                raise damaged(path, f"the node {name!r} below {parent!r} is not what was written")
            yield parent, name, values
    except _BROKEN as error:
        raise damaged(path, str(error)) from error


def verify(sql: sqlite3.Connection, path: str) -> None:
    """Raises Unavailable unless every node is what was written, and none is missing."""
    try:
        problem = sql.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise damaged(path, " ".join(problem.split()))
        children: Counter[str] = Counter()
        promised: dict[str, int] = {}
        last = 0
        for parent, name, values in _checked(sql, path):
            children[parent] += 1
            promised["/" if parent == "" else join(parent, name)] = values[_CHILDREN]
            last = max(last, *values[_ZXIDS])
        if "/" not in promised:
            raise damaged(path, "the root is gone")
        for where in promised.keys() | children.keys() - {""}:
            if children[where] != promised.get(where):
                raise damaged(path, f"{where} has {children[where]} children instead of {promised.get(where)}")
        counters = dict(sql.execute("SELECT name, value FROM counter").fetchall())
    except _BROKEN as error:
        raise damaged(path, str(error)) from error
    zxid, session = counters.get("zxid"), counters.get("session")
    if not isinstance(zxid, int) or not isinstance(session, int) or zxid < last or session < 0:
        raise damaged(path, f"its counters are {counters}, after transaction {last}")


def damaged(path: str, what: str) -> Unavailable:
    """The error for a file that a disk has changed."""
    return Unavailable(
        "/", f"{path} is damaged: {what}. Put a copy of it in its place; the logs are not touched by this"
    )


def check_layout(sql: sqlite3.Connection, path: str) -> int:
    """The layout. Raises Unavailable unless the file is a tree in one that this version reads."""
    if sql.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise Unavailable("/", f"{path} is not a coordination tree")
    layout: int = sql.execute("PRAGMA user_version").fetchone()[0]
    if layout not in LAYOUTS:
        raise Unavailable("/", f"{path} has layout {layout}, this version reads {LAYOUT}")
    return layout


def _check_version(path: str, row: _Row | None, expected: int) -> None:
    if row is None:
        raise NoNode(path, "no such node")
    if expected not in (ANY_VERSION, row.version):
        raise BadVersion(path, f"has version {row.version}, expected {expected}")
