"""Faults over HTTP, and brokers that are paused, killed and moved there."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.embedded.over_http import BrokersOverHttp
from ottla.errors import NotLeaderOrFollower, StorageError
from tests.support.client import Client
from tests.support.faulty import connect, produced
from tests.support.waiting import PATIENCE_S, eventually


@pytest.fixture
def served(broker: ottla.Broker) -> Iterator[BrokersOverHttp]:
    faults = BrokersOverHttp({1: broker})
    yield faults
    faults.close()


def ask(served: BrokersOverHttp, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status and answer."""
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{served.port}{path}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if content else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_fault_comes_and_goes(served: BrokersOverHttp, broker: ottla.Broker, client: Client) -> None:
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


def test_a_fault_of_the_disk_comes_and_goes(served: BrokersOverHttp, broker: ottla.Broker, client: Client) -> None:
    wanted = {"disk": "write", "error": "ENOSPC", "topic": "t", "after": 1}
    assert ask(served, "POST", "/faults", wanted) == (201, {"id": 1, "broker": 1, "hits": 0})
    assert [produced(client) for _ in range(3)] == [0, StorageError.code, StorageError.code]
    assert ask(served, "GET", "/faults/1?count=2") == (200, {"id": 1, "broker": 1, "hits": 2})
    assert ask(served, "DELETE", "/faults/1") == (204, None)
    assert produced(client) == 0


def test_hits_are_waited_for(served: BrokersOverHttp, broker: ottla.Broker) -> None:
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
        ("GET", "/other", None, 404, "there is no /other; there are /faults, /brokers, /leaders, /coordinators"),
        ("POST", "/faults/1", None, 405, "POST /faults/1 does nothing"),
        ("POST", "/brokers/2/pause", None, 404, "there is no broker 2; say which of 1"),
        ("POST", "/brokers/x/pause", None, 404, "there is no broker x"),
        ("POST", "/brokers/1/pase", None, 404, "a broker has no pase; it has start, stop, kill, pause"),
        ("POST", "/brokers/1", None, 405, "POST /brokers/1 does nothing"),
        ("GET", "/brokers/1/pause", None, 405, "GET /brokers/1/pause does nothing"),
        ("POST", "/brokers/1/pause", {"seed": 1}, 400, "there is nothing to say in the body"),
        ("POST", "/brokers/1/start", None, 409, "runs already"),
        ("POST", "/brokers/1/power_loss", {"sed": 1}, 400, "unknown field `sed`"),
        ("POST", "/brokers/1/clock", {"jump_s": 1e12}, 400, "50 years"),
        ("POST", "/leaders", {"topic": "t"}, 404, "one broker alone has no other leaders"),
    ],
)
def test_a_mistake_is_told(
    served: BrokersOverHttp, method: str, path: str, body: object, status: int, text: str
) -> None:
    told = ask(served, method, path, body)
    assert told[0] == status
    assert text in told[1]["error"]


def test_a_broker_of_several_is_named() -> None:
    with ottla.Broker() as one, ottla.Broker() as other:
        served = BrokersOverHttp({1: one, 2: other})
        try:
            fault = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}
            assert ask(served, "POST", "/faults", fault)[1]["error"] == "broker is None; say which of 1, 2"
            assert ask(served, "POST", "/faults", {**fault, "broker": 2})[0] == 201
            assert (len(one.faults), len(other.faults)) == (0, 1)
        finally:
            served.close()


def told(port: int, *, is_running: bool = True, is_paused: bool = False, ahead: float = 0.0) -> dict[str, object]:
    return {"id": 1, "port": port, "is_running": is_running, "is_paused": is_paused, "clock_ahead_s": ahead}


def test_a_broker_is_paused_killed_and_started() -> None:
    with ottla.Broker() as broker:
        served = BrokersOverHttp({1: broker})
        try:
            running, paused = told(broker.port), told(broker.port, is_paused=True)
            assert ask(served, "GET", "/brokers") == (200, [running])
            assert ask(served, "POST", "/brokers/1/pause") == (200, paused)
            assert ask(served, "GET", "/brokers/1") == (200, paused)
            assert broker.is_paused
            assert ask(served, "POST", "/brokers/1/resume") == (200, running)
            broker.create_topic("t")
            for end in ("kill", "stop", "power_loss"):
                assert ask(served, "POST", f"/brokers/1/{end}") == (200, told(broker.port, is_running=False))
                status, error = ask(served, "POST", "/brokers/1/pause")
                assert (status, "call start()" in error["error"]) == (409, True)
                assert ask(served, "POST", "/brokers/1/start") == (200, running)
            assert ask(served, "POST", "/brokers/1/power_loss", {"seed": 7})[0] == 200
        finally:
            served.close()


def test_a_clock_jumps(served: BrokersOverHttp, broker: ottla.Broker) -> None:
    assert ask(served, "POST", "/brokers/1/clock", {"jump_s": 3600}) == (200, told(broker.port, ahead=3600.0))
    assert ask(served, "POST", "/brokers/1/clock", {"jump_s": -600}) == (200, told(broker.port, ahead=3000.0))
    assert broker.clock.ahead == 3000
    assert ask(served, "POST", "/brokers/1/clock", {"reset": True}) == (200, told(broker.port))


def test_leaders_and_coordinators_move() -> None:
    with ottla.Cluster(2) as cluster:
        cluster.create_topic("t")
        served = BrokersOverHttp({1: cluster[1], 2: cluster[2]}, cluster=cluster)
        try:
            eventually("both are in sync", lambda: cluster.in_sync("t") == [1, 2])
            _, now = ask(served, "GET", "/leaders?topic=t&partition=0")
            other = 3 - now["broker"]
            assert ask(served, "POST", "/leaders", {"topic": "t"}) == (200, {"broker": other})
            assert cluster.leader("t") is cluster[other]
            assert ask(served, "POST", "/leaders", {"topic": "t", "to": now["broker"]}) == (200, now)
            _, now = ask(served, "GET", "/coordinators?group=g")
            other = 3 - now["broker"]
            eventually("it moves", lambda: ask(served, "POST", "/coordinators", {"group": "g"})[0] == 200)
            assert ask(served, "GET", "/coordinators?group=g") == (200, {"broker": other})
            assert cluster.coordinator(group="g") is cluster[other]
            for path, body, status, text in (
                ("/leaders", {"topic": "t", "to": 3}, 400, "cannot move to broker 3"),
                ("/leaders", {"topic": "nobody"}, 404, "there is no nobody-0"),
                ("/leaders", {}, 400, "missing required field `topic`"),
                ("/leaders/t", {}, 404, "there is no /leaders/t"),
                ("/coordinators", {}, 400, "whose coordinator is meant?"),
                ("/coordinators", {"group": 1}, 400, "Expected `str | null`"),
            ):
                found = ask(served, "POST", path, body)
                assert (found[0], text in found[1]["error"]) == (status, True), found
            assert ask(served, "GET", "/leaders")[0] == 400
            assert ask(served, "DELETE", "/leaders")[0] == 405
        finally:
            served.close()
