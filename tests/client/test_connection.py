"""A trio connection against a scripted broker in memory: order, pipelining, cancellation, loss."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from ottla.client import ConnectionLost
from ottla.errors import InvalidRequest, LocalProtocolError, RemoteProtocolError, UnsupportedVersion
from ottla.wire.k00_produce import PRODUCE, ProduceRequest
from ottla.wire.k03_metadata import METADATA
from ottla.wire.k18_api_versions import API_VERSIONS, ApiVersionsResponse, ApiVersionsResponseKey
from ottla.wire.k32_describe_configs import DESCRIBE_CONFIGS, DescribeConfigsRequest
from tests.client.scripted import METADATA_REQUEST, SPEAKS, Script, cluster_called


def run(test: Callable[[Script], Awaitable[None]]) -> None:
    """Each test has a negotiated connection and virtual time."""

    async def main() -> None:
        script = Script()
        await script.negotiate()
        await test(script)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_answers_go_to_their_callers() -> None:
    async def test(script: Script) -> None:
        names: list[str | None] = []
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(script.name_of, names)
            ids = [(await script.request())[2] for _ in range(20)]
            for number in ids:
                await script.answer(METADATA, 9, number, cluster_called(f"answer {number}"))
        assert sorted(names) == sorted(f"answer {number}" for number in ids)

    run(test)


def test_a_cancelled_caller_does_not_disturb_the_others() -> None:
    """Its answer is dropped when it comes; and if it was the one who read for all, another reads on."""

    async def test(script: Script) -> None:
        names: list[str | None] = []
        async with trio.open_nursery() as nursery:
            impatient = trio.CancelScope()

            async def reader() -> None:
                with impatient:
                    await script.name_of(names)

            nursery.start_soon(reader)
            first = (await script.request())[2]
            nursery.start_soon(script.name_of, names)
            nursery.start_soon(script.name_of, names)
            others = [(await script.request())[2] for _ in range(2)]
            impatient.cancel()
            await trio.testing.wait_all_tasks_blocked()
            for number in (first, *others):
                await script.answer(METADATA, 9, number, cluster_called(f"{number}"))
        assert sorted(names) == sorted(f"{number}" for number in others)

    run(test)


def test_a_timeout_leaves_the_connection_usable() -> None:
    async def test(script: Script) -> None:
        with pytest.raises(TimeoutError, match="no answer to Metadata from memory:1 within 5 s"):
            await script.connection.call(METADATA, METADATA_REQUEST, timeout_ms=5000)
        names: list[str | None] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(script.name_of, names)
            late, now = (await script.request())[2], (await script.request())[2]
            await script.answer(METADATA, 9, late, cluster_called("late"))
            await script.answer(METADATA, 9, now, cluster_called("now"))
        assert names == ["now"]

    run(test)


def test_all_callers_learn_that_the_connection_ended() -> None:
    async def test(script: Script) -> None:
        problems = []

        async def caller() -> None:
            with pytest.raises(ConnectionLost) as caught:
                await script.connection.call(METADATA, METADATA_REQUEST)
            problems.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(caller)
            await script.request()
            await script.stream.aclose()
        assert len({id(problem) for problem in problems}) == 3
        assert script.connection.closed
        with pytest.raises(ConnectionLost):
            await script.connection.call(METADATA, METADATA_REQUEST)

    run(test)


def test_closing_ends_the_calls_under_way() -> None:
    async def test(script: Script) -> None:
        async def caller() -> None:
            with pytest.raises(ConnectionLost, match="closed here"):
                await script.connection.call(METADATA, METADATA_REQUEST)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller)
            nursery.start_soon(caller)
            await trio.testing.wait_all_tasks_blocked()
            await script.connection.aclose()
            await script.connection.aclose()

    run(test)


def test_closing_while_an_answer_is_being_read() -> None:
    """A socket's stream has read it, and gives it back a turn of the loop later."""

    class Late:
        def __init__(self, stream: Any) -> None:
            self._stream = stream
            self.may_give_back = trio.Event()
            self.aclose, self.send_all = stream.aclose, stream.send_all

        async def receive_some(self, max_bytes: int) -> bytes:
            data: bytes = await self._stream.receive_some(max_bytes)
            with trio.CancelScope(shield=True):
                await self.may_give_back.wait()
            return data

    async def test(script: Script) -> None:
        stream = Late(script.connection._stream)
        script.connection._stream = stream  # type: ignore[assignment]

        async def caller() -> None:
            with pytest.raises(ConnectionLost, match="closed here"):
                await script.connection.call(METADATA, METADATA_REQUEST)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller)
            _, version, number = await script.request()
            await script.answer(METADATA, version, number, cluster_called("late"))
            await trio.testing.wait_all_tasks_blocked()
            await script.connection.aclose()
            stream.may_give_back.set()

    run(test)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"\0\0\0\x05\0\0\0\x63\0", "answer 99 where 1 was due"),
        (b"\0\0\0\x02\0\0", "correlation_id at byte 0: 4 bytes are needed, 2 are left"),
        (b"\0\0\0\x05\0\0\0\x01\0", "throttle_time_ms at byte .*: 4 bytes are needed, 0 are left"),
        (b"HTTP/1.1 400 Bad Request\r\n", "a frame of 1213486160 bytes"),
    ],
)
def test_bytes_that_are_no_answer_end_the_connection(frame: bytes, message: str) -> None:
    async def test(script: Script) -> None:
        async def caller() -> None:
            with pytest.raises(RemoteProtocolError, match=message):
                await script.connection.call(METADATA, METADATA_REQUEST)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller)
            nursery.start_soon(caller)
            await script.request()
            await script.stream.send_all(frame)
        assert script.connection.closed

    run(test)


