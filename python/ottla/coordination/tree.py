"""The coordination tree: one interface, kept by ZooKeeper or by a file of ours.

A cluster agrees on who is alive, who leads and which topics exist through a small tree of named nodes with ZooKeeper's
semantics. Everything above this module is written against `Tree`; `ottla.coordination.zookeeper` reaches a real
ensemble, `ottla.coordination.embedded` keeps the same tree in one SQLite file for a cluster of one. A contract suite
(`tests/coordination/test_contract.py`) runs against both, so nobody above needs to know which one it has.

What callers can rely on:

- **Order.** Operations of one tree are applied in the order in which they were started. A watch's event is handed over
  before any answer that shows the state after the change.
- **Watches fire once.** A watch is armed by the read that takes it, atomically with that read, and is gone after one
  event. Between an event and the re-arming read the node may change again: always act on what that read returns.
- **Versions.** `version` counts the changes of a node's data from 0; a write with an expected version is a
  compare-and-set. `czxid`, the number of the transaction that created a node, never repeats: a broker's epoch is the
  czxid of its registration.
- **Unknown outcomes.** `ConnectionLoss` from a write means *unknown*: it may have been applied. Read back, compare.
  Reads are repeated inside the tree until they are answered or the session ends.
- **No watch is lost in silence.** Every armed watch gets one event; when the connection goes it is `LOST`, which means
  the
  same to a reader as any other: read again.
- **Sessions.** Ephemeral nodes live as long as the session that made them. `SUSPENDED` means we do not know whether it
  still lives; `EXPIRED` means that it is over: its ephemerals are gone, and calls that were under way raised
  `SessionExpired`. The tree then opens a new session by itself and reports `CONNECTED` with a new `session_id`.
"""

from __future__ import annotations

import abc
import enum
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import msgspec

ANY_VERSION = -1
"""As an expected version: whatever it is. Kafka's `ZkVersion.MatchAnyVersion`."""


class TreeError(Exception):
    """The error that the tree answered instead of a result. A `message` with path "/" is about the tree as a whole.
    `index` is the place in a `multi` of the operation that failed.
    """

    def __init__(self, path: str = "", message: str = "", index: int | None = None) -> None:
        is_of_a_node = path not in ("", "/")
        super().__init__(f"{path}: {message}" if message and is_of_a_node else message or path)
        self.path = path
        self.index = index


class NodeExists(TreeError):
    """The node to create is there already."""


class NoNode(TreeError):
    """The node, or the parent of the node to create, is not there."""


class BadVersion(TreeError):
    """The node's version is not the expected one: someone wrote in between."""


class NotEmpty(TreeError):
    """A node with children cannot be deleted."""


class EphemeralParent(TreeError):
    """An ephemeral node cannot have children."""


class SessionExpired(TreeError):
    """The session is over. Whether a write was applied is unknown, except that its ephemerals are gone."""


class ConnectionLoss(TreeError):
    """The connection went away before the answer came. Whether a write was applied is unknown."""


class Unavailable(TreeError):
    """The tree cannot be used at all: closed, held by another process, or a disk that fails."""


class NoZooKeeper(Unavailable):
    """A Kafka broker answers where a ZooKeeper is named. The text says what to name."""


class LoginRefused(Unavailable):
    """The tree's server does not take the login. The text says why."""


class NotKept(Unavailable):
    """The tree's server takes the login, and keeps no node for it."""


class NotAllowed(Unavailable):
    """A node's access rules (its ACL) forbid it."""


class Stat(msgspec.Struct, frozen=True):
    """The numbers that ZooKeeper keeps beside a node's data. Times are ms since 1970 by the server's clock."""

    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    ephemeral_owner: int
    data_length: int
    children_count: int


class Node(NamedTuple):
    data: bytes
    stat: Stat


