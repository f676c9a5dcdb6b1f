"""The waits of the hub, in which it does nothing, and its treatment of records that are not in memory."""

import os
import struct
from pathlib import Path

import pytest
import trio

from ottla._core import (
    FetchRow,
    LogConfig,
    LogDirectory,
    Request,
    decode_fetch_response,
    encode_fetch_request,
)
from ottla.wire.headers import request_frame
from tests.net.support import FETCH, METADATA, PRODUCE, Serving, batch, echo, request_bytes, serving

pytestmark = pytest.mark.trio


async def assert_quiet(one: Serving) -> None:
    """A level-triggered set that watches for what cannot be done now would make the hub spin."""
    for _ in range(20):
        await trio.lowlevel.checkpoint()
    before = one.hub.turns_total
    for _ in range(500):
        await trio.lowlevel.checkpoint()
    assert one.hub.turns_total - before <= 5


async def test_idle_connections_cost_nothing() -> None:
    async with serving(echo) as one:
        for _ in range(10):
            await one.connect()
        await one.until(lambda: one.hub.connections == 10)
        await assert_quiet(one)


async def test_requests_behind_a_waiting_one() -> None:
    waiting: list[Request] = []
    async with serving(waiting.append) as one:
        peer, gone = await one.connect(), await one.connect()
        for client in (peer, gone):
            await client.send(request_bytes(METADATA, 1, 0) * 3)
            await client.send(request_bytes(METADATA, 1, 0) * 3)
        await one.until(lambda: len(waiting) == 2)
        await assert_quiet(one)
        # Its reset is noticed, and what it sent before is still handled.
        gone.stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.stream.socket.close()
        await assert_quiet(one)
        handled = 0
        while handled < 2 * 3:
            await one.until(lambda: waiting)
            waiting.pop().reply(b"")
            handled += 1
        await assert_quiet(one)
        while waiting:
            waiting.pop().reply(b"")
            await one.until(lambda: waiting or one.hub.connections == 1)


async def test_a_client_that_does_not_read() -> None:
    async with serving(lambda request: request.reply(bytes(8_000_000))) as one:
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 1, 0) * 2)
        await one.until(lambda: one.hub.queued_bytes > 1_000_000)
        await assert_quiet(one)
        for _ in range(2):
            assert len((await peer.frame())[1]) == 8_000_000


async def test_clients_that_may_not_be_read() -> None:
    waiting: list[Request] = []
    async with serving(waiting.append, queued_bytes_max=1_000_000) as one:
        peers = [await one.connect() for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for peer in peers:
                nursery.start_soon(peer.send, request_bytes(PRODUCE, 7, 0, bytes(950_000)))
            await one.until(lambda: waiting)
            await assert_quiet(one)
            for _ in peers:
                await one.until(lambda: waiting)
                waiting.pop().reply(b"")


async def test_a_client_with_half_a_frame() -> None:
    async with serving(echo) as one:
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 1, 0, bytes(100_000))[:50_000])
        await assert_quiet(one)


async def test_records_that_are_not_in_memory_are_read_by_a_thread(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path)
    (log,) = directory.create("cold", [0], LogConfig())
    log.begin_epoch(0)
    for number in range(300):
        log.append_bytes(batch(bytes([number % 256]) * 50_000), 0)
    log.flush()

    def handler(request: Request) -> None:
        if request.api_key == METADATA:
            request.reply(b"")
            return
        request.fetch()
        request.reply_fetch([FetchRow(high_watermark=300, records=log.read(0, 20_000_000))])

    slice_ = log.read(0, 20_000_000).slice
    assert slice_ is not None
    expected = slice_.read()
    body = encode_fetch_request(
        11, [("cold", 0, 0, 1 << 25, -1, -1, -1)], max_wait_ms=1, min_bytes=1, max_bytes=1 << 25
    )
    async with serving(handler) as one:
        reader, other = await one.connect(), await one.connect()

        async def is_cold() -> bool:
            before = one.hub.cold_reads_total
            await reader.send(request_frame(FETCH, 11, 1, "cold", body))
            # Others are served meanwhile.
            await other.send(request_bytes(METADATA, 1, 1))
            assert await other.frame() == (1, b"")
            length = int.from_bytes(await reader.exactly(4), "big")
            answer = decode_fetch_response(await reader.exactly(length), 11, 4)
            assert bytes(answer.partitions[0].records or b"") == expected
            return one.hub.cold_reads_total > before

        with open(slice_.path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert await is_cold()
        # The system may need the memory for others meanwhile, but not each time.
        assert not all([await is_cold() for _ in range(10)])
    directory.close()
