"""Ports that one start of a cluster has chosen, and that no other start chooses meanwhile.

A port is free until its process listens, a second after it was chosen. Two starts at the same moment both find it free,
and of two whole clusters neither comes up. So a start claims its ports, until its processes listen there: it holds a
Unix socket with an abstract name for each, which only one process of this network can have, whoever runs it. The name
is gone with the process that holds it, and no file is left. On systems without such names a port is looked at only.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self


class Claims:
    """The ports of one start, until the end of its `with` block."""

    def __init__(self) -> None:
        self._held: dict[int, socket.socket | None] = {}

    def take(self, port: int) -> bool:
        """Claims a port. False if another start has claimed it, or another program listens there."""
        if port in self._held:
            return True
        try:
            holder = _holder(port)
        except OSError:
            return False
        if not is_free(port):
            _close(holder)
            return False
        self._held[port] = holder
        return True

    def take_first(self, ports: Iterable[int]) -> int | None:
        """Claims the first of these that can be had; None if none can."""
        return next(filter(self.take, ports), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for holder in self._held.values():
            _close(holder)
        self._held.clear()


def is_free(port: int) -> bool:
    """True if nobody listens at the port on this machine now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            listener.bind(("127.0.0.1", port))
            listener.listen(1)
            return True
    return False


def _holder(port: int) -> socket.socket | None:
    """Raises OSError if another one is there."""
    if sys.platform != "linux":
        return None
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0ottla-local-cluster-port-{port}")
    except OSError:
        holder.close()
        raise
    return holder


def _close(holder: socket.socket | None) -> None:
    if holder is not None:
        holder.close()
