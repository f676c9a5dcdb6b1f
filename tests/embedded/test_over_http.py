"""Faults over HTTP."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.embedded.over_http import FaultsOverHttp
from ottla.errors import NotLeaderOrFollower, StorageError
from tests.support.client import Client
from tests.support.faulty import connect, produced
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def served(broker: ottla.Broker) -> Iterator[FaultsOverHttp]:
    faults = FaultsOverHttp({1: broker})
    yield faults
    faults.close()


def ask(served: FaultsOverHttp, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status and answer."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{served.port}{path}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if content else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_fault_comes_and_goes(served: FaultsOverHttp, broker: ottla.Broker, client: Client) -> None:
    wanted = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "topic": "t", "after": 1, "times": 2}
    assert ask(served, "POST", "/faults", wanted) == (201, {"id": 1, "broker": 1, "hits": 0})
    assert [produced(client) for _ in range(3)] == [0, NotLeaderOrFollower.code, NotLeaderOrFollower.code]
    assert ask(served, "GET", "/faults/1") == (200, {"id": 1, "broker": 1, "hits": 2})
    assert ask(served, "POST", "/faults", {"delay": 0.001, "broker": 1}) == (201, {"id": 2, "broker": 1, "hits": 0})
    assert [one["id"] for one in ask(served, "GET", "/faults")[1]] == [1, 2]
    assert ask(served, "DELETE", "/faults/2") == (204, None)
    assert len(broker.faults) == 0
    assert ask(served, "GET", "/faults/2") == (404, {"error": "there is no fault 2"})
    ask(served, "POST", "/faults", {"answer": False, "client_id": "nobody"})
    assert len(broker.faults) == 1
    assert ask(served, "DELETE", "/faults") == (204, None)
    assert len(broker.faults) == 0
    assert ask(served, "GET", "/faults") == (200, [])


def test_a_fault_of_the_disk_comes_and_goes(served: FaultsOverHttp, broker: ottla.Broker, client: Client) -> None:
    wanted = {"disk": "write", "error": "ENOSPC", "topic": "t", "after": 1}
    assert ask(served, "POST", "/faults", wanted) == (201, {"id": 1, "broker": 1, "hits": 0})
    assert [produced(client) for _ in range(3)] == [0, StorageError.code, StorageError.code]
    assert ask(served, "GET", "/faults/1?count=2") == (200, {"id": 1, "broker": 1, "hits": 2})
    assert ask(served, "DELETE", "/faults/1") == (204, None)
    assert produced(client) == 0


def test_hits_are_waited_for(served: FaultsOverHttp, broker: ottla.Broker) -> None:
    ask(served, "POST", "/faults", {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"})
    status, told = ask(served, "GET", "/faults/1?count=1&timeout_s=0")
    assert (status, told["error"]) == (504, "<fault in Produce, 0 hits>: 0 of 1 in 0.0 s")

    def ask_twice() -> None:
        with connect(broker) as client:
            for _ in range(2):
                produced(client)

    thread = threading.Thread(target=ask_twice)
    thread.start()
    assert ask(served, "GET", "/faults/1?count=2") == (200, {"id": 1, "broker": 1, "hits": 2})
    thread.join(PATIENCE_S)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "/faults", {"api": "Prodcue"}, 400, "did you mean Produce?"),
        ("POST", "/faults", {"api": "Produce", "kind": 1}, 400, "unknown field `kind`"),
        ("POST", "/faults", {"api": "Produce", "times": "two"}, 400, "Expected `int | null`, got `str`"),
        ("POST", "/faults", b"{", 400, "truncated"),
        ("POST", "/faults", None, 400, "nothing would happen"),
        ("POST", "/faults", {"disk": "write", "error": "EOI"}, 400, "did you mean EIO?"),
        ("POST", "/faults", {"api": "Produce", "close": "after", "broker": 2}, 400, "broker is 2; say which of 1"),
        ("POST", "/faults", b" " * 70_000, 400, "the body has 70000 bytes"),
        ("GET", "/faults/x", None, 404, "there is no fault x"),
        ("GET", "/other", None, 404, "there is no /other; faults are at /faults"),
        ("POST", "/faults/1", None, 405, "POST /faults/1 does nothing"),
    ],
)
def test_a_mistake_is_told(
    served: FaultsOverHttp, method: str, path: str, body: object, status: int, text: str
) -> None:
    told = ask(served, method, path, body)
    assert told[0] == status
    assert text in told[1]["error"]


def test_a_broker_of_several_is_named() -> None:
    with ottla.Broker() as one, ottla.Broker() as other:
        served = FaultsOverHttp({1: one, 2: other})
        try:
            fault = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}
            assert ask(served, "POST", "/faults", fault)[1]["error"] == "broker is None; say which of 1, 2"
            assert ask(served, "POST", "/faults", {**fault, "broker": 2})[0] == 201
            assert (len(one.faults), len(other.faults)) == (0, 1)
        finally:
            served.close()
