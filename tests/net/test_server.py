"""The server's life: connections come, idle and go; limits; completions; stopping in good order."""

import contextlib
import errno
import resource
import socket
import threading
from typing import Any

import pytest
import trio
import trio.testing

from ottla._core import Hub, Request
from ottla.net import Server
from tests.net.support import METADATA, PRODUCE, SUPPORTED, Peer, echo, request_bytes, response_bytes, serving
from tests.support.waiting import PATIENCE_S, comes_true

pytestmark = pytest.mark.trio


async def test_five_hundred_connections() -> None:
    async with serving(echo) as one:
        peers = [await one.connect() for _ in range(500)]

        async def talk(number: int) -> None:
            for round_ in range(5):
                await peers[number].send(request_bytes(METADATA, 1, round_, b"%d" % number))
                assert await peers[number].frame() == (round_, b"%d" % number)

        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(talk, number)
        assert one.hub.connections == 500
        for peer in peers[:400]:
            peer.stream.socket.close()
        await one.until(lambda: one.hub.connections == 100)
        assert len(one.gone) == 400
        assert {gone.reason for gone in one.gone} == {None}
        assert len({gone.connection_id for gone in one.gone}) == 400


async def test_connections_come_and_go() -> None:
    """Places in the hub's table are used again, ids are not."""
    ids = set()

    def handler(request: Request) -> None:
        ids.add(request.connection_id)
        request.reply(b"")

    async with serving(handler) as one:
        for number in range(300):
            peer = await one.connect()
            await peer.send(request_bytes(METADATA, 1, number))
            assert await peer.frame() == (number, b"")
            peer.stream.socket.close()
        await one.until(lambda: one.hub.connections == 0)
        assert len(ids) == 300
        assert one.hub.accepted_total == 300


async def test_idle_connections_are_closed() -> None:
    waiting: list[Request] = []

    def handler(request: Request) -> None:
        if request.api_key == PRODUCE:
            waiting.append(request)
        else:
            request.reply(b"")

    async with serving(handler, idle_ms=300) as one:
        idle, active, waits, half = [await one.connect() for _ in range(4)]
        await waits.send(request_bytes(PRODUCE, 7, 1))
        await half.send(request_bytes(METADATA, 1, 1)[:7])
        number = 0
        while len(one.gone) < 2:
            number += 1
            await active.send(request_bytes(METADATA, 1, number))
            assert await active.frame() == (number, b"")
        # Who says nothing is closed, and who began to say something and stopped; not who talks, nor who waits.
        assert await idle.end() == b""
        assert await half.end() == b""
        assert len(one.gone) == 2
        assert one.hub.connections == 2
        assert {gone.reason for gone in one.gone} == {None}
        waiting[0].reply(b"at last")
        assert await waits.frame() == (1, b"at last")
        assert await waits.end() == b""


async def test_connections_per_address_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(echo, connections_per_ip_max=1, connections_per_ip_overrides={"127.0.0.1": 3}) as one:
        peers = [await one.connect() for _ in range(3)]
        refused = await one.connect()
        assert await refused.end() == b""
        await one.until(lambda: one.gone)
        assert one.gone[0].reason == "too many connections from 127.0.0.1 (maximum is 3)"
        peers[0].stream.socket.close()
        await one.until(lambda: one.hub.connections == 2)
        again = await one.connect()
        await again.send(request_bytes(METADATA, 1, 1))
        assert await again.frame() == (1, b"")


async def test_past_the_maximum_connections_wait_to_be_accepted() -> None:
    async with serving(echo, connections_max=2) as one:
        first, second = await one.connect(), await one.connect()
        for peer in (first, second):
            await peer.send(request_bytes(METADATA, 1, 1))
            assert await peer.frame() == (1, b"")
        third = await one.connect()  # by the kernel, not by the hub
        await third.send(request_bytes(METADATA, 1, 3))
        with trio.move_on_after(0.2) as scope:
            await third.frame()
        assert scope.cancelled_caught
        assert one.hub.connections == 2
        first.stream.socket.close()
        assert await third.frame() == (3, b"")


