"""The conversations of connections, by a clock that stands still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from ottla.broker.authentication.authentication import GREETING_MS, TOKEN, TOKEN_BYTES_MAX, Authentication, Counts
from ottla.broker.authentication.listeners import Sasl
from ottla.wire.k17_sasl_handshake import SaslHandshakeRequest
from ottla.wire.k36_sasl_authenticate import SaslAuthenticateRequest

pytestmark = pytest.mark.trio

SASL = Sasl(("PLAIN",), {"alice": "secret"}, {"PLAIN": 0}, 300)
SHORT = Sasl(("PLAIN",), {"alice": "secret"}, {"PLAIN": 5000}, 300)
RIGHT = b"\0alice\0secret"


class World:
    """A hub and calls that note what they are told."""

    def __init__(self, nursery: trio.Nursery, sasl: Sasl) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.users: dict[int, str] = {}
        self._nursery = nursery
        self.authentication = Authentication(cast("Any", self), cast("Any", None), self.users)
        self.authentication.serve("SASL", sasl)

    def greet(self, listener: str, for_ms: int) -> None:
        assert (listener, for_ms) == ("SASL", GREETING_MS)

    def let_speak(self, connection: int, for_ms: int | None) -> None:
        self.told.append(("speak", for_ms))

    def take_tokens(self, connection: int) -> None:
        self.told.append(("tokens",))

    def refuse(self, connection: int, reason: str) -> None:
        self.told.append(("end", reason))

    def call(self, version: int, message: object, token: bytes = b"") -> Any:
        class Request(bytes):
            connection_id = 1

            def reply(_, body: bytes) -> None:
                self.told.append(("bare", body))

        return SimpleNamespace(
            version=version,
            message=message,
            request=Request(token),
            session=SimpleNamespace(listener="SASL"),
            reply=lambda answer: self.told.append(("answer", answer.error_code)),
            refuse=lambda reason: self.told.append(("end", reason)),
            in_background=lambda work: self._nursery.start_soon(work),
        )

    def handshake(self, version: int = 1, mechanism: str = "PLAIN") -> list[tuple[Any, ...]]:
        self.authentication.handshake(self.call(version, SaslHandshakeRequest(mechanism=mechanism)))
        return self.taken()

    def authenticate(self, token: bytes, version: int = 1) -> list[tuple[Any, ...]]:
        self.authentication.authenticate(self.call(version, SaslAuthenticateRequest(auth_bytes=token), token))
        return self.taken()

    def taken(self) -> list[tuple[Any, ...]]:
        found, self.told = self.told, []
        return found


async def test_the_gate_opens_before_the_answer(nursery: trio.Nursery) -> None:
    world = World(nursery, SASL)
    assert world.handshake() == [("answer", 0)]
    assert world.authenticate(RIGHT) == [("speak", None), ("answer", 0)]
    assert world.users == {1: "alice"}
    assert world.authentication.counts == {"SASL": (1, 0, 0, 0, 0)}
    world.authentication.disconnected(1)
    assert world.users == {}
    assert world.handshake(0) == [("tokens",), ("answer", 0)]
    assert world.authenticate(RIGHT, TOKEN) == [("speak", None), ("bare", b"")]


async def test_who_is_refused_is_told_when_the_delay_is_over(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    world = World(nursery, SASL)
    for refused, said in (
        (lambda: world.handshake(mechanism="NOPE"), [("answer", 33), "mechanism 'NOPE', and PLAIN are served"]),
        (lambda: world.authenticate(b"\0alice\0wrong"), [("answer", 58), "authentication by PLAIN failed: wrong pass"]),
        (lambda: world.authenticate(b"\0alice\0wrong", TOKEN), ["authentication by PLAIN failed: wrong password of"]),
    ):
        world.handshake()
        if said[0] == ("answer", 33):
            world.authentication.disconnected(1)
        assert refused() == []
        await trio.sleep(0.299)
        assert world.told == []
        await trio.sleep(0.002)
        found = [reason[1][: len(said[-1])] if reason[0] == "end" else reason for reason in world.taken()]
        assert found == said
        assert world.authenticate(RIGHT) == [("end", "SaslAuthenticate without a SaslHandshake")]
        world.authentication.disconnected(1)
    assert world.authentication.counts == {"SASL": (0, 3, 0, 0, 0)}


async def test_a_token_is_short(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    for length, code in ((TOKEN_BYTES_MAX, 0), (TOKEN_BYTES_MAX + 1, 58)):
        password = "x" * (length - len("\0alice\0"))
        world = World(nursery, Sasl(("PLAIN",), {"alice": password}, {"PLAIN": 0}, 300))
        world.handshake()
        told = world.authenticate(f"\0alice\0{password}".encode())
        await trio.sleep(1)
        assert ("answer", code) in [*told, *world.taken()]


async def test_who_may_begin_anew(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    """Only where sessions end, and once a second at most."""
    for sasl, answers in ((SASL, [34, 34, 34]), (SHORT, [0, 34, 0])):
        world = World(nursery, sasl)
        world.handshake()
        world.authenticate(RIGHT)
        found = []
        for wait_s in (0, 0.9, 0.2):
            await trio.sleep(wait_s)
            ((_, code),) = world.handshake()
            found.append(code)
            if code == 0:
                assert world.authenticate(RIGHT) == [("speak", 5000), ("answer", 0)]
        assert found == answers


async def test_those_who_say_again_who_they_are_are_counted_apart(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Kafka's Selector counts so, and clients that cannot do it by their version of SaslAuthenticate."""
    world = World(nursery, SHORT)
    world.handshake()
    world.authenticate(RIGHT, 0)
    assert world.authentication.counts["SASL"] == Counts(succeeded=1, without_again=1)
    world.handshake()
    world.authenticate(RIGHT)
    assert world.authentication.counts["SASL"] == Counts(succeeded=1, without_again=1, succeeded_again=1)
    await trio.sleep(2)
    world.handshake()
    world.authenticate(b"\0alice\0wrong")
    assert world.authentication.counts["SASL"] == Counts(1, 0, 1, 1, 1)
