"""The HTTP side serves everybody, whatever some of its clients do or leave undone."""

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from types import ModuleType

import pytest
import trio
import trio.abc
import trio.testing

from tests.peers.skips import require
from tests.support.waiting import PATIENCE_S

try:
    import h11  # noqa: F401
    import prometheus_client  # noqa: F401
except ImportError:
    is_there = False
else:
    is_there = True

pytestmark = pytest.mark.trio

#: Bytes of a scrape, more than sockets hold.
LARGE = 30_000_000


@pytest.fixture
def http() -> ModuleType:
    if not is_there:
        require("clients", "the packages of the extra `metrics` are not installed")
    from ottla.metrics import http

    return http


class Watched:
    def __init__(self, rows: int = 1) -> None:
        self.rows = rows
        self.reasons: dict[str, str] = {}

    def metrics(self) -> Iterator[object]:
        from ottla.metrics.families import READY

        yield READY, (({"x" * 200: "y" * 200 + str(row)}, row) for row in range(self.rows))

    def not_ready(self) -> Mapping[str, str]:
        return self.reasons


@contextlib.asynccontextmanager
async def serving(http: ModuleType, watched: Watched, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """The port."""
    async with trio.open_nursery() as nursery:
        url = await nursery.start(http.serve, watched, host, 0)
        yield int(url.rpartition(":")[2])
        nursery.cancel_scope.cancel()


def loopbacks() -> list[str]:
    """Of each family that this machine has."""
    found = ["127.0.0.1"]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as one:
        one.bind(("::1", 0))
        found.append("::1")
    return found


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
async def test_all_addresses_are_those_of_both_families(http: ModuleType, host: str) -> None:
    async with serving(http, Watched(), host) as port:
        for address in loopbacks():
            assert b"alive" in await ask(port, get("/healthz"), address)


async def everything(stream: trio.abc.Stream) -> bytes:
    with trio.fail_after(PATIENCE_S):
        return b"".join([piece async for piece in stream])


async def ask(port: int, request: bytes, host: str = "127.0.0.1") -> bytes:
    """The bytes of the answer until the connection is closed."""
    async with await trio.open_tcp_stream(host, port) as stream:
        await stream.send_all(request)
        return await everything(stream)


def get(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("request_bytes", "status", "body"),
    [
        (get("/healthz"), b"200", b'{"status": "alive"}'),
        (get("/readyz?verbose"), b"200", b'{"status": "ready"}'),
        (get("/metrics"), b"200", b" 0.0\n"),
        (get("/"), b"404", b"only /metrics"),
        (get("/healthz").replace(b"GET", b"HEAD"), b"200", b"\r\n\r\n"),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12", b"405", b"only GET"),
        (b"nonsense\r\n\r\n", b"400", b""),
        (b"GET /" + b"x" * 20_000, b"431", b""),
        # Neither way to speak HTTP/2 without TLS.
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"405", b"only GET"),
        (get("/healthz", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAA"), b"200", b"alive"),
    ],
)
async def test_pages(http: ModuleType, request_bytes: bytes, status: bytes, body: bytes) -> None:
    async with serving(http, Watched()) as port:
        answer = await ask(port, request_bytes)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert body in answer
    if request_bytes.startswith(b"HEAD"):
        assert answer.endswith(body)


async def test_a_connection_serves_many_requests(http: ModuleType) -> None:
    async with serving(http, Watched()) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(get("/healthz").replace(b"Connection: close\r\n", b"") * 3 + get("/readyz"))
        answers = await everything(stream)
    assert answers.count(b"HTTP/1.1 200") == 4
    assert answers.count(b"alive") == 3


async def test_a_scraper_that_does_not_read_holds_nobody_up(http: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(rows=LARGE // 400)
    async with serving(http, watched) as port, await trio.open_tcp_stream("127.0.0.1", port) as idle:
        await idle.send_all(get("/metrics"))
        with trio.fail_after(PATIENCE_S):
            # The answer has begun.
            first = await idle.receive_some(1000)
        assert b"200" in first
        watched.rows = 1
        assert b" 0.0\n" in await ask(port, get("/metrics"))
        assert b"alive" in await ask(port, get("/healthz"))
        monkeypatch.setattr(http, "SENDING_BYTES_MAX", LARGE // 2)
        assert b"503" in (await ask(port, get("/metrics")))[:20]


@contextlib.asynccontextmanager
async def in_memory(http: ModuleType, rows: int = 1) -> AsyncIterator[trio.abc.HalfCloseableStream]:
    """A client's end of one connection; what is sent waits until it is read."""
    client, server = trio.testing.lockstep_stream_pair()
    connections = http._Connections(http.Pages(Watched(rows)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connections.serve, server)
        yield client
    assert (connections._count, connections._pages.sending_bytes) == (0, 0)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /metrics HTTP/1.1\r\nHost:"])
async def test_half_a_request_ends(http: ModuleType, autojump_clock: trio.testing.MockClock, sent: bytes) -> None:
    async with in_memory(http) as client:
        for _ in range(5):
            # More bytes do not make the time longer.
            await trio.sleep(1)
            if sent:
                await client.send_all(sent[:1])
                sent = sent[1:] or b"x"
        assert await everything(client) == b""
    assert trio.current_time() == pytest.approx(http.HEAD_S)


async def test_half_a_request_after_another_ends(http: ModuleType, autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory(http) as client:
        await client.send_all(get("/healthz").replace(b"Connection: close\r\n", b""))
        answer = b""
        while b"alive" not in answer:
            answer += await client.receive_some()
        await trio.sleep(60)
        await client.send_all(b"GET")
        await everything(client)
    assert trio.current_time() == pytest.approx(60 + http.HEAD_S)


async def test_an_answer_that_is_not_read_ends(http: ModuleType, autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory(http, rows=10_000) as client:
        await client.send_all(get("/metrics"))
        assert await client.receive_some(10)
    assert trio.current_time() == pytest.approx(http.ANSWER_S)


async def test_an_idle_connection_keeps_nobody_out(http: ModuleType) -> None:
    """One more takes the place of the one that has been idle for longest."""
    connections = http._Connections(http.Pages(Watched()))
    async with trio.open_nursery() as nursery:
        clients = []
        for _ in range(http.CONNECTIONS_MAX + 1):
            client, server = trio.testing.memory_stream_pair()
            nursery.start_soon(connections.serve, server)
            clients.append(client)
            # One after the other: a scheduler may start tasks in any order.
            await trio.testing.wait_all_tasks_blocked()
        assert connections._count == http.CONNECTIONS_MAX
        # At once, not when its time to send a request is over.
        with trio.fail_after(http.HEAD_S / 2):
            assert await clients[0].receive_some() == b""
        for client in (clients[-1], clients[1]):
            await client.send_all(get("/healthz"))
            assert b"alive" in await everything(client)
        nursery.cancel_scope.cancel()


async def test_connections_are_bounded(http: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 3)
    connections = http._Connections(http.Pages(Watched(10_000)))
    async with trio.open_nursery() as nursery:
        for _ in range(http.CONNECTIONS_MAX):
            client, server = trio.testing.lockstep_stream_pair()
            nursery.start_soon(connections.serve, server)
            await client.send_all(get("/metrics"))
            assert await client.receive_some(10)
        client, server = trio.testing.memory_stream_pair()
        nursery.start_soon(connections.serve, server)
        with trio.fail_after(http.HEAD_S / 2):
            assert await client.receive_some() == b""
        nursery.cancel_scope.cancel()
