"""Many nodes read by one ZooKeeper request: `multiRead`, which servers know since 3.6 (ZOOKEEPER-1962).

A request and its answer are lists, each item behind a MultiHeader, and a last MultiHeader with `done` set:

    MultiHeader      type int32, done bool, error int32
    request's item   type 4 (getData): path string, watch bool (a server ignores it here: no watch can be set)
    answer's item    type 4: data buffer, Stat; or type -1 (error): error int32, that of this item alone

(org.apache.zookeeper.MultiOperationRecord, MultiResponse; FinalRequestProcessor, case OpCode.multiRead.) An answer is
made in one piece in the server's memory and its size is checked nowhere, hence `NODES_MAX`.

A server before 3.6 answers UNIMPLEMENTED and then closes the connection (UnimplementedRequestProcessor). It answers so
at once, before the requests that are still in its queues, which no client bears: a first multiRead must be sent alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from kazoo.exceptions import EXCEPTIONS, MarshallingError

from ottla.coordination.tree import Node, Stat

NODES_MAX = 32
"""Nodes in one request. With the largest that a ZooKeeper takes by default (1 MiB) that is an answer of 32 MiB."""
_PATHS_BYTES_MAX = 512 * 1024
"""`jute.maxbuffer` of a server, the largest request that it takes, is 1 MiB by default."""

_GET_DATA = 4
_ERROR = -1
_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_BEGIN = _HEADER.pack(_GET_DATA, 0, -1)
_END = _HEADER.pack(-1, 1, -1)


class MultiRead:
    """A request as kazoo's connection takes it. The answer: for each path its node, or the exception of kazoo's."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        for path in self._paths:
            encoded = path.encode()
            parts += (_BEGIN, _INT.pack(len(encoded)), encoded, b"\0")
        return b"".join((*parts, _END))

    def deserialize(self, buffer: bytes, offset: int) -> list[Node | Exception]:
        """Raises MarshallingError unless it is an answer to these paths."""
        try:
            return self._nodes(buffer, offset)
        except (struct.error, ValueError) as error:
            raise MarshallingError(f"not an answer to {len(self._paths)} reads: {error}") from error

    def _nodes(self, buffer: bytes, at: int) -> list[Node | Exception]:
        nodes: list[Node | Exception] = []
        for _ in self._paths:
            kind, done, _error = _HEADER.unpack_from(buffer, at)
            at += _HEADER.size
            (number,) = _INT.unpack_from(buffer, at)
            at += _INT.size
            if done or kind not in (_GET_DATA, _ERROR):
                raise ValueError(f"an item of type {kind} after {len(nodes)}")
            if kind == _ERROR:
                nodes.append(EXCEPTIONS[number]() if number in EXCEPTIONS else MarshallingError(f"error {number}"))
                continue
            end = at + max(number, 0)  # -1: the node's data are null
            czxid, mzxid, ctime, mtime, version, cversion, _, owner, length, children, pzxid = _STAT.unpack_from(
                buffer, end
            )
            stat = Stat(czxid, mzxid, pzxid, ctime, mtime, version, cversion, owner, length, children)
            nodes.append(Node(buffer[at:end], stat))
            at = end + _STAT.size
        if _HEADER.unpack_from(buffer, at)[1] != 1:
            raise ValueError("more items than paths")
        return nodes


def in_pieces(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paths in order, in pieces that one request may hold."""
    begin = size = 0
    for at, path in enumerate(paths):
        cost = len(path.encode()) + _HEADER.size + _INT.size + 1
        if at > begin and (at - begin == NODES_MAX or size + cost > _PATHS_BYTES_MAX):
            yield paths[begin:at]
            begin, size = at, 0
        size += cost
    if paths:
        yield paths[begin:]