def test_a_post_waits_for_no_answer() -> None:
    async def test(script: Script) -> None:
        names: list[str | None] = []
        async with trio.open_nursery() as nursery:
            await script.connection.post(PRODUCE, ProduceRequest(transactional_id=None, acks=0))
            assert (await script.request())[0] == PRODUCE.key
            nursery.start_soon(script.name_of, names)
            _, version, number = await script.request()
            await script.answer(METADATA, version, number, cluster_called("after"))
        assert names == ["after"]

    run(test)


def test_versions_both_sides_have() -> None:
    async def test(script: Script) -> None:
        protocol = script.connection.protocol
        assert protocol.version(METADATA) == 9
        protocol.versions = {METADATA.key: (0, 4)}
        assert protocol.version(METADATA) == 4
        protocol.versions = {METADATA.key: (10, 12)}
        with pytest.raises(
            LocalProtocolError, match="the broker at memory:1 is newer: it has versions 10 to 12, this client 0 to 9"
        ):
            protocol.version(METADATA)
        with pytest.raises(LocalProtocolError, match="the broker at memory:1 has no DescribeConfigs"):
            await script.connection.call(DESCRIBE_CONFIGS, DescribeConfigsRequest())

    run(test)


def negotiation(*rounds: tuple[int, int, ApiVersionsResponse]) -> Script:
    """Plays (asked version, version of the answer's body, answer) and gives the script after it."""
    script = Script()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(script.connection.negotiate)
            for asked, body_version, answer in rounds:
                key, version, number = await script.request()
                assert (key, version) == (18, asked)
                await script.answer(API_VERSIONS, version, number, answer, body_version)

    trio.run(main)
    return script


UNSUPPORTED = ApiVersionsResponse(error_code=UnsupportedVersion.code)


def unsupported_but(highest: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponseKey(api_key=18, max_version=highest)])


def test_a_broker_that_names_its_own_version() -> None:
    script = negotiation((3, 0, unsupported_but(2)), (2, 2, SPEAKS))
    assert script.connection.protocol.versions == {3: (0, 9), 18: (0, 3), 0: (0, 8)}


def test_a_broker_that_names_none() -> None:
    assert negotiation((3, 0, UNSUPPORTED), (0, 0, SPEAKS)).connection.protocol.versions is not None


def test_a_broker_that_repeats_itself_is_not_asked_forever() -> None:
    with pytest.RaisesGroup(UnsupportedVersion):
        negotiation((3, 0, unsupported_but(3)), (2, 0, unsupported_but(3)), (1, 0, UNSUPPORTED), (0, 0, UNSUPPORTED))


def test_a_broker_that_refuses() -> None:
    with pytest.RaisesGroup(InvalidRequest):
        negotiation((3, 3, ApiVersionsResponse(error_code=InvalidRequest.code)))
