"""The bytes of ZooKeeper's protocol (jute): what a server reads and writes.

Each frame is an int32 length and so many bytes. Numbers are big-endian; a string or buffer is an int32 length, -1 for
null, and its bytes; a list is an int32 count and its items.

    connect  request  protocol int32, last zxid int64, timeout ms int32, session int64, password buffer [, read only]
             answer   protocol int32, timeout ms int32, session int64, password buffer, read only bool
    others   request  xid int32, operation int32, body
             answer   xid int32, zxid int64, error int32, body (none with an error)
    event             xid -1, zxid int64, error 0, type int32, state int32, path string
    multi    request  items, each with a header (type int32, done bool, error int32), and a header that is done
             answer   the same; an item that failed is of type -1 and has its error
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.coordination.tree import (
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    EventKind,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Set,
    Stat,
    TreeError,
    WatchEvent,
    is_path,
)

FRAME_BYTES_MAX: Final = 0xFFFFF
"""ZooKeeper's default of `jute.maxbuffer`."""
LIST_MAX: Final = FRAME_BYTES_MAX // 4
"""Items of a list in a frame: each has four bytes at least."""
PASSWORD_BYTES: Final = 16

_SIZE = struct.Struct("!i")
_LONG = struct.Struct("!q")
_REPLY = struct.Struct("!iiqi")
_CONNECTED = struct.Struct("!iiiq")
_ITEM = struct.Struct("!iBi")
_STAT = struct.Struct("!qqqqiiiqiiq")
_EVENT = struct.Struct("!ii")

EVENT_XID: Final = -1
_SYNC_CONNECTED: Final = 3
_EVENT_TYPES: Final = {EventKind.CREATED: 1, EventKind.DELETED: 2, EventKind.CHANGED: 3, EventKind.CHILDREN: 4}


class Op(enum.IntEnum):
    """Operations, ZooDefs.OpCode. What is not here is answered by UNIMPLEMENTED."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN_2 = 12
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    CLOSE_SESSION = -11
    ERROR = -1


IN_MULTI: Final = frozenset({Op.CREATE, Op.CREATE_2, Op.DELETE, Op.SET_DATA, Op.CHECK})
"""Operations that may be items of a multi."""


class Code(enum.IntEnum):
    """Errors, KeeperException.Code."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    INVALID_ACL = -114
    AUTH_FAILED = -115
    NO_WATCHER = -121


CODES: Final[dict[type[TreeError], Code]] = {
    NoNode: Code.NO_NODE,
    BadVersion: Code.BAD_VERSION,
    EphemeralParent: Code.NO_CHILDREN_FOR_EPHEMERALS,
    NodeExists: Code.NODE_EXISTS,
    NotEmpty: Code.NOT_EMPTY,
}


class Malformed(Exception):
    """The bytes are not a frame of the protocol."""


class Refused(Exception):
    """The request is answered with an error. `index` is the item of a multi that is wrong."""

    def __init__(self, code: Code, index: int | None = None) -> None:
        super().__init__(code.name)
        self.code = code
        self.index = index


_WATCHER_TYPES: Final[dict[int, tuple[bool, ...]]] = {1: (True,), 2: (False,), 3: (True, False), 4: (), 5: ()}
"""Watcher.WatcherType: of children, of data, of any kind, and two kinds of persistent ones, which nobody has here."""


class Rule(NamedTuple):
    """An entry of a node's access rules."""

    permissions: int
    scheme: str
    id: str


OPEN: Final = Rule(31, "world", "anyone")
"""Everybody may do everything."""


class Reader:
    """Takes a frame apart, from its beginning on. Every method raises Malformed."""

    __slots__ = ("_at", "_frame")

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self._at = 0

    def _number(self, form: struct.Struct) -> int:
        try:
            (value,) = form.unpack_from(self._frame, self._at)
        except struct.error as error:
            raise Malformed(str(error)) from None
        self._at += form.size
        found: int = value
        return found

    def int32(self) -> int:
        return self._number(_SIZE)

    def int64(self) -> int:
        return self._number(_LONG)

    def boolean(self) -> bool:
        return self._bytes(1) != b"\0"

    def data(self) -> bytes | None:
        """A buffer; None for null."""
        size = self.int32()
        return None if size < 0 else self._bytes(size)

    def _bytes(self, size: int) -> bytes:
        found = self._frame[self._at : self._at + size]
        if len(found) < size:
            raise Malformed(f"{size} bytes where {len(found)} are left")
        self._at += size
        return found

    def text(self) -> str:
        """A string; empty for null."""
        try:
            return (self.data() or b"").decode()
        except UnicodeDecodeError as error:
            raise Malformed(str(error)) from None

    def count(self) -> int:
        """The number of a list's items."""
        found = max(self.int32(), 0)
        if found > LIST_MAX:
            raise Malformed(f"a list of {found}")
        return found

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.count())]

    def rules(self) -> list[Rule]:
        return [Rule(self.int32(), self.text(), self.text()) for _ in range(self.count())]

    def item(self) -> int | None:
        """The type of a multi's next item; None at its end."""
        kind, done, _ = self.int32(), self.boolean(), self.int32()
        return None if done else kind


