"""When a process counts as gone: its machine has closed a connection, and refuses two more."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ottla.client.errors import ConnectionLost
from ottla.errors import RemoteProtocolError, SaslAuthenticationFailed
from ottla.peers import presence
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio


class Watched:
    """A port that somebody watches, and on which somebody may listen."""

    def __init__(self) -> None:
        self.port = 0
        self.is_gone = False
        self.doubts: list[bool] = []
        self.listener: trio.SocketListener | None = None
        self.connections: list[trio.SocketStream] = []
        #: How often the watcher has begun to wait for the end of a connection, by its own address.
        self.waits: Counter[object] = Counter()

    async def listen(self) -> None:
        (self.listener,) = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = self.listener.socket.getsockname()[1]

    async def accept(self) -> trio.SocketStream:
        assert self.listener is not None
        with trio.fail_after(PATIENCE_S):
            self.connections.append(await self.listener.accept())
        return self.connections[-1]

    def close(self) -> None:
        assert self.listener is not None
        self.listener.socket.close()
        for connection in self.connections:
            connection.socket.close()

    async def lasts(self) -> None:
        """Returns when the last connection has lasted so long that it is one to a process that lives: the watcher waits
        for its end once more then, without a bound.
        """
        address = self.connections[-1].socket.getpeername()
        await comes_true("the connection lasts", lambda: self.waits[address] == 2)

    async def refuse(self) -> None:
        assert self.listener is not None
        await self.listener.aclose()


@asynccontextmanager
async def watched(
    monkeypatch: pytest.MonkeyPatch, *, listens: bool = True, greet: presence.Greet | None = None
) -> AsyncIterator[Watched]:
    monkeypatch.setattr(presence, "PATIENCE_S", 0.02)
    one = Watched()
    await one.listen()
    if not listens:
        await one.refuse()

    is_closed = presence._is_closed

    async def noted(connection: trio.socket.SocketType) -> bool:
        one.waits[connection.getsockname()] += 1
        return await is_closed(connection)

    monkeypatch.setattr(presence, "_is_closed", noted)

    async def watch() -> None:
        await presence.gone("127.0.0.1", one.port, one.doubts.append, greet)
        one.is_gone = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield one
        one.close()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_process_that_ended_is_gone(monkeypatch: pytest.MonkeyPatch, is_reset: bool) -> None:
    async with watched(monkeypatch) as one:
        connection = await one.accept()
        await one.lasts()
        # As a machine does it: first the connection, a little later what takes others.
        if is_reset:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        began = trio.current_time()
        connection.socket.close()
        for _ in range(2):
            (await one.accept()).socket.close()
        await one.refuse()
        await comes_true("it is gone", lambda: one.is_gone)
        assert trio.current_time() - began >= presence.APART_S
        assert set(one.doubts) == {True}


async def test_a_refusal_without_a_connection_before_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall may refuse what a process would take."""
    monkeypatch.setattr(presence, "APART_S", 0.0)
    refused: list[bool] = []
    before = presence._addresses

    async def counted(host: str, port: int) -> list[presence._Address]:
        refused.append(True)
        return await before(host, port)

    monkeypatch.setattr(presence, "_addresses", counted)
    async with watched(monkeypatch, listens=False) as one:
        await comes_true("ten attempts", lambda: len(refused) >= 10)
        assert not one.is_gone
        # It comes, and is watched from then on.
        await one.listen()
        connection = await one.accept()
        await one.refuse()
        connection.socket.close()
        await comes_true("it is gone", lambda: one.is_gone)


async def test_a_connection_that_was_idle_for_too_long_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(monkeypatch) as one:
        for _ in range(3):
            connection = await one.accept()
            await one.lasts()
            await connection.aclose()
        await one.accept()
        await one.lasts()
        assert not one.is_gone
        assert one.doubts == [True, False] * 3


