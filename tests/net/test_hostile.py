"""Clients that send what they should not: one log line, one closed connection, and nobody else notices."""

import logging
import random
import re
import struct

import psutil
import pytest
import trio

from ottla._core import Request
from tests.net.support import API_VERSIONS, METADATA, PRODUCE, echo, request_bytes, response_bytes, serving

pytestmark = pytest.mark.trio


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (request_bytes(999, 3, 1, client_id="odd"), "client 'odd' .* API key 999 version 3: unknown API key"),
        (
            request_bytes(METADATA, 99, 1, client_id="new"),
            "client 'new' .* API key 3 version 99: unsupported version, 0 to 9 are served",
        ),
        (request_bytes(METADATA, -1, 1), "API key 3 version -1: unsupported version"),
        (request_bytes(-5, 0, 1), "API key -5 version 0: unknown API key"),
        (struct.pack(">i", -1), "a frame of -1 bytes announced, at most 1000000 are allowed"),
        (struct.pack(">i", 1_000_001), "a frame of 1000001 bytes announced, at most 1000000 are allowed"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "at most 1000000 are allowed; this looks like HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "at most 1000000 are allowed; this looks like TLS"),
        (struct.pack(">i", 0), "a frame of 0 bytes without a header"),
        (struct.pack(">i", 3) + b"abc", "a frame of 3 bytes without a header"),
        (struct.pack(">ihhi", 8, METADATA, 1, 1), "API key 3 version 1: malformed header: client_id"),
        (struct.pack(">ihhihb", 11, METADATA, 1, 1, 50, 1), "API key 3 version 1: malformed header: client_id"),
    ],
)
async def test_one_line_and_the_connection_is_closed(
    data: bytes, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(echo, frame_bytes_max=1_000_000) as one:
        good, bad = await one.connect(), await one.connect()
        await good.send(request_bytes(METADATA, 1, 1))
        assert await good.frame() == (1, b"")
        await bad.send(request_bytes(METADATA, 1, 5, b"fine", client_id="named before") + data)
        assert await bad.end() == response_bytes(5, b"fine")
        await one.until(lambda: one.gone)
        (line,) = [record for record in caplog.records if record.name.startswith("ottla")]
        assert line.levelno == logging.WARNING
        host, port = one.gone[0].peer_address
        assert f"{host}:{port}" in line.getMessage()
        assert re.search(expected, line.getMessage())
        await good.send(request_bytes(METADATA, 1, 2, b"still here"))
        assert await good.frame() == (2, b"still here")


@pytest.mark.parametrize("version", [4, 99, -1, 32767])
async def test_an_unknown_version_of_api_versions_is_answered(version: int) -> None:
    """KIP-511: body in the form of version 0, error 35, exactly one entry; and the client may go on."""
    async with serving(echo) as one:
        peer = await one.connect()
        # A header and a body nobody knows.
        await peer.send(request_bytes(API_VERSIONS, version, 9, b"\xff\xfe\xfd"))
        assert await peer.frame() == (9, struct.pack(">hihhh", 35, 1, API_VERSIONS, 0, 3))
        await peer.send(request_bytes(METADATA, 1, 10, b"go on"))
        assert await peer.frame() == (10, b"go on")


async def test_random_bytes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    source = random.Random(seed)
    async with serving(echo, frame_bytes_max=10_000) as one:
        good = await one.connect()
        for number in range(100):
            bad = await one.connect()
            # Half of them begin with a length that is allowed.
            length = struct.pack(">i", source.randrange(10_000)) if number % 2 else b""
            await bad.send(length + source.randbytes(source.randrange(1, 20_000)))
            with trio.CancelScope() as scope:
                # Some are still waited for: cut them off.
                await bad.stream.send_eof()
                await bad.end()
            assert not scope.cancelled_caught
            await good.send(request_bytes(METADATA, 1, number))
            assert await good.frame() == (number, b"")
        await one.until(lambda: one.hub.connections == 1)
        assert one.hub.queued_bytes == 0


async def test_announced_frames_cost_no_memory_until_they_come() -> None:
    """A hundred clients announce 100 MB each and send a byte."""
    async with serving(echo) as one:
        before = psutil.Process().memory_info().rss
        peers = [await one.connect() for _ in range(100)]
        for peer in peers:
            await peer.send(struct.pack(">i", 100_000_000) + b"\0")
        good = await one.connect()
        await good.send(request_bytes(METADATA, 1, 1, b"ok"))
        assert await good.frame() == (1, b"ok")
        assert psutil.Process().memory_info().rss - before < 30_000_000


async def test_a_slow_reader_is_not_read_and_memory_stays_flat() -> None:
    """A client asks for 100 kB a time and never reads; others are served."""
    answer = bytes(100_000)
    asked = 0

    def handler(request: Request) -> None:
        nonlocal asked
        if len(request) == 0:
            asked += 1
            request.reply(answer)
        else:
            request.reply(b"")

    async with serving(handler) as one:
        slow, good = await one.connect(), await one.connect()
        before = psutil.Process().memory_info().rss
        with trio.move_on_after(0.5):
            for number in range(20_000):
                await slow.send(request_bytes(METADATA, 1, number) * 10)
        for number in range(100):
            await good.send(request_bytes(METADATA, 1, number, b"x"))
            assert await good.frame() == (number, b"")
        # About 1 MiB of unsent answers, beside what the kernel's buffers hold.
        assert asked < 200
        assert one.hub.queued_bytes < 1_048_576 + 2 * len(answer)
        assert psutil.Process().memory_info().rss - before < 20_000_000
        # It is served on when it reads.
        done = asked
        for number in range(done + 50):
            assert (await slow.frame())[0] == number // 10
            assert one.hub.queued_bytes < 1_048_576 + 2 * len(answer)
        assert asked > done


async def test_a_flooding_client_does_not_starve_a_small_one() -> None:
    async with serving(echo) as one:
        flood, small = await one.connect(), await one.connect()
        burst = request_bytes(METADATA, 1, 7) * 5000
        flooded = 0

        async def send() -> None:
            while True:
                await flood.send(burst)

        async def receive() -> None:
            nonlocal flooded
            while data := await flood.stream.receive_some(1 << 16):
                flooded += len(data) // 8

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            nursery.start_soon(receive)
            await one.until(lambda: flooded > 1000)
            worst = 0
            for number in range(200):
                before = flooded
                await small.send(request_bytes(METADATA, 1, number))
                assert await small.frame() == (number, b"")
                worst = max(worst, flooded - before)
            nursery.cancel_scope.cancel()
        # At most 32 of its frames are handled before the small client's turn; the rest was on its way to this task.
        assert worst < 20_000


async def test_produce_frames_that_wait_hold_no_more_than_allowed() -> None:
    waiting: list[Request] = []
    async with serving(waiting.append, queued_bytes_max=2_000_000) as one:
        peers = [await one.connect() for _ in range(30)]
        async with trio.open_nursery() as nursery:
            for number, peer in enumerate(peers):
                nursery.start_soon(peer.send, request_bytes(PRODUCE, 7, number, bytes(300_000)))
            with trio.move_on_after(0.3):
                await one.until(lambda: len(waiting) > 8)
            # What has begun fills the budget; beyond it one frame at a time goes on, if little is being handled.
            assert 1 <= len(waiting) <= 8
            assert one.hub.queued_bytes < 2_200_000 + 400_000
            answered = 0
            while answered < 30:
                await one.until(lambda: waiting)
                waiting.pop().reply(b"")
                answered += 1
        for number, peer in enumerate(peers):
            assert await peer.frame() == (number, b"")
        await one.until(lambda: one.hub.queued_bytes == 0)


@pytest.mark.parametrize(("percent", "frames"), [(25, 4), (50, 5), (75, 8)])
async def test_an_address_has_its_part_while_memory_is_short(percent: int, frames: int) -> None:
    """Of 1.6 MB: that is the budget without one frame, and without what is kept for small ones and brokers. Half of
    that is for everybody, and the other address has one frame.
    """
    frame = bytes(149_000)
    waiting: list[str] = []

    def take(request: Request) -> None:
        waiting.append(request.peer_address[0])
        held.append(request)

    held: list[Request] = []
    async with (
        serving(take, queued_bytes_max=2_000_000, frame_bytes_max=200_000, percent_per_ip_max=percent) as one,
        trio.open_nursery() as nursery,
    ):
        other = await one.connect("127.0.0.2")
        await other.send(request_bytes(PRODUCE, 7, 0, frame))
        await one.until(lambda: waiting)
        for number in range(20):
            nursery.start_soon((await one.connect()).send, request_bytes(PRODUCE, 7, number, frame))
        # One more goes on beyond its part, where nobody is in its way.
        await one.until(lambda: waiting.count("127.0.0.1") >= frames)
        another = await one.connect("127.0.0.2")
        await another.send(request_bytes(PRODUCE, 7, 0, frame))
        await one.until(lambda: waiting.count("127.0.0.2") == 2)
        assert waiting.count("127.0.0.1") <= frames + 1
        nursery.cancel_scope.cancel()
