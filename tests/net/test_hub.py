"""The hub over real sockets: order of answers, who may pass whom, and hostile input."""

import random
import struct

import pytest
import trio

from ottla._core import Request
from tests.net.support import (
    API_VERSIONS,
    METADATA,
    PRODUCE,
    echo,
    request_bytes,
    response_bytes,
    serving,
)

pytestmark = pytest.mark.trio


async def test_requests_are_answered_one_by_one() -> None:
    async with serving(echo) as one:
        peer = await one.connect()
        for number in range(50):
            await peer.send(request_bytes(METADATA, 1, number, b"x" * number))
            assert await peer.frame() == (number, b"x" * number)


async def test_a_request_knows_where_it_comes_from() -> None:
    seen: list[Request] = []

    def handler(request: Request) -> None:
        seen.append(request)
        request.reply(b"")

    async with serving(handler) as one:
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 4, 11, b"abc", client_id="köln"))
        assert await peer.frame() == (11, b"")
        (request,) = seen
        assert (request.api_key, request.api_version, request.correlation_id) == (METADATA, 4, 11)
        assert (request.client_id, request.listener, len(request)) == ("köln", "PLAINTEXT", 3)
        assert bytes(memoryview(request)) == b"abc"
        assert request.local_address == ("127.0.0.1", one.port)
        assert request.peer_address == peer.stream.socket.getsockname()
        with pytest.raises(TypeError):
            memoryview(request)[0] = 1


async def test_flexible_versions_have_tags_in_both_headers() -> None:
    async with serving(echo) as one:
        peer = await one.connect()
        head = struct.pack(">hhih", METADATA, 9, 5, -1) + b"\0" + b"body"
        await peer.send(struct.pack(">i", len(head)) + head)
        assert await peer.frame() == (5, b"\0body")
        # ApiVersions never has tags in its response header.
        head = struct.pack(">hhih", API_VERSIONS, 3, 6, -1) + b"\0" + b"body"
        await peer.send(struct.pack(">i", len(head)) + head)
        assert await peer.frame() == (6, b"body")


async def test_many_requests_in_one_write() -> None:
    async with serving(echo) as one:
        peer = await one.connect()
        await peer.send(b"".join(request_bytes(METADATA, 1, number) for number in range(2000)))
        for number in range(2000):
            assert await peer.frame() == (number, b"")


async def test_byte_by_byte() -> None:
    async with serving(echo) as one:
        peer = await one.connect()
        for byte in request_bytes(METADATA, 1, 1, b"first") + request_bytes(METADATA, 1, 2, b"second"):
            await peer.send(bytes([byte]))
            await trio.lowlevel.checkpoint()
        assert await peer.frame() == (1, b"first")
        assert await peer.frame() == (2, b"second")


async def test_large_frames() -> None:
    async with serving(echo) as one:
        peer = await one.connect()
        data = [random.Random(7).randbytes(size) for size in (70_000, 3_000_000, 5, 1_000_000)]

        async def send() -> None:
            for number, body in enumerate(data):
                await peer.send(request_bytes(METADATA, 1, number, body))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            for number, body in enumerate(data):
                assert await peer.frame() == (number, body)


async def test_answers_leave_in_order_of_the_requests() -> None:
    waiting: list[Request] = []

    def handler(request: Request) -> None:
        request.appended()
        waiting.append(request)

    async with serving(handler) as one:
        peer = await one.connect()
        await peer.send(b"".join(request_bytes(PRODUCE, 7, number) for number in range(5)))
        await one.until(lambda: len(waiting) == 5)
        for number in (3, 1, 4, 0, 2):
            waiting[number].reply(b"%d" % number)
        assert await peer.exactly(5 * 9) == b"".join(response_bytes(n, b"%d" % n) for n in range(5))