class Connect(NamedTuple):
    """The first request of a connection. `session_id` is 0 for a new session."""

    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes

    @classmethod
    def decode(cls, frame: bytes) -> Connect:
        """Raises Malformed. The protocol's version is not looked at, nor what follows the password in newer ones."""
        reader = Reader(frame)
        reader.int32()
        return cls(reader.int64(), reader.int32(), reader.int64(), reader.data() or b"")


def path_of(reader: Reader, *, is_sequential: bool = False, path: str | None = None) -> str:
    """The path of a node. Raises Malformed; Refused for text that is no path."""
    found = reader.text() if path is None else path
    # A sequential node may have an empty name before its number.
    if not is_path(found + "0" if is_sequential else found):
        raise Refused(Code.BAD_ARGUMENTS)
    return found


def watcher_type(reader: Reader) -> tuple[bool, ...]:
    """Kinds of watches, by whether they are of children. Raises Malformed."""
    kind = reader.int32()
    if kind not in _WATCHER_TYPES:
        raise Malformed(f"there are no watches of type {kind}")
    return _WATCHER_TYPES[kind]


class Change(NamedTuple):
    """An operation that may be an item of a multi, and its type. `is_null`: its data, which are empty, are null."""

    kind: int
    operation: Operation
    is_null: bool = False


def change(kind: int, reader: Reader) -> Change:
    """A change, by itself or in a multi. Raises Malformed; Refused after the whole of it was read."""
    if kind in (Op.CREATE, Op.CREATE_2):
        path, data, rules, flags = reader.text(), reader.data(), reader.rules(), reader.int32()
        if not 0 <= flags <= 3:
            raise Refused(Code.BAD_ARGUMENTS)
        path_of(reader, is_sequential=bool(flags & 2), path=path)
        check_rules(rules)
        create = Create(path, data or b"", ephemeral=bool(flags & 1), sequential=bool(flags & 2))
        return Change(kind, create, data is None)
    path = reader.text()
    data = reader.data() if kind == Op.SET_DATA else None
    version = reader.int32()
    path_of(reader, path=path)
    if kind == Op.SET_DATA:
        return Change(kind, Set(path, data or b"", version), data is None)
    return Change(kind, Delete(path, version) if kind == Op.DELETE else Check(path, version))


def check_rules(rules: Sequence[Rule]) -> None:
    """Raises Refused unless everybody may do everything: nothing else would be kept."""
    if OPEN not in rules:
        raise Refused(Code.INVALID_ACL)


def int32(value: int) -> bytes:
    return _SIZE.pack(value)


def data(value: bytes | None) -> bytes:
    """A buffer; null for None."""
    if value is None:
        return _SIZE.pack(-1)
    return _SIZE.pack(len(value)) + value


def text(value: str) -> bytes:
    return data(value.encode())


def texts(values: Sequence[str]) -> bytes:
    return b"".join((_SIZE.pack(len(values)), *map(text, values)))


def stat(value: Stat) -> bytes:
    return _STAT.pack(
        value.czxid,
        value.mzxid,
        value.ctime_ms,
        value.mtime_ms,
        value.version,
        value.cversion,
        0,
        value.ephemeral_owner,
        value.data_length,
        value.children_count,
        value.pzxid,
    )


def rules(values: Sequence[Rule]) -> bytes:
    items = (int32(one.permissions) + text(one.scheme) + text(one.id) for one in values)
    return b"".join((_SIZE.pack(len(values)), *items))


def item(kind: int, code: Code = Code.OK, *, done: bool = False) -> bytes:
    """The header of a multi's item."""
    return _ITEM.pack(kind, done, code)


END: Final = _ITEM.pack(-1, 1, -1)
"""The header behind the last item of a multi."""


def failed_item(code: Code) -> bytes:
    return item(Op.ERROR, code) + int32(code)


def reply(xid: int, zxid: int, code: Code, body: bytes = b"") -> bytes:
    """The frame of an answer."""
    return _REPLY.pack(_REPLY.size - 4 + len(body), xid, zxid, code) + body


def event(what: WatchEvent, zxid: int) -> bytes:
    """The frame of a watch's event."""
    return reply(EVENT_XID, zxid, Code.OK, _EVENT.pack(_EVENT_TYPES[what.kind], _SYNC_CONNECTED) + text(what.path))


def connected(session_id: int, password: bytes, timeout_ms: int) -> bytes:
    """The frame of the first answer. With 0 for all of them, the session is over."""
    body = _CONNECTED.size - 4 + 4 + len(password) + 1
    return _CONNECTED.pack(body, 0, timeout_ms, session_id) + data(password) + b"\0"


EXPIRED: Final = connected(0, bytes(PASSWORD_BYTES), 0)
