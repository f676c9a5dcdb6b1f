"""A TCP relay in front of a server that can lose what the server says, the way to an unknown outcome, or be slow."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from tests.support.waiting import PATIENCE_S


class _Answers:
    """Counts a server's answers in what comes of them: each has its length in front."""

    def __init__(self) -> None:
        self._length = b""
        self._left = 0
        #: How many of the last data ended.
        self.ended = 0

    def count(self, data: bytes, most: int) -> int:
        """Returns how many bytes belong to the first `most` answers that end or go on in the data; all if it is
        negative.
        """
        at = self.ended = 0
        while at < len(data):
            if not self._left:
                if self.ended == most:
                    return at
                part = data[at : at + 4 - len(self._length)]
                self._length += part
                at += len(part)
                if len(self._length) < 4:
                    break
                self._left, self._length = int.from_bytes(self._length, "big"), b""
            part = data[at : at + self._left]
            at += len(part)
            self._left -= len(part)
            self.ended += not self._left
        return at


class LossyProxy:
    """Relays to `target`. While `deaf`, what the server answers is thrown away; `cut` ends all connections, and
    deafness.

    `refuse` makes it unreachable until it is false again. With `delay_ms`, what either side says arrives so much later,
    also the end of its connection. Runs in a thread, because kazoo's connection does.
    """

    #: For a server that is cut off: its connection attempts would hold up all others.
    CONNECT_S = 3.0

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.deaf = False
        self.refuse = False
        self.delay_ms = 0.0
        self.lost_bytes = 0
        self.lost = threading.Event()
        self.times_lost = 0
        self._budgets: Iterator[int] = iter(())
        self._left = -1
        self._cut = False
        self._stop = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._peers: dict[socket.socket, tuple[socket.socket, bool]] = {}
        self._answers: dict[socket.socket, _Answers] = {}
        self._late: deque[tuple[float, socket.socket, bytes]] = deque()  # when, to whom, what; nothing is its end
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def lose_after(self, budgets: Iterable[int]) -> None:
        """From now on, lose an answer and its connection after so many answers, then after so many, and so on.

        A connection's first answer is that to its own opening, so a budget of 2 lets one more through.
        """
        self._budgets = iter(budgets)
        self._left = next(self._budgets)

    def stop_losing(self) -> None:
        self._left = -1

    def cut(self) -> None:
        """End every connection now. Only then are answers relayed again: TCP loses the end of a stream, never its
        middle.
        """
        self._cut = True
        self._wake.send(b"x")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop = True
        self._wake.send(b"x")
        self._thread.join(PATIENCE_S)
        for sock in (self._listener, self._wake, self._woken):
            sock.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._stop:
            wait_s = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
            for key, _ in self._selector.select(wait_s):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock is self._listener:
                    self._accept()
                elif sock is self._woken:
                    self._woken.recv(100)
                elif sock in self._peers:
                    self._relay(sock)
            while self._late and self._late[0][0] <= time.monotonic():
                self._pass(*self._late.popleft()[1:])
            if self._cut or self._stop:
                self._cut = False
                for sock in list(self._peers):
                    self._close(sock)
                self.deaf = False

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self.refuse:
            client.close()
            return
        try:
            server = socket.create_connection(self.target, self.CONNECT_S)
        except OSError:  # between its death and its next start
            client.close()
            return
        server.settimeout(None)
        for sock, peer, from_server in ((client, server, False), (server, client, True)):
            self._peers[sock] = (peer, from_server)
            self._answers[sock] = _Answers()
            self._selector.register(sock, selectors.EVENT_READ)

    def _relay(self, sock: socket.socket) -> None:
        peer, from_server = self._peers[sock]
        try:
            data = sock.recv(65536)
            if not data:
                if not self._late and not self.delay_ms:
                    raise ConnectionError
                self._selector.unregister(sock)
                self._delay(peer, b"")
            elif from_server:
                # Several answers may come at once, and one in parts.
                heard = self._answers[sock].count(data, self._left)
                self._forward(peer, data[:heard], from_server)
                self._left -= self._answers[sock].ended if self._left > 0 else 0
                if heard < len(data):
                    self._left = next(self._budgets, -1)
                    self.times_lost += 1
                    raise ConnectionError
            else:
                self._forward(peer, data, from_server)
        except OSError:
            self._close(sock)

    def _forward(self, peer: socket.socket, data: bytes, from_server: bool) -> None:
        if from_server and self.deaf:
            self.lost_bytes += len(data)
            self.lost.set()
        elif self.delay_ms or self._late:
            self._delay(peer, data)
        else:
            peer.sendall(data)

    def _delay(self, peer: socket.socket, data: bytes) -> None:
        self._late.append((time.monotonic() + self.delay_ms / 1000, peer, data))

    def _pass(self, peer: socket.socket, data: bytes) -> None:
        """Passes on bytes that were late. Their connection may be gone by now."""
        if peer not in self._peers:
            return
        try:
            peer.sendall(data)
            if not data:
                raise ConnectionError
        except OSError:
            self._close(peer)

    def _close(self, sock: socket.socket) -> None:
        pair = self._peers.pop(sock, None)
        self._answers.pop(sock, None)
        if pair is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(sock)
            sock.close()
            self._close(pair[0])