async def test_listeners_rest_when_descriptors_run_out() -> None:
    async with serving(echo) as one:
        peers = [await one.connect() for _ in range(3)]
        await one.until(lambda: one.hub.connections == 3)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        filler = []
        late = socket.socket()
        late.setblocking(False)
        try:
            used = max(sock.stream.socket.fileno() for sock in peers) + 20
            resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
            with contextlib.suppress(OSError):
                while True:
                    filler.append(socket.socket())
            late.connect_ex(("127.0.0.1", one.port))
            late.setblocking(True)
            late.settimeout(PATIENCE_S)
            late.sendall(request_bytes(METADATA, 1, 9))
            # Others are served meanwhile, and the hub does not spin.
            before = one.hub.turns_total
            for number in range(20):
                await peers[0].send(request_bytes(METADATA, 1, number))
                assert await peers[0].frame() == (number, b"")
            for _ in range(500):
                await trio.lowlevel.checkpoint()
            assert one.hub.turns_total - before < 100
            assert one.hub.connections == 3
        finally:
            for sock in filler:
                sock.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await one.until(lambda: one.hub.connections == 4)
        assert await trio.to_thread.run_sync(late.recv, 100) == response_bytes(9, b"")
        late.close()


async def test_completions_come_back_by_token() -> None:
    results: list[tuple[Any, BaseException | None]] = []
    async with serving(echo) as one:
        tokens: list[int] = []
        for is_done_at_once in (False, True, False):

            def start(token: int, is_done_at_once: bool = is_done_at_once) -> str | None:
                tokens.append(token)
                return "done" if is_done_at_once else None

            done = one.server.submit(start, lambda value, error: results.append((value, error)))
            assert done == ("done" if is_done_at_once else None)
        assert len(set(tokens)) == 3
        thread = threading.Thread(target=lambda: [one.hub.completions.push(token, token * 10) for token in tokens])
        thread.start()
        await one.until(lambda: len(results) == 2)
        thread.join()
        assert results == [(tokens[0] * 10, None), (tokens[2] * 10, None)]


async def test_who_listens_to_a_token_hears_everything(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def callback(value: Any, error: BaseException | None) -> None:
        heard.append((value, error))
        if value == "bad":
            raise RuntimeError("a bug")

    async with serving(echo) as one:
        token, once, push = one.server.token(), one.server.token(), one.hub.completions.push
        one.server.listen_to(token, callback)
        one.server.expect(once, callback)
        for value in ("bad", 2, 3):
            push(token, value)
            push(once, f"once {value}")
        await one.until(lambda: len(heard) == 4)
        assert heard == [("bad", None), ("once bad", None), (2, None), (3, None)]
        assert "a completion failed" in caplog.text
        one.server.forget(token)
        one.server.forget(token)
        push(token, 4)
        last: list[Any] = []
        one.server.submit(lambda token: push(token, 5), lambda value, error: last.append(value))
        await one.until(lambda: last)
        assert len(heard) == 4


async def test_answers_from_tasks_wake_the_hub() -> None:
    async with trio.open_nursery() as nursery:
        waiting: list[trio.Event] = []

        async def later(request: Request) -> None:
            waiting.append(trio.Event())
            await waiting[-1].wait()
            request.reply(b"later")

        async with serving(lambda request: nursery.start_soon(later, request)) as one:
            peer = await one.connect()
            for number in range(10):
                await peer.send(request_bytes(METADATA, 1, number))
                await one.until(lambda: waiting)
                waiting.pop().set()
                assert await peer.frame() == (number, b"later")


async def test_a_failing_handler_costs_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    def handler(request: Request) -> None:
        if len(request) == 3:
            raise RuntimeError("a bug")
        request.reply(b"")

    async with serving(handler) as one:
        good, bad = await one.connect(), await one.connect()
        await bad.send(request_bytes(METADATA, 2, 1) + request_bytes(METADATA, 2, 2, b"bug"))
        assert await bad.end() == response_bytes(1, b"")
        await good.send(request_bytes(METADATA, 1, 1))
        assert await good.frame() == (1, b"")
        record = next(record for record in caplog.records if record.levelname == "ERROR")
        assert record.getMessage() == "API key 3 version 2 of client 'test' failed; others are served on"
        assert record.exc_info is not None


async def test_stopping_answers_what_was_read() -> None:
    waiting: list[Request] = []
    hub = Hub(supported=SUPPORTED)
    server = Server(hub)
    port = server.listen("127.0.0.1", 0)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, waiting.append)
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            idle = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(request_bytes(METADATA, 1, 1) + request_bytes(METADATA, 1, 2))
            await comes_true("a request that waits", lambda: waiting)
            server.stop(grace_s=10)
            # An idle connection ends at once, and nobody new comes in.
            assert await idle.receive_some(1) == b""
            with pytest.raises(OSError, match="all attempts to connect"):
                await trio.open_tcp_stream("127.0.0.1", port)
            waiting[0].reply(bytes(5_000_000))
            expected = response_bytes(1, bytes(5_000_000)) + response_bytes(2, b"two")
            data = bytearray()
            while len(data) < len(expected):
                data += await stream.receive_some(1 << 20)
                if len(waiting) == 2:
                    waiting.append(waiting[1])
                    waiting[1].reply(b"two")
            assert data == expected
            assert await stream.receive_some(1) == b""
        await stream.aclose()
        await idle.aclose()
    assert hub.connections == 0


