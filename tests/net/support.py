"""A server over a real hub, and a client that speaks in frames."""

import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import crc32c
import trio

from ottla._core import Disconnected, Hub, Request
from ottla.net import Server
from ottla.wire import api
from tests.support.waiting import PATIENCE_S, comes_true

METADATA, FETCH, PRODUCE, API_VERSIONS = 3, 1, 0, 18
SUPPORTED = {key: api(key) for key in (PRODUCE, FETCH, METADATA, API_VERSIONS)}


def request_bytes(key: int, version: int, correlation_id: int, body: bytes = b"", client_id: str = "test") -> bytes:
    """A frame with a header of version 1."""
    name = client_id.encode()
    head = struct.pack(">hhih", key, version, correlation_id, len(name)) + name
    return struct.pack(">i", len(head) + len(body)) + head + body


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def batch(*values: bytes) -> bytes:
    """A record batch (format v2) without keys."""
    records = b""
    for index, value in enumerate(values):
        record = b"\0\0" + varint(index) + varint(-1) + varint(len(value)) + value + b"\0"
        records += varint(len(record)) + record
    head = struct.pack(">hiqqqhii", 0, len(values) - 1, 1_700_000_000_000, 1_700_000_000_000, -1, -1, -1, len(values))
    rest = head + records
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c.crc32c(rest)) + rest


def response_bytes(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


class Peer:
    """A client's end of one connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.buffer = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            more = await self.stream.receive_some(1 << 20)
            if not more:
                raise EOFError(f"{len(self.buffer)} bytes, then the end")
            self.buffer += more
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    async def frame(self) -> tuple[int, bytes]:
        """The next response: correlation id and body."""
        (length,) = struct.unpack(">i", await self.exactly(4))
        data = await self.exactly(length)
        return struct.unpack(">i", data[:4])[0], data[4:]

    async def end(self) -> bytes:
        """Everything until the connection ends, however it ends."""
        with contextlib.suppress(trio.BrokenResourceError):
            while more := await self.stream.receive_some(1 << 20):
                self.buffer += more
        return self.buffer


class Serving:
    """A running server, what it was asked, and what ended."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.hub = server.hub
        self.port = port
        self.gone: list[Disconnected] = []
        self.peers: list[Peer] = []

    async def connect(self, local_address: str = "127.0.0.1") -> Peer:
        peer = Peer(await trio.open_tcp_stream("127.0.0.1", self.port, local_address=local_address))
        self.peers.append(peer)
        return peer

    async def until(self, condition: Callable[[], Any]) -> None:
        """Waits for something that the server brings about."""
        await comes_true("the condition of the test", condition)


@asynccontextmanager
async def serving(handler: Callable[[Request], None], **limits: Any) -> AsyncIterator[Serving]:
    hub = Hub(**{"supported": SUPPORTED, **limits})
    ended: list[Disconnected] = []
    server = Server(hub, disconnected=ended.append)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            one = Serving(server, server.listen("127.0.0.1", 0))
            one.gone = ended
            nursery.start_soon(server.run, handler)
            try:
                yield one
            finally:
                server.stop()
                for peer in one.peers:
                    peer.stream.socket.close()


def echo(request: Request) -> None:
    request.reply(bytes(memoryview(request)))
