"""Turns while no task can run: what else trio has to do is done in time, and nothing is lost on the way."""

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from ottla._core import Hub, Request
from ottla.net import Server
from tests.net.support import METADATA, PRODUCE, SUPPORTED, echo, request_bytes, response_bytes, serving
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.trio


class Passes(trio.abc.Instrument):
    """Counts the passes of trio's loop."""

    count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.count += 1


async def elsewhere(port: int, talk: Callable[[socket.socket], Any]) -> Any:
    """Talks to a server from a thread, so that no task of the loop has anything to do with it."""

    def run() -> Any:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
            return talk(peer)

    return await trio.to_thread.run_sync(run)


def ask(peer: socket.socket, number: int, key: int = METADATA) -> bytes:
    peer.sendall(request_bytes(key, 1, number))
    return peer.recv(1000)


def ask_often(peer: socket.socket, times: int = 400) -> None:
    for number in range(times):
        assert ask(peer, number) == response_bytes(number, b"")


async def test_requests_need_no_pass_each() -> None:
    passes = Passes()
    async with serving(echo) as one:
        trio.lowlevel.add_instrument(passes)
        await elsewhere(one.port, ask_often)
        assert passes.count < 100
        trio.lowlevel.remove_instrument(passes)


async def test_what_is_relied_on_of_trios_own_parts() -> None:
    """`ottla.net.idle` uses them, and nothing else does."""
    from trio._core._run import GLOBAL_RUN_CONTEXT

    runner = GLOBAL_RUN_CONTEXT.runner
    async with trio.open_nursery() as nursery:
        others = len(runner.runq)
        nursery.start_soon(trio.sleep, 0)
        assert len(runner.runq) == others + 1, "the tasks that can run"
    with trio.CancelScope(deadline=trio.current_time() + 1000) as scope:
        with trio.CancelScope(deadline=trio.current_time() + 2000):
            assert runner.deadlines.next_deadline() == scope.deadline
        assert 999 < runner.clock.deadline_to_sleep_time(scope.deadline) <= 1000
    waits: list[float] = []

    class Waits(trio.abc.Instrument):
        def before_io_wait(self, timeout: float) -> None:
            waits.append(timeout)
            runner.io_manager.force_wakeup()
            if len(waits) == 3:
                forever.cancel()

    assert isinstance(runner.io_manager._epoll.fileno(), int)
    with trio.CancelScope() as forever:
        instrument = Waits()
        trio.lowlevel.add_instrument(instrument)
        # Each wait ends at once, or this would not.
        await trio.sleep_forever()
    trio.lowlevel.remove_instrument(instrument)
    assert forever.cancelled_caught


async def test_an_unknown_trio_costs_speed_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unknown(*_: object) -> None:
        raise AttributeError("no run queue")

    monkeypatch.setattr("ottla.net.server.Turns", unknown)
    passes = Passes()
    async with serving(echo) as one:
        trio.lowlevel.add_instrument(passes)
        await elsewhere(one.port, ask_often)
        assert passes.count >= 400
        trio.lowlevel.remove_instrument(passes)
    assert "every turn costs a pass of the scheduler" in caplog.text
    assert "no run queue" in caplog.text


async def test_a_task_that_a_handler_starts_runs_at_once() -> None:
    async def later(request: Request) -> None:
        await trio.lowlevel.checkpoint()
        request.reply(b"")

    async with trio.open_nursery() as nursery, serving(lambda request: nursery.start_soon(later, request)) as one:
        await elsewhere(one.port, lambda peer: ask_often(peer, 50))


async def test_a_deadline_that_a_handler_brings_nearer_is_kept() -> None:
    asked: list[Request] = []
    scope = trio.CancelScope()

    def handler(request: Request) -> None:
        asked.append(request)
        scope.deadline = trio.current_time() + 0.05

    async def answer_at_the_deadline() -> None:
        with scope:
            await trio.sleep_forever()
        asked[0].reply(b"at last")

    async with serving(handler) as one, trio.open_nursery() as nursery:
        nursery.start_soon(answer_at_the_deadline)
        assert await elsewhere(one.port, lambda peer: ask(peer, 1)) == response_bytes(1, b"at last")


async def test_a_sleeper_wakes_although_nobody_asks() -> None:
    async with serving(echo) as one:
        await elsewhere(one.port, lambda peer: ask(peer, 1))
        with trio.fail_after(PATIENCE_S):
            await trio.sleep(0.01)


async def test_other_sockets_are_served_beside_a_busy_hub() -> None:
    ours, theirs = socket.socketpair()
    done = False

    def converse() -> None:
        for _ in range(100):
            theirs.sendall(b"x")
            assert theirs.recv(1) == b"x"

    async def echo_bytes() -> None:
        async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
            while data := await stream.receive_some(1):
                await stream.send_all(data)

    async with serving(echo) as one, trio.open_nursery() as nursery:

        def again(value: object, error: BaseException | None) -> None:
            """The hub never runs dry."""
            if not done:
                one.server.submit(lambda token: one.hub.completions.push(token, None), again)

        again(None, None)
        nursery.start_soon(echo_bytes)
        await trio.to_thread.run_sync(converse)
        done = True
        theirs.close()


async def test_two_servers_in_one_loop() -> None:
    async with serving(echo) as first, serving(echo) as second, trio.open_nursery() as nursery:
        nursery.start_soon(elsewhere, first.port, ask_often)
        nursery.start_soon(elsewhere, second.port, ask_often)


async def test_stopping_from_within_a_turn() -> None:
    server = Server(Hub(supported=SUPPORTED))
    port = server.listen("127.0.0.1", 0)

    def handler(request: Request) -> None:
        request.reply(b"")
        server.stop(grace_s=60)

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, handler)
            assert await elsewhere(port, lambda peer: ask(peer, 1) + peer.recv(1)) == response_bytes(1, b"")


async def test_the_last_connection_to_end_ends_a_stopped_server() -> None:
    asked = threading.Event()
    server = Server(Hub(supported=SUPPORTED))
    port = server.listen("127.0.0.1", 0)

    def handler(request: Request) -> None:
        server.expect(1, lambda value, error: request.reply(b"later"))
        server.stop(grace_s=60)
        asked.set()

    def talk(peer: socket.socket) -> bytes:
        peer.sendall(request_bytes(PRODUCE, 7, 1))
        assert asked.wait(PATIENCE_S)
        server.hub.completions.push(1, None)
        return peer.recv(1000) + peer.recv(1)

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, handler)
            assert await elsewhere(port, talk) == response_bytes(1, b"later")


async def test_an_error_behind_a_turn_is_logged_and_others_are_served(caplog: pytest.LogCaptureFixture) -> None:
    def served() -> None:
        raise RuntimeError("a bug behind the turn")

    server = Server(Hub(supported=SUPPORTED))
    port = server.listen("127.0.0.1", 0)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run, echo, served)
            for number in (1, 2):
                await elsewhere(port, lambda peer, number=number: ask(peer, number))
            server.stop()
    assert {record.getMessage() for record in caplog.records} == {"the end of a turn failed; others are served on"}
