"""Connections that are not as they should be, and a disk without room: no other session minds."""

from __future__ import annotations

import logging
import socket
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol import serialization as kazoo
from trio.testing import MockClock

from ottla.coordination.server import listener
from ottla.coordination.server.frames import FRAME_BYTES_MAX, Op
from ottla.coordination.tree import Unavailable
from tests.coordination.served import ServedTree
from tests.support.waiting import PATIENCE_S, eventually

Clients = Callable[..., KazooClient]


class Raw:
    """A connection by hand."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, body: bytes) -> None:
        self.socket.sendall(struct.pack("!i", len(body)) + body)

    def begin(self) -> None:
        self.frame(bytes(kazoo.Connect(0, 0, 10_000, 0, bytes(16), False).serialize()))
        (size,) = struct.unpack("!i", self.read(4))
        self.read(size)

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self.socket.recv(size - len(found))
            assert part, f"closed after {found!r}"
            found += part
        return found

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def test_it_listens_to_this_machine_alone(served: ServedTree) -> None:
    assert listener.HOST == "127.0.0.1"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", served.port), PATIENCE_S)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (struct.pack("!i", -1), "a frame of -1 bytes"),
        (struct.pack("!i", 0), "a frame of 0 bytes"),
        (struct.pack("!i", FRAME_BYTES_MAX + 1), "a frame of 1048576 bytes"),
        (struct.pack("!i", 4) + b"none", "unpack_from requires a buffer"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
    ],
)
@pytest.mark.parametrize("has_session", [False, True])
def test_what_is_no_frame_costs_its_connection_alone(
    served: ServedTree,
    clients: Clients,
    caplog: pytest.LogCaptureFixture,
    sent: bytes,
    why: str,
    has_session: bool,
) -> None:
    caplog.set_level(logging.INFO, "ottla.coordination.server")
    states: list[str] = []
    client = clients(served.address)
    client.add_listener(states.append)
    with Raw(served.port) as raw:
        if has_session:
            raw.begin()
        raw.socket.sendall(sent)
        assert raw.is_closed()
    assert f"a connection is closed: {why}" in caplog.text
    assert client.exists("/") is not None
    assert states == []


def test_a_frame_may_come_byte_by_byte(served: ServedTree) -> None:
    with Raw(served.port) as raw:
        raw.begin()
        for byte in struct.pack("!iii", 8, -2, Op.PING):
            raw.socket.sendall(bytes([byte]))
        assert struct.unpack("!iiqi", raw.read(20)) == (16, -2, 0, 0)


def test_the_word_that_asks_how_it_is(served: ServedTree, clients: Clients) -> None:
    client = clients(served.address)
    client.create("/a")
    with Raw(served.port) as raw:
        raw.socket.sendall(b"srvr")
        said = raw.socket.makefile().read()
    assert said.splitlines()[1:] == ["Connections: 2", "Sessions: 1", "Zxid: 0x1", "Mode: standalone"]
    assert "for laptops and tests" in said


def test_a_client_that_reads_nothing_is_not_listened_to(
    served: ServedTree, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "UNREAD_BYTES_MAX", 100_000)
    client = clients(served.address)
    client.create("/large", b"x" * 500_000)
    with Raw(served.port) as raw:
        raw.begin()
        raw.socket.settimeout(0.2)
        ask = struct.pack("!ii", 1, Op.GET_DATA) + bytes(kazoo.GetData("/large", None).serialize())
        many = (struct.pack("!i", len(ask)) + ask) * 10_000
        with pytest.raises(TimeoutError):  # all buffers on the way are smaller than this
            raw.socket.sendall(many * 200)
        held = [connection._unread for connection in served.listener._connections]
        assert max(held) < 2 * 500_000 + 100_000
        assert client.get("/large")[0] == b"x" * 500_000
        # It goes on where it stood, when it reads.
        raw.socket.settimeout(PATIENCE_S)
        for _ in range(20):
            (size,) = struct.unpack("!i", raw.read(4))
            assert len(raw.read(size)) > 500_000


def test_connections_have_a_bound(served: ServedTree, clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 2)
    client = clients(served.address)
    with Raw(served.port) as second:
        second.begin()
        with Raw(served.port) as third:
            assert third.is_closed()
        assert client.exists("/") is not None
    eventually("there is room again", lambda: len(served.listener._connections) == 1)
    with Raw(served.port) as fourth:
        fourth.begin()


def test_a_connection_that_asks_for_nothing_is_closed(served: ServedTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECT_S", 0.01)
    with Raw(served.port) as raw:
        assert raw.is_closed()


def test_a_mistake_of_ours_costs_one_connection(
    served: ServedTree, clients: Clients, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients(served.address)

    def fails(path: str) -> None:
        raise ZeroDivisionError(path)

    monkeypatch.setattr(served.listener.service.database, "children", fails)
    with Raw(served.port) as raw:
        raw.begin()
        raw.frame(struct.pack("!ii", 1, Op.GET_CHILDREN) + bytes(kazoo.GetChildren("/", None).serialize()))
        assert raw.is_closed()
    assert "a request failed" in caplog.text
    assert client.exists("/") is not None


def test_a_server_that_stood_still_ends_no_session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It computes for a hundred seconds, and hears the client's ping after that."""
    clock = MockClock(rate=1.0)
    with ServedTree(tmp_path / "tree", clock=clock) as served, Raw(served.port) as raw:
        raw.begin()
        served.soon(lambda: clock.jump(100.0))
        eventually("it has looked for the ends of sessions", lambda: "stood still for 99" in caplog.text)
        raw.frame(struct.pack("!ii", -2, Op.PING))
        assert struct.unpack("!iiqi", raw.read(20)) == (16, -2, 0, 0)


def no_room() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def test_without_room_clients_lose_their_connections_and_nothing_that_was_told(
    served: ServedTree, clients: Clients, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client, other = clients(served.address), clients(served.address)
    states: list[str] = []
    other.add_listener(states.append)
    client.create("/mine", ephemeral=True)
    database, session = served.listener.service.database, client.client_id
    commit = database.commit
    refusals = iter([no_room()] * 2)

    def commits() -> None:
        if (error := next(refusals, None)) is not None:
            raise error
        commit()

    monkeypatch.setattr(database, "commit", commits)
    with pytest.raises(ConnectionLoss):
        client.create("/a")
    eventually("the other was cut off too", lambda: states[-2:] == [KazooState.SUSPENDED, KazooState.CONNECTED])
    assert client.retry(client.exists, "/a") is None
    assert client.retry(client.exists, "/mine").ephemeralOwner == session[0]
    with pytest.raises(ConnectionLoss):
        client.create("/a")
    assert client.retry(client.create, "/a") == "/a"
    assert caplog.text.count("no room on the disk") == 1


def test_a_disk_that_fails_ends_the_server(
    served: ServedTree, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients(served.address)

    def fails() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(served.listener.service.database, "commit", fails)
    client.create_async("/a")
    failure = served.failed()
    assert isinstance(failure, ExceptionGroup)
    assert failure.subgroup(Unavailable) is not None
