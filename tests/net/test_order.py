"""Which request may start while others wait, and in which order answers leave (rust/net/slots.rs)."""

from collections.abc import Callable

import pytest

from ottla._core import Request
from tests.net.support import METADATA, PRODUCE, Serving, request_bytes, response_bytes, serving

pytestmark = pytest.mark.trio


class Script:
    """A handler that keeps every request, to be answered by the test."""

    def __init__(self) -> None:
        self.started: list[Request] = []

    def __call__(self, request: Request) -> None:
        self.started.append(request)

    def keys(self) -> list[int]:
        return [request.api_key for request in self.started]


async def settled(one: Serving) -> None:
    """Returns when the hub has had several turns after what was sent before."""
    for _ in range(3):
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 0, 1))
        await peer.frame()


def script_and_ping() -> tuple[Script, Callable[[Request], None]]:
    script = Script()

    def handler(request: Request) -> None:
        if request.api_key == METADATA and request.api_version == 0:
            request.reply(b"")
        else:
            script(request)

    return script, handler


P, A, O = "produce", "appended", "other"  # noqa: E741


@pytest.mark.parametrize(
    ("ahead", "behind", "starts"),
    [
        ([P], P, False),
        ([P], O, False),
        ([A], P, True),
        ([A], O, False),
        ([O], P, False),
        ([O], O, False),
        ([A, A], P, True),
        ([A, A], O, False),
        ([A, P], P, False),
    ],
)
async def test_who_may_start_behind_whom(ahead: list[str], behind: str, starts: bool) -> None:
    script, handler = script_and_ping()
    async with serving(handler) as one:
        peer = await one.connect()
        for number, kind in enumerate([*ahead, behind]):
            await peer.send(request_bytes(METADATA if kind == O else PRODUCE, 1, number))
            await settled(one)
            if kind == A:
                script.started[number].appended()
        await settled(one)
        assert len(script.started) == len(ahead) + starts
        # Whatever was held starts when what is ahead is answered, and all answers come in order.
        for number in range(len(ahead) + 1):
            await one.until(lambda number=number: len(script.started) > number)
            script.started[number].reply(b"")
        for number in range(len(ahead) + 1):
            assert await peer.frame() == (number, b"")


async def test_appended_lets_the_next_produce_start() -> None:
    script = Script()
    async with serving(script) as one:
        peer = await one.connect()
        await peer.send(request_bytes(PRODUCE, 7, 0) + request_bytes(PRODUCE, 7, 1) + request_bytes(METADATA, 1, 2))
        await one.until(lambda: script.started)
        assert script.keys() == [PRODUCE]
        script.started[0].appended()
        await one.until(lambda: len(script.started) == 2)
        script.started[1].appended()
        script.started[1].reply(b"second")
        script.started[0].reply(b"first")
        await one.until(lambda: len(script.started) == 3)
        script.started[2].reply(b"third")
        assert await peer.exactly(8 * 3 + 16) == b"".join(
            [response_bytes(0, b"first"), response_bytes(1, b"second"), response_bytes(2, b"third")]
        )


async def test_no_answer_for_acks_0() -> None:
    def handler(request: Request) -> None:
        if request.api_key == PRODUCE:
            request.skip()
        else:
            request.reply(b"m")

    async with serving(handler) as one:
        peer = await one.connect()
        await peer.send(b"".join(request_bytes(PRODUCE, 7, n) for n in range(100)) + request_bytes(METADATA, 1, 100))
        assert await peer.frame() == (100, b"m")


async def test_close_comes_after_earlier_answers() -> None:
    script = Script()
    async with serving(script) as one:
        peer = await one.connect()
        await peer.send(b"".join(request_bytes(PRODUCE, 7, number) for number in range(3)))
        for number in range(3):
            await one.until(lambda number=number: len(script.started) == number + 1)
            script.started[number].appended()
        script.started[1].close("the records are not yours")
        script.started[2].reply(b"never sent")
        script.started[0].reply(b"first")
        assert await peer.end() == response_bytes(0, b"first")
        await one.until(lambda: one.gone)
        assert one.gone[0].reason == "API key 0 version 7: the records are not yours"
        assert one.gone[0].client_id == "test"


async def test_a_dropped_request_does_not_hold_its_connection_for_ever() -> None:
    async with serving(lambda request: None) as one:
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 1, 0))
        assert await peer.end() == b""
        await one.until(lambda: one.gone)
        assert one.gone[0].reason == "API key 3 version 1: the request was dropped without an answer"


async def test_answers_after_the_client_left_go_nowhere() -> None:
    script = Script()
    async with serving(script) as one:
        peer = await one.connect()
        await peer.send(request_bytes(METADATA, 1, 0))
        await one.until(lambda: script.started)
        assert script.started[0].is_waiting
        peer.stream.socket.close()
        await one.until(lambda: one.gone)
        assert not script.started[0].is_waiting
        script.started[0].reply(b"late")
        script.started[0].appended()
        script.started[0].close()
        assert one.gone[0].reason is None


async def test_waiting_requests_of_a_connection_are_bounded() -> None:
    script, handler = script_and_ping()

    def appending(request: Request) -> None:
        request.appended()
        handler(request)

    async with serving(appending, waiting_requests_max=10) as one:
        peer = await one.connect()
        await peer.send(b"".join(request_bytes(PRODUCE, 7, number) for number in range(100)))
        await one.until(lambda: len(script.started) == 10)
        await settled(one)
        assert len(script.started) == 10
        for number in range(100):
            await one.until(lambda number=number: len(script.started) > number)
            script.started[number].reply(b"")
            assert await peer.frame() == (number, b"")


async def test_waiting_bytes_of_a_connection_are_bounded() -> None:
    script, handler = script_and_ping()

    def appending(request: Request) -> None:
        request.appended()
        handler(request)

    async with serving(appending, waiting_bytes_max=50_000) as one:
        peer = await one.connect()
        await peer.send(b"".join(request_bytes(PRODUCE, 7, number, bytes(10_000)) for number in range(9)))
        await one.until(lambda: len(script.started) == 5)
        await settled(one)
        assert len(script.started) == 5
        for number in range(9):
            await one.until(lambda number=number: len(script.started) > number)
            script.started[number].reply(b"")
            assert await peer.frame() == (number, b"")
