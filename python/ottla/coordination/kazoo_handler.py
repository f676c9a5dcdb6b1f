"""How kazoo waits for its connection and hands on what came.

kazoo would pass answers, watch events and changes of the session through three queues with a thread each, which loses
their order: a watch could then arrive after the answer that already shows the change. Here all are called where they
were read, on the connection's thread, so the order is that of the bytes from the server. What is called must only hand
over.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler

from ottla.errors import KafkaError

Encrypt = Callable[[socket.socket, str, int], Any]
"""Returns a connected socket with TLS on it, to this host and port. Raises OSError, KafkaError."""


class Result(AsyncResult):  # type: ignore[misc]
    """kazoo's promise, whose callbacks run where it is kept: on the connection's thread."""

    def _do_callbacks(self) -> None:
        for callback in self._callbacks:
            callback(self)


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's way to run things, without its threads for answers and watches, and with fewer system calls: a controller
    reads a hundred thousand nodes when it starts.
    """

    def __init__(self, encrypt: Encrypt | None = None) -> None:
        super().__init__()
        self._encrypt = encrypt
        #: The last reason for which TLS did not begin, in words.
        self.not_encrypted: str | None = None
        self._connection: Buffered | None = None
        #: Called on the connection's thread when all that had come was read.
        self.all_read: Callable[[], None] = lambda: None

    def has_more(self) -> bool:
        """True if something that came is still to be read; `all_read` follows."""
        return self._connection is not None and self._connection.pending() > 0

    def drop(self) -> None:
        """End the connection, from its own thread; kazoo makes a new one."""
        if self._connection is not None:
            with contextlib.suppress(OSError):  # the server ended it first
                self._connection.shutdown(socket.SHUT_RDWR)

    def async_result(self) -> Any:
        return Result(self)

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        """Called by kazoo, which names the address and the host that it was looked up for."""
        connection = super().create_connection(*arguments, **options)
        if self._encrypt is not None:
            (host, port) = options["hostname"], options["address"][1]
            try:
                connection = self._encrypt(connection, host, port)
            except (OSError, KafkaError) as error:
                self.not_encrypted = str(error)
                connection.close()
                raise OSError(str(error)) from error
        self._connection = Buffered(connection)
        return self._connection

    def select(self, reading: Sequence[Any], writing: Sequence[Any], _: Any, timeout: float | None = None) -> Any:
        """As select.select, for any file descriptor. kazoo's own makes an epoll object each time, several times for
        each request.
        """
        buffered = [each for each in reading if isinstance(each, Buffered) and each.pending()]
        if reading and not buffered:
            self.all_read()
        poll = select.poll()
        for sockets, events in (reading, select.POLLIN), (writing, select.POLLOUT):
            for each in sockets:
                poll.register(each, events)
        ready = {fd for fd, _ in poll.poll(0 if buffered else None if timeout is None else timeout * 1000)}
        ready.update(each.fileno() for each in buffered)
        return tuple([each for each in sockets if each.fileno() in ready] for sockets in (reading, writing, ()))

    def start(self) -> None:
        with self._state_change:
            self._running = True

    def stop(self) -> None:
        with self._state_change:
            self._running = False


class Buffered:
    """A connected socket that takes what has come in one call; kazoo reads each answer in two. It asks `pending`, which
    is meant for TLS, before it waits.
    """

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped
        self._bytes = b""
        self._at = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def pending(self) -> int:
        inner = getattr(self._wrapped, "pending", None)
        return len(self._bytes) - self._at or (0 if inner is None else inner())

    def recv(self, count: int) -> bytes:
        if self._at == len(self._bytes):
            self._bytes, self._at = self._wrapped.recv(max(count, 65536)), 0
        taken = self._bytes[self._at : self._at + count]
        self._at += len(taken)
        return taken