class EventKind(enum.Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    LOST = "lost"
    """The watch is gone because the connection or the session is; what happened meanwhile is unknown. Read again."""


class WatchEvent(NamedTuple):
    kind: EventKind
    path: str


Watch = Callable[[WatchEvent], None]
"""Called once, on the loop's thread; must be quick and must not raise. Arming one callable twice on a path is once."""


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"


SessionListener = Callable[[SessionState], None]


class Create(msgspec.Struct, frozen=True):
    """Make a node; its result is the path, which for a sequential node ends with ten digits."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(msgspec.Struct, frozen=True):
    """Replace a node's data; its result is the new Stat."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True):
    path: str
    version: int = ANY_VERSION


class Check(msgspec.Struct, frozen=True):
    """Nothing but a condition on a node's version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class Tree(abc.ABC):
    """One session with the tree. Use it from one trio task or many; never from another thread."""

    @property
    @abc.abstractmethod
    def session_id(self) -> int:
        """The owner of the ephemeral nodes that this tree makes; 0 before there is a session."""

    @property
    @abc.abstractmethod
    def state(self) -> SessionState: ...

    @abc.abstractmethod
    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """A node's data and Stat. The watch fires when it is changed or deleted. NoNode arms nothing."""

    @abc.abstractmethod
    async def get_many(self, paths: Sequence[str], watches: Sequence[Watch] | None = None) -> list[Node | None]:
        """Many nodes for little more than the price of one; None for each that is not there. Not one snapshot.

        `watches` has one for each path, armed as by `get`: not for a node that is not there.
        """

    @abc.abstractmethod
    async def sync(self) -> None:
        """Returns when reads are no older than what anybody had written before. (A ZooKeeper server may be behind the
        others.)
        """

    @abc.abstractmethod
    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """None if there is no such node. The watch fires when it is created, changed or deleted."""

    @abc.abstractmethod
    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names (not paths) of a node's children, sorted. The watch fires when one comes or goes, or the node
        goes.
        """

    @abc.abstractmethod
    async def multi(self, operations: Sequence[Operation]) -> list[Any]:
        """All of them, or none and the error of the first that could not be done, with `index` set.

        One transaction: every change bears the same zxid. Results are as each operation's docstring says.
        """

    @abc.abstractmethod
    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Hear every later change of the session's state, on the loop's thread. Returns what takes the listener off
        again.
        """

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End the session now, so that its ephemerals are gone before this process is."""

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Make one node and return its path. Raises NodeExists, NoNode (no parent), EphemeralParent."""
        result: str = await self._single(Create(path, data, ephemeral, sequential))
        return result

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace a node's data. Raises NoNode, BadVersion."""
        stat: Stat = await self._single(Set(path, data, version))
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node without children. Raises NoNode, BadVersion, NotEmpty."""
        await self._single(Delete(path, version))

    async def ensure(self, *paths: str) -> None:
        """Make the nodes and their parents, empty, where they are missing."""
        wanted = sorted({ancestor for path in paths for ancestor in _with_parents(path)})
        while True:
            nodes = await self.get_many(wanted)
            missing: list[Operation] = [Create(path) for path, node in zip(wanted, nodes, strict=True) if node is None]
            if not missing:
                return
            try:
                for batch in in_batches(missing):
                    await self.multi(batch)
            except NodeExists:
                continue
            except ConnectionLoss:
                await self.wait_connected()

    async def delete_all(self, path: str) -> None:
        """Remove a node and everything below it; nothing to do if it is not there. Not atomic."""
        for name in await children_or_none(self, path) or ():
            await self.delete_all(join(path, name))
        try:
            await self.delete(path)
        except NoNode:
            return
        except NotEmpty:
            await self.delete_all(path)

    async def wait_connected(self) -> None:
        """Return as soon as the state is CONNECTED; raises Unavailable once it is CLOSED."""
        import trio

        while self.state is not SessionState.CONNECTED:
            if self.state is SessionState.CLOSED:
                raise Unavailable("/", "the tree is closed")
            changed = trio.Event()
            remove = self.listen(lambda _: changed.set())  # noqa: B023 - called before the next pass of the loop
            try:
                await changed.wait()
            finally:
                remove()

    async def _single(self, operation: Operation) -> Any:
        return (await self.multi([operation]))[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def join(parent: str, name: str) -> str:
    return parent + name if parent == "/" else f"{parent}/{name}"


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _with_parents(path: str) -> list[str]:
    """The path and all above it but the root."""
    parts = path.split("/")
    return ["/".join(parts[: length + 1]) for length in range(1, len(parts))] if path != "/" else []


_PATH = re.compile(r"/|(?:/(?!\.{1,2}(?:/|\Z))[^/\0]+)+")


def check_path(path: str) -> None:
    """Raises ValueError unless ZooKeeper would take it as the path of a node."""
    if not is_path(path):
        raise ValueError(f"not a path in the tree: {path!r}")


def is_path(path: str) -> bool:
    """True if ZooKeeper would take it as the path of a node."""
    return _PATH.fullmatch(path) is not None


async def ensure_one(tree: Tree, path: str, data: bytes = b"") -> bool:
    """Make the node unless it is there; True if it was made here. An unknown outcome counts as "was there"."""
    while True:
        try:
            await tree.create(path, data)
        except NodeExists:
            return False
        except ConnectionLoss:
            await tree.wait_connected()
            continue
        return True


async def get_or_none(tree: Tree, path: str) -> Node | None:
    try:
        return await tree.get(path)
    except NoNode:
        return None


async def children_or_none(tree: Tree, path: str) -> list[str] | None:
    try:
        return await tree.children(path)
    except NoNode:
        return None


BATCH_BYTES_MAX = 512 * 1024
"""Bytes of operations in one transaction. A ZooKeeper takes requests of 1 MiB (`jute.maxbuffer`)."""


def bytes_of(operation: Operation) -> int:
    """About as many bytes as an operation has on the wire."""
    data = operation.data if isinstance(operation, Create | Set) else b""
    # 64 bytes: the header, lengths, flags and ACL.
    return len(operation.path) + len(data) + 64


def in_batches(operations: Iterable[Operation], *, bytes_max: int = BATCH_BYTES_MAX) -> list[list[Operation]]:
    """Cut a long list into pieces that fit one transaction, in order."""
    batches: list[list[Operation]] = [[]]
    size = 0
    for operation in operations:
        cost = bytes_of(operation)
        if size + cost > bytes_max and batches[-1]:
            batches.append([])
            size = 0
        batches[-1].append(operation)
        size += cost
    return batches if batches[0] else []
