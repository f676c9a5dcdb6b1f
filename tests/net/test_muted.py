"""Connections that are not heard for a while (KIP-219): what is answered leaves, what comes waits, others do not."""

import time

import pytest
import trio

from ottla._core import Request
from tests.net.support import METADATA, PRODUCE, request_bytes, serving
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio

MUTE_MS = 300


async def test_a_muted_connection_is_not_heard() -> None:
    seen: list[tuple[bytes, float]] = []

    def handler(request: Request) -> None:
        body = bytes(memoryview(request))
        seen.append((body, time.monotonic()))
        if body.endswith(b"mute"):
            request.limit(lambda: MUTE_MS, True)
        request.reply(body)

    async with serving(handler) as one:
        muted = await one.connect()
        await muted.send(request_bytes(METADATA, 1, 1, b"....mute") + request_bytes(METADATA, 1, 2, b"....two"))
        assert await muted.frame() == (1, MUTE_MS.to_bytes(4, "big") + b"mute"), "the answer leaves, and says it"
        await muted.send(request_bytes(METADATA, 1, 3, b"....three"))
        assert await muted.frame() == (2, b"....two")
        assert await muted.frame() == (3, b"....three")
        assert [body[4:] for body, _ in seen] == [b"mute", b"two", b"three"]
        assert seen[1][1] - seen[0][1] >= MUTE_MS / 1000


async def test_others_are_heard_meanwhile() -> None:
    seen: list[bytes] = []

    def handler(request: Request) -> None:
        seen.append(bytes(memoryview(request)))
        if seen[-1] == b"mute":
            request.limit(lambda: 3_600_000, False)
        request.reply(b"")

    async with serving(handler) as one:
        muted, other = await one.connect(), await one.connect()
        await muted.send(request_bytes(METADATA, 1, 1, b"mute") + request_bytes(METADATA, 1, 2, b"late"))
        assert await muted.frame() == (1, b"")
        for number in range(3):
            await other.send(request_bytes(METADATA, 1, number, b"other"))
            assert await other.frame() == (number, b"")
        assert seen == [b"mute", b"other", b"other", b"other"]


async def test_an_answer_that_has_no_throttle_time_is_left_alone() -> None:
    def handler(request: Request) -> None:
        request.limit(lambda: 1, False)
        request.reply(memoryview(request))

    async with serving(handler) as one:
        peer = await one.connect()
        for number in range(3):
            await peer.send(request_bytes(METADATA, 1, number, b"abcdefgh"))
            assert await peer.frame() == (number, b"abcdefgh")


async def test_what_asks_for_no_answer_is_throttled_too() -> None:
    times = []

    def handler(request: Request) -> None:
        times.append(time.monotonic())
        if request.api_key == PRODUCE:
            request.limit(lambda: MUTE_MS, True)
            request.skip()
        else:
            request.reply(b"")

    async with serving(handler) as one:
        peer = await one.connect()
        await peer.send(request_bytes(PRODUCE, 8, 1) + request_bytes(METADATA, 1, 2))
        assert await peer.frame() == (2, b"")
        assert times[1] - times[0] >= MUTE_MS / 1000


@pytest.mark.parametrize("mutes_ms", [(MUTE_MS, 1), (1, MUTE_MS)])
async def test_the_longer_of_two_mutes_holds(mutes_ms: tuple[int, int]) -> None:
    """Of two Produces that wait at the same time."""
    waiting: list[Request] = []
    heard = []

    def handler(request: Request) -> None:
        if request.api_key == PRODUCE:
            request.appended()
            waiting.append(request)
        else:
            heard.append(time.monotonic())
            request.reply(b"")

    async with serving(handler) as one:
        peer = await one.connect()
        await peer.send(request_bytes(PRODUCE, 8, 1) + request_bytes(PRODUCE, 8, 2))
        await one.until(lambda: len(waiting) == 2)
        begin = time.monotonic()
        for request, mute_ms in zip(waiting, mutes_ms, strict=True):
            request.limit(lambda mute_ms=mute_ms: mute_ms, False)  # type: ignore[misc]
            request.reply(b"")
        await peer.send(request_bytes(METADATA, 1, 3))
        assert [(await peer.frame())[0] for _ in range(3)] == [1, 2, 3]
        assert heard[0] - begin >= MUTE_MS / 1000


async def test_a_stopping_server_does_not_wait_for_the_muted() -> None:
    def handler(request: Request) -> None:
        request.limit(lambda: 3_600_000, False)
        request.reply(b"")

    async with serving(handler) as one:
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 1, 1) + request_bytes(METADATA, 1, 2))
        assert await peer.frame() == (1, b"")
        one.server.stop(30)
        with trio.fail_after(PATIENCE_S):
            assert await peer.frame() == (2, b"")
            await one.until(lambda: one.hub.connections == 0)


async def test_a_client_that_leaves_while_it_is_muted_is_gone() -> None:
    def handler(request: Request) -> None:
        request.limit(lambda: 3_600_000, False)
        request.reply(b"")

    async with serving(handler) as one:
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 1, 1))
        assert await peer.frame() == (1, b"")
        peer.stream.socket.close()
        await one.until(lambda: one.hub.connections == 0)
