"""Where brokers are: the forms that Kafka's clients take."""

import socket

import pytest
import trio

from ottla.client import Cluster, ConnectionLost, UnknownHost
from ottla.client.cluster import parse_bootstrap


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("[::1]:3", [("::1", 3)]),
        ("[::1]", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("SASL_SSL://a:1,INTERNAL-2://[fe80::1%eth0]:2,b:3", [("a", 1), ("fe80::1%eth0", 2), ("b", 3)]),
        ("://a:1", [("a", 1)]),
    ],
)
def test_lists(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses
    assert parse_bootstrap(text.split(",")) == addresses


@pytest.mark.parametrize("text", ["a:b", "PLAINTEXT://a:b", "a:0", "a:65536", "a:-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=f"^'{text}' is not HOST:PORT$"):
        parse_bootstrap(text)


@pytest.mark.parametrize("text", ["", " , ", "PLAINTEXT://"])
def test_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="no server is named"):
        parse_bootstrap(text)


def test_names_that_nobody_knows_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, a=socket.EAI_NONAME, b=socket.EAI_NONAME) == (UnknownHost, ["a", "b"])


@pytest.mark.parametrize("other", [None, socket.EAI_AGAIN])
def test_what_may_pass_is_tried_again(monkeypatch: pytest.MonkeyPatch, other: int | None) -> None:
    """One name is unknown, and the other's broker or resolver does not answer."""
    kind, hosts = tried(monkeypatch, a=socket.EAI_NONAME, b=other)
    assert kind is ConnectionLost
    assert hosts[:4] == ["a", "b", "a", "b"]


def tried(monkeypatch: pytest.MonkeyPatch, **resolver: int | None) -> tuple[type[Exception], list[str]]:
    """The error of a cluster at these names, for which the resolver has these errors, and the names it tried."""
    hosts = []

    async def connect(host: str, port: int) -> trio.SocketStream:
        hosts.append(host)
        error = resolver[host]
        raise ConnectionRefusedError if error is None else socket.gaierror(error, "not here")

    async def main() -> None:
        async with Cluster(",".join(resolver), timeout_ms=300) as cluster:
            await cluster.topic("t")

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    with pytest.raises(ConnectionLost, match="no broker answers at a:9092, b:9092: ") as caught:
        trio.run(main)
    return caught.type, hosts
