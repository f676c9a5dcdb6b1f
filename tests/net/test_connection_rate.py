"""How many connections come in a second, and how many a listener has (KIP-402, KIP-612)."""

import time

import pytest
import trio

from tests.net.support import METADATA, echo, request_bytes, serving

pytestmark = pytest.mark.trio

WINDOW = {"samples": 2, "window_ms": 300}


async def served(peer: object) -> float:
    await peer.send(request_bytes(METADATA, 1, 1, b"x"))  # type: ignore[attr-defined]
    assert await peer.frame() == (1, b"x")  # type: ignore[attr-defined]
    return time.monotonic()


async def test_who_comes_too_often_waits_and_is_served() -> None:
    async with serving(echo) as one:
        one.hub.limit_connection_rate(10, **WINDOW, protected=None)  # three at once, in 300 ms
        begin = time.monotonic()
        times = [await served(await one.connect()) - begin for _ in range(5)]
        assert times[4] >= 0.1, "the fourth was too much: after it nobody is let in for a while"
        one.hub.limit_connection_rate(None, **WINDOW, protected=None)
        for _ in range(50):
            await served(await one.connect())


async def test_a_listener_of_its_own_has_its_own_bounds() -> None:
    async with serving(echo) as one:
        other = one.server.listen("127.0.0.1", 0, "OTHER")
        one.hub.limit_listener("OTHER", 1, None, **WINDOW)
        first = trio.SocketStream(trio.socket.socket())
        await first.socket.connect(("127.0.0.1", other))
        second = trio.SocketStream(trio.socket.socket())
        await second.socket.connect(("127.0.0.1", other))
        await one.until(lambda: one.hub.connections == 1)
        await served(await one.connect())
        assert one.hub.connections == 2, "the second waits, and others do not"
        await first.aclose()
        await one.until(lambda: one.hub.accepted_total == 3)
        await second.aclose()


async def test_the_listener_of_brokers_is_not_held_up_by_the_others() -> None:
    async with serving(echo, connections_max=1) as one:
        other = one.server.listen("127.0.0.1", 0, "OTHER")
        one.hub.limit_connection_rate(0, **WINDOW, protected="PLAINTEXT")
        for _ in range(5):
            await served(await one.connect())
        waits = trio.SocketStream(trio.socket.socket())
        await waits.socket.connect(("127.0.0.1", other))
        await served(await one.connect())
        assert one.hub.connections == 6
        await waits.aclose()
