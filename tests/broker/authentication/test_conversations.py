"""The answers to a client on its way in are those of Apache Kafka: the same table is asked of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.broker.authentication.conftest import Guarded
from tests.broker.authentication.talking import Talk, first_of_scram, plain
from tests.peers.apache import Apache
from tests.peers.secured import PASSWORD, USER, Secured

pytestmark = pytest.mark.clients

#: Which mechanisms there are, in any order.
ALL = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
WRONG = "Authentication failed: Invalid username or password"


def begun(mechanism: str, version: int = 1) -> Callable[[Talk], Any]:
    return lambda talk: talk.handshake(mechanism, version)


def said(token: bytes, version: int = 1) -> Callable[[Talk], Any]:
    return lambda talk: talk.authenticate(token, version)


def bare(token: bytes) -> Callable[[Talk], Any]:
    return lambda talk: talk.bare(token)


def wrong_scram(talk: Talk) -> Any:
    return talk.scram("SCRAM-SHA-256", USER, "wrong")


def right_scram(talk: Talk) -> Any:
    return talk.scram("SCRAM-SHA-512", USER, PASSWORD)


def unknown(talk: Talk) -> Any:
    """Ottla refuses at the last message and Kafka at the first, in the same words."""
    return talk.scram("SCRAM-SHA-256", "nobody", "wrong")


def metadata(talk: Talk) -> Any:
    return talk.metadata()


CHOSEN, RIGHT = (0, ALL), (0, "", b"", 0)
ROWS: dict[str, tuple[list[Callable[[Talk], Any]], list[Any]]] = {
    "unknown mechanism": ([begun("NOPE")], [(33, ALL), "closed"]),
    "the oldest handshake": ([begun("NOPE", 0)], [(33, ALL), "closed"]),
    "right": ([begun("PLAIN"), said(plain(USER, PASSWORD)), metadata], [CHOSEN, RIGHT, "served"]),
    "each version": ([begun("PLAIN"), said(plain(USER, PASSWORD), 2), metadata], [CHOSEN, RIGHT, "served"]),
    "wrong password": ([begun("PLAIN"), said(plain(USER, "wrong"), 0)], [CHOSEN, (58, WRONG, b"", 0), "closed"]),
    "unknown user": ([begun("PLAIN"), said(plain("nobody", "wrong"))], [CHOSEN, (58, WRONG, b"", 0), "closed"]),
    "no password": (
        [begun("PLAIN"), said(plain(USER, ""))],
        [CHOSEN, (58, "Authentication failed: password not specified", b"", 0), "closed"],
    ),
    "no token": (
        [begun("PLAIN"), said(b"")],
        [CHOSEN, (58, "Invalid SASL/PLAIN response: expected 3 tokens, got 1", b"", 0), "closed"],
    ),
    "another's name": (
        [begun("PLAIN"), said(b"bob" + plain(USER, PASSWORD))],
        [
            CHOSEN,
            (
                58,
                "Authentication failed: Client requested an authorization id that is different from username",
                b"",
                0,
            ),
            "closed",
        ],
    ),
    "after it": (
        [begun("PLAIN"), said(plain(USER, PASSWORD)), begun("PLAIN"), said(plain(USER, PASSWORD)), metadata],
        [
            CHOSEN,
            RIGHT,
            (34, []),
            (34, "SaslAuthenticate request received after successful authentication", b"", 0),
            "served",
        ],
    ),
    "bare": ([begun("PLAIN", 0), bare(plain(USER, PASSWORD)), metadata], [CHOSEN, b"", "served"]),
    "bare and wrong": ([begun("PLAIN", 0), bare(plain(USER, "wrong"))], [CHOSEN, "closed"]),
    "not before": ([metadata], ["closed"]),
    "no handshake": ([said(plain(USER, PASSWORD))], ["closed"]),
    "scram": ([right_scram, metadata], ["served", "served"]),
    "scram with a wrong password": ([wrong_scram], [(58, GENERIC.format("SCRAM-SHA-256"), b"", 0), "closed"]),
    "scram with an unknown user": ([unknown], [(58, GENERIC.format("SCRAM-SHA-256"), b"", 0), "closed"]),
    "scram that is none": (
        [begun("SCRAM-SHA-512"), said(b"hello")],
        [CHOSEN, (58, GENERIC.format("SCRAM-SHA-512"), b"", 0), "closed"],
    ),
    "scram for another": (
        [begun("SCRAM-SHA-512"), said(first_of_scram(USER, "n,a=bob,"))],
        [
            CHOSEN,
            (
                58,
                "Authentication failed: Client requested an authorization id that is different from username",
                b"",
                0,
            ),
            "closed",
        ],
    ),
}


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with Apache(tmp_path_factory.mktemp("guarded-kafka")) as found:
        yield Secured(found, "2.7.2", tmp_path_factory.mktemp("guarded-stores"), zookeeper=found.zookeeper())


@pytest.fixture(params=["ottla", pytest.param("apache", marks=[pytest.mark.java, pytest.mark.judge])])
def port(request: pytest.FixtureRequest) -> int:
    if request.param == "ottla":
        ours: Guarded = request.getfixturevalue("guarded")
        return ours.ports["sasl"]
    theirs: Secured = request.getfixturevalue("apache")
    return theirs.ports["sasl"]


@pytest.mark.parametrize("row", ROWS)
def test_what_a_client_is_told(port: int, row: str) -> None:
    steps, expected = ROWS[row]
    with Talk(port) as talk:
        found = [step(talk) for step in steps]
        if expected[-1] == "closed" and found[-1] != "closed":
            found.append(talk.end())
    assert found == expected


def test_who_speaks_out_of_turn_is_not_heard(guarded: Guarded) -> None:
    """Kafka answers with ILLEGAL_SASL_STATE before it closes."""
    for steps in ([begun("PLAIN"), metadata], [begun("PLAIN"), begun("PLAIN"), lambda talk: talk.end()]):
        with Talk(guarded.ports["sasl"]) as talk:
            assert [step(talk) for step in steps][-1] == "closed"


def test_users_are_not_told_apart(guarded: Guarded) -> None:
    """The same user gets the same salt again, whether there is one or not, and nothing else differs."""
    found = {}
    for user in (USER, "nobody", "somebody"):
        answers = []
        for _ in range(2):
            with Talk(guarded.ports["sasl"]) as talk:
                talk.handshake("SCRAM-SHA-256")
                code, message, token, lifetime_ms = talk.authenticate(first_of_scram(user))
                assert (code, message, lifetime_ms) == (0, "", 0)
                attributes = dict(part.split("=", 1) for part in token.decode().split(","))
                answers.append((attributes.keys(), attributes["s"], attributes["i"], len(attributes["r"])))
        assert answers[0] == answers[1]
        found[user] = answers[0]
    assert len({each[1] for each in found.values()}) == 3
    assert len({(tuple(keys), iterations, length) for keys, _, iterations, length in found.values()}) == 1


def test_a_listener_without_sasl(guarded: Guarded) -> None:
    with Talk(guarded.ports["plaintext"]) as talk:
        assert talk.handshake("PLAIN") == (34, [])
        told = "Listener PLAINTEXT needs no authentication: use security.protocol=PLAINTEXT."
        assert talk.authenticate(plain(USER, PASSWORD)) == (34, told, b"", 0)
        assert talk.metadata() == "served"