async def test_stopping_does_not_wait_for_ever() -> None:
    waiting: list[Request] = []
    server = Server(Hub(supported=SUPPORTED))
    port = server.listen("127.0.0.1", 0)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, waiting.append)
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(request_bytes(METADATA, 1, 1))
            await comes_true("a request that waits", lambda: waiting)
            begin = trio.current_time()
            server.stop(grace_s=0.2)
            assert await stream.receive_some(1) == b""
        assert trio.current_time() - begin > 0.15
        await stream.aclose()
    waiting.clear()


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with serving(echo) as one:
        with pytest.raises(OSError, match="in use") as failed:
            Hub(supported={}).listen("127.0.0.1", one.port, "PLAINTEXT")
        assert failed.value.errno == errno.EADDRINUSE


async def test_names_and_both_families() -> None:
    hub = Hub(supported=SUPPORTED)
    server = Server(hub)
    seen: list[Request] = []

    def handler(request: Request) -> None:
        seen.append(request)
        request.reply(b"")

    ports = {"EXTERNAL": server.listen("localhost", 0, "EXTERNAL"), "INTERNAL": server.listen("::1", 0, "INTERNAL")}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run, handler)
        for name, port in ports.items():
            stream = await trio.open_tcp_stream("::1" if name == "INTERNAL" else "127.0.0.1", port)
            await stream.send_all(request_bytes(METADATA, 1, 1))
            assert await stream.receive_some(100) == response_bytes(1, b"")
            assert seen[-1].listener == name
            assert seen[-1].local_address[1] == port
            await stream.aclose()
        server.stop()


async def test_stopping_without_connections_is_at_once() -> None:
    server = Server(Hub(supported=SUPPORTED))
    server.listen("127.0.0.1", 0)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, echo)
            await trio.testing.wait_all_tasks_blocked()
            server.stop(grace_s=60)


def loopbacks() -> list[str]:
    """Of each family that this machine has."""
    found = ["127.0.0.1"]
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as one:
        one.bind(("::1", 0))
        found.append("::1")
    return found


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
async def test_all_addresses_are_those_of_both_families(host: str) -> None:
    """As where Java listens. A client that comes by IPv4 is seen as such."""
    reached = []

    def note(request: Request) -> None:
        reached.append((request.local_address, request.peer_address[0]))
        request.reply(b"")

    async with serving(note) as one:
        port = one.server.listen(host, 0)
        for address in loopbacks():
            peer = Peer(await trio.open_tcp_stream(address, port))
            await peer.send(request_bytes(METADATA, 1, 1))
            assert await peer.frame() == (1, b"")
            await peer.stream.aclose()
    assert reached == [((address, port), address) for address in loopbacks()]
