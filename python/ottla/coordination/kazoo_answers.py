"""kazoo's errors, events and numbers as the tree has them."""

from __future__ import annotations

from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import EventType

from ottla.coordination.tree import (
    BadVersion,
    ConnectionLoss,
    EphemeralParent,
    EventKind,
    NodeExists,
    NoNode,
    NotAllowed,
    NotEmpty,
    NotKept,
    SessionExpired,
    Stat,
    TreeError,
    Unavailable,
)

_ERRORS: Final[dict[type[Exception], type[TreeError]]] = {
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: EphemeralParent,
    kazoo_errors.SessionExpiredError: SessionExpired,
    kazoo_errors.ConnectionLoss: ConnectionLoss,
    kazoo_errors.OperationTimeoutError: ConnectionLoss,
    kazoo_errors.ConnectionClosedError: Unavailable,
    kazoo_errors.NoAuthError: NotAllowed,
    kazoo_errors.InvalidACLError: NotKept,
}
_NOT_KEPT: Final = (
    "ZooKeeper lets us in, and keeps no node for us: its servers need "
    "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider for users, or "
    "X509AuthenticationProvider for certificates"
)
EVENTS: Final = {
    EventType.CREATED: EventKind.CREATED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.CHILD: EventKind.CHILDREN,
    EventType.NONE: EventKind.LOST,
}


def error_of(error: BaseException, path: str, index: int | None = None) -> BaseException:
    """The tree's error for one of kazoo's; any other error as it is."""
    kind = next((ours for theirs, ours in _ERRORS.items() if isinstance(error, theirs)), None)
    if kind is None:
        kind = Unavailable if isinstance(error, kazoo_errors.KazooException) else None
    if kind is None:
        return error
    ours = kind(path, _NOT_KEPT if kind is NotKept else str(error) or type(error).__name__, index)
    ours.__cause__ = error
    return ours


def stat_of(stat: Any) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        pzxid=stat.pzxid,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        data_length=stat.dataLength,
        children_count=stat.numChildren,
    )