async def test_what_ends_at_once_is_asked_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are as many connections as may be. If the process ends then, it is gone all the same."""
    monkeypatch.setattr(presence, "AGAIN_S", 0.001)
    async with watched(monkeypatch) as one:
        began = trio.current_time()
        for _ in range(6):
            await (await one.accept()).aclose()
        assert trio.current_time() - began >= 0.001 + 0.002 + 0.004 + 0.008 + 0.016
        assert not one.is_gone
        await one.refuse()
        await comes_true("it is gone", lambda: one.is_gone)


async def test_one_that_is_back_at_once_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was started again between both attempts."""
    async with watched(monkeypatch) as one:
        connection = await one.accept()
        await one.lasts()
        await one.refuse()
        connection.socket.close()
        await comes_true("it is doubted", lambda: one.doubts == [True])
        await one.listen()
        await one.accept()
        await one.accept()
        await one.lasts()
        assert not one.is_gone
        assert one.doubts == [True, False]


async def test_silence_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is cut off: its connections end by a timeout of ours, and nobody refuses."""
    outcomes = iter([TimeoutError(110, "Connection timed out"), OSError(113, "No route to host")])
    seen: list[OSError] = []
    attempts: list[None] = []

    class Cut:
        async def recv(self, _: int) -> bytes:
            problem = next(outcomes, None)
            if problem is None:
                raise ConnectionResetError(errno.ECONNRESET, "the next one says so")
            seen.append(problem)
            raise problem

        async def connect(self, _: object) -> None:
            attempts.append(None)
            if len(seen) == 2:
                raise OSError(113, "No route to host")

        def close(self) -> None: ...

        def getsockname(self) -> None: ...

        def __enter__(self) -> Cut:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(presence, "_socket", lambda *_: Cut())
    async with watched(monkeypatch) as one:
        await comes_true("both", lambda: len(seen) == 2)
        await comes_true("twenty attempts", lambda: len(attempts) >= 20)
        assert not one.is_gone
        assert one.doubts == []


async def test_a_connection_that_is_closed_while_it_is_made_disproves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of a process that ends takes connections for a moment, and closes them at once."""
    before = presence._connect
    resets = [None, None]

    async def connect(host: str, port: int) -> trio.socket.SocketType:
        if one.doubts and resets:
            resets.pop()
            raise ConnectionResetError(errno.ECONNRESET, "closed")
        return await before(host, port)

    monkeypatch.setattr(presence, "_connect", connect)
    async with watched(monkeypatch) as one:
        connection = await one.accept()
        await one.lasts()
        await one.refuse()
        connection.socket.close()
        await comes_true("it is gone", lambda: one.is_gone)
        assert resets == []


class Greets:
    """Says who it is on each connection, as the test lets it: `answers` are what comes of it, one after the other."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.places: list[tuple[str, int]] = []

    async def __call__(self, stream: trio.SocketStream, host: str, port: int) -> None:
        self.places.append((host, port))
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            await stream.aclose()
            raise answer


async def test_who_is_not_let_in_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other side lives: it refuses, or does not understand."""
    refused = SaslAuthenticationFailed("no"), RemoteProtocolError("what?"), TimeoutError("late")
    greets = Greets(*refused)
    async with watched(monkeypatch, greet=greets) as one:
        for _ in refused:
            await one.accept()
        await one.accept()
        await one.lasts()
        assert len(greets.places) == len(refused) + 1
        assert greets.places[0] == ("127.0.0.1", one.port)
        assert True not in one.doubts
        assert not one.is_gone


async def test_a_process_that_ends_while_it_is_greeted_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    greets = Greets(ConnectionLost("it closed the connection"))
    async with watched(monkeypatch, greet=greets) as one:
        await one.accept()
        await comes_true("it is greeted", lambda: bool(greets.places))
        await comes_true("it is doubted", lambda: True in one.doubts)
        for connection in one.connections:
            connection.socket.close()
        await one.refuse()
        await comes_true("it is gone", lambda: one.is_gone)
